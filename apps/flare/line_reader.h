// Lines from the user: edited with history on a terminal, plain otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace flare::app {

// Confined to one thread.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  bool is_terminal() const;
  // One line without its break; a line that ends with a backslash goes on in the next one. nullopt:
  // the input ended (Ctrl-D) or SIGINT came (then `interrupted`).
  std::optional<std::string> read(bool* interrupted);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flare::app
