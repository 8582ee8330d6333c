// The notation is nearly JSON: keys are bare, and strings hold anything but the quote marker.
#include "frontend/output/literal_reader.h"

#include <utility>

#include "base/json/json.h"
#include "frontend/output/typed_value.h"

namespace flare::frontend::output {
namespace {

constexpr size_t kMaxName = 512;
constexpr size_t kMaxKey = 4096;
constexpr size_t kMaxDepth = 200;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \n\r\t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \n\r\t") - begin + 1);
}

std::string quoted(std::string_view text) { return quote_json(valid_utf8(text)); }

}  // namespace

LiteralReader::LiteralReader(const Spelling& spelling, CallWriter* writer)
    : spelling_(spelling),
      writer_(writer),
      open_marks_({spelling.call_open}),
      quotes_({spelling.quote, spelling.close}),
      quote_end_({spelling.quote}),
      bare_marks_({spelling.close}),
      closer_({spelling.close}) {}

Taken LiteralReader::skipped() const {
  return {.fate = passing_ ? Fate::kText : writer_->open() ? Fate::kMarkup : Fate::kHeld};
}

Taken LiteralReader::push(char byte) {
  std::string piece;
  switch (state_) {
    case State::kOpen:
      return open(byte);
    case State::kName:
      return name(byte);
    case State::kKeyStart:
      return key_start(byte);
    case State::kKey:
      if (byte == ':') return end_key();
      text_ += byte;
      return text_.size() > kMaxKey || byte == '}' ? bad(byte) : skipped();
    case State::kQuotedKey:
      if (quote_end_.push(byte, &text_) == 0) state_ = State::kColon;
      return text_.size() > kMaxKey ? bad(byte) : skipped();
    case State::kColon:
      if (is_space(byte)) return skipped();
      return byte == ':' ? end_key() : bad(byte);
    case State::kValueStart:
      return value_start(byte);
    case State::kString: {
      std::string text;
      const bool closed = quote_end_.push(byte, &text) == 0;
      append_escaped(text, &piece);
      if (closed) piece += '"';
      send(piece);
      if (closed) state_ = State::kAfterValue;
      return skipped();
    }
    case State::kJsonString:
      if (json_string_.push(byte, &piece) == JsonStream::Step::kDone) state_ = State::kAfterValue;
      send(piece);
      return skipped();
    case State::kBare:
      return bare(byte);
    case State::kAfterValue:
      return after_value(byte);
    case State::kAfter:
      return after(byte);
    case State::kJunk:
      if (closer_.push(byte, &junk_) != 0) return skipped();
      junk_.clear();
      return {.over = true, .fate = Fate::kMarkup};
  }
  return {};
}

Taken LiteralReader::open(char byte) {
  if (open_marks_.held().empty() && is_space(byte)) return {};
  const size_t held = open_marks_.held().size();
  std::string free;
  if (open_marks_.push(byte, &free) == 0) state_ = State::kName;
  if (!free.empty()) return {.taken = false, .over = true, .rewind = held};
  return {};
}

Taken LiteralReader::name(char byte) {
  if (byte != '{') {
    text_ += byte;
    if (text_.size() > kMaxName || byte == '<') return {.taken = false, .over = true};
    return {};
  }
  const Tool* tool = writer_->find(trimmed(text_));
  passing_ = tool == nullptr;
  if (tool) writer_->start(*tool);
  send("{");
  frames_.assign(1, Frame{});
  text_.clear();
  state_ = State::kKeyStart;
  return skipped();
}

// A quote marker, a closer or a bare key.
Taken LiteralReader::key_start(char byte) {
  if (quotes_.held().empty()) {
    if (is_space(byte) || byte == ',') return skipped();
    if (byte == '}') return end_frame();
  }
  text_.clear();
  const int mark = quotes_.push(byte, &text_);
  if (mark == 0) state_ = State::kQuotedKey;
  if (mark == 1) return closed_early();
  if (!text_.empty()) {
    text_ += quotes_.take_held();
    state_ = State::kKey;
    if (text_.ends_with(':')) {
      text_.pop_back();
      return end_key();
    }
  }
  return skipped();
}

Taken LiteralReader::end_key() {
  const std::string key = quoted(trimmed(std::exchange(text_, {})));
  Frame& frame = frames_.back();
  frame.skips_member = !frame.keys.insert(key).second;
  item();
  send(key + ":");
  state_ = State::kValueStart;
  return skipped();
}

bool LiteralReader::leaves_out() const {
  return frames_.back().skipped || frames_.back().skips_member;
}

// A comma if something stands before.
void LiteralReader::item() {
  if (leaves_out()) return;
  if (frames_.back().any) send(",");
  frames_.back().any = true;
}

void LiteralReader::send(std::string_view json) {
  if (frames_.empty() || !leaves_out()) writer_->arguments(json);
}

Taken LiteralReader::value_start(char byte) {
  if (quotes_.held().empty()) {
    if (is_space(byte)) return skipped();
    if (!frames_.back().object && byte == ']') return end_frame();
    if (!frames_.back().object) item();
    if (byte == '{' || byte == '[') {
      if (frames_.size() >= kMaxDepth) return bad(byte);
      send(std::string_view(&byte, 1));
      frames_.push_back({.object = byte == '{', .any = false, .skipped = leaves_out()});
      state_ = byte == '{' ? State::kKeyStart : State::kValueStart;
      return skipped();
    }
    if (byte == '"') {
      json_string_ = {};
      std::string piece;
      json_string_.push(byte, &piece);
      send(piece);
      state_ = State::kJsonString;
      return skipped();
    }
  }
  std::string free;
  const int mark = quotes_.push(byte, &free);
  if (mark == 0) {
    send("\"");
    state_ = State::kString;
  } else if (mark == 1) {
    return closed_early();
  } else if (!free.empty()) {
    text_.clear();
    state_ = State::kBare;
    Taken last = skipped();
    for (const char c : free + quotes_.take_held())
      if (!last.over) last = push(c);
    return last;
  }
  return skipped();
}

// A number, true, false, null; other text is a string.
Taken LiteralReader::bare(char byte) {
  if (byte == ',' || byte == '}' || byte == ']') {
    end_bare();
    return after_value(byte);
  }
  return bare_marks_.push(byte, &text_) == 0 ? closed_early() : skipped();
}

void LiteralReader::end_bare() {
  text_ += bare_marks_.take_held();
  TypedValue value(TypedValue::Kind::kJson);
  std::string piece;
  for (const char c : trimmed(text_)) value.push(c, &piece);
  text_.clear();
  value.close(&piece);
  send(piece);
  state_ = State::kAfterValue;
}

Taken LiteralReader::after_value(char byte) {
  if (is_space(byte)) return skipped();
  const bool object = frames_.back().object;
  if (byte == (object ? '}' : ']')) return end_frame();
  if (byte != ',') return bad(byte);
  frames_.back().skips_member = false;
  state_ = object ? State::kKeyStart : State::kValueStart;
  return skipped();
}

Taken LiteralReader::end_frame() {
  const bool object = frames_.back().object;
  frames_.back().skips_member = false;
  send(object ? "}" : "]");
  if (frames_.size() > 1) {
    frames_.pop_back();
    state_ = State::kAfterValue;
    return skipped();
  }
  const Taken result = skipped();
  writer_->end(true);
  state_ = State::kAfter;
  return result;
}

Taken LiteralReader::after(char byte) {
  const Fate known = passing_ ? Fate::kText : Fate::kMarkup;
  if (closer_.held().empty()) {
    if (is_space(byte)) return {.fate = passing_ ? Fate::kText : Fate::kHeld};
    if (byte == '}' && !passing_) {
      sound_ = false;
      return {.fate = known};
    }
  }
  const size_t held = closer_.held().size();
  std::string free;
  if (closer_.push(byte, &free) == 0) return {.over = true, .fate = known};
  if (!free.empty()) return {.taken = false, .over = true, .rewind = held};
  return {};
}

void LiteralReader::close_all() {
  if (state_ == State::kValueStart && frames_.back().object) send("null");
  if (state_ == State::kString) send("\"");
  if (state_ == State::kJsonString) {
    std::string piece;
    json_string_.close(&piece);
    send(piece);
  }
  if (state_ == State::kBare) end_bare();
  while (!frames_.empty()) {
    frames_.back().skips_member = false;
    send(frames_.back().object ? "}" : "]");
    frames_.pop_back();
  }
}

// The region's closer inside the call.
Taken LiteralReader::closed_early() {
  const Fate fate = passing_ ? Fate::kText : Fate::kMarkup;
  sound_ = false;
  close_all();
  writer_->end(true);
  return {.over = true, .fate = fate};
}

// What fits nowhere: the call ends as well as it can, and the rest up to its closer is skipped.
Taken LiteralReader::bad(char byte) {
  if (passing_) return {.taken = false, .over = true};
  closed_early();
  state_ = State::kJunk;
  return push(byte);
}

void LiteralReader::finish(OutputEnd end, std::string* left_over) {
  if (!is_blank(junk_)) *left_over = junk_;
  if (!writer_->open()) return;
  sound_ = false;
  if (end == OutputEnd::kNatural) {
    close_all();
  } else if (state_ == State::kBare) {
    TypedValue value(TypedValue::Kind::kJson);
    std::string piece;
    for (const char c : trimmed(text_)) value.push(c, &piece);
    value.cut(&piece);
    send(piece);
  } else if (state_ == State::kJsonString) {
    std::string piece;
    json_string_.cut(&piece);
    send(piece);
  }
  writer_->end(end == OutputEnd::kNatural);
}

}  // namespace flare::frontend::output
