// Strict parsing with nlohmann's SAX events: limits and duplicate names are checked as they arrive.
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/json/json.h"

namespace flare {
namespace {

using Base = nlohmann::json;

// Builds a Json from events. Confined to one parse.
class Builder : public nlohmann::json_sax<Base> {
 public:
  Builder(std::string_view where, JsonLimits limits) : where_(where), limits_(limits) {}

  bool null() override { return put(Json()); }
  bool boolean(bool v) override { return put(Json(v)); }
  bool number_integer(number_integer_t v) override {
    // The parser reports a leading minus here, so a zero was written "-0".
    return put(Json(JsonInteger{0 - static_cast<uint64_t>(v), true}));
  }
  bool number_unsigned(number_unsigned_t v) override { return put(Json(JsonInteger{v, false})); }
  bool number_float(number_float_t v, const string_t& token) override {
    // The parser turns integers beyond int64 or uint64 into reals; ours hold down to −(2^64−1).
    const char* end = token.data() + token.size();
    uint64_t magnitude = 0;
    if (token[0] == '-') {
      const auto [stop, error] = std::from_chars(token.data() + 1, end, magnitude);
      if (error == std::errc() && stop == end) return put(Json(JsonInteger{magnitude, true}));
    }
    return put(Json(v));
  }
  bool string(string_t& v) override { return put(Json(std::move(v))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json(Json::Object{})); }
  bool key(string_t& name) override {
    Frame& frame = stack_.back();
    if (!frame.names.insert(name).second)
      throw Error(Code::kDirectory, "{}: member {} appears twice", where_, quote(name));
    frame.pending = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json(Json::Array{})); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const Base::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: …" → what follows.
    std::string text = e.what();
    const size_t colon = text.find(": ");
    if (colon != std::string::npos) text.erase(0, colon + 2);
    // The library counts the bytes that it has read, the offending one included.
    throw Error(Code::kDirectory, "{}: byte {}: invalid JSON: {}", where_,
                position > 0 ? position - 1 : 0, quote(text));
  }

  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json value;
    std::string pending;                    // name of the member being read
    std::unordered_set<std::string> names;  // of an object
  };

  bool open(Json value) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth)
      throw Error(Code::kDirectory, "{}: nesting deeper than {}", where_, limits_.max_depth);
    stack_.push_back(Frame{std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Frame& frame = stack_.back();
    if (frame.value.is_array()) {
      frame.value.push_back(std::move(value));
    } else {
      frame.value.mutable_object().emplace_back(std::move(frame.pending), std::move(value));
    }
    return true;
  }

  std::string_view where_;
  JsonLimits limits_;
  std::vector<Frame> stack_;
  Json root_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where, JsonLimits limits) {
  if (text.size() > limits.max_bytes)
    throw Error(Code::kDirectory, "{}: {} bytes of JSON, at most {} expected", where, text.size(),
                limits.max_bytes);
  // The library skips a byte-order mark; the contract refuses it.
  if (text.starts_with("\xEF\xBB\xBF"))
    throw Error(Code::kDirectory, "{}: byte 0: byte-order mark before the JSON text", where);
  // The library takes a zero byte for the end of the text; the contract allows none anywhere.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw Error(Code::kDirectory, "{}: byte {}: zero byte in the JSON text", where, zero);
  Builder builder(where, limits);
  Base::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace flare
