// Texts and JSON lines from flags, files and standard input.
#include "flare/inputs.h"

#include <cstdio>
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

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

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
      throw Error(code, "{}: line {}: {}", input_name(path), n, error.message());
    }
  }
}

}  // namespace flare::app
