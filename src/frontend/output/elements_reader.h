// Regions of calls with one element per argument, objects and arrays as nested elements.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "frontend/output/call_writer.h"
#include "frontend/output/typed_value.h"

namespace flare::frontend::output {

class ElementsReader {
 public:
  ElementsReader(const Spelling& spelling, CallWriter* writer);

  Taken push(char byte);
  // The output ends here. Text that turned out to be none of the calls' goes to `left_over`.
  void finish(OutputEnd end, std::string* left_over);
  bool in_call() const { return writer_->open(); }
  // Only white space or an unfinished tag came since the last call or argument of a declared one.
  bool after_call() const {
    return state_ == State::kBetween ? any_call_ : state_ != State::kHead && !passing_;
  }
  // Nothing had to be repaired or skipped so far.
  bool sound() const { return sound_; }

 private:
  enum class State : uint8_t { kBetween, kHead, kText, kTag };
  // An open element: the call itself, or one below it.
  struct Element {
    enum class Shape : uint8_t { kOpen, kValue, kObject, kArray } shape = Shape::kOpen;
    std::string name;
    const Json* schema = nullptr;
    uint8_t types = kStringType;
    std::string text;  // while kOpen, later what stands between the children of an object
    TypedValue value{TypedValue::Kind::kText};
    std::unordered_set<std::string> keys;
    bool any_text = false;  // besides white space
    bool any_child = false;
    bool skipped = false;  // the second of its name: nothing of it is handed on
  };

  Taken skipped() const;
  Taken between(char byte);
  Taken head(char byte);
  Taken text(char byte);
  Taken tag(char byte);
  Taken end_tag(std::string_view name);
  void element_text(std::string_view text);
  void open_element(std::string_view name);
  bool can_have_child(Element* parent, std::string_view child);
  void close_element(std::string* out);
  void close_to(size_t depth);
  Taken end_call();
  void send(std::string_view json);

  const Spelling& spelling_;
  CallWriter* writer_;
  State state_ = State::kBetween;
  bool sound_ = true;
  bool passing_ = false;
  bool seen_ = false;
  bool any_call_ = false;
  const Tool* tool_ = nullptr;
  std::string head_;
  Scanner between_;
  Scanner marks_;  // element_mark and "<"
  const std::string tag_open_;
  std::string junk_;           // text between the arguments of a call
  std::vector<Element> open_;  // the call, then what is open below it
};

}  // namespace flare::frontend::output
