// The flags of `flare run`, and how a command line and a configuration give them values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "flare/model_loading.h"
#include "server/access/access.h"
#include "server/http/http.h"

namespace flare::app {

struct RunFlags {
  ModelFlags model;
  server::http::Options http;
  std::vector<std::string> model_ids;
  std::string log_level;  // empty: FLARE_LOG, else info
  std::string max_body = "64M";
  ServingSettings serving{.serves = true};
  bool exit_on_failure = false;
  int drain_timeout = 30;
  server::AccessSettings access;
  std::string listen;  // "unix:PATH"; empty: an address alone
  bool allow_unauthenticated = false;
  bool metrics_public = false;
  bool dashboard = true;
  std::string log_format = "text";
  bool metric_aliases = true;
  std::string request_log;
  bool share_cache = false;
  std::optional<int64_t> clock;  // of templates, seconds since 1970; absent: the machine's
  bool any_model = false;
  bool strict_fields = false;
  bool web = true;
};

// Declares all of them.
void add_run_flags(CLI::App& run, RunFlags* flags);

// Gives the flags of `flare run` that were not given their values of the configuration; its path,
// empty where there is none. Errors: those of Configuration.
std::string apply_run_configuration(CLI::App& run, const CommonFlags& common,
                                    const std::string& model);

// What options say, by name; those alone that have a value.
using OptionValues = std::map<std::string, std::vector<std::string>>;
OptionValues option_values(const CLI::App& run);

// The flags that a command line gave (`given`, from before the configuration was applied), and the
// configuration as it is now. Errors: those of Configuration and check_run_flags.
struct RunReading {
  RunFlags flags;
  OptionValues values;
};
RunReading read_run_flags(const OptionValues& given, const CommonFlags& common);

// Flags that need or exclude others. Errors: kUsage.
void check_run_flags(const CLI::App& run, const RunFlags& flags);
// Whether everyone who can reach `flags.http` may ask. Errors: kUsage for a server without keys
// beyond this machine.
void check_keys(const RunFlags& flags);
// --log-level, else FLARE_LOG, else info. Errors: kUsage.
void choose_log_level(const RunFlags& flags, const CommonFlags& common);

}  // namespace flare::app
