// Texts, ids and JSON lines from flags, files and standard input.
#include "flare/inputs.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/file.h"

namespace flare::app {
namespace {

// More than any context holds; an endless input ends here.
constexpr size_t kMaxPromptBytes = size_t{64} << 20;

}  // namespace

std::string read_input(const std::string& path) {
  if (path != "-") return read_text_file(path);
  std::string text;
  char block[65536];
  while (const size_t n = std::fread(block, 1, sizeof block, stdin)) {
    text.append(block, n);
    if (text.size() > kMaxPromptBytes)
      throw Error(Code::kInvalid, "standard input: at most {} bytes of prompt expected",
                  kMaxPromptBytes);
  }
  if (std::ferror(stdin) != 0) throw Error(Code::kNotFound, "standard input: it cannot be read");
  return text;
}

// Ids from a list, or from a file that holds one; commas or white space between them.
std::vector<int32_t> parse_ids(std::string_view flag, const std::string& argument) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(argument, ignored);
  const std::string text = is_file ? read_text_file(argument) : argument;
  std::vector<int32_t> ids;
  size_t at = 0;
  while ((at = text.find_first_not_of(", \t\r\n", at)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(", \t\r\n", at), text.size());
    int32_t id = 0;
    const auto [stop, ec] = std::from_chars(text.data() + at, text.data() + end, id);
    if (ec != std::errc() || stop != text.data() + end || id < 0)
      throw Error(Code::kUsage, "{}: {} is no token id, expected a list such as 1,298,204", flag,
                  quote(std::string_view(text).substr(at, end - at)));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

void for_each_line(const std::string& path, const std::function<void(const std::string&)>& line) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) throw Error(Code::kNotFound, "{}: it cannot be read", path);
  }
  std::istream& in = path == "-" ? std::cin : file;
  size_t n = 0;
  for (std::string text; std::getline(in, text);) {
    ++n;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      line(text);
    } catch (const Error& error) {
      // A line of bad JSON was written wrongly, not damaged on its way.
      const Code code = error.code() == Code::kDirectory ? Code::kInvalid : error.code();
      throw Error(code, "{}: line {}: {}", path == "-" ? "standard input" : path, n,
                  error.message());
    }
  }
}

}  // namespace flare::app
