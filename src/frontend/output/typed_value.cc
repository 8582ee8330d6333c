// Decides as early as it can, so that strings stream from their first byte.
#include "frontend/output/typed_value.h"

#include <algorithm>

#include "frontend/output/scanner.h"
#include "frontend/output/tools.h"

namespace flare::frontend::output {
namespace {

constexpr size_t kDecideAt = 64;  // characters (serving.md S6.5)

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \n\r\t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \n\r\t") - begin + 1);
}

}  // namespace

TypedValue TypedValue::of_types(uint8_t types) {
  if (types & kStringType) return TypedValue(types & kNullType ? Kind::kTextOrNull : Kind::kText);
  return TypedValue(Kind::kJson);
}

void TypedValue::become_text(std::string* out) {
  state_ = State::kText;
  *out += '"';
  append_escaped(text_, out);
  text_.clear();
}

bool TypedValue::is_word_so_far() const {
  const std::string word = lower(trimmed(text_));
  return std::string_view("true").starts_with(word) ||
         std::string_view("false").starts_with(word) || std::string_view("null").starts_with(word);
}

void TypedValue::push_json(char byte, std::string* out) {
  if (!viable_) return;
  if (json_.done()) {
    viable_ = is_space(byte);
    return;
  }
  const JsonStream::Step step = json_.push(byte, out);
  viable_ =
      step != JsonStream::Step::kBad && (step != JsonStream::Step::kDoneBefore || is_space(byte));
}

void TypedValue::push(char byte, std::string* out) {
  if (state_ == State::kText) return append_escaped(std::string_view(&byte, 1), out);
  if (state_ == State::kJson) return push_json(byte, out);
  text_ += byte;
  if (kind_ == Kind::kText) return become_text(out);
  if (kind_ == Kind::kTextOrNull) {
    if (!std::string_view("null").starts_with(text_)) become_text(out);
    return;
  }
  if (kind_ == Kind::kJson && byte == '"' && !json_.started()) return become_text(out);
  push_json(byte, &json_text_);
  if (json_.repaired()) viable_ = false;
  if (!viable_) {
    if (text_.size() > kDecideAt || !is_word_so_far()) become_text(out);
  } else if (!holds_ && text_.size() > kDecideAt && json_.started()) {
    state_ = State::kJson;
    *out += json_text_;
    text_.clear();
    json_text_.clear();
  }
}

void TypedValue::close(std::string* out) {
  if (state_ == State::kOpen) {
    const std::string word = lower(trimmed(text_));
    if (kind_ == Kind::kTextOrNull && text_ == "null") {
      *out += "null";
    } else if (kind_ >= Kind::kJson && viable_ && json_.may_end()) {
      *out += json_text_;
    } else if (kind_ >= Kind::kJson && (word == "true" || word == "false")) {
      *out += word;
    } else {
      become_text(out);
    }
  } else if (state_ == State::kJson) {
    json_.close(out);
  }
  if (state_ == State::kText) *out += '"';
}

void TypedValue::cut(std::string* out) {
  if (state_ == State::kJson) return json_.cut(out);
  if (state_ == State::kText || text_.empty()) return;
  if (kind_ >= Kind::kJson && viable_ && json_.started()) {
    *out += json_text_;
    json_.cut(out);
  } else if (kind_ >= Kind::kJson && is_word_so_far()) {
    *out += lower(trimmed(text_));
  } else {
    become_text(out);
  }
}

}  // namespace flare::frontend::output
