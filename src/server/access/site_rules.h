// Which names a server answers to, and pages of which origins may read its answers (serving.md
// S12.3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flare::server {

struct SiteSettings {
  std::vector<std::string> origins;  // "scheme://host[:port]" or "*"; empty: loopback ones
  std::vector<std::string> hosts;    // names besides loopback ones, without port
  bool loopback = true;              // the server listens on loopback addresses alone
  bool has_keys = false;
};

// Immutable.
class SiteRules {
 public:
  // Errors: kUsage (not an origin, not a name, "*" without keys).
  explicit SiteRules(SiteSettings settings);

  // Whether a request with this Host header is answered. On loopback the name must be known, so
  // that no page reaches the server by a name of its own (DNS rebinding).
  bool takes_host(std::string_view host) const;
  // Whether a page of `origin` may ask this server under the name `host`: a listed origin, or the
  // server's own page.
  bool takes_origin(std::string_view origin, std::string_view host) const;

  const SiteSettings& settings() const { return settings_; }

 private:
  bool is_own_page(std::string_view origin, std::string_view host) const;
  SiteSettings settings_;
  bool any_origin_ = false;
};

// Of "name", "name:port", "[v6]:port": the name in lower case without port; empty where it is none.
std::string host_name(std::string_view host);
// "localhost", "[::1]" and 127.0.0.0/8.
bool is_loopback_name(std::string_view name);

}  // namespace flare::server
