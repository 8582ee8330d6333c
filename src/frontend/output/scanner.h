// Finds markers in a byte stream without looking ahead further than a marker's length.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend::output {

// Value semantics; the literals' text must outlive it. No literal may lie strictly within another,
// but at its end.
class Scanner {
 public:
  Scanner() = default;
  explicit Scanner(std::vector<std::string_view> literals);  // empty ones are ignored

  // Takes one byte. Bytes that belong to no literal are appended to `free`. The index of the
  // literal that this byte completes, or -1.
  int push(char byte, std::string* free);
  // What may still become a literal.
  const std::string& held() const { return held_; }
  std::string take_held();

 private:
  std::vector<std::string_view> literals_;
  std::array<bool, 256> starts_{};
  std::string held_;
};

// Valid UTF-8 from any bytes, whole characters only: each maximal broken part becomes U+FFFD.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string* out);
  // The stream ends here: an unfinished character becomes U+FFFD.
  void finish(std::string* out);

 private:
  void push_byte(unsigned char byte, std::string* out);
  std::string pending_;
  int missing_ = 0;           // continuation bytes
  unsigned char low_ = 0x80;  // of the next one
  unsigned char high_ = 0xbf;
};

// The same for bytes that are all there.
std::string valid_utf8(std::string_view bytes);

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \n\r\t") == std::string_view::npos;
}

}  // namespace flare::frontend::output
