// Where one part ends and the next begins.
#include "server/api/parted_generation.h"

#include <utility>

namespace flare::server {

using Event = frontend::OutputEvent;

void PartedGeneration::on_event(size_t, const TextEvent& event) {
  if (!std::exchange(started_, true)) on_start(event.usage);
  logprobs_.insert(logprobs_.end(), event.logprobs.begin(), event.logprobs.end());
  for (const Event& delta : event.deltas) place(delta);
  if (!within_ || parts_.back().kind != Part::Kind::kText) logprobs_.clear();
  if (event.finished) end();
}

void PartedGeneration::place(const Event& delta) {
  switch (delta.kind) {
    case Event::Kind::kReasoning:
    case Event::Kind::kContent: {
      if (delta.text.empty()) return;
      const auto kind =
          delta.kind == Event::Kind::kContent ? Part::Kind::kText : Part::Kind::kReasoning;
      if (!within_ || parts_.back().kind != kind) begin({.kind = kind});
      return grow(delta.text);
    }
    case Event::Kind::kCallStart:
      return begin({.kind = Part::Kind::kCall, .name = delta.text});
    case Event::Kind::kArguments:
      return grow(delta.text);
    case Event::Kind::kCallEnd:
      parts_.back().complete = delta.complete;
      // No arguments are an empty object.
      if (delta.complete && parts_.back().text.empty()) grow("{}");
      return end();
  }
}

void PartedGeneration::begin(Part part) {
  end();
  parts_.push_back(std::move(part));
  within_ = true;
  on_part(parts_.size() - 1);
}

void PartedGeneration::grow(std::string_view piece) {
  parts_.back().text += piece;
  on_piece(parts_.size() - 1, piece);
}

void PartedGeneration::end() {
  if (std::exchange(within_, false)) on_part_end(parts_.size() - 1);
}

}  // namespace flare::server
