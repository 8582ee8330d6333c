// The text of one member while the JSON object around it is still being written.
#pragma once

#include <string>
#include <string_view>

namespace flare::server {

// Decodes {"NAME": "text…", …}. Confined to one thread.
class TextMember {
 public:
  explicit TextMember(std::string_view name) : name_(name) {}

  // More of the object; returns what is new of the text. Nothing if the object begins otherwise.
  std::string push(std::string_view json);
  // The object is over, complete or cut: the rest of the text, from all of it.
  std::string finish(bool complete);
  const std::string& text() const { return text_; }

 private:
  std::string decode();
  bool find_start();

  const std::string name_;
  std::string json_;
  size_t at_ = 0;  // behind what is decoded
  enum class State { kBefore, kWithin, kOver } state_ = State::kBefore;
  std::string text_;
};

}  // namespace flare::server
