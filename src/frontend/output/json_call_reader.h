// Regions of calls that are JSON objects with members for the name and the arguments.
#pragma once

#include <string>

#include "frontend/output/call_writer.h"
#include "frontend/output/json_stream.h"

namespace flare::frontend::output {

class JsonCallReader {
 public:
  enum class Shape : uint8_t {
    kTagged,  // behind the region's opening marker
    kBare,    // without one: the first member must be one that calls have
    kArray,   // items of an array, "[" is read
  };
  JsonCallReader(const Spelling& spelling, Shape shape, CallWriter* writer);

  Taken push(char byte);
  // The output ends here. Text that turned out to be none of the calls' goes to `left_over`.
  void finish(OutputEnd end, std::string* left_over);
  bool in_call() const { return writer_->open(); }
  // Only white space or an unfinished closer came since the last call, which was declared.
  bool after_call() const { return state_ == State::kAfterObject && !passing_; }
  // Nothing had to be repaired or skipped so far.
  bool sound() const { return sound_; }

 private:
  enum class State : uint8_t {
    kStart,
    kKeyOrEnd,
    kKey,
    kColon,
    kValueStart,
    kName,
    kArguments,
    kQuotedArguments,
    kOther,
    kAfterValue,
    kAfterObject,
    kJunk
  };
  Taken skipped() const;
  Taken start(char byte);
  Taken key(char byte);
  Taken value_start(char byte);
  Taken name(char byte);
  Taken arguments(char byte);
  Taken quoted_arguments(char byte);
  Taken after_value(char byte);
  Taken end_object();
  Taken after_object(char byte);
  Taken junk(char byte);
  Taken bad(char byte);
  void send(std::string_view json);

  const Spelling& spelling_;
  const Shape shape_;
  CallWriter* writer_;
  State state_ = State::kStart;
  bool sound_ = true;
  bool passing_ = false;  // the call's tool is not declared: its text is content
  bool named_ = false;
  bool first_key_ = true;
  bool has_arguments_ = false;
  JsonStream stream_;  // keys, names, members that do not matter
  JsonStream arguments_;
  std::string text_;  // of stream_
  std::string key_;
  std::string buffer_;  // arguments before the name
  Scanner closer_;
  std::string junk_;
};

}  // namespace flare::frontend::output
