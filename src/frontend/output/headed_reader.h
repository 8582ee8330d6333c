// Regions of calls whose head names the tool: one JSON object or tagged parameters follow.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "frontend/output/call_writer.h"
#include "frontend/output/json_stream.h"
#include "frontend/output/typed_value.h"

namespace flare::frontend::output {

// The value of attribute `name` in NAME="VALUE" pairs; false if it is not there. `escapes`: &amp;
// and &quot; are read.
bool read_attribute(std::string_view head, std::string_view name, bool escapes, std::string* value);
// Whether `head` ends outside quotes.
bool quotes_are_closed(std::string_view head);

class HeadedReader {
 public:
  HeadedReader(const Spelling& spelling, CallWriter* writer);
  HeadedReader(const HeadedReader&) = delete;
  HeadedReader& operator=(const HeadedReader&) = delete;
  // The head was read elsewhere.
  void set_name(std::string_view name);

  Taken push(char byte);
  // The output ends here. Text that turned out to be none of the calls' goes to `left_over`.
  void finish(OutputEnd end, std::string* left_over);
  bool in_call() const { return writer_->open(); }
  // Only white space or an unfinished tag came since the last call or argument of a declared one.
  bool after_call() const {
    return state_ == State::kBetween ? any_call_ : state_ == State::kInCall && !passing_;
  }
  // Nothing had to be repaired or skipped so far.
  bool sound() const { return sound_; }

 private:
  enum class State : uint8_t {
    kBetween,
    kHead,
    kJsonStart,
    kJson,
    kInCall,
    kParameterHead,
    kValueOpen,
    kValueStart,
    kValue,
    kObjectHead,
    kObject,
    kJunk
  };
  // Places in the lists of `between_` and `tags_`.
  enum Tag { kParameter, kCallClose, kClose, kCallOpen, kValueClose, kObjectTag };

  Taken skipped() const;
  Taken between(char byte);
  Taken head(char byte);
  Taken end_head(bool reads_again, char byte);
  Taken json_start(char byte);
  Taken json(char byte);
  Taken in_call_tag(char byte);
  Taken parameter_head(char byte);
  Taken value_open(char byte);
  void begin_parameter(std::string_view key, std::string_view type, bool has_type);
  TypedValue typed(std::string_view key, std::string_view type, bool has_type) const;
  void value_start(char byte);
  void value(char byte);
  void value_text(std::string_view text);
  std::string undecided_value();
  void object(char byte);
  Taken end_call();
  void send(std::string_view json);

  const Spelling& spelling_;
  const ParameterSyntax& parameter_;
  CallWriter* writer_;
  const std::string line_close_, crlf_close_;  // a closing tag at the start of a line
  State state_;
  bool sound_ = true;
  bool passing_ = false;   // the call's tool is not declared: its text is content
  bool seen_ = false;      // the region has had a call
  bool any_call_ = false;  // and the last one was declared
  const Tool* tool_ = nullptr;
  std::string head_;
  Scanner between_, tags_, value_open_, value_;
  std::string junk_;  // between the tags of a call
  JsonStream json_;
  bool whole_object_ = false;  // the arguments came as one object
  std::unordered_set<std::string> keys_;
  bool repeated_ = false;  // a second value of one key: not handed on
  TypedValue typed_{TypedValue::Kind::kText};
  bool virtual_newline_ = false;  // the value scanner was given a newline that is no value
};

}  // namespace flare::frontend::output
