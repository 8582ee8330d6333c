// The API keys of a server: who may ask it, by digest.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace flare::server {

// Immutable. Keys themselves are forgotten once they are read.
class KeyRing {
 public:
  // One key a line, then optionally white space and a label; lines that begin with '#', and what
  // follows " #", are comments. Keys are printable ASCII without spaces. A key without a label gets
  // one from its digest, so that it stays the same when lines move. Errors: kNotFound; kInvalid,
  // naming the line and never its content, also for a file that someone besides its owner (this
  // user or root) can write, and for one without keys.
  static KeyRing read(const std::filesystem::path& path);

  // The label of the key, or nullptr. Takes as long for every key of one length, known or not.
  const std::string* find(std::string_view key) const;
  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    std::array<std::byte, 32> digest;
    std::string label;
  };
  void add_line(std::string_view line, const std::string& where);
  std::vector<Key> keys_;
};

}  // namespace flare::server
