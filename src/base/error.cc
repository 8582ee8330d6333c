// Names and exit codes of the error classes, foreign texts made fit to print, broken invariants.
#include "base/error.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace flare {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0 for a control character (C1, which
// terminals obey, included) and for what is no UTF-8.
size_t printable_length(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t smallest[] = {0, 0, 0xa0, 0x800, 0x10000};
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return length;
}

// The character at `i`, escaped where it is not printable; `i` moves behind it.
void append_printable(std::string_view text, size_t* i, std::string* out) {
  const size_t length = printable_length(text.substr(*i));
  if (length > 0) {
    *out += text.substr(*i, length);
    *i += length;
    return;
  }
  const auto c = static_cast<unsigned char>(text[(*i)++]);
  *out += c == '\n' ? std::string("\\n") : fmt::format("\\x{:02x}", c);
}

}  // namespace

int exit_code(Code code) {
  switch (code) {
    case Code::kInternal:
    case Code::kCancelled:
      return 1;
    case Code::kUsage:
      return 2;
    case Code::kNotFound:
    case Code::kWrite:
      return 3;
    case Code::kWrongMachine:
      return 6;
    case Code::kDoesNotFit:
      return 7;
    case Code::kExists:
      return 8;
    case Code::kNetwork:
      return 9;
    default:
      return 4;
  }
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInternal:
      return "internal";
    case Code::kUsage:
      return "usage";
    case Code::kNotFound:
      return "not_found";
    case Code::kFraming:
      return "framing";
    case Code::kDirectory:
      return "directory";
    case Code::kRange:
      return "range";
    case Code::kReference:
      return "reference";
    case Code::kEncoding:
      return "encoding";
    case Code::kFileset:
      return "fileset";
    case Code::kRead:
      return "read";
    case Code::kComponent:
      return "component";
    case Code::kBinding:
      return "binding";
    case Code::kValue:
      return "value";
    case Code::kSupport:
      return "support";
    case Code::kWrite:
      return "write";
    case Code::kInvalid:
      return "invalid";
    case Code::kWrongMachine:
      return "wrong_machine";
    case Code::kDoesNotFit:
      return "does_not_fit";
    case Code::kExists:
      return "destination_exists";
    case Code::kNetwork:
      return "network";
    case Code::kCancelled:
      return "cancelled";
  }
  return "internal";
}

Error& Error::add_context(std::string_view context) {
  message_.insert(0, ": ").insert(0, context);
  return *this;
}

Error& Error::set_hint(std::string hint) {
  hint_ = std::move(hint);
  return *this;
}

std::string quote(std::string_view foreign) {
  constexpr size_t kLimit = 80;
  std::string out = "'";
  for (size_t i = 0; i < foreign.size(); append_printable(foreign, &i, &out))
    if (out.size() > kLimit) return out + "…'";
  return out + "'";
}

std::string one_line(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) append_printable(text, &i, &out);
  return out;
}

std::string errno_text() { return std::system_category().message(errno); }

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace flare
