// `flare bench MODEL|--url URL`: a load on a server, ours or another's, and what it showed.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/version.h"
#include "flare/commands.h"
#include "flare/model_loading.h"
#include "flare/stop_signals.h"
#include "machine/peaks.h"
#include "server/app.h"
#include "server/load/report.h"

namespace flare::app {
namespace {

using namespace server::load;

constexpr uint32_t kAgentTurns = 6;
constexpr double kOpenSeconds = 10;  // of arrivals in an open loop, unless --requests says how many

struct BenchFlags {
  ModelFlags model;
  std::string url, api_key_file, ca_file, model_id, output;
  std::string prompt_tokens = "512,4096", concurrency = "1,4";
  std::string scenario = "uniform", endpoint = "chat";
  uint32_t output_tokens = 128, repetitions = 3;
  uint32_t requests = 0;  // 0: as many as are at once, or 10 s of arrivals
  uint32_t turns = 0;     // 0: the scenario's
  double rate = 0;        // 0: closed loop
  int timeout_s = 300;
  uint64_t seed = 1;
};

// `flare run` in this process, on a free port.
class LocalServer {
 public:
  LocalServer(const ModelFlags& flags, bool show_plan)
      : engine_(load_model(flags, {.max_pending = 1000000, .pending_timeout_s = 0}, show_plan)),
        service_(*engine_),
        app_({}, server::Access::make({}), observer_),
        http_(
            {.port = 0},
            [this](server::http::Request request,
                   std::shared_ptr<server::http::Exchange> exchange) {
              app_.handle(std::move(request), std::move(exchange));
            },
            app_.hooks()) {
    app_.open(service_);
  }
  ~LocalServer() { engine_->stop(); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", http_.port()); }
  const runtime::Engine& engine() const { return *engine_; }

 private:
  std::unique_ptr<runtime::Engine> engine_;
  server::Service service_;
  server::observe::Observer observer_{nullptr};
  server::App app_;
  server::http::Server http_;  // last: requests end before what they use does
};

Scenario scenario_of(const std::string& name) {
  for (const Scenario s : {Scenario::kUniform, Scenario::kSharedPrefix, Scenario::kAgent})
    if (name == scenario_name(s)) return s;
  throw Error(Code::kUsage, "--scenario is {}, expected uniform, shared-prefix or agent",
              quote(name));
}

void check_flags(const BenchFlags& flags, bool concurrency_given) {
  if (flags.url.empty()) {
    for (const auto& [name, value] :
         {std::pair("--api-key-file", &flags.api_key_file),
          std::pair("--model-id", &flags.model_id), std::pair("--ca-file", &flags.ca_file)})
      if (!value->empty()) throw Error(Code::kUsage, "{} belongs to --url, which is missing", name);
  } else if (!flags.model.model.empty()) {
    throw Error(Code::kUsage, "a model and --url given, one of them expected");
  }
  if (flags.rate > 0 && concurrency_given)
    throw Error(Code::kUsage, "--rate and --concurrency given, one of them expected");
  if (flags.endpoint != "chat" && flags.endpoint != "completions")
    throw Error(Code::kUsage, "--endpoint is {}, expected chat or completions",
                quote(flags.endpoint));
  if (flags.turns > 1 && flags.scenario != "agent")
    throw Error(Code::kUsage, "--turns belongs to --scenario agent");
  if (flags.scenario == "agent" && flags.endpoint != "chat")
    throw Error(Code::kUsage, "--scenario agent needs --endpoint chat");
}

std::vector<Point> points_of(const BenchFlags& flags) {
  constexpr uint32_t kMostTokens = 100000000, kMostAtOnce = 4096;
  std::vector<Point> points;
  const auto loads = flags.rate > 0
                         ? std::vector<uint32_t>{1}
                         : parse_numbers("--concurrency", flags.concurrency, kMostAtOnce);
  for (const uint32_t prompt : parse_numbers("--prompt-tokens", flags.prompt_tokens, kMostTokens))
    for (const uint32_t concurrency : loads) {
      Point point;
      point.scenario = scenario_of(flags.scenario);
      point.prompt_tokens = prompt;
      point.output_tokens = flags.output_tokens;
      point.concurrency = concurrency;
      point.rate = flags.rate;
      point.turns = point.scenario != Scenario::kAgent ? 1
                    : flags.turns > 0                  ? flags.turns
                                                       : kAgentTurns;
      const double arrivals = std::max(1.0, std::round(flags.rate * kOpenSeconds));
      point.sessions = flags.requests > 0 ? flags.requests
                       : flags.rate > 0   ? static_cast<uint32_t>(arrivals)
                                          : concurrency;
      point.repetitions = flags.repetitions;
      point.seed = flags.seed * 7919 + points.size();
      points.push_back(point);
    }
  return points;
}

// The first key of a server's key file: a key and perhaps a label in a line, # for comments.
std::string first_key(const std::string& path) {
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::string word;
    std::istringstream(line) >> word;
    if (!word.empty() && word[0] != '#') return word;
  }
  throw Error(Code::kInvalid, "{}: holds no key", path);
}

Target target_of(const BenchFlags& flags) {
  Target target;
  target.model = flags.model_id;
  target.chat = flags.endpoint == "chat";
  target.timeout_s = flags.timeout_s;
  if (flags.api_key_file.empty()) return target;
  target.headers.emplace_back("Authorization", "Bearer " + first_key(flags.api_key_file));
  return target;
}

// What reading every weight once for each token of one answer comes to, and what this machine can.
Json bandwidth_json(const runtime::Engine& engine, const ModelFlags& model,
                    const std::vector<PointResult>& results, std::string* text) {
  uint64_t weights = 0;
  for (const package::Rank& rank : engine.model().ranks) weights += rank.weight_bytes;
  Team team(thread_count(model.threads));
  const bench::HugeMemory memory(bench::read_memory_bytes());
  const double peak = bench::read_bandwidth(team, memory.bytes());
  double best = 0;
  for (const PointResult& result : results) best = std::max(best, summary_of(result).decode_per_s);
  const double used = best * static_cast<double>(weights);
  *text = fmt::format(
      "weights {:.1f} MB; the fastest answer reads {:.2f} GB/s of them, {:.0f} % of the {:.1f} "
      "GB/s "
      "that this machine reads from memory\n",
      static_cast<double>(weights) / 1e6, used / 1e9, peak > 0 ? used / peak * 100 : 0, peak / 1e9);
  return Json::object({{"weight_bytes", weights},
                       {"read_bytes_per_s", std::round(used)},
                       {"peak_bytes_per_s", std::round(peak)},
                       {"share", std::round(used / peak * 10000) / 10000}});
}

// Measures point after point, each told as it is done; a stop signal ends the list.
std::vector<PointResult> measure(const BenchFlags& flags, const CommonFlags& common, Runner& runner,
                                 const Target& target, std::vector<Point> points) {
  const bool told = !common.json && !common.quiet;
  std::vector<PointResult> results;
  const auto fits = [&](const Point& point) {
    return target.max_context == 0 || point.longest() <= target.max_context;
  };
  for (const Point& point : points)
    if (!fits(point) && !common.quiet)
      fmt::print(stderr, "left out: {} prompt tokens need a context of {}, the model has {}\n",
                 point.prompt_tokens, point.longest(), target.max_context);
  std::erase_if(points, [&](const Point& point) { return !fits(point); });
  if (points.empty())
    throw Error(Code::kUsage, "no prompt length fits the model's context of {} tokens",
                target.max_context)
        .set_hint("choose --prompt-tokens and --output-tokens");
  uint64_t total = 0;
  for (const Point& point : points)
    total += uint64_t{point.sessions} * point.turns * point.repetitions;
  // On a terminal the growing table shows how far it is.
  Progress progress("bench", total, "requests",
                    told && ::isatty(STDOUT_FILENO) == 1 ? ProgressMode::kNone : common.progress);
  if (told)
    fmt::print("{}, {} output tokens, {} repetitions\n{}", flags.scenario, flags.output_tokens,
               flags.repetitions, table_head());
  for (const Point& point : points) {
    PointResult result =
        runner.run(target, point, [&progress](const Record&) { progress.advance(1); });
    const bool stop = result.interrupted;
    if (!result.records.empty()) {
      if (told) fmt::print("{}", table_row(result));
      if (told) std::fflush(stdout);
      results.push_back(std::move(result));
    }
    if (stop) break;
  }
  progress.finish();
  return results;
}

Json report_json(const BenchFlags& flags, const Target& target,
                 const std::vector<PointResult>& results, bool records) {
  Json points = Json::array();
  for (const PointResult& result : results) points.push_back(point_json(result, records));
  return Json::object({{"tool", fmt::format("flare bench {}", kVersion)},
                       {"url", flags.url.empty() ? Json() : Json(flags.url)},
                       {"model", target.model},
                       {"endpoint", flags.endpoint},
                       {"ignore_eos", target.ignore_eos},
                       {"tokens_per_word", target.scale.per_word},
                       {"seed", flags.seed},
                       {"points", std::move(points)}});
}

// 0 where something was measured and nobody stopped it.
int exit_code_of(const std::vector<PointResult>& results, int signal) {
  if (signal != 0) return 128 + signal;
  const bool any = std::ranges::any_of(
      results, [](const PointResult& result) { return summary_of(result).complete > 0; });
  return any ? 0 : exit_code(Code::kNetwork);
}

int run(BenchFlags& flags, const CommonFlags& common, bool concurrency_given) {
  check_flags(flags, concurrency_given);
  const std::vector<Point> points = points_of(flags);
  std::optional<server::http::Url> url;
  if (!flags.url.empty()) url = server::http::parse_url(flags.url);
  Target target = target_of(flags);

  std::atomic<server::http::Client*> stoppable{nullptr};
  std::atomic<int> signalled{0};
  std::atomic<bool> measured{false};
  const StopSignals signals([&](int signal) {
    signalled = signal;
    if (server::http::Client* client = stoppable) return client->stop();
    if (!measured) ::_exit(128 + signal);
  });
  std::optional<LocalServer> local;
  if (!url) {
    for (const Point& point : points)
      flags.model.max_concurrency = std::max(flags.model.max_concurrency, point.concurrency);
    if (flags.rate > 0) flags.model.max_concurrency = 0;
    local.emplace(flags.model, !common.quiet && !common.json);
    url = server::http::parse_url(local->url());
  }
  server::http::Client client(*url, flags.ca_file);
  stoppable = &client;
  Runner runner(client);
  runner.discover(&target);
  const auto results = measure(flags, common, runner, target, points);
  measured = true;
  stoppable = nullptr;

  std::string text;
  for (const PointResult& result : results)
    if (const std::string failures = failures_text(summary_of(result)); !failures.empty())
      text += fmt::format("{} prompt tokens: {}\n", result.point.prompt_tokens, failures);
  if (signalled != 0) text += "stopped: this is what was measured until then\n";
  Json json = report_json(flags, target, results, false);
  Json bandwidth;
  std::string line;
  if (local && signalled == 0)
    bandwidth = bandwidth_json(local->engine(), flags.model, results, &line);
  json.set("memory", bandwidth);
  if (!flags.output.empty()) {
    Json whole = report_json(flags, target, results, true);
    whole.set("memory", bandwidth);
    write_text_file(flags.output, whole.to_pretty_text() + "\n", true);
  }
  print_result(common, json, text + line);
  return exit_code_of(results, signalled);
}

void declare_load(CLI::App& app, BenchFlags* flags) {
  const auto add = [&](const char* name, auto& value, const char* text, const char* type) {
    return app.add_option(name, value, text)->type_name(type)->group("Load");
  };
  add("--scenario", flags->scenario, "uniform, shared-prefix or agent (uniform)", "NAME");
  add("--prompt-tokens", flags->prompt_tokens, "lengths of prompts (512,4096)", "LIST");
  add("--output-tokens", flags->output_tokens, "length of an answer (128)", "N")
      ->check(CLI::Range(1, 1000000).description(""));
  add("--concurrency", flags->concurrency, "closed loop: sessions at once (1,4)", "LIST");
  add("--rate", flags->rate, "open loop: sessions that begin in a second, at random", "N")
      ->check(check_finite)
      ->check(CLI::Range(0.001, 100000.0).description(""));
  add("--requests", flags->requests,
      "sessions of a repetition (as many as are at once; 10 s of arrivals)", "N")
      ->check(CLI::Range(1, 10000000).description(""));
  add("--turns", flags->turns, "questions of a session of --scenario agent (6)", "N")
      ->check(CLI::Range(1, 10000).description(""));
  add("--repetitions", flags->repetitions, "of every row (3)", "N")
      ->check(CLI::Range(1, 10000).description(""));
  add("--timeout", flags->timeout_s, "for one request (300)", "SECONDS")
      ->check(CLI::Range(1, 86400).description(""));
  add("--seed", flags->seed, "of texts and arrivals (1)", "N")->check(check_integer<uint64_t>);
  add("--output", flags->output, "JSON file to write, every request in it", "FILE");
}

}  // namespace

std::function<int()> declare_bench(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<BenchFlags>();
  add_model_flags(app, &flags->model);
  const auto add = [&](const char* name, std::string& value, const char* text, const char* type) {
    return app.add_option(name, value, text)->type_name(type)->group("Server");
  };
  add("--url", flags->url, "a server that speaks OpenAI's API, instead of MODEL", "URL");
  add("--model-id", flags->model_id, "its model (the first that it lists)", "NAME");
  add("--api-key-file", flags->api_key_file, "file whose first word is the key", "PATH");
  add("--ca-file", flags->ca_file, "PEM certificates that https:// trusts (the system's)", "PATH");
  add("--endpoint", flags->endpoint, "chat or completions (chat)", "NAME");
  declare_load(app, flags.get());
  app.footer(
      "Examples:\n"
      "  flare bench models/nano --prompt-tokens 512 --concurrency 1,4,8\n"
      "  flare bench --url http://127.0.0.1:8000 --scenario agent --output agent.json\n"
      "  flare bench --url http://127.0.0.1:8000 --rate 2 --prompt-tokens 1024");
  return [flags, &common, &app] {
    return run(*flags, common, app.get_option("--concurrency")->count() > 0);
  };
}

}  // namespace flare::app
