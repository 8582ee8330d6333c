// What the tests of this folder share: whole files, entries made from text.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "artifact/framing.h"
#include "base/test_support.h"

namespace flare::artifact {

inline std::filesystem::path data_path(std::string_view name) {
  return std::filesystem::path(FLARE_SOURCE_DIR "/tests/data/artifact") / name;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  // A new file: some file systems write a truncated one out before they let go of it.
  std::filesystem::remove(path);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good()) << path;
}

// An entry file with this directory text; payload byte i is i mod 251.
inline std::string entry_bytes(std::string_view text, uint64_t payload_bytes) {
  const auto header = entry_header(text.size(), ArtifactId{});
  std::string out(as_text(header));
  out += text;
  out.resize(entry_payload_start(text.size()), '\0');
  for (uint64_t i = 0; i < payload_bytes; ++i) out += static_cast<char>(i % 251);
  return out;
}

// `from`, which must be there, replaced once.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// `work` throws an Error of this class whose message holds every needle.
template <typename Work>
void expect_error(Code code, std::initializer_list<std::string_view> needles, Work&& work) {
  try {
    work();
    ADD_FAILURE() << "no error, " << code_name(code) << " expected";
  } catch (const Error& error) {
    EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
    for (std::string_view needle : needles)
      EXPECT_NE(error.message().find(needle), std::string::npos)
          << "'" << needle << "' not in: " << error.message();
  }
}

}  // namespace flare::artifact
