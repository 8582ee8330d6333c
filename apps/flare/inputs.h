// Texts and JSON lines from flags, files and standard input.
#pragma once

#include <functional>
#include <string>

namespace flare::app {

// The text of a file, or of standard input for "-". Errors: kNotFound, kInvalid (endless input).
std::string read_input(const std::string& path);
// What errors call it: the path, or "standard input" for "-".
std::string input_name(const std::string& path);
// Calls `line` for every line of a file, or of standard input for "-", that is not blank. Its
// errors get the line's number.
void for_each_line(const std::string& path, const std::function<void(const std::string&)>& line);

}  // namespace flare::app
