// How an error is shown: one line for people, or one JSON document.
#pragma once

#include "base/error.h"

namespace flare::app {

// "error: …" and "hint: …" on stderr, a line each; under --json the document
// {"ok":false,"error":{code,message,hint}} on stdout instead.
void print_error(const Error& error, bool json);

}  // namespace flare::app
