// Test support: texts and expectations of shared/data/goldens/tokenizers, digests of its README.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/hash/sha256.h"
#include "base/json/json.h"
#include "frontend/tokenizer/tokenizer.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::golden {

using Ids = std::vector<int32_t>;

inline std::filesystem::path shared_data() {
  return std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data";
}
inline std::filesystem::path folder() { return shared_data() / "goldens/tokenizers"; }

inline std::vector<Json> read_lines(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  std::vector<Json> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out.push_back(parse_large_json(text.substr(at, end - at), path.string()));
    at = end + 1;
  }
  return out;
}

inline const std::vector<std::pair<std::string, std::string>>& corpus() {
  static const auto texts = [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Json& line : read_lines(folder() / "corpus.jsonl"))
      out.emplace_back(line.at("id").as_string(), line.at("text").as_string());
    return out;
  }();
  return texts;
}
inline const std::string& corpus_text(const std::string& id) {
  static const auto index = [] {
    std::unordered_map<std::string, std::string> out;
    for (const auto& [name, text] : corpus()) out[name] = text;
    return out;
  }();
  return index.at(id);
}

inline Ids ids_of(const Json& json) {
  Ids out;
  for (const Json& id : json.as_array()) out.push_back(static_cast<int32_t>(id.as_i64()));
  return out;
}

inline void add_u32(Sha256& hash, uint32_t value) {
  std::byte bytes[4];
  store_le(bytes, value);
  hash.update(bytes);
}
inline void add_ids(Sha256& hash, const Ids& ids) {
  add_u32(hash, static_cast<uint32_t>(ids.size()));
  hash.update(std::as_bytes(std::span(ids)));
}
inline void add_text(Sha256& hash, const std::string& text) {
  add_u32(hash, static_cast<uint32_t>(text.size()));
  hash.update(as_bytes(text));
}
inline std::string hex(Sha256& hash) { return to_hex(hash.finish()); }

// Whether ids are what `expected` (a list or its digest) says.
inline ::testing::AssertionResult same_ids(const Ids& ids, const Json& expected) {
  if (expected.is_array()) {
    if (ids == ids_of(expected)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << ::testing::PrintToString(ids) << " but " << expected.to_text() << " expected";
  }
  Sha256 hash;
  add_ids(hash, ids);
  if (ids.size() == expected.at("n").as_u64() && hex(hash) == expected.at("sha256").as_string())
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << ids.size() << " ids, digest of " << expected.at("n").as_u64() << " expected differs";
}
// The same for texts: a string or its digest.
inline ::testing::AssertionResult same_text(const std::string& text, const Json& expected) {
  if (expected.is_string() ? text == expected.as_string()
                           : text.size() == expected.at("bytes").as_u64() &&
                                 sha256_hex(as_bytes(text)) == expected.at("sha256").as_string())
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << quote_json(text) << " but " << expected.to_text() << " expected";
}

// Decoding token by token; fails where a part is not valid UTF-8 by itself.
inline std::string decode_streaming(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string out;
  const auto take = [&out](const std::string& part) {
    EXPECT_EQ(tokenizer::valid_utf8_prefix(part), part.size());
    out += part;
  };
  for (const int32_t id : ids) take(decoder.push(id));
  take(decoder.finish());
  return out;
}

// The tokenizer.json that the golden file of a family names, fetched once for all build folders;
// nullopt where npm cannot get it. After one failure the others are not waited for.
inline std::optional<std::filesystem::path> fetch_family(const std::string& family,
                                                         const Json& meta) {
  static bool reachable = true;
  const std::filesystem::path cache = std::filesystem::path(FLARE_SOURCE_DIR) / "build/tokenizers";
  const std::string command =
      fmt::format("'{}/tests/fetch_tokenizers.sh' {} {} {} '{}' {}", FLARE_SOURCE_DIR, family,
                  meta.at("version").as_string(), meta.at("sha256").as_string(), cache.string(),
                  reachable ? "" : "cached");
  if (std::system(command.c_str()) != 0) {
    reachable = false;
    return std::nullopt;
  }
  return cache / (family + ".json");
}

inline Tokenizer load(const std::filesystem::path& path) {
  return Tokenizer::from_json(read_text_file(path), path.filename().string());
}

}  // namespace flare::frontend::golden
