// Headers and revalidation of the page's files.
#include "server/web/web.h"

#include <algorithm>

namespace flare::server::web {
namespace {

// Data and blob images are what a user pastes. Trusted types make a string that becomes markup an
// error, should the page ever try.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

// If-None-Match: a list of tags, weak or strong, or "*".
bool has_same(std::string_view header, std::string_view etag) {
  return header == "*" || header.find(etag) != std::string_view::npos;
}

}  // namespace

const File* find(std::string_view name) {
  const auto all = files();
  const auto found = std::ranges::find(all, name, &File::name);
  return found == all.end() ? nullptr : &*found;
}

void respond(const File& file, const http::Request& request, http::Exchange& exchange) {
  const bool same = has_same(request.header("if-none-match"), file.etag);
  exchange.respond(same ? 304 : 200, file.content_type, same ? "" : std::string(file.bytes),
                   {{"ETag", std::string(file.etag)},
                    {"Cache-Control", "no-cache"},
                    {"Content-Security-Policy", std::string(kPolicy)},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cross-Origin-Opener-Policy", "same-origin"},
                    {"Cross-Origin-Resource-Policy", "same-origin"}});
}

}  // namespace flare::server::web
