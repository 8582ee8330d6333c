// The text of one tagged argument turned into a JSON value while it comes (serving.md S6.3).
#pragma once

#include <cstdint>
#include <string>

#include "frontend/output/json_stream.h"

namespace flare::frontend::output {

class TypedValue {
 public:
  enum class Kind : uint8_t {
    kText,        // a string
    kTextOrNull,  // a string, but `null` is null
    kJson,        // number, boolean of any case, null, array, object; else a string
    kAnyJson,     // the same, quoted strings too
  };
  // `holds`: JSON is handed on when all of it is known; else from 64 characters on, after which a
  // value that breaks is closed where it broke instead of becoming a string.
  explicit TypedValue(Kind kind, bool holds = false) : kind_(kind), holds_(holds) {}
  // By the types a schema allows.
  static TypedValue of_types(uint8_t types);

  void push(char byte, std::string* out);
  // The text is complete.
  void close(std::string* out);
  // The text is cut: hands on what stands for the characters so far.
  void cut(std::string* out);

 private:
  void become_text(std::string* out);
  bool is_word_so_far() const;  // a beginning of true, false, null in any case
  void push_json(char byte, std::string* out);

  Kind kind_;
  bool holds_;
  enum class State : uint8_t { kOpen, kText, kJson } state_ = State::kOpen;
  std::string text_;  // while open
  JsonStream json_;   // reads along while it can
  std::string json_text_;
  bool viable_ = true;  // text_ may be a JSON value
};

}  // namespace flare::frontend::output
