// One JSON value read byte by byte and handed on as JSON text that is always legal so far.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace flare::frontend::output {

// Hands on what it reads as written, but: the second of two members with one name is left out, a
// comma before a closer too, control characters in strings are escaped, escapes that are none are
// made literal and lone surrogates U+FFFD. Bytes beyond ASCII pass unchecked (Utf8Stream).
// Value semantics; linear time; explicit stack.
class JsonStream {
 public:
  enum class Step : uint8_t {
    kMore,        // taken, the value goes on
    kDone,        // taken, the value is complete
    kDoneBefore,  // the value (a number) was complete before this byte, which was not taken
    kBad,         // no JSON value goes on like this; the byte was not taken
  };
  Step push(char byte, std::string* out);

  // The shortest end that makes one complete value of what was handed on; null if nothing was.
  void close(std::string* out);
  // What was read but not yet handed on, for a value that stays cut.
  void cut(std::string* out);

  bool started() const { return started_; }
  bool done() const { return state_ == State::kDone; }
  // As done(), or it is a number that may end here.
  bool may_end() const;
  // Something was read that strict JSON does not allow.
  bool repaired() const { return repaired_; }
  size_t depth() const { return stack_.size(); }
  // At depth(), the last member or item is complete.
  bool after_value() const { return state_ == State::kAfter || state_ == State::kKeyStart; }

 private:
  enum class State : uint8_t {
    kValue,
    kFirst,
    kKeyStart,
    kKey,
    kColon,
    kAfter,
    kString,
    kNumber,
    kWord,
    kDone
  };
  struct Frame {
    bool object = false;
    std::unordered_set<std::string> keys = {};
  };
  Step begin_value(char byte, std::string* out);
  Step after_value(char byte, std::string* out);
  Step number(char byte, std::string* out);
  Step word(char byte, std::string* out);
  void end_key(std::string* out);
  Step end_value();
  bool string_byte(char byte, std::string* out);  // true if it closed the string
  void escaped_unit(std::string* out);
  void emit(std::string_view text, std::string* out);
  void close_frame(std::string* out);

  State state_ = State::kValue;
  bool started_ = false;
  bool repaired_ = false;
  std::vector<Frame> stack_;
  std::string pending_;    // a comma and what follows it, until its member or item is sure
  std::string key_;        // with quotes
  size_t skip_ = 0;        // depth of the object whose member is left out; 0: none
  char number_ = 0;        // where in a number: - 0 i . f e + x
  std::string_view word_;  // true, false, null
  size_t word_size_ = 0;
  int escape_ = 0;  // 0 none, 1 behind a backslash, 2 in \uXXXX
  std::string hex_;
  std::string high_;  // digits of a high surrogate that waits for the low one
};

// Text that stands in a JSON string, escaped as Json::to_text does; in pieces as wanted.
void append_escaped(std::string_view text, std::string* out);

}  // namespace flare::frontend::output
