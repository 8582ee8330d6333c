// Text that may hold foreign parts, as one printable line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flare {

// The character of `text` at `i`, UTF-8; escaped where it is a control character (C1, which
// terminals obey, included) or no UTF-8. `i` moves behind it.
void append_printable(std::string_view text, size_t* i, std::string* out);

// All of them.
std::string one_line(std::string_view text);

}  // namespace flare
