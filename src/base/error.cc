// Names and exit codes of the error classes, foreign texts quoted, broken invariants.
#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/one_line.h"

namespace flare {

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

std::string errno_text() { return std::system_category().message(errno); }

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace flare
