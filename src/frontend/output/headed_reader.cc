// Between announcement and end every byte belongs to the call; what fits nowhere is skipped there.
#include "frontend/output/headed_reader.h"

#include <algorithm>
#include <utility>

#include "base/json/json.h"

namespace flare::frontend::output {
namespace {

using Step = JsonStream::Step;

constexpr size_t kMaxCallHead = 512;
constexpr size_t kMaxParameterHead = 1024;

std::string unescaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const bool is_amp = text.starts_with("&amp;"), is_quote = text.starts_with("&quot;");
    result += is_amp ? '&' : is_quote ? '"' : text[0];
    text.remove_prefix(is_amp ? 5 : is_quote ? 6 : 1);
  }
  return result;
}

}  // namespace

bool read_attribute(std::string_view head, std::string_view name, bool escapes,
                    std::string* value) {
  while (true) {
    head.remove_prefix(std::min(head.find_first_not_of(" \n\r\t"), head.size()));
    const size_t equals = head.find("=\"");
    if (equals == std::string_view::npos) return false;
    const std::string_view found = head.substr(0, equals);
    head.remove_prefix(equals + 2);
    const size_t quote = head.find('"');
    if (quote == std::string_view::npos) return false;
    if (found == name) {
      *value = escapes ? unescaped(head.substr(0, quote)) : std::string(head.substr(0, quote));
      return true;
    }
    head.remove_prefix(quote + 1);
  }
}

bool quotes_are_closed(std::string_view head) { return std::ranges::count(head, '"') % 2 == 0; }

HeadedReader::HeadedReader(const Spelling& spelling, CallWriter* writer)
    : spelling_(spelling),
      parameter_(spelling.parameter),
      writer_(writer),
      line_close_("\n" + std::string(parameter_.close)),
      crlf_close_("\r\n" + std::string(parameter_.close)),
      state_(spelling.call_open.empty() ? State::kHead : State::kBetween),
      between_({{}, spelling.call_close, spelling.close, spelling.call_open, parameter_.close}),
      tags_({parameter_.open, spelling.call_close, spelling.close, spelling.call_open,
             parameter_.close, spelling.json_open}),
      value_open_({parameter_.value_open}) {}

void HeadedReader::set_name(std::string_view name) {
  tool_ = writer_->find(name);
  passing_ = tool_ == nullptr;
  state_ = State::kJsonStart;
}

// A tag in a call is held until it is known to be no next call's.
Taken HeadedReader::skipped() const {
  if (state_ == State::kInCall && !tags_.held().empty()) return {};
  return {.fate = passing_ ? Fate::kText : writer_->open() ? Fate::kMarkup : Fate::kHeld};
}

Taken HeadedReader::push(char byte) {
  switch (state_) {
    case State::kBetween:
      return between(byte);
    case State::kHead:
      return head(byte);
    case State::kJsonStart:
      return json_start(byte);
    case State::kJson:
      return json(byte);
    case State::kInCall:
      return in_call_tag(byte);
    case State::kParameterHead:
    case State::kObjectHead:
      return parameter_head(byte);
    case State::kValueOpen:
      return value_open(byte);
    case State::kValueStart:
      value_start(byte);
      return skipped();
    case State::kValue:
      value(byte);
      return skipped();
    case State::kObject:
      object(byte);
      return skipped();
    case State::kJunk: {
      const int tag = tags_.push(byte, &junk_);
      if (tag != kCallClose && tag != kClose) return skipped();
      junk_.clear();
      state_ = State::kBetween;
      return {.over = tag == kClose, .fate = Fate::kMarkup};
    }
  }
  return {};
}

// White space, the next call, the end of the region, a repeated closer.
Taken HeadedReader::between(char byte) {
  const Fate known = any_call_ ? Fate::kMarkup : Fate::kText;
  if (between_.held().empty()) {
    if (is_space(byte)) return {};
    if (byte == '}' && any_call_ && spelling_.body == Body::kJson) {  // one closer too many
      sound_ = false;
      return {.fate = known};
    }
  }
  const size_t held = between_.held().size();
  std::string free;
  const int tag = between_.push(byte, &free);
  if (!free.empty()) return {.taken = false, .over = true, .rewind = held};
  if (tag < 0) return {};
  if (tag == kClose) return {.over = true, .fate = known};
  if (tag != kCallOpen) return {.over = !seen_, .fate = known};
  head_.clear();
  state_ = State::kHead;
  return {};
}

Taken HeadedReader::head(char byte) {
  const bool bare = spelling_.call_open_end.empty();
  if (head_.empty() && bare && is_space(byte)) return {};
  if (spelling_.body == Body::kJson ? byte == '{' : bare && (is_space(byte) || byte == '<'))
    return end_head(true, byte);
  head_ += byte;
  if (head_.size() > kMaxCallHead) return {.over = true, .fate = Fate::kText};
  if (bare || !head_.ends_with(spelling_.call_open_end)) return {};
  if (!spelling_.name_attribute.empty() && !quotes_are_closed(head_)) return {};
  head_.resize(head_.size() - spelling_.call_open_end.size());
  return end_head(false, byte);
}

// `reads_again`: the byte that ended the head belongs to the body.
Taken HeadedReader::end_head(bool reads_again, char byte) {
  std::string name = head_;
  if (spelling_.name_of) name = spelling_.name_of(head_);
  if (!spelling_.name_attribute.empty() &&
      !read_attribute(head_, spelling_.name_attribute, parameter_.escapes, &name))
    name.clear();
  if (name.empty()) return {.taken = !reads_again, .over = true, .fate = Fate::kText};
  tool_ = writer_->find(name);
  passing_ = tool_ == nullptr;
  keys_.clear();
  whole_object_ = false;
  junk_.clear();
  if (spelling_.body == Body::kJson) {
    state_ = State::kJsonStart;
  } else {
    state_ = State::kInCall;
    if (tool_) writer_->start(*tool_);
  }
  return reads_again ? push(byte) : skipped();
}

// The call is announced with its object, or with its closer if there is none.
Taken HeadedReader::json_start(char byte) {
  const size_t held = tags_.held().size();
  if (held == 0 && is_space(byte)) return skipped();
  if (held == 0 && byte == '{') {
    json_ = {};
    if (tool_) writer_->start(*tool_);
    state_ = State::kJson;
    return json(byte);
  }
  std::string free;
  const int tag = tags_.push(byte, &free);
  if (tag < 0 && free.empty()) return {};
  if (tag != kCallClose)
    return {.taken = tag >= 0, .over = true, .fate = Fate::kText, .rewind = tag >= 0 ? 0 : held};
  if (tool_) writer_->start(*tool_);
  whole_object_ = true;
  send("{}");
  return end_call();
}

Taken HeadedReader::json(char byte) {
  std::string piece;
  const Step step = json_.push(byte, &piece);
  if (json_.repaired()) sound_ = false;
  if (step == Step::kBad) {
    sound_ = false;
    json_.close(&piece);
  }
  send(piece);
  if (step == Step::kMore) return skipped();
  whole_object_ = true;
  const bool declared = !passing_;
  Taken result = end_call();
  if (step == Step::kDone) return result;
  if (!declared || spelling_.call_close.empty())
    return {.taken = false, .over = true, .fate = result.fate};
  state_ = State::kJunk;
  return push(byte);
}

Taken HeadedReader::in_call_tag(char byte) {
  const int tag = tags_.push(byte, &junk_);
  if (passing_) junk_.clear();
  if (tag < 0) return skipped();
  if (!is_blank(junk_)) sound_ = false;
  junk_.clear();
  switch (tag) {
    case kParameter:
    case kObjectTag:
      head_.clear();
      state_ = tag == kParameter ? State::kParameterHead : State::kObjectHead;
      return skipped();
    case kCallClose:
      return end_call();
    case kClose: {
      if (!spelling_.call_close.empty()) sound_ = false;
      Taken result = end_call();
      result.over = true;
      return result;
    }
    case kCallOpen: {
      sound_ = false;
      end_call();
      head_.clear();
      state_ = State::kHead;
      return {};  // the tag is the next call's
    }
    default:  // a repeated closer
      return skipped();
  }
}

Taken HeadedReader::parameter_head(char byte) {
  head_ += byte;
  const bool has_attributes = !parameter_.key_attribute.empty();
  if (head_.size() > kMaxParameterHead) {
    sound_ = false;
    state_ = State::kInCall;
    return skipped();
  }
  if (!head_.ends_with(parameter_.open_end)) return skipped();
  if (has_attributes && !quotes_are_closed(head_)) return skipped();
  head_.resize(head_.size() - parameter_.open_end.size());
  if (state_ == State::kObjectHead) {
    json_ = {};
    value_ = Scanner({spelling_.json_close});
    state_ = State::kObject;
    return skipped();
  }
  std::string key = head_, type;
  if (has_attributes &&
      !read_attribute(head_, parameter_.key_attribute, parameter_.escapes, &key)) {
    sound_ = false;
    state_ = State::kInCall;
    return skipped();
  }
  const bool has_type = !parameter_.type_attribute.empty() &&
                        read_attribute(head_, parameter_.type_attribute, false, &type);
  begin_parameter(key, type, has_type);
  return skipped();
}

void HeadedReader::begin_parameter(std::string_view key, std::string_view type, bool has_type) {
  typed_ = typed(key, type, has_type);
  const std::string valid = valid_utf8(key);
  const bool first = keys_.empty() && !whole_object_;
  repeated_ = whole_object_ || !keys_.insert(valid).second;
  if (!repeated_) writer_->arguments((first ? "{" : ",") + quote_json(valid) + ":");
  state_ = parameter_.value_open.empty() ? State::kValueStart : State::kValueOpen;
}

TypedValue HeadedReader::typed(std::string_view key, std::string_view type, bool has_type) const {
  const Json* schema = tool_ ? ToolSet::argument_schema(*tool_, key) : nullptr;
  const uint8_t types = schema ? schema_types(tool_->parameters, schema) : kStringType;
  const auto is_text = [](bool text) {
    return TypedValue(text ? TypedValue::Kind::kText : TypedValue::Kind::kAnyJson);
  };
  switch (parameter_.typing) {
    case Typing::kStringAttribute:
      if (has_type && (type == "true" || type == "false")) return is_text(type == "true");
      break;
    case Typing::kTypeAttribute:
      if (has_type) return is_text(type == "string");
      break;
    case Typing::kJsonElseText:
      return TypedValue(TypedValue::Kind::kAnyJson, (types & kStringType) != 0);
    case Typing::kSchema:
      break;
  }
  return TypedValue::of_types(types);
}

Taken HeadedReader::value_open(char byte) {
  if (value_open_.held().empty() && is_space(byte)) return skipped();
  std::string free;
  if (value_open_.push(byte, &free) == 0) {
    state_ = State::kValueStart;
  } else if (!free.empty()) {  // a key without a value
    sound_ = false;
    if (!repeated_) send("null");
    state_ = State::kInCall;
    Taken last = skipped();
    for (const char c : free + value_open_.take_held())
      if (!last.over) last = push(c);
    return last;
  }
  return skipped();
}

// Finds out by its first bytes whether the value begins on a line of its own.
void HeadedReader::value_start(char byte) {
  state_ = State::kValue;
  virtual_newline_ = false;
  if (!parameter_.line_borders) {
    value_ = Scanner({parameter_.close});
    return value(byte);
  }
  if (byte == '\r' && value_open_.held().empty() && head_ != "\r") {
    head_ = "\r";  // waits for the newline
    state_ = State::kValueStart;
    return;
  }
  const bool after_return = std::exchange(head_, {}) == "\r";
  if (byte == '\n') {
    value_ = Scanner({line_close_, crlf_close_});
    virtual_newline_ = true;
    return value('\n');
  }
  value_ = Scanner({parameter_.close, line_close_, crlf_close_});
  if (after_return) value('\r');
  value(byte);
}

void HeadedReader::value(char byte) {
  std::string text;
  const int close = value_.push(byte, &text);
  value_text(text);
  if (close < 0) return;
  std::string piece;
  typed_.close(&piece);
  if (!repeated_) send(piece);
  state_ = State::kInCall;
}

void HeadedReader::value_text(std::string_view text) {
  if (text.empty()) return;
  if (std::exchange(virtual_newline_, false)) text.remove_prefix(1);
  std::string piece;
  for (const char c : text) typed_.push(c, &piece);
  if (!repeated_) send(piece);
}

// The value's part of what may have become its closing tag: two bytes of a tag are taken for it.
std::string HeadedReader::undecided_value() {
  const std::string held = value_.take_held();
  const size_t tag = std::min(held.find_first_not_of("\r\n"), held.size());
  return held.size() - tag >= 2 ? std::string() : held;
}

// The whole object of arguments, if none came before.
void HeadedReader::object(char byte) {
  std::string text, piece;
  const bool closed = value_.push(byte, &text) == 0;
  const bool counts = keys_.empty() && !whole_object_;
  for (const char c : text) {
    if (json_.done() || !counts) break;
    if (!json_.started() && c != '{') continue;
    if (json_.push(c, &piece) == Step::kBad) {
      sound_ = false;
      json_.close(&piece);
    }
  }
  if (closed) {
    state_ = State::kInCall;
    if (counts && json_.started()) {
      json_.close(&piece);
      whole_object_ = true;
    }
  }
  send(piece);
}

void HeadedReader::send(std::string_view json) { writer_->arguments(json); }

// The call is complete; what follows is between calls.
Taken HeadedReader::end_call() {
  const Fate fate = passing_ ? Fate::kText : Fate::kMarkup;
  if (!whole_object_) send(keys_.empty() ? "{}" : "}");
  writer_->end(true);
  any_call_ = !passing_;
  seen_ = true;
  passing_ = false;
  state_ = State::kBetween;
  const bool ends = spelling_.close.empty() && spelling_.call_close.empty();
  if (spelling_.one_call && !spelling_.close.empty()) return {.over = true, .fate = fate};
  return {.over = ends, .fate = fate};
}

void HeadedReader::finish(OutputEnd end, std::string* left_over) {
  if (!is_blank(junk_)) *left_over = junk_;
  if (!writer_->open()) return;
  sound_ = false;
  std::string piece;
  const bool natural = end == OutputEnd::kNatural;
  const bool in_value = state_ == State::kValue || state_ == State::kValueStart;
  if (in_value) {
    if (state_ == State::kValueStart && head_ == "\r" && parameter_.line_borders) value_text("\r");
    value_text(undecided_value());
    natural ? typed_.close(&piece) : typed_.cut(&piece);
    if (repeated_) piece.clear();
  } else if (state_ == State::kValueOpen && natural) {
    piece = repeated_ ? "" : "null";
  } else if (state_ == State::kJson || (state_ == State::kObject && json_.started())) {
    natural ? json_.close(&piece) : json_.cut(&piece);
    whole_object_ = true;
  }
  send(piece);
  if (natural && !whole_object_) send(keys_.empty() ? "{}" : "}");
  writer_->end(natural);
}

}  // namespace flare::frontend::output
