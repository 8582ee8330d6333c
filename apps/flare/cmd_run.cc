// `flare run MODEL`: serves over HTTP until a signal.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include "base/log.h"
#include "base/version.h"
#include "common/configuration.h"
#include "flare/commands.h"
#include "flare/dashboard.h"
#include "flare/model_loading.h"
#include "flare/service_manager.h"
#include "flare/stop_signals.h"
#include "server/app.h"
#include "server/http/tls.h"
#include "server/observe/throughput.h"

namespace flare::app {
namespace {

using Clock = std::chrono::steady_clock;

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

// What the command line itself gave, which a reload of the configuration cannot change.
struct Given {
  bool origins = false, hosts = false, log_level = false;
};

// --listen, what the service manager opened, --host and --port.
void choose_listeners(RunFlags& flags, const CLI::App& command) {
  constexpr std::string_view kUnix = "unix:";
  flags.http.inherited = take_inherited_sockets();
  if (flags.listen.empty()) return;
  if (!flags.listen.starts_with(kUnix) || flags.listen.size() == kUnix.size())
    throw Error(Code::kUsage, "--listen {}: unix:PATH expected", quote(flags.listen));
  flags.http.unix_path = flags.listen.substr(kUnix.size());
  flags.http.tcp =
      command.get_option("--host")->count() > 0 || command.get_option("--port")->count() > 0;
}

void check_access(RunFlags& flags) {
  const bool is_local = server::http::is_local_only(flags.http);
  flags.access.loopback = is_local && server::http::listens_on_network(flags.http);
  if (flags.http.tls_certificate.empty() != flags.http.tls_key.empty())
    throw Error(Code::kUsage, "--tls-cert and --tls-key: one is missing, both expected");
  if (is_local || !flags.access.api_key_file.empty() || flags.allow_unauthenticated) return;
  throw Error(Code::kUsage, "{} is not a loopback address, expected one for a server without keys",
              flags.http.inherited.empty() ? "--host " + quote(flags.http.host)
                                           : std::string("a socket of the service manager"))
      .set_hint(
          "add --api-key-file PATH, or --allow-unauthenticated to let everyone in who can reach "
          "it");
}

// A descriptor for each connection, and some for everything else.
void allow_connections(uint32_t n) {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= n + kOthers) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, n + kOthers);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == n + kOthers) return;
  log_warn("this system allows {} open files, {} connections want {}; raise its limit (ulimit -n)",
           limit.rlim_cur, n, n + kOthers);
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

// What the signal thread and the main one share.
class StopState {
 public:
  // A model that is still loading cannot be asked to stop; nothing is lost by leaving.
  void request_stop() {
    const std::lock_guard lock(mutex_);
    if (!serving_) {
      fmt::print(stderr, "stopped while loading\n");
      std::fflush(stderr);
      ::_exit(0);
    }
    stop_ = true;
    changed_.notify_all();
  }
  void set_serving() {
    const std::lock_guard lock(mutex_);
    serving_ = true;
  }
  // The engine has failed.
  void stop_failed() {
    const std::lock_guard lock(mutex_);
    failed_ = stop_ = true;
    changed_.notify_all();
  }
  void request_reload() {
    const std::lock_guard lock(mutex_);
    reload_ = serving_;  // while loading, everything is read as it is now
    changed_.notify_all();
  }
  // Runs `reload` for every request of one, until it is time to stop. False: by failure.
  bool wait(const std::function<void()>& reload) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || reload_; });
      if (stop_) return !failed_;
      reload_ = false;
      lock.unlock();
      reload();
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool serving_ = false, stop_ = false, reload_ = false, failed_ = false;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

// SIGHUP (serving.md S15.3): each part is read again; one that cannot be keeps its old value.
class Reloader {
 public:
  Reloader(const RunFlags& flags, const CommonFlags& common, const Given& given, server::App& app,
           server::http::Server& http)
      : flags_(flags), common_(common), given_(given), app_(app), http_(http) {}

  void reload() {
    notify_reloading();
    RunFlags wanted = flags_;
    bool whole = attempt("configuration", [&] {
      const Configuration file = Configuration::load(common_.config);
      RunFlags said = flags_;
      if (!given_.origins) said.access.cors_origins = file.values("serving", "cors_origin");
      if (!given_.hosts) said.access.allowed_hosts = file.values("serving", "allowed_host");
      const auto level = file.values("serving", "log_level");
      if (!given_.log_level) said.log_level = level.empty() ? "" : level[0];
      wanted = std::move(said);
    });
    whole &= attempt("log level", [&] {
      choose_log_level(wanted, common_);
      flags_.log_level = wanted.log_level;
    });
    whole &= attempt("keys, origins and hosts", [&] {
      app_.set_access(server::Access::make(wanted.access));
      flags_.access = wanted.access;
    });
    if (!flags_.http.tls_certificate.empty())
      whole &= attempt("certificate", [&] {
        http_.set_tls(
            server::http::TlsContext::load(flags_.http.tls_certificate, flags_.http.tls_key));
      });
    if (whole) log_info("reloaded");
    notify_manager("READY=1");
  }

 private:
  template <typename Part>
  static bool attempt(std::string_view what, Part&& part) {
    try {
      part();
      return true;
    } catch (const std::exception& failure) {
      log_error("reload: {} kept as before: {}", what, failure.what());
      return false;
    }
  }
  RunFlags flags_;
  const CommonFlags& common_;
  const Given given_;
  server::App& app_;
  server::http::Server& http_;
};

// Lets running requests end, then cuts them off. True if none had to be.
bool drain(server::App& app, runtime::Engine& engine, server::http::Server& http, int timeout_s) {
  notify_manager("STOPPING=1");
  app.drain();
  const runtime::EngineStats stats = engine.stats();
  log_info("draining: {} running, {} waiting, at most {} s", stats.running, stats.waiting,
           timeout_s);
  const bool complete = engine.drain(Clock::now() + std::chrono::seconds(timeout_s));
  engine.stop();
  constexpr auto kFlush = std::chrono::seconds(2);
  http.stop_accepting();
  http.wait_idle(Clock::now() + kFlush);
  return complete;
}

void log_start(server::observe::Observer& observer, server::Service& service) {
  if (!observer.log()) return;
  const runtime::MemoryPlan& plan = service.engine().memory_plan();
  observer.log()->write("server_start",
                        Json::object({{"version", kVersion},
                                      {"model", service.model_name()},
                                      {"device", service.engine().device_name()},
                                      {"max_context", plan.max_context},
                                      {"max_concurrency", plan.max_concurrency},
                                      {"max_pending", service.engine().max_pending()},
                                      {"planned_bytes", plan.total()}}));
}

// nullptr where the terminal cannot show one: the log goes on as lines.
std::unique_ptr<Dashboard> open_dashboard(const server::App& app, const RunFlags& flags,
                                          std::string address) {
  try {
    return std::make_unique<Dashboard>(
        Dashboard::Setup{[&app] { return app.overview(); }, flags.model.model, std::move(address)});
  } catch (const std::exception& failure) {
    log_warn("no dashboard: {}", failure.what());
    return nullptr;
  }
}

int run(RunFlags& flags, const CommonFlags& common, const Given& given) {
  choose_log_level(flags, common);
  check_access(flags);
  flags.http.max_body_bytes = parse_size("--max-body", flags.max_body);
  allow_connections(flags.http.max_connections);
  auto access = server::Access::make(flags.access);
  const bool draws = flags.dashboard && !common.quiet && can_draw_dashboard();
  StopState state;
  // A server outlives the pipe that read its log.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of that write
  std::optional<server::observe::RequestLog> request_log;  // outlives the thread of the signals
  std::atomic<server::observe::RequestLog*> log_to_reopen{nullptr};
  const StopSignals signals([&state](int) { state.request_stop(); },
                            [&] {
                              if (auto* log = log_to_reopen.load()) log->reopen();
                              state.request_reload();
                            },
                            Dashboard::leave_at_once);

  if (!flags.request_log.empty()) {
    request_log.emplace(flags.request_log);
    log_to_reopen = &*request_log;
  }
  server::observe::Observer observer(request_log ? &*request_log : nullptr);
  server::App app({.model_ids = flags.model_ids,
                   .any_model = flags.any_model,
                   .strict_fields = flags.strict_fields,
                   .metrics_public = flags.metrics_public,
                   .metric_aliases = flags.metric_aliases,
                   .share_cache = flags.share_cache,
                   .web = flags.web},
                  std::move(access), observer);
  std::unique_ptr<runtime::Engine> engine;
  std::optional<server::Service> service;
  // Declared last: requests end before what they use does.
  server::http::Server http(
      flags.http,
      [&app](server::http::Request request, std::shared_ptr<server::http::Exchange> exchange) {
        app.handle(std::move(request), std::move(exchange));
      },
      app.hooks());
  notify_manager("STATUS=loading the model");
  if (flags.exit_on_failure) flags.serving.on_failure = [&state] { state.stop_failed(); };
  engine = load_model(flags.model, flags.serving, !common.quiet);
  service.emplace(*engine);
  service->set_clock(flags.clock);
  app.open(*service);
  std::optional<server::observe::ThroughputReporter> reporter;
  reporter.emplace([&engine] { return engine->stats(); }, observer.log());
  state.set_serving();
  fmt::print(stderr, "ready {} model={} ranks={} concurrency={}\n", joined(http.urls()),
             flags.model_ids.empty() ? service->model_name() : flags.model_ids.front(),
             engine->model().ranks.size(), engine->memory_plan().max_concurrency);
  std::fflush(stderr);
  log_start(observer, *service);
  const auto dashboard = draws ? open_dashboard(app, flags, joined(http.urls())) : nullptr;
  notify_manager(fmt::format("READY=1\nSTATUS=serving at {}", joined(http.urls())));
  Reloader reloader(flags, common, given, app, http);
  const bool by_request = state.wait([&reloader] { reloader.reload(); });
  reporter.reset();
  const bool complete = drain(app, *engine, http, flags.drain_timeout);
  if (observer.log()) observer.log()->write("server_stop", Json::object({{"complete", complete}}));
  log_info("stopped{}", complete ? "" : "; some requests were cut off");
  return complete && by_request ? 0 : 1;
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

std::string apply_run_configuration(CLI::App& run, const CommonFlags& common,
                                    const std::string& model) {
  const Configuration configuration = Configuration::load(common.config);
  configuration.apply(
      run, {{"models", {"Model"}}, {"serving", {"Serving", "Security"}}, {"defaults", {"Model"}}},
      model.empty() ? "nano" : model);
  return configuration.path();
}

std::function<int()> declare_run(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<RunFlags>();
  add_model_flags(app, &flags->model);
  app.add_option("--max-concurrency", flags->model.max_concurrency, "requests at once (8)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""))
      ->group("Model");
  declare_addresses(app, flags.get());
  declare_limits(app, flags.get());
  declare_engine(app, flags.get());
  declare_watching(app, flags.get());
  declare_security(app, flags.get());
  app.footer(
      "Examples:\n"
      "  flare run\n"
      "  flare run model.ninfer --port 8080 --max-concurrency 4\n"
      "  flare run ./checkpoint --recipe q8 --model-id assistant\n"
      "The configuration's [serving] holds values for the flags of Serving and Security, "
      "[defaults] "
      "and\n[models.\"MODEL\"] for those of Model, with '_' for '-': max_pending = 8.");
  return [flags, &common, &app] {
    const auto is_given = [&app](const char* name) { return app.get_option(name)->count() > 0; };
    const Given given{.origins = is_given("--cors-origin"),
                      .hosts = is_given("--allowed-host"),
                      .log_level = is_given("--log-level")};
    const bool draws = is_given("--dashboard") && !is_given("--no-dashboard");
    apply_run_configuration(app, common, flags->model.model);
    flags->dashboard |= draws;
    choose_listeners(*flags, app);
    return run(*flags, common, given);
  };
}

}  // namespace flare::app
