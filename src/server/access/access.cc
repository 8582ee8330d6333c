// Headers of requests against keys, hosts and origins.
#include "server/access/access.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace flare::server {
namespace {

// The key of "Bearer KEY", the scheme in any case; empty where it is another scheme.
std::string_view bearer_key(std::string_view header) {
  constexpr std::string_view kScheme = "bearer";
  if (header.size() <= kScheme.size() || header[kScheme.size()] != ' ') return {};
  const bool is_bearer =
      std::ranges::equal(header.substr(0, kScheme.size()), kScheme,
                         [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  if (!is_bearer) return {};
  header.remove_prefix(kScheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

// A list of header or method names, fit to be repeated in an answer.
std::string_view legal_names(std::string_view list) {
  constexpr size_t kMaxBytes = 4096;
  const bool legal = list.size() <= kMaxBytes && std::ranges::all_of(list, [](unsigned char c) {
                       return std::isalnum(c) != 0 ||
                              std::string_view("!#$%&'*+-.^_`|~, ").find(static_cast<char>(c)) !=
                                  std::string_view::npos;
                     });
  return legal ? list : std::string_view();
}

std::optional<KeyRing> read_keys(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return KeyRing::read(path);
}

}  // namespace

std::shared_ptr<const Access> Access::make(const AccessSettings& settings) {
  std::optional<KeyRing> keys = read_keys(settings.api_key_file);
  SiteRules sites({.origins = settings.cors_origins,
                   .hosts = settings.allowed_hosts,
                   .loopback = settings.loopback,
                   .has_keys = keys.has_value()});
  return std::shared_ptr<const Access>(new Access(std::move(keys), std::move(sites)));
}

std::shared_ptr<const Access> Access::with_keys(const std::string& api_key_file) const {
  std::optional<KeyRing> keys = read_keys(api_key_file);
  SiteSettings settings = sites_.settings();
  settings.has_keys = keys.has_value();
  SiteRules sites(std::move(settings));
  return std::shared_ptr<const Access>(new Access(std::move(keys), std::move(sites)));
}

std::shared_ptr<const Access> Access::with_sites(std::vector<std::string> origins,
                                                 std::vector<std::string> hosts) const {
  SiteSettings settings = sites_.settings();
  settings.origins = std::move(origins);
  settings.hosts = std::move(hosts);
  return std::shared_ptr<const Access>(new Access(keys_, SiteRules(std::move(settings))));
}

std::optional<ApiError> Access::check_site(http::Request* request) const {
  const std::string_view host = request->header("host");
  if (!sites_.takes_host(host))
    return ApiError{
        403,
        "host_not_allowed",
        fmt::format("Host {} is neither a loopback name nor an allowed host", quote(host)),
        {}};
  const std::string_view origin = request->header("origin");
  if (origin.empty()) return std::nullopt;
  if (!sites_.takes_origin(origin, host))
    return ApiError{403,
                    "origin_not_allowed",
                    fmt::format("pages of origin {} may not use this server", quote(origin)),
                    {}};
  request->reply_headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  request->reply_headers.emplace_back("Vary", "Origin");
  request->reply_headers.emplace_back(
      "Access-Control-Expose-Headers",
      "x-request-id, request-id, x-flare-seed, x-flare-ignored, x-flare-relaxed, Retry-After");
  return std::nullopt;
}

std::optional<http::Answer> Access::preflight(const http::Request& request) {
  const std::string_view method = request.header("access-control-request-method");
  if (request.method != "OPTIONS" || method.empty() || request.header("origin").empty())
    return std::nullopt;
  http::Answer answer{.status = 204};
  answer.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE");
  const std::string_view names = legal_names(request.header("access-control-request-headers"));
  if (!names.empty()) answer.headers.emplace_back("Access-Control-Allow-Headers", names);
  if (request.header("access-control-request-private-network") == "true")
    answer.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  answer.headers.emplace_back("Access-Control-Max-Age", "600");
  return answer;
}

std::optional<ApiError> Access::check_key(http::Request* request) const {
  if (!keys_) return std::nullopt;
  const std::string_view given[] = {bearer_key(request->header("authorization")),
                                    request->header("x-api-key")};
  bool any = false;
  for (const std::string_view key : given) {
    if (key.empty()) continue;
    any = true;
    const std::string* label = keys_->find(key);
    if (label == nullptr) continue;
    request->key_label = *label;
    return std::nullopt;
  }
  return ApiError{401,
                  "invalid_api_key",
                  any ? "the API key is not one of this server's"
                      : "an API key is needed, in 'Authorization: Bearer KEY' or 'x-api-key'",
                  {}};
}

}  // namespace flare::server
