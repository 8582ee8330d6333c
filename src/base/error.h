// The one exception type of the project: what went wrong, its class, and what to do next.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace flare {

// The class of a failure. Every code maps to one exit code of spec/cli.md §2 (see exit_code).
// kFraming … kWrite are the classes of spec/artifact.md §13.5, used for every foreign file format.
enum class Code {
  kInternal,      // a defect, or a failure while running
  kUsage,         // flags, values, configuration
  kNotFound,      // input or destination folder missing or unreadable
  kFraming,       // magic, lengths, headers of a foreign file
  kDirectory,     // JSON, schema, names inside a foreign file
  kRange,         // intervals that overlap or leave their file
  kReference,     // a name that refers to nothing, or to the wrong kind
  kEncoding,      // format, layout or geometry of one object
  kFileset,       // a needed part missing or foreign
  kRead,          // early end of file or an I/O error
  kComponent,     // a feature that the file does not have
  kBinding,       // config, shape, coverage, auxiliary
  kValue,         // illegal words or numbers
  kSupport,       // all valid, but nothing here runs it
  kWrite,         // output could not be made
  kInvalid,       // any other invalid input: tokenizer, template, config
  kWrongMachine,  // CPU level or device kind
  kDoesNotFit,    // memory, context, capacity
  kExists,        // destination exists, lock held
  kNetwork,       // peer or network failure
  kCancelled,     // stopped on request
};

// Exit code of spec/cli.md §2.
int exit_code(Code code);
// Stable lower-case identifier for --json, such as "framing".
std::string_view code_name(Code code);

// Message form: "object, fact, expectation" — it names file, field, value and what was expected.
// Callers may add context in front; the command line adds the hint.
class Error : public std::exception {
 public:
  template <typename... Args>
  Error(Code code, fmt::format_string<Args...> text, Args&&... args)
      : code_(code), message_(fmt::format(text, std::forward<Args>(args)...)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const char* what() const noexcept override { return message_.c_str(); }

  // "context: message".
  Error& add_context(std::string_view context);
  // What the user can do next; shown on a line of its own.
  Error& set_hint(std::string hint);

 private:
  Code code_;
  std::string message_;
  std::string hint_;
};

// Text from outside, fit for a one-line message: escaped, at most 80 characters.
std::string quote(std::string_view foreign);

// The system's words for the current errno, such as "No such file or directory".
std::string errno_text();

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace flare

// A broken invariant of our own code, never a condition on bytes from outside.
#define FLARE_ASSERT(expression) \
  ((expression) ? (void)0 : ::flare::assertion_failed(#expression, __FILE__, __LINE__))
