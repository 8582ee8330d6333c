// Hosts and origins as text: parsed strictly, compared in lower case.
#include "server/access/site_rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace flare::server {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

// What no name server can point elsewhere.
bool is_address(std::string_view name) {
  in_addr v4{};
  return name.starts_with('[') || ::inet_pton(AF_INET, std::string(name).c_str(), &v4) == 1;
}

struct Origin {
  std::string scheme, host;  // host with its port, as in a Host header
};

// Both empty where `text` is no origin ("null" is none).
Origin parse_origin(std::string_view text) {
  const size_t mark = text.find("://");
  if (mark == std::string_view::npos || mark == 0) return {};
  const Origin origin{lower(text.substr(0, mark)), lower(text.substr(mark + 3))};
  const bool legal_scheme = std::ranges::all_of(origin.scheme, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
  if (!legal_scheme || host_name(origin.host).empty()) return {};
  return origin;
}

// Browsers leave the scheme's own port out; people may write it.
std::string without_default_port(const Origin& origin) {
  const std::string_view port = origin.scheme == "http"    ? ":80"
                                : origin.scheme == "https" ? ":443"
                                                           : "";
  std::string_view host = origin.host;
  if (!port.empty() && host.ends_with(port)) host.remove_suffix(port.size());
  return origin.scheme + "://" + std::string(host);
}

}  // namespace

std::string host_name(std::string_view host) {
  std::string_view name, rest;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(0, end + 1);
    in6_addr v6{};
    if (::inet_pton(AF_INET6, std::string(host.substr(1, end - 1)).c_str(), &v6) != 1) return {};
    rest = host.substr(end + 1);
  } else {
    name = host.substr(0, host.find(':'));
    if (!is_name(name)) return {};
    rest = host.substr(name.size());
  }
  if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return {};
  return lower(name);
}

bool is_loopback_name(std::string_view name) {
  if (name == "localhost" || name == "[::1]") return true;
  in_addr v4{};
  return name.starts_with("127.") && ::inet_pton(AF_INET, std::string(name).c_str(), &v4) == 1;
}

SiteRules::SiteRules(SiteSettings settings) : settings_(std::move(settings)) {
  for (std::string& origin : settings_.origins) {
    if (origin == "*") {
      if (!settings_.has_keys)
        throw Error(Code::kUsage,
                    "--cors-origin *: every page could use this server, expected one with keys")
            .set_hint("add --api-key-file PATH, or name the origins");
      any_origin_ = true;
      continue;
    }
    const Origin parsed = parse_origin(origin);
    if (parsed.host.empty())
      throw Error(Code::kUsage, "--cors-origin {}: scheme://host or scheme://host:port expected",
                  quote(origin));
    origin = without_default_port(parsed);
  }
  for (std::string& host : settings_.hosts) {
    const std::string name = host_name(host);
    if (name.empty() || name.size() != host.size())
      throw Error(Code::kUsage, "--allowed-host {}: a name without port expected", quote(host));
    host = name;
  }
}

bool SiteRules::takes_host(std::string_view host) const {
  if (!settings_.loopback || host.empty()) return true;
  const std::string name = host_name(host);
  return is_loopback_name(name) ||
         std::ranges::find(settings_.hosts, name) != settings_.hosts.end();
}

bool SiteRules::takes_origin(std::string_view origin, std::string_view host) const {
  if (any_origin_) return true;
  const Origin parsed = parse_origin(origin);
  if (parsed.host.empty()) return false;
  if (settings_.origins.empty() && is_loopback_name(host_name(parsed.host))) return true;
  return std::ranges::find(settings_.origins, without_default_port(parsed)) !=
             settings_.origins.end() ||
         is_own_page(parsed.host, host);
}

// The name in Host is the page's own. Without keys it counts only if it is known, or an address:
// another name may be an attacker's that points here.
bool SiteRules::is_own_page(std::string_view origin, std::string_view host) const {
  if (lower(host) != origin) return false;
  const std::string name = host_name(host);
  return settings_.has_keys || is_address(name) || is_loopback_name(name) ||
         std::ranges::find(settings_.hosts, name) != settings_.hosts.end();
}

}  // namespace flare::server
