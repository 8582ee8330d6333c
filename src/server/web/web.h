// The chat page: its files, embedded at build time, and the headers that confine it.
#pragma once

#include <span>
#include <string_view>

#include "server/http/http.h"

namespace flare::server::web {

// One file of the page. Served as /web/NAME; page.html as "/" too.
struct File {
  std::string_view name;
  std::string_view content_type;
  std::string_view etag;  // strong, quotes included
  std::string_view bytes;
};

std::span<const File> files();
// nullptr: no such file.
const File* find(std::string_view name);

// 200, or 304 where the client's copy is the same. The page loads nothing from elsewhere and runs
// no script but its own (serving.md S14.1), whatever a model writes into it.
void respond(const File& file, const http::Request& request, http::Exchange& exchange);

}  // namespace flare::server::web
