// What every request passes before anything else of it is read: host, origin, key (serving.md S12).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/access/key_ring.h"
#include "server/access/site_rules.h"
#include "server/api/errors.h"
#include "server/http/http.h"

namespace flare::server {

struct AccessSettings {
  std::string api_key_file;  // empty: everyone may ask
  std::vector<std::string> cors_origins, allowed_hosts;
  bool loopback = true;  // the server listens on loopback addresses alone
};

// Immutable; a reload makes another.
class Access {
 public:
  // Errors: those of KeyRing::read and SiteRules.
  static std::shared_ptr<const Access> make(const AccessSettings& settings);

  // The same with the keys of a file, none where the path is empty, and with other sites. Errors as
  // of make(); "*" needs keys in both.
  std::shared_ptr<const Access> with_keys(const std::string& api_key_file) const;
  std::shared_ptr<const Access> with_sites(std::vector<std::string> origins,
                                           std::vector<std::string> hosts) const;

  // 403 for a host or an origin that is not let in. An origin that is gets its headers in
  // request.reply_headers.
  std::optional<ApiError> check_site(http::Request* request) const;
  // The answer to a browser that asks before it sends (OPTIONS with an origin that is let in).
  static std::optional<http::Answer> preflight(const http::Request& request);
  // 401 without a valid key, in `Authorization: Bearer` or x-api-key. The key's label becomes
  // request.key_label.
  std::optional<ApiError> check_key(http::Request* request) const;

  // Whether labels tell callers apart: there are several keys.
  bool has_several_keys() const { return keys_ && keys_->size() > 1; }

 private:
  Access(std::optional<KeyRing> keys, SiteRules sites)
      : keys_(std::move(keys)), sites_(std::move(sites)) {}
  std::optional<KeyRing> keys_;
  SiteRules sites_;
};

}  // namespace flare::server
