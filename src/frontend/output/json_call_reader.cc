// Members in any order; arguments stream as soon as the name is known.
#include "frontend/output/json_call_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"

namespace flare::frontend::output {
namespace {

using Step = JsonStream::Step;

constexpr std::string_view kArgumentKeys[] = {"arguments", "parameters"};
constexpr std::string_view kCallKeys[] = {"name", "arguments", "parameters",
                                          "type", "function",  "id"};
constexpr size_t kMaxName = 512;  // bytes of JSON text; declared names are far shorter

template <size_t n>
bool is_one_of(std::string_view key, const std::string_view (&list)[n]) {
  return std::ranges::find(list, key) != std::end(list);
}

// The text of a JSON string that JsonStream handed on.
std::string decoded(const std::string& quoted) {
  try {
    return parse_json(valid_utf8(quoted), "string").as_string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

JsonCallReader::JsonCallReader(const Spelling& spelling, Shape shape, CallWriter* writer)
    : spelling_(spelling), shape_(shape), writer_(writer), closer_({spelling.close}) {}

// A byte that tells nothing new.
Taken JsonCallReader::skipped() const {
  return {.fate = passing_ ? Fate::kText : writer_->open() ? Fate::kMarkup : Fate::kHeld};
}

Taken JsonCallReader::push(char byte) {
  switch (state_) {
    case State::kStart:
      return start(byte);
    case State::kKeyOrEnd:
      if (is_space(byte)) return skipped();
      if (byte == '}') return end_object();
      if (byte != '"') return bad(byte);
      stream_ = {};
      text_.clear();
      state_ = State::kKey;
      [[fallthrough]];
    case State::kKey:
      return key(byte);
    case State::kColon:
      if (!is_space(byte) && byte != ':') return bad(byte);
      if (byte == ':') state_ = State::kValueStart;
      return skipped();
    case State::kValueStart:
      return value_start(byte);
    case State::kName:
      return name(byte);
    case State::kArguments:
      return arguments(byte);
    case State::kQuotedArguments:
      return quoted_arguments(byte);
    case State::kOther: {
      const Step step = stream_.push(byte, &text_);
      text_.clear();
      if (step == Step::kBad) return bad(byte);
      if (step != Step::kMore) state_ = State::kAfterValue;
      return step == Step::kDoneBefore ? after_value(byte) : skipped();
    }
    case State::kAfterValue:
      return after_value(byte);
    case State::kAfterObject:
      return after_object(byte);
    case State::kJunk:
      return junk(byte);
  }
  return {};
}

Taken JsonCallReader::start(char byte) {
  if (is_space(byte)) return {};
  if (byte != '{') return {.taken = false, .over = true};
  passing_ = named_ = has_arguments_ = false;
  first_key_ = true;
  arguments_ = {};
  buffer_.clear();
  state_ = State::kKeyOrEnd;
  return {};
}

Taken JsonCallReader::key(char byte) {
  const Step step = stream_.push(byte, &text_);
  if (step == Step::kBad) return bad(byte);
  if (step != Step::kDone) return skipped();
  key_ = decoded(text_);
  state_ = State::kColon;
  if (shape_ == Shape::kBare && first_key_ && !is_one_of(key_, kCallKeys))
    return {.over = true, .fate = Fate::kText};
  first_key_ = false;
  return skipped();
}

Taken JsonCallReader::value_start(char byte) {
  if (is_space(byte)) return skipped();
  stream_ = {};
  text_.clear();
  state_ = State::kOther;
  if (key_ == "name" && !named_ && !passing_) {
    if (byte != '"') return bad(byte);
    state_ = State::kName;
  } else if (is_one_of(key_, kArgumentKeys) && !has_arguments_) {
    if (byte == '{') state_ = State::kArguments;
    if (byte == '"') state_ = State::kQuotedArguments;
  }
  return push(byte);
}

Taken JsonCallReader::name(char byte) {
  const Step step = stream_.push(byte, &text_);
  if (step == Step::kBad || text_.size() > kMaxName) return bad(byte);
  if (step != Step::kDone) return skipped();
  state_ = State::kAfterValue;
  named_ = true;
  const Tool* tool = writer_->find(decoded(text_));
  if (!tool) {
    passing_ = true;
    return skipped();
  }
  writer_->start(*tool);
  writer_->arguments(buffer_);
  buffer_.clear();
  return skipped();
}

void JsonCallReader::send(std::string_view json) {
  if (writer_->open())
    writer_->arguments(json);
  else if (!passing_)
    buffer_ += json;
}

Taken JsonCallReader::arguments(char byte) {
  std::string piece;
  const Step step = arguments_.push(byte, &piece);
  send(piece);
  if (arguments_.repaired()) sound_ = false;
  if (step == Step::kBad) return bad(byte);
  if (step == Step::kDone) {
    has_arguments_ = true;
    state_ = State::kAfterValue;
  }
  return skipped();
}

// An object written as a string.
Taken JsonCallReader::quoted_arguments(char byte) {
  const Step step = stream_.push(byte, &text_);
  if (step != Step::kDone) return skipped();
  has_arguments_ = true;
  state_ = State::kAfterValue;
  const std::string inner = decoded(text_);
  std::string piece;
  const size_t begin = inner.find_first_not_of(" \n\r\t");
  if (begin == std::string::npos || inner[begin] != '{') {
    has_arguments_ = false;
    return skipped();
  }
  for (size_t i = begin; i < inner.size() && !arguments_.done(); ++i)
    if (arguments_.push(inner[i], &piece) == Step::kBad) break;
  arguments_.close(&piece);
  send(piece);
  return skipped();
}

Taken JsonCallReader::after_value(char byte) {
  if (is_space(byte)) return skipped();
  if (byte == '}') return end_object();
  if (byte != ',') return bad(byte);
  state_ = State::kKeyOrEnd;
  return skipped();
}

Taken JsonCallReader::end_object() {
  state_ = State::kAfterObject;
  if (passing_) return skipped();
  if (!writer_->open()) return {.over = true, .fate = Fate::kText};  // without a name
  if (!has_arguments_) writer_->arguments("{}");
  writer_->end(true);
  return {.fate = Fate::kMarkup};
}

Taken JsonCallReader::after_object(char byte) {
  const Fate known = passing_ ? Fate::kText : Fate::kMarkup;
  if (closer_.held().empty()) {
    if (is_space(byte)) return {.fate = passing_ ? Fate::kText : Fate::kHeld};
    if (byte == '{') return start(byte);
    if (byte == ']' && shape_ == Shape::kArray) return {.over = true, .fate = known};
    if (byte == '}' && !passing_) {  // one closer too many
      sound_ = false;
      return {.fate = known};
    }
    if (byte == (shape_ == Shape::kArray ? ',' : ';')) {
      if (shape_ == Shape::kArray || spelling_.bare_object) {
        state_ = State::kStart;
        return {.fate = passing_ ? Fate::kText : Fate::kHeld};
      }
    }
  }
  const size_t held = closer_.held().size();
  std::string free;
  if (closer_.push(byte, &free) == 0) return {.over = true, .fate = known};
  if (!free.empty()) return {.taken = false, .over = true, .rewind = held};
  return {};
}

// A byte that no call goes on with.
Taken JsonCallReader::bad(char byte) {
  if (!writer_->open()) return {.taken = false, .over = true};
  sound_ = false;
  std::string piece;
  if (state_ == State::kArguments) arguments_.close(&piece);
  writer_->arguments(has_arguments_ || state_ == State::kArguments ? piece : "{}");
  writer_->end(true);
  state_ = State::kJunk;
  if (spelling_.close.empty()) return {.taken = false, .over = true};
  return junk(byte);
}

// A broken call goes on to its closer.
Taken JsonCallReader::junk(char byte) {
  if (closer_.push(byte, &junk_) == 0) {
    junk_.clear();
    return {.over = true, .fate = Fate::kMarkup};
  }
  return {.fate = Fate::kMarkup};
}

void JsonCallReader::finish(OutputEnd end, std::string* left_over) {
  if (!is_blank(junk_)) *left_over = junk_;
  if (!writer_->open()) return;
  sound_ = false;
  std::string piece;
  if (end == OutputEnd::kNatural) {
    if (state_ == State::kArguments) {
      arguments_.close(&piece);
      has_arguments_ = true;
    }
    writer_->arguments(has_arguments_ ? piece : "{}");
  } else if (state_ == State::kArguments) {
    arguments_.cut(&piece);
    writer_->arguments(piece);
  }
  writer_->end(end == OutputEnd::kNatural);
}

}  // namespace flare::frontend::output
