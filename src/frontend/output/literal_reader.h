// Regions of one call in a literal notation: NAME{key:value,…} with a quote marker around strings.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "frontend/output/call_writer.h"
#include "frontend/output/json_stream.h"

namespace flare::frontend::output {

class LiteralReader {
 public:
  LiteralReader(const Spelling& spelling, CallWriter* writer);

  Taken push(char byte);
  // The output ends here. Text that turned out to be none of the calls' goes to `left_over`.
  void finish(OutputEnd end, std::string* left_over);
  bool in_call() const { return writer_->open(); }
  // Only white space or an unfinished closer came since the last call, which was declared.
  bool after_call() const { return state_ == State::kAfter && !passing_; }
  // Nothing had to be repaired or skipped so far.
  bool sound() const { return sound_; }

 private:
  enum class State : uint8_t {
    kOpen,
    kName,
    kKeyStart,
    kKey,
    kQuotedKey,
    kColon,
    kValueStart,
    kString,
    kJsonString,
    kBare,
    kAfterValue,
    kAfter,
    kJunk
  };
  struct Frame {
    bool object = true;
    bool any = false;      // has a member or an item
    bool skipped = false;  // within a member that is left out
    bool skips_member = false;
    std::unordered_set<std::string> keys = {};
  };

  Taken skipped() const;
  Taken open(char byte);
  Taken name(char byte);
  Taken key_start(char byte);
  Taken end_key();
  Taken value_start(char byte);
  Taken bare(char byte);
  void end_bare();
  Taken after_value(char byte);
  Taken end_frame();
  Taken after(char byte);
  Taken closed_early();
  Taken bad(char byte);
  bool leaves_out() const;
  void item();
  void send(std::string_view json);
  void close_all();

  const Spelling& spelling_;
  CallWriter* writer_;
  State state_ = State::kOpen;
  bool sound_ = true;
  bool passing_ = false;
  std::string text_;  // a name, a key, a bare value
  Scanner open_marks_, quotes_, quote_end_, bare_marks_, closer_;
  JsonStream json_string_;
  std::vector<Frame> frames_;
  std::string junk_;
};

}  // namespace flare::frontend::output
