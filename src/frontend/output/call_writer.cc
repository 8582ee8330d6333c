// Numbers calls and keeps their arguments valid UTF-8.
#include "frontend/output/call_writer.h"

#include "base/error.h"

namespace flare::frontend::output {

void append_text(OutputEvent::Kind kind, int call, std::string_view text,
                 std::vector<OutputEvent>* events) {
  if (text.empty()) return;
  if (!events->empty() && events->back().kind == kind && events->back().call == call)
    events->back().text += text;
  else
    events->push_back({.kind = kind, .call = call, .complete = false, .text = std::string(text)});
}

void CallWriter::start(const Tool& tool) {
  FLARE_ASSERT(!open_);
  open_ = true;
  events_->push_back({.kind = OutputEvent::Kind::kCallStart,
                      .call = n_started_++,
                      .complete = false,
                      .text = tool.name});
}

void CallWriter::arguments(std::string_view json) {
  if (!open_) return;
  std::string text;
  utf8_.push(json, &text);
  append_text(OutputEvent::Kind::kArguments, n_started_ - 1, text, events_);
}

void CallWriter::end(bool complete) {
  if (!open_) return;
  std::string text;
  utf8_.finish(&text);
  append_text(OutputEvent::Kind::kArguments, n_started_ - 1, text, events_);
  open_ = false;
  n_complete_ += complete ? 1 : 0;
  events_->push_back({.kind = OutputEvent::Kind::kCallEnd,
                      .call = n_started_ - 1,
                      .complete = complete,
                      .text = {}});
}

void CallWriter::adopt(const std::vector<OutputEvent>& recorded) {
  const int first = n_started_;
  for (OutputEvent event : recorded) {
    event.call += first;
    n_started_ += event.kind == OutputEvent::Kind::kCallStart ? 1 : 0;
    n_complete_ += event.complete ? 1 : 0;
    events_->push_back(std::move(event));
  }
}

}  // namespace flare::frontend::output
