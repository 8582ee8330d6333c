// One byte at a time, so that no cut of the stream can matter.
#include "frontend/output/scanner.h"

#include <algorithm>
#include <utility>

namespace flare::frontend::output {

Scanner::Scanner(std::vector<std::string_view> literals) : literals_(std::move(literals)) {
  for (const std::string_view literal : literals_)
    if (!literal.empty()) starts_[static_cast<unsigned char>(literal[0])] = true;
}

int Scanner::push(char byte, std::string* free) {
  if (held_.empty() && !starts_[static_cast<unsigned char>(byte)]) {
    *free += byte;
    return -1;
  }
  held_ += byte;
  size_t begin = 0;  // held_ from here may still become a literal
  for (; begin < held_.size(); ++begin) {
    const std::string_view rest = std::string_view(held_).substr(begin);
    bool viable = false;
    for (size_t i = 0; i < literals_.size(); ++i) {
      if (literals_[i].empty() || !literals_[i].starts_with(rest)) continue;
      if (literals_[i].size() == rest.size()) {
        free->append(held_, 0, begin);
        held_.clear();
        return static_cast<int>(i);
      }
      viable = true;
    }
    if (viable) break;
  }
  free->append(held_, 0, begin);
  held_.erase(0, begin);
  return -1;
}

std::string Scanner::take_held() { return std::exchange(held_, {}); }

void Utf8Stream::push(std::string_view bytes, std::string* out) {
  for (const char c : bytes) push_byte(static_cast<unsigned char>(c), out);
}

void Utf8Stream::push_byte(unsigned char byte, std::string* out) {
  if (missing_ > 0) {
    if (byte >= low_ && byte <= high_) {
      pending_ += static_cast<char>(byte);
      low_ = 0x80;
      high_ = 0xbf;
      if (--missing_ == 0) out->append(std::exchange(pending_, {}));
      return;
    }
    finish(out);
  }
  if (byte < 0x80) {
    *out += static_cast<char>(byte);
    return;
  }
  // Table 3-7 of the Unicode standard: the second byte's range depends on the first.
  low_ = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
  high_ = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
  missing_ = byte >= 0xc2 && byte <= 0xdf ? 1 : byte >= 0xe0 && byte <= 0xef ? 2 : 3;
  if (byte < 0xc2 || byte > 0xf4) {
    missing_ = 0;
    out->append("\xef\xbf\xbd");
  } else {
    pending_ += static_cast<char>(byte);
  }
}

void Utf8Stream::finish(std::string* out) {
  if (missing_ == 0) return;
  missing_ = 0;
  pending_.clear();
  out->append("\xef\xbf\xbd");
}

std::string valid_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  stream.push(bytes, &out);
  stream.finish(&out);
  return out;
}

}  // namespace flare::frontend::output
