// `flare run MODEL`: serves over HTTP until a signal.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>

#include "base/log.h"
#include "base/version.h"
#include "flare/commands.h"
#include "flare/dashboard.h"
#include "flare/model_loading.h"
#include "flare/reloader.h"
#include "flare/run_flags.h"
#include "flare/service_manager.h"
#include "flare/stop_signals.h"
#include "server/app.h"
#include "server/observe/throughput.h"

namespace flare::app {
namespace {

using Clock = std::chrono::steady_clock;

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
    return std::make_unique<Dashboard>(Dashboard::Setup{[&app] { return app.overview(); },
                                                        model_path(flags.model.model).string(),
                                                        std::move(address)});
  } catch (const std::exception& failure) {
    log_warn("no dashboard: {}", failure.what());
    return nullptr;
  }
}

int run(RunFlags& flags, const CommonFlags& common, const OptionValues& given,
        const OptionValues& values) {
  choose_log_level(flags, common);
  check_keys(flags);
  flags.http.max_body_bytes = parse_size("--max-body", flags.max_body);
  allow_connections(flags.http.max_connections);
  flags.access.loopback =
      server::http::is_local_only(flags.http) && server::http::listens_on_network(flags.http);
  const auto access = server::Access::make(flags.access);
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
                  access, observer);
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
  log_start(observer, *service);  // before the first request can be logged
  app.open(*service);
  std::optional<server::observe::ThroughputReporter> reporter;
  reporter.emplace([&engine] { return engine->stats(); }, observer.log());
  state.set_serving();
  fmt::print(stderr, "ready {} model={} ranks={} concurrency={}\n", joined(http.urls()),
             flags.model_ids.empty() ? service->model_name() : flags.model_ids.front(),
             engine->model().ranks.size(), engine->memory_plan().max_concurrency);
  std::fflush(stderr);
  const auto dashboard = draws ? open_dashboard(app, flags, joined(http.urls())) : nullptr;
  notify_manager(fmt::format("READY=1\nSTATUS=serving at {}", joined(http.urls())));
  Reloader reloader({flags, given, values, access}, common, app, http);
  const bool by_request = state.wait([&reloader] { reloader.reload(); });
  reporter.reset();
  const bool complete = drain(app, *engine, http, flags.drain_timeout);
  if (observer.log()) observer.log()->write("server_stop", Json::object({{"complete", complete}}));
  log_info("stopped{}", complete ? "" : "; some requests were cut off");
  return complete && by_request ? 0 : 1;
}

}  // namespace

std::function<int()> declare_run(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<RunFlags>();
  add_run_flags(app, flags.get());
  app.footer(
      "Examples:\n"
      "  flare run\n"
      "  flare run model.ninfer --port 8080 --max-concurrency 4\n"
      "  flare run ./checkpoint --recipe q8 --model-id assistant\n"
      "The configuration's [serving] holds values for the flags of Serving and Security, "
      "[defaults] "
      "and\n[models.\"MODEL\"] for those of Model, with '_' for '-': max_pending = 8. Limits of "
      "memory\nmay stand in [serving] too.");
  return [flags, &common, &app] {
    const OptionValues given = option_values(app);
    const bool draws = given.contains("--dashboard") && !given.contains("--no-dashboard");
    apply_run_configuration(app, common, flags->model.model);
    flags->dashboard |= draws;
    check_run_flags(app, *flags);
    choose_listeners(*flags, app);
    return run(*flags, common, given, option_values(app));
  };
}

}  // namespace flare::app
