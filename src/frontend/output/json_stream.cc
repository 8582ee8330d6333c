// A pushdown automaton of RFC 8259 with the repairs that its header names.
#include "frontend/output/json_stream.h"

#include "base/error.h"
#include "base/json/json.h"
#include "frontend/output/scanner.h"

namespace flare::frontend::output {
namespace {

constexpr size_t kMaxDepth = 200;  // a replayed object must pass the request parser's 256
constexpr std::string_view kReplacement = "\\ufffd";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// What two spellings of one key have in common.
std::string decoded(const std::string& quoted) {
  if (quoted.find('\\') == std::string::npos) return quoted.substr(1, quoted.size() - 2);
  try {
    return parse_json(quoted, "key").as_string();
  } catch (const Error&) {  // bytes that are no UTF-8
    return quoted;
  }
}

}  // namespace

void append_escaped(std::string_view text, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\b':
        *out += "\\b";
        break;
      case '\f':
        *out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          *out += "\\u00";
          *out += kHex[static_cast<unsigned char>(c) >> 4];
          *out += kHex[c & 15];
        } else {
          *out += c;
        }
    }
  }
}

void JsonStream::emit(std::string_view text, std::string* out) {
  if (skip_ != 0) return;
  out->append(pending_);
  pending_.clear();
  out->append(text);
}

JsonStream::Step JsonStream::push(char byte, std::string* out) {
  switch (state_) {
    case State::kDone:
      return Step::kBad;
    case State::kString: {
      std::string piece;
      const bool closed = string_byte(byte, &piece);
      emit(piece, out);
      return closed ? end_value() : Step::kMore;
    }
    case State::kKey:
      if (string_byte(byte, &key_)) end_key(out);
      return Step::kMore;
    case State::kNumber:
      return number(byte, out);
    case State::kWord:
      return word(byte, out);
    default:
      break;
  }
  if (is_space(byte)) {
    if (!started_ || skip_ != 0) return Step::kMore;
    if (pending_.empty())
      *out += byte;
    else
      pending_ += byte;
    return Step::kMore;
  }
  switch (state_) {
    case State::kColon:
      if (byte != ':') return Step::kBad;
      emit(":", out);
      state_ = State::kValue;
      return Step::kMore;
    case State::kFirst:
    case State::kKeyStart:
      if (byte == '"' && stack_.back().object) {
        key_ = "\"";
        state_ = State::kKey;
        return Step::kMore;
      }
      if (byte == (stack_.back().object ? '}' : ']')) return after_value(byte, out);
      return stack_.back().object ? Step::kBad : begin_value(byte, out);
    case State::kAfter:
      return after_value(byte, out);
    default:
      return begin_value(byte, out);
  }
}

JsonStream::Step JsonStream::begin_value(char byte, std::string* out) {
  if (byte == '{' || byte == '[') {
    if (stack_.size() >= kMaxDepth) return Step::kBad;
    emit(std::string_view(&byte, 1), out);
    stack_.push_back({.object = byte == '{'});
    state_ = State::kFirst;
  } else if (byte == '"') {
    emit("\"", out);
    state_ = State::kString;
  } else if (byte == '-' || is_digit(byte)) {
    emit(std::string_view(&byte, 1), out);
    number_ = byte == '-' || byte == '0' ? byte : 'i';
    state_ = State::kNumber;
  } else if (byte == 't' || byte == 'f' || byte == 'n') {
    word_ = byte == 't' ? "true" : byte == 'f' ? "false" : "null";
    word_size_ = 1;
    state_ = State::kWord;
  } else {
    return Step::kBad;
  }
  started_ = true;
  return Step::kMore;
}

JsonStream::Step JsonStream::end_value() {
  state_ = stack_.empty() ? State::kDone : State::kAfter;
  return stack_.empty() ? Step::kDone : Step::kMore;
}

JsonStream::Step JsonStream::word(char byte, std::string* out) {
  if (byte != word_[word_size_]) return Step::kBad;
  if (++word_size_ < word_.size()) return Step::kMore;
  emit(word_, out);
  return end_value();
}

JsonStream::Step JsonStream::number(char byte, std::string* out) {
  char next = 0;
  if (is_digit(byte)) {
    switch (number_) {
      case '-':
        next = byte == '0' ? '0' : 'i';
        break;
      case 'i':
        next = 'i';
        break;
      case '.':
      case 'f':
        next = 'f';
        break;
      case 'e':
      case '+':
      case 'x':
        next = 'x';
        break;
      default:
        return Step::kBad;  // a digit behind a leading zero
    }
  } else if (byte == '.') {
    next = number_ == '0' || number_ == 'i' ? '.' : 0;
  } else if (byte == 'e' || byte == 'E') {
    next = number_ == '0' || number_ == 'i' || number_ == 'f' ? 'e' : 0;
  } else if (byte == '+' || byte == '-') {
    next = number_ == 'e' ? '+' : 0;
  }
  if (next != 0) {
    emit(std::string_view(&byte, 1), out);
    number_ = next;
    return Step::kMore;
  }
  if (!may_end() && stack_.empty()) return Step::kBad;
  if (number_ != '0' && number_ != 'i' && number_ != 'f' && number_ != 'x') return Step::kBad;
  return end_value() == Step::kDone ? Step::kDoneBefore : push(byte, out);
}

bool JsonStream::may_end() const {
  if (state_ == State::kDone) return true;
  return state_ == State::kNumber && stack_.empty() &&
         (number_ == '0' || number_ == 'i' || number_ == 'f' || number_ == 'x');
}

JsonStream::Step JsonStream::after_value(char byte, std::string* out) {
  const size_t depth = stack_.size();
  if (byte == ',') {
    if (state_ != State::kAfter) return Step::kBad;
    if (skip_ == depth) skip_ = 0;
    if (skip_ == 0) pending_ = ",";
    state_ = State::kKeyStart;
    return Step::kMore;
  }
  if (byte != (stack_.back().object ? '}' : ']')) return Step::kBad;
  if (state_ == State::kKeyStart) repaired_ = true;  // a comma before the closer
  close_frame(out);
  return end_value();
}

void JsonStream::close_frame(std::string* out) {
  if (skip_ == stack_.size()) skip_ = 0;
  if (skip_ == 0) pending_.clear();
  emit(stack_.back().object ? "}" : "]", out);
  stack_.pop_back();
}

void JsonStream::end_key(std::string* out) {
  state_ = State::kColon;
  const bool is_new = stack_.back().keys.insert(decoded(key_)).second;
  if (is_new) {
    emit(key_, out);
  } else if (skip_ == 0) {
    skip_ = stack_.size();
    pending_.clear();
  }
  key_.clear();
}

bool JsonStream::string_byte(char byte, std::string* out) {
  if (escape_ == 2) {
    if (is_hex(byte)) {
      hex_ += byte;
      if (hex_.size() == 4) escaped_unit(out);
      return false;
    }
    repaired_ = true;
    *out += "\\\\u" + hex_;
    escape_ = 0;
  } else if (escape_ == 1) {
    escape_ = 0;
    if (byte == 'u') {
      escape_ = 2;
      hex_.clear();
      return false;
    }
    if (!high_.empty()) *out += kReplacement;
    high_.clear();
    if (std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos) {
      *out += '\\';
      *out += byte;
      return false;
    }
    repaired_ = true;
    *out += "\\\\";
  }
  if (byte == '\\') {
    escape_ = 1;
    return false;
  }
  if (!high_.empty()) {
    *out += kReplacement;
    high_.clear();
  }
  if (byte == '"') {
    *out += '"';
    return true;
  }
  if (static_cast<unsigned char>(byte) < 0x20) repaired_ = true;
  if (static_cast<unsigned char>(byte) < 0x20)
    append_escaped(std::string_view(&byte, 1), out);
  else
    *out += byte;
  return false;
}

// \uXXXX is read: surrogates go on in pairs only.
void JsonStream::escaped_unit(std::string* out) {
  escape_ = 0;
  const int unit = std::stoi(hex_, nullptr, 16);
  const bool is_high = unit >= 0xd800 && unit < 0xdc00, is_low = unit >= 0xdc00 && unit < 0xe000;
  if (is_low) {
    *out += high_.empty() ? std::string(kReplacement) : "\\u" + high_ + "\\u" + hex_;
    high_.clear();
    return;
  }
  if (!high_.empty()) *out += kReplacement;
  high_ = is_high ? hex_ : std::string();
  if (!is_high) *out += "\\u" + hex_;
}

void JsonStream::close(std::string* out) {
  if (state_ == State::kDone) return;
  switch (state_) {
    case State::kString:
      if (!high_.empty()) emit(kReplacement, out);
      emit("\"", out);
      break;
    case State::kColon:
      emit(":null", out);
      break;
    case State::kValue:
      emit("null", out);
      break;
    case State::kWord:
      emit(word_, out);
      break;
    case State::kNumber:
      if (number_ == '-' || number_ == '.' || number_ == 'e' || number_ == '+') emit("0", out);
      break;
    default:
      break;
  }
  while (!stack_.empty()) close_frame(out);
  state_ = State::kDone;
}

void JsonStream::cut(std::string* out) {
  if (skip_ != 0) return;
  if (state_ == State::kKey) pending_ += key_;
  if (state_ == State::kWord) pending_ += word_.substr(0, word_size_);
  if (!high_.empty()) pending_ += "\\u" + high_;
  if (escape_ == 1) pending_ += "\\";
  if (escape_ == 2) pending_ += "\\u" + hex_;
  emit({}, out);
}

}  // namespace flare::frontend::output
