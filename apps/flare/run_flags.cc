// Declarations, origins and contradictions of the flags of `flare run`.
#include "flare/run_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "common/configuration.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::app {
namespace {

// A name of a model in requests and in the ready line.
std::string check_model_id(const std::string& name) {
  constexpr size_t kMaxBytes = 256;
  const bool is_name =
      !name.empty() && name.size() <= kMaxBytes &&
      std::ranges::none_of(name, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (is_name && frontend::tokenizer::valid_utf8_prefix(name) == name.size()) return {};
  return fmt::format("{} is no name of a model, expected 1 to {} bytes of UTF-8 without spaces",
                     quote(name), kMaxBytes);
}

void declare_security(CLI::App& app, RunFlags* flags) {
  constexpr const char* kGroup = "Security";
  const auto add_list = [&](const char* name, auto& value, const char* text, const char* type) {
    app.add_option(name, value, text)
        ->type_name(type)
        ->group(kGroup)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  app.add_option("--api-key-file", flags->access.api_key_file,
                 "one key a line, then a label if wanted; # comments (none)")
      ->type_name("PATH")
      ->group(kGroup);
  app.add_flag("--allow-unauthenticated", flags->allow_unauthenticated,
               "listen beyond this machine without keys")
      ->group(kGroup);
  add_list("--cors-origin", flags->access.cors_origins,
           "pages that may ask: scheme://host[:port], or * with keys; repeatable (loopback ones)",
           "ORIGIN");
  add_list("--allowed-host", flags->access.allowed_hosts,
           "a name of this server besides loopback ones, repeatable", "NAME");
  const auto add_path = [&](const char* name, std::string& value, const char* text) {
    app.add_option(name, value, text)->type_name("PATH")->group(kGroup);
  };
  add_path("--tls-cert", flags->http.tls_certificate, "PEM certificate chain: serve https alone");
  add_path("--tls-key", flags->http.tls_key, "its PEM key, without a passphrase");
  app.add_flag("--metrics-public", flags->metrics_public, "/metrics needs no key")->group(kGroup);
  app.add_flag("--share-cache", flags->share_cache,
               "callers with different keys share cached prefixes")
      ->group(kGroup);
}

constexpr const char* kServing = "Serving";

template <typename T>
CLI::Option* add_serving(CLI::App& app, const char* name, T& value, const char* text,
                         const char* type) {
  return app.add_option(name, value, text)->type_name(type)->group(kServing);
}

// Where it listens, what it is called, and what requests may say.
void declare_addresses(CLI::App& app, RunFlags* flags) {
  add_serving(app, "--host", flags->http.host, "listen address (127.0.0.1)", "ADDR");
  add_serving(app, "--port", flags->http.port, "listen port; 0 picks a free one (8000)", "N")
      ->check(CLI::Range(0, 65535).description(""));
  add_serving(app, "--listen", flags->listen, "a socket for this user alone, instead of an address",
              "unix:PATH");
  add_serving(app, "--model-id", flags->model_ids, "public name, repeatable (the model's)", "NAME")
      ->expected(1)
      ->check(check_model_id)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--any-model", flags->any_model, "take every model name")->group(kServing);
  add_serving(app, "--clock", flags->clock,
              "the time that templates see, in seconds since 1970 (the machine's)", "SECONDS")
      ->check(CLI::Range(int64_t{0}, int64_t{253'402'300'799}).description(""));
  app.add_flag("--strict-fields", flags->strict_fields, "refuse unknown request fields")
      ->group(kServing);
  app.add_flag_callback(
         "--no-web", [flags] { flags->web = false; }, "serve no chat page at /")
      ->group(kServing);
}

// How many and how long.
void declare_limits(CLI::App& app, RunFlags* flags) {
  add_serving(app, "--max-pending", flags->serving.max_pending, "waiting requests (64)", "N")
      ->check(CLI::Range(0, 1000000).description(""));
  add_serving(app, "--pending-timeout", flags->serving.pending_timeout_s,
              "a request waits that long for its turn; 0: for ever (30)", "SECONDS")
      ->check(CLI::Range(0, 86400).description(""));
  app.add_flag("--exit-on-failure", flags->exit_on_failure,
               "end with exit code 1 if the engine fails")
      ->group(kServing);
  add_serving(app, "--drain-timeout", flags->drain_timeout,
              "for running requests after a stop signal (30)", "SECONDS")
      ->check(CLI::Range(0, 86400).description(""));
  add_serving(app, "--max-body", flags->max_body, "largest request body (64M)", "SIZE");
  add_serving(app, "--max-connections", flags->http.max_connections, "open connections (1024)", "N")
      ->check(CLI::Range(1, 1000000).description(""));
  add_serving(app, "--sse-ping", flags->http.ping_seconds, "silence in a stream before a ping (5)",
              "SECONDS")
      ->check(CLI::Range(1, 3600).description(""));
  add_serving(app, "--client-stall", flags->http.stall_seconds,
              "a client that reads nothing is cut off (30)", "SECONDS")
      ->check(CLI::Range(1, 3600).description(""));
}

// What is computed, and kept of it.
void declare_engine(CLI::App& app, RunFlags* flags) {
  app.add_flag("--prompt-logprobs", flags->model.prompt_logprobs,
               "requests may ask for log-probabilities of their prompt")
      ->group(kServing);
  app.add_flag("--deterministic", flags->model.deterministic,
               "answers do not depend on what else runs or is cached; slower")
      ->group(kServing);
  app.add_flag_callback(
         "--no-prefix-reuse", [flags] { flags->model.prefix_reuse = false; },
         "keep nothing of a request for later ones")
      ->group(kServing);
  app.add_flag("--audit", flags->serving.audit,
               "after every step check what the cache and running requests hold; for tests, slow")
      ->group(kServing);
  add_serving(app, "--prefill-slowdown", flags->serving.prefill_slowdown,
              "how many times as long an answer's token may take while prompts are read (2)",
              "FACTOR")
      ->check(check_finite)
      ->check(CLI::Range(1.0, 1000.0).description(""));
  add_serving(app, "--snapshot-interval", flags->model.snapshot_interval,
              "prompt tokens between snapshots of recurrent state; 0: none (1024)", "N")
      ->check(CLI::Range(0, INT32_MAX).description(""));
  add_serving(app, "--cache-dir", flags->model.cache_dir,
              "folder where prefixes outlive the server (none); one server each", "DIR");
  add_serving(app, "--cache-disk", flags->model.cache_disk, "largest size of --cache-dir (20G)",
              "SIZE");
}

// What operators see.
void declare_watching(CLI::App& app, RunFlags* flags) {
  add_serving(app, "--request-log", flags->request_log,
              "a JSON line a request: ids, counts and times, no text (none)", "FILE");
  app.add_flag_callback(
         "--no-metric-aliases", [flags] { flags->metric_aliases = false; },
         "/metrics has Flare's own names alone")
      ->group(kServing);
  // The configuration and the help know it by its negative, since it is on by itself.
  app.add_flag_callback("--dashboard", [flags] { flags->dashboard = true; })->group("");
  app.add_flag_callback(
         "--no-dashboard", [flags] { flags->dashboard = false; },
         "log lines alone, also where stderr is a terminal")
      ->group(kServing);
  add_serving(app, "--log-format", flags->log_format, "text or json (text)", "FORMAT")
      ->check(CLI::IsMember({"text", "json"}).description(""));
  add_serving(app, "--log-level", flags->log_level, "error, warn, info or debug (info)", "LEVEL");
}

}  // namespace

void add_run_flags(CLI::App& run, RunFlags* flags) {
  add_model_flags(run, &flags->model);
  run.add_option("--max-concurrency", flags->model.max_concurrency, "requests at once (8)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""))
      ->group("Model");
  declare_addresses(run, flags);
  declare_limits(run, flags);
  declare_engine(run, flags);
  declare_watching(run, flags);
  declare_security(run, flags);
}

std::string apply_run_configuration(CLI::App& run, const CommonFlags& common,
                                    const std::string& model) {
  const Configuration configuration = Configuration::load(common.config);
  configuration.apply(run,
                      {{"models", {"Model"}},
                       {"serving", {"Serving", "Security"}, {"--memory-limit", "--kv-cache-limit"}},
                       {"defaults", {"Model"}}},
                      model.empty() ? "nano" : model);
  return configuration.path();
}

OptionValues option_values(const CLI::App& run) {
  OptionValues values;
  for (const CLI::Option* option : run.get_options())
    if (option->count() > 0) values[option->get_name()] = option->results();
  return values;
}

RunReading read_run_flags(const OptionValues& given, const CommonFlags& common) {
  RunReading reading;
  CLI::App run;
  add_run_flags(run, &reading.flags);
  for (const auto& [name, values] : given) {
    CLI::Option* const option = run.get_option(name);
    option->add_result(values);
    option->run_callback();
  }
  apply_run_configuration(run, common, reading.flags.model.model);
  check_run_flags(run, reading.flags);
  reading.values = option_values(run);
  return reading;
}

void check_run_flags(const CLI::App& run, const RunFlags& flags) {
  if (flags.http.tls_certificate.empty() != flags.http.tls_key.empty())
    throw Error(Code::kUsage, "--tls-cert and --tls-key: one is missing, both expected");
  if (run.get_option("--cache-disk")->count() > 0 && flags.model.cache_dir.empty())
    throw Error(Code::kUsage, "--cache-disk is the size of --cache-dir, which is not given")
        .set_hint("add --cache-dir DIR, or leave --cache-disk out");
  if (!flags.model.cache_dir.empty() && !flags.model.prefix_reuse)
    throw Error(Code::kUsage, "--cache-dir and --no-prefix-reuse: one of them expected");
}

void check_keys(const RunFlags& flags) {
  if (server::http::is_local_only(flags.http) || !flags.access.api_key_file.empty() ||
      flags.allow_unauthenticated)
    return;
  throw Error(Code::kUsage, "{} is not a loopback address, expected one for a server without keys",
              flags.http.inherited.empty() ? "--host " + quote(flags.http.host)
                                           : std::string("a socket of the service manager"))
      .set_hint(
          "add --api-key-file PATH, or --allow-unauthenticated to let everyone in who can reach "
          "it");
}

void choose_log_level(const RunFlags& flags, const CommonFlags& common) {
  const char* variable = std::getenv("FLARE_LOG");
  const bool by_variable = flags.log_level.empty() && variable != nullptr && *variable != '\0';
  const std::string name = by_variable               ? variable
                           : flags.log_level.empty() ? "info"
                                                     : flags.log_level;
  const auto level = log_level_from_name(name);
  if (!level)
    throw Error(Code::kUsage, "{} is {}, expected error, warn, info or debug",
                by_variable ? "FLARE_LOG" : "--log-level", quote(name));
  if (flags.log_format == "json") set_log_format(LogFormat::kJson);
  set_log_level(common.quiet ? LogLevel::kError : common.verbose > 1 ? LogLevel::kDebug : *level);
}

}  // namespace flare::app
