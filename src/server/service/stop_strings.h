// Stop strings over a text that comes in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flare::server {

// Text goes out once: what may still become a stop string is held back. The earliest match wins,
// then list order (serving.md S8.6). Nothing is pushed behind a match.
class StopStrings {
 public:
  // Each nonempty.
  explicit StopStrings(std::vector<std::string> stop);

  // What no stop string can reach any more; with a match, what stands before it.
  std::string push(std::string_view text);
  // What is held back, which then belongs to the text.
  std::string take_held();
  // The stop string that was found; empty if none.
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stop_;
  std::string held_;
  std::string matched_;
};

}  // namespace flare::server
