// Error lines, error documents, and what to do next for each class.
#include "common/errors.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/json/json.h"

namespace flare::app {
namespace {

// What to do next where the place that failed had nothing better to say.
std::string_view default_hint(Code code) {
  switch (code) {
    case Code::kInternal:
      return "this is a defect; please report it with the command line";
    case Code::kUsage:
      return "add --help to the command for its flags and values";
    case Code::kNotFound:
      return "check the path and its permissions";
    case Code::kFraming:
    case Code::kDirectory:
    case Code::kRange:
    case Code::kReference:
    case Code::kRead:
    case Code::kValue:
      return "the file is damaged or incomplete: fetch or build it again";
    case Code::kEncoding:
      return "the file uses a format that this build does not read";
    case Code::kFileset:
      return "put every file of the set into one folder";
    case Code::kComponent:
      return "choose among the components that 'ignition inspect' lists";
    case Code::kBinding:
      return "compare config.json and tensor names with the published model";
    case Code::kSupport:
      return "choose another model or recipe; 'ignition inspect' shows what the file holds";
    case Code::kWrite:
      return "check free space and permissions of the destination";
    case Code::kInvalid:
      return "correct the named file";
    case Code::kWrongMachine:
      return "run it on a machine that has what is named, or lower the level";
    case Code::kDoesNotFit:
      return "free memory, or choose a smaller model or recipe";
    case Code::kExists:
      return "choose another path, or remove what stands there";
    case Code::kNetwork:
      return "check the address and try again";
    case Code::kCancelled:
      return "nothing was left behind; run the command again";
  }
  return "";
}

// Messages may quote texts from outside; one error is one line all the same.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace

void print_error(const Error& error, bool json) {
  const std::string message = one_line(error.message());
  const std::string hint =
      one_line(error.hint().empty() ? std::string(default_hint(error.code())) : error.hint());
  // std::fputs, because fmt::print would throw where the stream takes nothing.
  if (!json) {
    std::fputs(fmt::format("error: {}\n", message).c_str(), stderr);
    if (!hint.empty()) std::fputs(fmt::format("hint: {}\n", hint).c_str(), stderr);
    return;
  }
  const Json document = Json::object(
      {{"ok", false},
       {"error",
        Json::object({{"code", code_name(error.code())}, {"message", message}, {"hint", hint}})}});
  std::fputs((document.to_text() + "\n").c_str(), stdout);
}

}  // namespace flare::app
