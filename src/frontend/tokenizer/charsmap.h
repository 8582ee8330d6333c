// SentencePiece's compiled normalisation rules: a double-array trie of sources and their targets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend::tokenizer {

// Immutable.
class Charsmap {
 public:
  struct Rule {
    size_t length;  // bytes of the source
    std::string_view target;
  };

  Charsmap() = default;  // no rules
  // `blob` is precompiled_charsmap: the byte size of the trie, the trie, targets that end with
  // zero bytes. kInvalid, "where: …", if it is cut.
  static Charsmap read(std::string_view blob, std::string_view where);

  bool empty() const { return units_.empty(); }
  // The shortest rule and the longest one whose source begins text[at..).
  std::optional<Rule> shortest(std::string_view text, size_t at) const;
  std::optional<Rule> longest(std::string_view text, size_t at) const;

 private:
  // Calls hit(length, offset of the target) for every source, shorter ones first, while it returns
  // true. Damaged tries end the walk.
  template <typename Hit>
  void sources(std::string_view text, size_t at, Hit&& hit) const;
  std::string_view target(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string targets_;
};

}  // namespace flare::frontend::tokenizer
