// Every family of metrics in one table, a row each, and their text (Prometheus format 0.0.4).
#include <algorithm>
#include <cmath>
#include <span>

#include "base/version.h"
#include "server/observe/metrics.h"

namespace flare::server::observe {
namespace {

using runtime::EngineStats;
using runtime::MemoryPlan;

enum class Kind { kCounter, kGauge, kHistogram };

std::string_view kind_text(Kind kind) {
  return kind == Kind::kCounter ? "counter" : kind == Kind::kGauge ? "gauge" : "histogram";
}

// Backslash and line feed, and in a label's value the quote.
std::string escaped(std::string_view text, bool in_label) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && in_label)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

// No exponent for whole numbers, which is what counters are; never NaN.
std::string number(double value) {
  if (!std::isfinite(value)) value = 0;
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

struct Label {
  std::string_view name, value;
};
using Labels = std::initializer_list<Label>;

// The samples of one family.
class Family {
 public:
  Family(std::string* out, std::string name, std::string_view model) : out_(*out), name_(name) {
    if (!model.empty()) common_ = label_text({"model_name", model});
  }
  template <typename T>
  void add(T value, Labels labels = {}) {
    line("", labels, "", number(static_cast<double>(value)));
  }
  // Integers beyond 2^53 keep every digit.
  void add(uint64_t value, Labels labels = {}) { line("", labels, "", fmt::format("{}", value)); }
  void add(const Histogram& h, Labels labels = {}) {
    uint64_t below = 0;
    for (size_t i = 0; i < h.bounds().size(); ++i) {
      below += h.count_in(i);
      line("_bucket", labels, label_text({"le", number(h.bounds()[i])}), fmt::format("{}", below));
    }
    line("_bucket", labels, label_text({"le", "+Inf"}), fmt::format("{}", h.count()));
    line("_sum", labels, "", number(h.sum()));
    line("_count", labels, "", fmt::format("{}", h.count()));
  }

 private:
  static std::string label_text(const Label& label) {
    return fmt::format("{}=\"{}\"", label.name, escaped(label.value, true));
  }
  void line(std::string_view suffix, Labels labels, std::string_view last, std::string_view value) {
    std::string inside = common_;
    const auto append = [&inside](std::string_view text) {
      if (!inside.empty() && !text.empty()) inside += ',';
      inside += text;
    };
    for (const Label& label : labels) append(label_text(label));
    append(last);
    out_ += name_;
    out_ += suffix;
    if (!inside.empty()) out_ += '{' + inside + '}';
    out_ += ' ';
    out_ += value;
    out_ += '\n';
  }

  std::string& out_;
  const std::string name_;
  std::string common_;
};

struct Row {
  std::string_view name;
  Kind kind;
  std::string_view help;
  void (*read)(const Scrape&, Family&);
};

// A value of the engine; nothing while there is none.
template <typename Read>
void of_engine(const Scrape& s, Family& f, Read read) {
  if (s.engine) f.add(read(*s.engine));
}

double kv_usage(const EngineStats& e) {
  return e.pages_total > 0 ? static_cast<double>(e.pages_active) / e.pages_total : 0;
}

void kv_pages(const Scrape& s, Family& f) {
  if (!s.engine) return;
  const EngineStats& e = *s.engine;
  f.add(e.pages_active, {{"state", "active"}});
  f.add(e.pages_cached, {{"state", "cached"}});
  f.add(e.pages_total - std::min(e.pages_total, e.pages_active + e.pages_cached),
        {{"state", "free"}});
}

void state_rows(const Scrape& s, Family& f) {
  if (!s.engine) return;
  const EngineStats& e = *s.engine;
  f.add(e.rows_active, {{"state", "active"}});
  f.add(e.prefixes.snapshots, {{"state", "snapshot"}});
  f.add(e.rows_total - std::min(e.rows_total, e.rows_active + e.prefixes.snapshots),
        {{"state", "free"}});
}

void step_seconds(const Scrape& s, Family& f) {
  if (!s.engine) return;
  constexpr std::string_view kinds[runtime::kStepKinds] = {"prefill", "decode", "mixed"};
  for (size_t i = 0; i < runtime::kStepKinds; ++i)
    f.add(s.engine->step_seconds[i], {{"kind", kinds[i]}});
}

void memory_bytes(const Scrape& s, Family& f) {
  if (!s.memory) return;
  const MemoryPlan& m = *s.memory;
  f.add(m.program, {{"use", "program"}});
  f.add(m.weights, {{"use", "weights"}});
  f.add(m.scratch, {{"use", "scratch"}});
  f.add(m.io, {{"use", "io"}});
  f.add(uint64_t{m.rows} * m.row_bytes, {{"use", "rows"}});
  f.add(uint64_t{m.snapshots} * m.row_bytes, {{"use", "snapshots"}});
  f.add(uint64_t{m.pages} * m.page_bytes, {{"use", "pages"}});
}

template <auto Member>
void drafts(const Scrape& s, Family& f) {
  if (!s.engine) return;
  constexpr std::string_view kinds[runtime::kDraftKinds] = {"learned", "history"};
  for (size_t i = 0; i < runtime::kDraftKinds; ++i)
    f.add(s.engine->drafts[i].*Member, {{"kind", kinds[i]}});
}

template <auto Member>
uint64_t drafts_together(const EngineStats& e) {
  uint64_t n = 0;
  for (const runtime::DraftStats& d : e.drafts) n += d.*Member;
  return n;
}

void requests(const Scrape& s, Family& f) {
  for (size_t api = 0; api < kApis; ++api)
    for (size_t outcome = 0; outcome < kOutcomes; ++outcome)
      f.add(s.counts.requests[api][outcome], {{"api", api_text(static_cast<Api>(api))},
                                              {"outcome", outcome_text(Outcome(outcome))}});
}

void responses(const Scrape& s, Family& f) {
  for (const auto& [key, n] : s.counts.responses)
    f.add(n, {{"route", key.first}, {"status", fmt::format("{}", key.second)}});
}

void misses(const Scrape& s, Family& f) {
  for (size_t i = 0; i < s.counts.misses.size(); ++i) {
    const auto miss = static_cast<runtime::PrefixMiss>(i);
    if (miss != runtime::PrefixMiss::kNone)
      f.add(s.counts.misses[i], {{"reason", runtime::prefix_miss_text(miss)}});
  }
}

void tool_calls(const Scrape& s, Family& f) {
  for (const auto& [key, n] : s.counts.tool_calls)
    f.add(n, {{"format", key.first}, {"result", key.second}});
}

using enum Kind;
using S = const Scrape&;
using F = Family&;
using E = const EngineStats&;

// serving.md S13.1, behind "flare_".
constexpr Row kRows[] = {
    {"requests_total", kCounter, "Requests that generate, by API and how they ended.", requests},
    {"requests_running", kGauge, "Sequences that have a place in the engine.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.running; }); }},
    {"requests_waiting", kGauge, "Sequences that wait for a place.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.waiting; }); }},
    {"requests_prefilling", kGauge, "Running sequences whose prompt is still being read.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.prefilling; }); }},
    {"http_responses_total", kCounter, "Responses, by route (as declared) and HTTP status.",
     responses},
    {"http_connections", kGauge, "Open HTTP connections.",
     [](S s, F f) { f.add(s.counts.http_connections); }},
    {"prompt_tokens_total", kCounter,
     "Prompt tokens of requests that ended, as their usage says; cached ones are among them.",
     [](S s, F f) { f.add(s.counts.prompt_tokens); }},
    {"cached_prompt_tokens_total", kCounter,
     "Prompt tokens of requests that ended which were not computed again.",
     [](S s, F f) { f.add(s.counts.cached_prompt_tokens); }},
    {"prefill_tokens_total", kCounter, "Prompt tokens computed, counted as it happens.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.prompt_tokens; }); }},
    {"generation_tokens_total", kCounter, "Tokens generated, counted as it happens.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.generated_tokens; }); }},
    {"reasoning_tokens_total", kCounter, "Generated tokens of requests that ended which reason.",
     [](S s, F f) { f.add(s.counts.reasoning_tokens); }},
    {"spec_rounds_total", kCounter, "Speculative rounds, by where the drafts come from.",
     drafts<&runtime::DraftStats::rounds>},
    {"draft_tokens_total", kCounter, "Tokens drafted.", drafts<&runtime::DraftStats::drafted>},
    {"accepted_tokens_total", kCounter, "Drafted tokens that were accepted.",
     drafts<&runtime::DraftStats::accepted>},
    {"accepted_at_position_total", kCounter, "Drafted tokens accepted, by position in the draft.",
     [](S s, F f) {
       if (!s.engine) return;
       for (size_t i = 0; i < s.engine->accepted_at_position.size(); ++i)
         f.add(s.engine->accepted_at_position[i], {{"position", fmt::format("{}", i)}});
     }},
    {"ttft_seconds", kHistogram, "From a request's arrival to its first token.",
     [](S s, F f) { f.add(s.counts.ttft); }},
    {"inter_token_seconds", kHistogram, "Between tokens of one answer.",
     [](S s, F f) { f.add(s.counts.inter_token); }},
    {"request_seconds", kHistogram, "From a request's arrival to its end.",
     [](S s, F f) { f.add(s.counts.request); }},
    {"queue_seconds", kHistogram, "From a request's submission to its place.",
     [](S s, F f) { f.add(s.counts.queue); }},
    {"prefill_seconds", kHistogram, "From a request's place to its first token.",
     [](S s, F f) { f.add(s.counts.prefill); }},
    {"decode_seconds", kHistogram, "From a request's first token to its last.",
     [](S s, F f) { f.add(s.counts.decode); }},
    {"step_seconds", kHistogram, "Steps of the engine, by what their rows were for.", step_seconds},
    {"prefix_queried_tokens_total", kCounter, "Prompt tokens looked up in the prefix cache.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.queried_prompt_tokens; }); }},
    {"prefix_hit_tokens_total", kCounter, "Of those, tokens that were not computed again.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.cached_prompt_tokens; }); }},
    {"prefix_miss_total", kCounter, "Requests whose prompt was not reused as a whole, by reason.",
     misses},
    {"kv_pages", kGauge, "Pages: of running sequences, of the prefix cache alone, free.", kv_pages},
    {"kv_usage_ratio", kGauge, "Share of the pages that running sequences hold, 0 to 1.",
     [](S s, F f) { of_engine(s, f, kv_usage); }},
    {"state_rows", kGauge, "Continuation rows: of running sequences, snapshots, free.", state_rows},
    {"snapshots", kGauge, "Snapshots that later requests can go on from, by tier.",
     [](S s, F f) {
       if (s.engine) f.add(s.engine->prefixes.snapshots, {{"tier", "memory"}});
       if (s.engine && s.engine->disk) f.add(s.engine->disk->rows, {{"tier", "disk"}});
     }},
    {"evictions_total", kCounter, "Pages and snapshots that made room for others, by tier.",
     [](S s, F f) {
       if (s.engine)
         f.add(s.engine->prefixes.evicted_pages + s.engine->prefixes.evicted_snapshots,
               {{"tier", "memory"}});
       if (s.engine && s.engine->disk) f.add(s.engine->disk->evicted, {{"tier", "disk"}});
     }},
    {"preemptions_total", kCounter, "Running sequences that gave their place back for a while.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.preemptions; }); }},
    {"constraint_compile_seconds", kHistogram,
     "Getting an answer's constraint: compiled, or found.",
     [](S s, F f) { f.add(s.counts.constraint_compile); }},
    {"constraint_dead_ends_total", kCounter, "Answers whose constraint left no token.",
     [](S s, F f) { f.add(s.counts.dead_ends); }},
    {"tool_calls_total", kCounter, "Tool calls, by format and whether they are complete.",
     tool_calls},
    {"images_total", kCounter, "Images in requests.", [](S s, F f) { f.add(s.counts.images); }},
    {"build_info", kGauge, "1; the labels say what runs.",
     [](S s, F f) { f.add(uint64_t{1}, {{"version", kVersion}, {"model", s.model}}); }},
    {"memory_bytes", kGauge, "Memory of the plan, by use.", memory_bytes},
};

// Behind "flare_process_", and behind "process_" as other exporters have them.
constexpr Row kProcessRows[] = {
    {"cpu_seconds_total", kCounter, "Processor time of this process.",
     [](S s, F f) { f.add(s.process.cpu_seconds); }},
    {"resident_memory_bytes", kGauge, "Resident memory of this process.",
     [](S s, F f) { f.add(s.process.resident_bytes); }},
    {"virtual_memory_bytes", kGauge, "Address space of this process.",
     [](S s, F f) { f.add(s.process.virtual_bytes); }},
    {"start_time_seconds", kGauge, "When this process started, in Unix time.",
     [](S s, F f) { f.add(s.process.start_unix_seconds); }},
    {"open_fds", kGauge, "Open file descriptors.", [](S s, F f) { f.add(s.process.open_fds); }},
    {"max_fds", kGauge, "Most file descriptors; 0: no limit.",
     [](S s, F f) { f.add(s.process.max_fds); }},
    {"threads", kGauge, "Threads of this process.", [](S s, F f) { f.add(s.process.threads); }},
};

// serving.md S13.2, behind "vllm:"; each sample has the label model_name.
constexpr Row kAliases[] = {
    {"num_requests_running", kGauge, "As flare_requests_running.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.running; }); }},
    {"num_requests_waiting", kGauge, "As flare_requests_waiting.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.waiting; }); }},
    {"kv_cache_usage_perc", kGauge, "As flare_kv_usage_ratio.",
     [](S s, F f) { of_engine(s, f, kv_usage); }},
    {"gpu_cache_usage_perc", kGauge, "As flare_kv_usage_ratio.",
     [](S s, F f) { of_engine(s, f, kv_usage); }},
    {"cache_config_info", kGauge, "1; the labels describe the pages.",
     [](S s, F f) {
       if (s.memory)
         f.add(uint64_t{1}, {{"block_size", fmt::format("{}", s.memory->page_tokens)},
                             {"num_gpu_blocks", fmt::format("{}", s.memory->pages)}});
     }},
    {"prompt_tokens_total", kCounter, "As flare_prompt_tokens_total.",
     [](S s, F f) { f.add(s.counts.prompt_tokens); }},
    {"generation_tokens_total", kCounter, "As flare_generation_tokens_total.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.generated_tokens; }); }},
    {"prefix_cache_queries_total", kCounter, "As flare_prefix_queried_tokens_total.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.queried_prompt_tokens; }); }},
    {"prefix_cache_hits_total", kCounter, "As flare_prefix_hit_tokens_total.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.cached_prompt_tokens; }); }},
    {"num_preemptions_total", kCounter, "As flare_preemptions_total.",
     [](S s, F f) { of_engine(s, f, [](E e) { return e.preemptions; }); }},
    {"request_success_total", kCounter, "Requests that were answered, by finish reason.",
     [](S s, F f) {
       for (const auto& [finish, n] : s.counts.finishes) f.add(n, {{"finished_reason", finish}});
     }},
    {"time_to_first_token_seconds", kHistogram, "As flare_ttft_seconds.",
     [](S s, F f) { f.add(s.counts.ttft); }},
    {"inter_token_latency_seconds", kHistogram, "As flare_inter_token_seconds.",
     [](S s, F f) { f.add(s.counts.inter_token); }},
    {"e2e_request_latency_seconds", kHistogram, "As flare_request_seconds.",
     [](S s, F f) { f.add(s.counts.request); }},
    {"request_queue_time_seconds", kHistogram, "As flare_queue_seconds.",
     [](S s, F f) { f.add(s.counts.queue); }},
    {"spec_decode_num_draft_tokens_total", kCounter, "As flare_draft_tokens_total of all kinds.",
     [](S s, F f) { of_engine(s, f, drafts_together<&runtime::DraftStats::drafted>); }},
    {"spec_decode_num_accepted_tokens_total", kCounter,
     "As flare_accepted_tokens_total of all kinds.",
     [](S s, F f) { of_engine(s, f, drafts_together<&runtime::DraftStats::accepted>); }},
};

void write_rows(std::span<const Row> rows, std::string_view prefix, std::string_view model,
                const Scrape& scrape, std::string* out) {
  for (const Row& row : rows) {
    const std::string name = fmt::format("{}{}", prefix, row.name);
    *out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(row.help, false), name,
                        kind_text(row.kind));
    Family family(out, name, model);
    row.read(scrape, family);
  }
}

}  // namespace

std::string exposition(const Scrape& scrape) {
  std::string out;
  write_rows(kRows, "flare_", {}, scrape, &out);
  write_rows(kProcessRows, "flare_process_", {}, scrape, &out);
  if (!scrape.aliases) return out;
  write_rows(kProcessRows, "process_", {}, scrape, &out);
  if (!scrape.model.empty()) write_rows(kAliases, "vllm:", scrape.model, scrape, &out);
  return out;
}

}  // namespace flare::server::observe
