// Event streams and their clocks.
#include "server/load/record.h"

#include <charconv>

#include "base/error.h"

namespace flare::server::load {
namespace {

constexpr size_t kMaxErrorBody = 64 << 10;
constexpr size_t kMaxDetail = 300;

std::optional<uint64_t> count_of(const Json* object, std::string_view name) {
  const Json* value = object && object->is_object() ? object->find(name) : nullptr;
  if (!value || !value->is_integer() || value->as_double() < 0) return std::nullopt;
  return static_cast<uint64_t>(value->as_double());
}

const Json* member(const Json* object, std::string_view name) {
  return object && object->is_object() ? object->find(name) : nullptr;
}

bool says_something(const Json* value) {
  return value && ((value->is_string() && !value->as_string().empty()) ||
                   (value->is_array() && !value->as_array().empty()));
}

// {"error":{"message":…}} in short.
std::string error_words(std::string_view body) {
  std::string words(body.substr(0, kMaxDetail));
  try {
    const Json json = parse_json(body, "an error");
    const Json* message = member(member(&json, "error"), "message");
    if (message && message->is_string()) words = message->as_string().substr(0, kMaxDetail);
  } catch (const Error&) {
    // A page of a proxy: as it is.
  }
  return words;
}

}  // namespace

void EventSplitter::feed(std::string_view bytes,
                         const std::function<void(std::string_view)>& take) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      open_ += bytes;
      return;
    }
    if (open_.empty()) {
      line(bytes.substr(0, end), take);
    } else {
      open_ += bytes.substr(0, end);
      line(open_, take);
      open_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

void EventSplitter::line(std::string_view text, const std::function<void(std::string_view)>& take) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) {
    if (has_data_) take(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  if (!text.starts_with("data:")) return;
  text.remove_prefix(5);
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += text;
  has_data_ = true;
}

double AnswerReader::since_sent() const {
  return std::chrono::duration<double>(Clock::now() - sent_).count();
}

void AnswerReader::head(int status, const http::Headers& headers) {
  record_.status = status;
  for (const auto& [name, value] : headers) {
    if (name != "Retry-After" && name != "retry-after") continue;
    int seconds = 0;
    std::from_chars(value.data(), value.data() + value.size(), seconds);
    record_.retry_after_s = seconds;
  }
}

void AnswerReader::data(std::string_view bytes) {
  if (record_.status == 200) {
    splitter_.feed(bytes, [this](std::string_view text) { event(text); });
  } else if (body_.size() < kMaxErrorBody) {
    body_ += bytes;
  }
}

void AnswerReader::event(std::string_view text) {
  if (finished_ || !record_.failure.empty()) return;
  if (text == "[DONE]") {
    finished_ = true;
    return;
  }
  try {
    read(parse_json(text, "event"));
  } catch (const Error& error) {
    record_.failure = "bad_event";
    record_.detail = error.message().substr(0, kMaxDetail);
  }
}

void AnswerReader::read(const Json& event) {
  if (const Json* error = member(&event, "error"); error && !error->is_null()) {
    record_.failure = "stream_error";
    record_.detail = error_words(event.to_text());
    return;
  }
  read_counts(event);
  const Json* choices = member(&event, "choices");
  if (!choices || !choices->is_array()) return;
  bool said = false;
  for (const Json& choice : choices->as_array()) {
    const Json* delta = member(&choice, "delta");
    const Json* text = delta ? member(delta, "content") : member(&choice, "text");
    if (text && text->is_string()) record_.text += text->as_string();
    said = said || says_something(text) || says_something(member(delta, "reasoning_content")) ||
           says_something(member(delta, "reasoning")) ||
           says_something(member(delta, "tool_calls"));
  }
  if (!said) return;
  const double now = since_sent();
  if (record_.events == 0)
    record_.first_s = now;
  else
    record_.gaps_s.push_back(now - record_.last_s);
  record_.last_s = now;
  ++record_.events;
}

void AnswerReader::read_counts(const Json& event) {
  if (const Json* usage = member(&event, "usage"); usage && usage->is_object()) {
    record_.prompt_tokens = count_of(usage, "prompt_tokens");
    record_.output_tokens = count_of(usage, "completion_tokens");
    record_.cached_tokens = count_of(member(usage, "prompt_tokens_details"), "cached_tokens");
  }
  if (const Json* timings = member(&event, "timings"); timings && timings->is_object()) {
    record_.drafts = count_of(timings, "draft_n");
    record_.drafts_kept = count_of(timings, "draft_n_accepted");
  }
}

void AnswerReader::conclude(std::string_view failure) {
  if (!record_.failure.empty()) return;  // told by the stream
  record_.detail = failure;
  if (failure == "timeout" || failure == "stopped") {
    record_.failure = failure;
  } else if (record_.status == 0) {
    record_.failure = "connect";
  } else if (record_.status != 200) {
    record_.failure = fmt::format("{}", record_.status);
    record_.detail = error_words(body_);
  } else if (!finished_) {
    record_.failure = "cut";
  }
}

void AnswerReader::done(std::string_view failure) {
  record_.total_s = since_sent();
  conclude(failure);
  record_.start_s = std::chrono::duration<double>(sent_ - begin_).count();
  done_(std::move(record_));
}

}  // namespace flare::server::load
