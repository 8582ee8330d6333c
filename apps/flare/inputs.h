// Texts, ids and JSON lines from flags, files and standard input.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace flare::app {

// The text of a file, or of standard input for "-". Errors: kNotFound, kInvalid (endless input).
std::string read_input(const std::string& path);
// Ids from a list, or from a file that holds one; commas or white space between them. kUsage naming
// the flag.
std::vector<int32_t> parse_ids(std::string_view flag, const std::string& argument);
// Calls `line` for every line of a file, or of standard input for "-", that is not blank. Its
// errors get the line's number.
void for_each_line(const std::string& path, const std::function<void(const std::string&)>& line);

}  // namespace flare::app
