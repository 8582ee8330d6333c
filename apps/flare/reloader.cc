// Part by part, each with its own error.
#include "flare/reloader.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "flare/service_manager.h"
#include "server/http/tls.h"

namespace flare::app {
namespace {

// Options that a reload follows; every other one stays as the server was started.
constexpr std::string_view kFollowed[] = {"--log-level",    "--api-key-file", "--cors-origin",
                                          "--allowed-host", "--tls-cert",     "--tls-key"};

template <typename Part>
bool attempt(std::string_view what, Part&& part) {
  try {
    part();
    return true;
  } catch (const Error& error) {
    log_error("reload: {} kept as before: {}{}{}", what, error.what(),
              error.hint().empty() ? "" : "; ", error.hint());
    return false;
  } catch (const std::exception& failure) {
    log_error("reload: {} kept as before: {}", what, failure.what());
    return false;
  }
}

}  // namespace

void Reloader::reload() {
  notify_reloading();
  RunFlags wanted = running_;
  bool whole = read_flags(&wanted);
  whole &= attempt("log level", [&] {
    choose_log_level(wanted, common_);
    running_.log_level = wanted.log_level;
  });
  whole &= reload_access(wanted);
  whole &= reload_certificate(wanted);
  if (whole) log_info("reloaded");
  notify_manager("READY=1");
}

bool Reloader::read_flags(RunFlags* wanted) const {
  return attempt("configuration", [&] {
    const RunReading now = read_run_flags(given_, common_);
    wanted->log_level = now.flags.log_level;
    wanted->access.api_key_file = now.flags.access.api_key_file;
    wanted->access.cors_origins = now.flags.access.cors_origins;
    wanted->access.allowed_hosts = now.flags.access.allowed_hosts;
    wanted->http.tls_certificate = now.flags.http.tls_certificate;
    wanted->http.tls_key = now.flags.http.tls_key;
    name_what_needs_a_restart(now.values);
  });
}

void Reloader::name_what_needs_a_restart(const OptionValues& values) const {
  std::set<std::string> names;
  for (const OptionValues* side : {&started_with_, &values})
    for (const auto& [name, said] : *side) names.insert(name);
  for (const std::string& name : names) {
    const auto before = started_with_.find(name), now = values.find(name);
    const bool is_as_before =
        before != started_with_.end() && now != values.end() && before->second == now->second;
    if (is_as_before || std::ranges::find(kFollowed, name) != std::end(kFollowed)) continue;
    log_warn("reload: {} is another now, which needs a restart", name);
  }
}

// Keys first: whether every origin may be let in depends on them.
bool Reloader::reload_access(const RunFlags& wanted) {
  const auto use = [this](std::shared_ptr<const server::Access> access) {
    access_ = std::move(access);
    app_.set_access(access_);
  };
  server::AccessSettings& now = running_.access;
  bool whole = attempt("keys", [&] {
    check_keys(wanted);
    use(access_->with_keys(wanted.access.api_key_file));
    now.api_key_file = wanted.access.api_key_file;
  });
  whole &= attempt("origins", [&] {
    use(access_->with_sites(wanted.access.cors_origins, now.allowed_hosts));
    now.cors_origins = wanted.access.cors_origins;
  });
  whole &= attempt("hosts", [&] {
    use(access_->with_sites(now.cors_origins, wanted.access.allowed_hosts));
    now.allowed_hosts = wanted.access.allowed_hosts;
  });
  return whole;
}

// Connections are encrypted or not from the start on.
bool Reloader::reload_certificate(const RunFlags& wanted) {
  const bool has = !running_.http.tls_certificate.empty();
  if (has != !wanted.http.tls_certificate.empty())
    log_warn("reload: --tls-cert and --tls-key are {} now, which needs a restart",
             has ? "absent" : "given");
  if (!has) return true;
  return attempt("certificate", [&] {
    const bool is_given = !wanted.http.tls_certificate.empty();
    const server::http::Options& files = is_given ? wanted.http : running_.http;
    http_.set_tls(server::http::TlsContext::load(files.tls_certificate, files.tls_key));
    running_.http.tls_certificate = files.tls_certificate;
    running_.http.tls_key = files.tls_key;
  });
}

}  // namespace flare::app
