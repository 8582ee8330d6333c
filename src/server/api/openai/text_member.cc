// Escapes are decoded as soon as they are whole; the end of the object has the last word.
#include "server/api/openai/text_member.h"

#include "base/error.h"
#include "base/json/json.h"

namespace flare::server {
namespace {

// By the first two of four hexadecimal digits.
bool is_high_surrogate(std::string_view digits) {
  return digits.size() == 2 && (digits[0] == 'd' || digits[0] == 'D') &&
         std::string_view("89abAB").find(digits[1]) != std::string_view::npos;
}

}  // namespace

// Behind the quote that opens the member's text; false while that is not there.
bool TextMember::find_start() {
  size_t at = 0;
  const auto skip_space = [&] {
    while (at < json_.size() && std::string_view(" \n\r\t").find(json_[at]) != std::string::npos)
      ++at;
  };
  const std::string key = quote_json(name_);
  for (const std::string_view wanted : {std::string_view("{"), std::string_view(key),
                                        std::string_view(":"), std::string_view("\"")}) {
    skip_space();
    const std::string_view there = std::string_view(json_).substr(at, wanted.size());
    if (there != wanted.substr(0, there.size())) state_ = State::kOver;
    if (there != wanted) return false;
    at += wanted.size();
  }
  at_ = at;
  state_ = State::kWithin;
  return true;
}

std::string TextMember::push(std::string_view json) {
  json_ += json;
  if (state_ == State::kBefore && !find_start()) return {};
  if (state_ != State::kWithin) return {};
  return decode();
}

// Up to the closing quote, or to an escape that may not be whole. Surrogates come in pairs.
std::string TextMember::decode() {
  size_t end = at_;
  while (end < json_.size() && json_[end] != '"') {
    size_t length = 1;
    if (json_[end] == '\\') {
      length = end + 1 < json_.size() && json_[end + 1] == 'u' ? 6 : 2;
      if (length == 6 && is_high_surrogate(json_.substr(end + 2, 2))) length = 12;
    }
    if (end + length > json_.size()) break;
    end += length;
  }
  std::string fresh;
  try {
    fresh = parse_json("\"" + json_.substr(at_, end - at_) + "\"", "text").as_string();
  } catch (const Error&) {
    state_ = State::kOver;  // finish() shows what there is
    return {};
  }
  if (end < json_.size() && json_[end] == '"') state_ = State::kOver;
  at_ = end;
  text_ += fresh;
  return fresh;
}

std::string TextMember::finish(bool complete) {
  if (!complete) return {};
  std::string whole = json_;
  try {
    const Json object = parse_json(json_, "text", {.max_depth = 256});
    const Json* member = object.find(name_);
    if (member) whole = member->is_string() ? member->as_string() : member->to_text();
  } catch (const Error&) {
    // The object as it stands.
  }
  if (!whole.starts_with(text_)) return {};
  std::string rest = whole.substr(text_.size());
  text_ = std::move(whole);
  return rest;
}

}  // namespace flare::server
