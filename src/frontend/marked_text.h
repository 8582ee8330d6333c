// Text that knows, for every byte, whether the template or the caller wrote it (serving.md S4.13).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend {

enum class Origin : uint8_t { kTemplate, kCaller };

// A string in runs of one origin. Value semantics. Runs are never empty and never adjacent with
// the same origin.
class MarkedText {
 public:
  struct Run {
    uint32_t end = 0;  // byte offset behind the run; it begins where the previous one ends
    Origin origin = Origin::kTemplate;
    bool operator==(const Run&) const = default;
  };

  MarkedText() = default;
  MarkedText(std::string_view text, Origin origin) { append(text, origin); }

  const std::string& text() const { return text_; }
  const std::vector<Run>& runs() const { return runs_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  void append(std::string_view text, Origin origin);
  void append(const MarkedText& other);
  // Bytes [begin, end) with their origins.
  MarkedText slice(size_t begin, size_t end) const;
  // True if every byte of [begin, end) was written by the template.
  bool all_template(size_t begin, size_t end) const;
  bool operator==(const MarkedText&) const = default;

 private:
  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace flare::frontend
