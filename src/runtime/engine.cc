// The step loop and the commit order: gate preview → model commit → budget → gate commit → event.
#include "runtime/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "kernel/gated_delta.h"
#include "runtime/cache/disk_identity.h"
#include "runtime/sampler/sampler.h"

namespace flare::runtime {
namespace {
// What a step may hold must cover what the engine will put into it, or it would hang or overrun.
void check_capacity(const package::PreparedModel& model) {
  const package::Capacity& c = model.capacity;
  if (c.max_concurrency == 0 || c.prefill_chunk == 0 || c.max_context < 2 ||
      c.max_rows <= c.max_concurrency)
    throw Error(Code::kInvalid,
                "{}: capacity of {} requests, {} prompt rows, {} rows a step, {} tokens of context "
                "cannot serve; at least 1, 1, one more than requests, and 2 expected",
                model.name, c.max_concurrency, c.prefill_chunk, c.max_rows, c.max_context);
  graph::PlanCapacity most;
  for (const package::CatalogEntry& e : model.ranks.at(0).catalog)
    if (e.graph_class != "sample") most = e.plan.capacity;
  if (std::cmp_less(most.rows, c.max_rows) || std::cmp_less(most.sequences, c.max_concurrency) ||
      std::cmp_less(most.logits, c.max_concurrency))
    throw Error(Code::kInvalid,
                "{}: the largest plan takes {} rows, {} sequences and {} logits rows; {}, {} and "
                "{} expected",
                model.name, most.rows, most.sequences, most.logits, c.max_rows, c.max_concurrency,
                c.max_concurrency);
}

uint32_t most_logits(const package::PreparedModel& model) {
  int32_t most = 0;
  for (const package::CatalogEntry& e : model.ranks.at(0).catalog)
    if (e.graph_class != "sample") most = std::max(most, e.plan.capacity.logits);
  return static_cast<uint32_t>(most);
}
}  // namespace

Engine::Engine(package::PreparedModel model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      runner_(model_, {options.cpu, options.memory, /*all_logits=*/false, options.plan}),
      pace_(options.prefill_slowdown) {
  check_capacity(model_);
  const uint32_t chunk = model_.capacity.prefill_chunk;
  prefill_chunk_ = options.prefill_chunk == 0 ? chunk : std::min(options.prefill_chunk, chunk);
  prompt_logits_ = most_logits(model_) - model_.capacity.max_concurrency;
  if (options.deterministic && has_recurrent_state(model_.ranks.at(0))) {
    piece_ = kernel::kDeltaPiece;
    if (prefill_chunk_ < piece_)
      throw Error(Code::kInvalid, "{}: {} prompt rows a step, a deterministic engine needs {}",
                  model_.name, prefill_chunk_, piece_);
    prompt_logits_ = prompt_logits_ / piece_ * piece_;
  }
  if (options.prefix_reuse)
    prefixes_.emplace(runner_.rank(), runner_.pages(), runner_.rows(),
                      runner_.memory_plan().snapshots, open_disk());
  stats_.pages_total = runner_.pages().capacity();
  stats_.rows_total = runner_.rows().capacity();
  thread_ = std::thread([this] { loop(); });
}

// Null without one. Its thread wakes the engine, which may be asleep while a request waits for it.
std::unique_ptr<DiskTier> Engine::open_disk() {
  if (!options_.disk) return nullptr;
  const Clock::time_point begin = Clock::now();
  const package::Rank& rank = runner_.rank();
  // Where prompts are cut, entries of engines that cut elsewhere are foreign.
  const std::string backend = fmt::format("{}, pieces of {}", runner_.backend().name(), piece_);
  const DiskTierShape shape{model_identity(model_, backend, runner_.backend().n_members()),
                            rank.page.bytes, rank.row.bytes, rank.page.tokens,
                            has_recurrent_state(rank)};
  const std::chrono::duration<double> hashing = Clock::now() - begin;
  auto tier = std::make_unique<DiskTier>(*options_.disk, shape, [wake = wake_] {
    const std::lock_guard lock(wake->mutex);
    wake->nudged = true;
    wake->changed.notify_one();
  });
  const DiskTier::Stats found = tier->stats();
  log_info("--cache-dir {}: {} pages and {} rows in {} of {}; weights hashed in {:.2f} s",
           options_.disk->folder.string(), found.pages, found.rows, human_bytes(found.bytes),
           human_bytes(found.limit_bytes), hashing.count());
  return tier;
}

Engine::~Engine() { stop(); }

void Ticket::cancel() const {
  if (!cancelled_) return;
  cancelled_->store(true, std::memory_order_relaxed);
  const std::lock_guard lock(wake_->mutex);
  wake_->nudged = true;
  wake_->changed.notify_one();
}

void Engine::stop() {
  {
    const std::lock_guard lock(wake_->mutex);
    stopping_ = quitting_ = true;
  }
  wake_->changed.notify_one();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

Admission Engine::submit(Request request, Ticket* ticket) {
  const uint64_t n_prompt = request.prompt.size();
  if (n_prompt == 0) throw Error(Code::kInvalid, "prompt: empty, at least one token expected");
  if (n_prompt + (request.max_tokens > 0 ? 1 : 0) > max_context())
    throw Error(Code::kInvalid, "prompt: {} tokens and room for an answer exceed the context of {}",
                n_prompt, max_context());
  for (int32_t id : request.prompt)
    if (id < 0 || static_cast<uint32_t>(id) >= model_.vocab_size)
      throw Error(Code::kInvalid, "prompt: token id {} is outside 0..{}", id,
                  model_.vocab_size - 1);

  if (request.sampling.prompt_logprobs >= 0 && !has_prompt_logprobs())
    throw Error(Code::kInvalid, "{}: was not prepared for log-probabilities of prompts",
                model_.name);

  auto a = std::make_unique<Active>();
  a->request = std::move(request);
  a->cancelled = std::make_shared<std::atomic<bool>>(false);
  a->n_prompt = static_cast<uint32_t>(n_prompt);
  a->max_tokens =
      static_cast<uint32_t>(std::min<uint64_t>(a->request.max_tokens, max_context() - n_prompt));
  a->tokens = std::move(a->request.prompt);
  a->sampler.emplace(a->request.sampling,
                     a->request.ignore_stop_ids ? std::vector<int32_t>{} : a->request.stop_ids,
                     model_.vocab_size);
  const MemoryPlan& memory = runner_.memory_plan();
  if (memory.page_bytes > 0) a->reserved_pages = (a->n_prompt + a->max_tokens) / memory.page_tokens;
  if (a->reserved_pages > memory.pages)  // it would wait for ever
    throw Error(Code::kInvalid, "prompt: {} tokens and an answer of {} need {} pages, there are {}",
                n_prompt, a->max_tokens, a->reserved_pages, memory.pages);
  a->submitted = Clock::now();
  if (ticket) {
    ticket->cancelled_ = a->cancelled;
    ticket->wake_ = wake_;
  }
  {
    const std::lock_guard lock(wake_->mutex);
    if (stats_.failed) return Admission::kFailed;
    if (stopping_) return Admission::kStopping;
    if (queue_full()) return Admission::kQueueFull;
    ++stats_.waiting;
    ++unfinished_;
    a->arrival = arrivals_++;
    inbox_.push_back(std::move(a));
  }
  wake_->changed.notify_one();
  return Admission::kAccepted;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(wake_->mutex);
  EngineStats stats = stats_;
  stats.queue_full = queue_full();
  if (prefixes_) stats.disk = prefixes_->disk_stats();
  return stats;
}

std::vector<RunningRow> Engine::running_rows() const {
  const std::lock_guard lock(wake_->mutex);
  return running_rows_;
}

// Under the mutex, on the engine thread: what the gauges show until the next step boundary.
void Engine::publish() {
  const BlockPool& pages = runner_.pages();
  stats_.pages_used = pages_used();
  if (prefixes_) stats_.prefixes = prefixes_->tree().stats();
  // Every block of the tree that a sequence holds too has a second reference.
  const uint32_t idle =
      prefixes_ ? stats_.prefixes.pages - std::min(stats_.prefixes.pages, pages.shared()) : 0;
  stats_.pages_cached = idle;
  stats_.pages_active = pages.used() - std::min(idle, pages.used());
  stats_.rows_active = stats_.prefilling = 0;
  running_rows_.clear();
  for (const auto& a : active_) {
    if (!a || !a->memory) continue;
    const uint32_t read = std::min(a->memory->computed(), a->n_prompt);
    ++stats_.rows_active;
    stats_.prefilling += a->n_generated() == 0 ? 1 : 0;
    running_rows_.push_back({a->arrival + 1, a->n_prompt, a->hit.tokens, read, a->n_generated(),
                             a->max_tokens, a->submitted});
  }
}

// Under the mutex. Counts places, not what waits alone: requests on their way from the inbox to
// their row, or held back by pages, must not open the queue.
bool Engine::queue_full() const {
  return uint64_t{stats_.waiting} + stats_.running >=
         uint64_t{options_.max_pending} + runner_.memory_plan().max_concurrency;
}

uint32_t Engine::pages_used() const {
  uint32_t n = 0;
  for (const auto& a : active_)
    if (a && a->memory) n += a->memory->n_pages();
  return n;
}

bool Engine::drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(wake_->mutex);
  stopping_ = true;
  return idle_.wait_until(lock, deadline, [this] { return unfinished_ == 0; });
}

void Engine::loop() {
  runner_.backend().pin_members();
  while (collect()) {
    try {
      drop_ended();
      admit();
      if (!active_.empty()) run_step();
    } catch (const std::exception& e) {
      fail_all(e.what());
    }
  }
  for (auto& a : active_) finish(*a, FinishReason::kCancelled);
  active_.clear();
  end_waiting(FinishReason::kCancelled);
  if (prefixes_) prefixes_->close();
}

// How soon a request that waits for the disk notices its deadline.
constexpr std::chrono::milliseconds kDeadlineCheck{100};

// Waits for something to do and takes new requests in. False: leave.
bool Engine::collect() {
  std::unique_lock lock(wake_->mutex);
  publish();
  const auto called = [this] { return quitting_ || wake_->nudged || !inbox_.empty(); };
  if (active_.empty() && waiting_.empty())
    wake_->changed.wait(lock, called);
  else if (active_.empty() && prefixes_ && prefixes_->loading())  // its end nudges
    wake_->changed.wait_for(lock, kDeadlineCheck, called);
  wake_->nudged = false;
  for (auto& a : inbox_) waiting_.push(std::move(a));
  inbox_.clear();
  return !quitting_;
}

// Why a request is over before its time, if it is.
std::optional<FinishReason> Engine::ended(const Active& a, Clock::time_point now) const {
  if (a.cancelled->load(std::memory_order_relaxed)) return FinishReason::kCancelled;
  if (a.request.deadline && now >= *a.request.deadline) return FinishReason::kDeadline;
  if (!a.was_admitted() && options_.pending_timeout.count() > 0 &&
      now - a.submitted >= options_.pending_timeout)
    return FinishReason::kQueueTimeout;
  return std::nullopt;
}

void Engine::drop_ended() {
  const Clock::time_point now = Clock::now();
  const auto gone = [&](Active& a) {
    const auto reason = ended(a, now);
    if (reason) finish(a, *reason);
    return reason.has_value();
  };
  waiting_.erase_if(gone);
  std::erase_if(active_, [&gone](const auto& a) { return gone(*a); });
}

void Engine::end_waiting(FinishReason reason, const std::string& error) {
  waiting_.erase_if([&](Active& a) {
    finish(a, reason, -1, error);
    return true;
  });
}

// A request starts when a row is free and its worst case of pages is.
void Engine::admit() {
  if (prefixes_) prefixes_->poll();
  while (!waiting_.empty() && active_.size() < runner_.memory_plan().max_concurrency) {
    Active& next = *waiting_.front();
    const uint32_t loading = prefixes_ ? prefixes_->loading_pages() : 0;
    if (reserved_pages_ + loading + next.reserved_pages > runner_.pages().capacity()) return;
    if (prefixes_ && !next.wants_prompt_logprobs() &&
        !prefixes_->ready(next.tokens, next.request.cache_salt, &next.disk_wait))
      return;
    admit(waiting_.pop());
  }
}

void Engine::admit(std::unique_ptr<Active> taken) {
  Active& a = *taken;
  a.memory.emplace(runner_.new_sequence());
  reserved_pages_ += a.reserved_pages;
  a.admitted = Clock::now();
  reuse_prefix(a);
  active_.push_back(std::move(taken));
  {
    const std::lock_guard lock(wake_->mutex);
    --stats_.waiting;
    ++stats_.running;
    stats_.cached_prompt_tokens += a.hit.tokens;
    if (prefixes_) stats_.queried_prompt_tokens += a.n_prompt;
    publish();
  }
  guarded(a, [&a] {
    Event event;
    event.admitted = true;
    event.usage = a.usage();
    event.timings = a.timings(a.admitted);
    if (a.request.on_event) a.request.on_event(event);
  });
  if (a.finished) active_.pop_back();
}

// A frontier inside a prompt ends a step early: that costs about what a step of one row does, which
// is what a handful of prompt rows cost. Nearer ones are left out.
constexpr uint32_t kLeastFrontierStep = 8;

void Engine::reuse_prefix(Active& a) {
  if (!prefixes_) return;
  if (!a.wants_prompt_logprobs())
    a.hit = prefixes_->tree().restore(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
  std::vector<uint32_t> wanted = a.request.frontiers;
  // Who repeats a prompt computes its last token again.
  if (wanted.empty()) wanted = {a.n_prompt - 1};
  if (prefixes_->tree().needs_snapshots() && options_.snapshot_interval > 0)
    for (uint64_t at = options_.snapshot_interval; at < a.n_prompt;
         at += options_.snapshot_interval)
      wanted.push_back(static_cast<uint32_t>(at));
  std::ranges::sort(wanted);
  uint32_t last = a.hit.tokens;
  for (uint32_t at : wanted) {
    at = at / piece_ * piece_;
    if (at >= a.n_prompt || at < last + kLeastFrontierStep) continue;
    a.frontiers.push_back(at);
    last = at;
  }
  std::ranges::reverse(a.frontiers);
}

// After a step: what became full or reached a frontier is there for others.
void Engine::keep_prefix(Active& a) {
  if (!prefixes_ || a.finished) return;
  const uint32_t computed = a.memory->computed();
  // Rows of an answer came one by one; whoever reads them as a prompt computes other bits.
  if (is_cut() && computed > a.n_prompt) return;
  const uint32_t interval = prefixes_->tree().needs_snapshots() ? options_.snapshot_interval : 0;
  const bool reached = !a.frontiers.empty() && a.frontiers.back() == computed;
  if (reached) a.frontiers.pop_back();
  if (reached || (computed > a.n_prompt && interval > 0 && computed % interval == 0)) {
    prefixes_->tree().snapshot(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
  } else if (computed / runner_.memory_plan().page_tokens > a.published_pages) {
    prefixes_->tree().publish(a.tokens, a.request.cache_salt, *a.memory);
  }
  a.published_pages = computed / runner_.memory_plan().page_tokens;
}

// However short the answer: no step ends early for it. A prefix that cannot be kept is no failure
// of the request.
void Engine::keep_answer(Active& a) {
  if (!prefixes_) return;
  try {
    if (!is_cut())
      prefixes_->tree().snapshot(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
    prefixes_->keep_on_disk(std::span(a.tokens).first(a.memory->computed()), a.request.cache_salt);
  } catch (const std::exception& e) {
    log_error("an answer's prefix was not kept: {}", e.what());
  }
}

// What the constraint leaves; empty: everything.
std::span<uint32_t> Engine::mask_of(Active& a) {
  if (!a.request.constraint) return {};
  a.mask.assign((model_.vocab_size + 31) / 32, 0);
  return a.request.constraint->fill_mask(a.mask) ? std::span(a.mask) : std::span<uint32_t>();
}

// A row of logits in a step, and what it is for.
struct Engine::LogitsRow {
  Active* a;
  uint32_t next;  // place in a->tokens of the token behind the row
  bool draws;     // it; else it is known, and its log-probability wanted
};

// For each active request.
std::vector<uint32_t> Engine::rows_of_step() const {
  std::vector<uint32_t> remaining;
  for (const auto& a : active_) remaining.push_back(a->remaining());
  const auto decoding = static_cast<uint32_t>(std::ranges::count(remaining, 1u));
  const uint32_t chunk = std::max(piece_, pace_.rows(decoding, prefill_chunk_));
  std::vector<uint32_t> rows = schedule_rows(remaining, {model_.capacity.max_rows, chunk, piece_});
  uint32_t logits = prompt_logits_;
  for (size_t i = 0; i < active_.size(); ++i) {
    const Active& a = *active_[i];
    const uint32_t computed = a.memory->computed();
    if (!a.frontiers.empty()) rows[i] = std::min(rows[i], a.frontiers.back() - computed);
    if (!a.wants_prompt_logprobs() || computed >= a.n_prompt) continue;
    if (rows[i] > logits) rows[i] = logits / piece_ * piece_;
    logits -= rows[i];
  }
  return rows;
}

void Engine::run_step() {
  const std::vector<uint32_t> rows = rows_of_step();
  uint32_t pages = 0;
  for (size_t i = 0; i < active_.size(); ++i) pages += active_[i]->memory->pages_to_fill(rows[i]);
  if (prefixes_) prefixes_->make_room(pages);
  std::vector<StepEntry> entries;
  std::vector<LogitsRow> logits;
  uint32_t prompt_rows = 0, decode_rows = 0;
  for (size_t i = 0; i < active_.size(); ++i) {
    if (rows[i] == 0) continue;
    Active& a = *active_[i];
    const uint32_t computed = a.memory->computed(), end = computed + rows[i];
    const bool draws = end == a.tokens.size() && a.max_tokens > 0;
    const bool every = computed < a.n_prompt && a.wants_prompt_logprobs();
    entries.push_back(
        {&*a.memory, std::span(a.tokens).subspan(computed, rows[i]), draws || every, every});
    for (uint32_t next = computed + 1; every && next < end; ++next)
      logits.push_back({&a, next, false});
    if (draws || every) logits.push_back({&a, end, draws});
    (computed < a.n_prompt ? prompt_rows : decode_rows) += rows[i];
  }
  const Clock::time_point begin = Clock::now();
  runner_.step(entries);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  pace_.record(decode_rows, prompt_rows, seconds);
  for (const auto& a : active_) keep_prefix(*a);

  const std::span<const int32_t> ids = draw(logits);
  uint64_t drawn = 0;
  for (size_t k = 0; k < logits.size(); ++k) drawn += logits[k].draws && ids[k] >= 0;
  {
    const std::lock_guard lock(wake_->mutex);
    ++stats_.steps;
    const StepKind kind = prompt_rows == 0   ? StepKind::kDecode
                          : decode_rows == 0 ? StepKind::kPrefill
                                             : StepKind::kMixed;
    stats_.step_seconds[static_cast<size_t>(kind)].record(seconds);
    stats_.prompt_tokens += prompt_rows;
    stats_.generated_tokens += drawn;
    publish();
  }
  for (const auto& a : active_) guarded(*a, [&] { tell_prompt(*a); });
  for (size_t k = 0; k < logits.size(); ++k)
    if (logits[k].draws) guarded(*logits[k].a, [&] { advance(*logits[k].a, ids[k]); });
  for (const auto& a : active_)  // those that wanted their prompt read and no answer
    if (!a->finished && a->remaining() == 0) finish(*a, FinishReason::kLength);
  std::erase_if(active_, [](const auto& a) { return a->finished; });
}

// A request whose constraint, gate or sink throws ends alone.
template <typename Work>
void Engine::guarded(Active& a, Work work) {
  if (a.finished) return;
  try {
    work();
  } catch (const std::exception& e) {
    log_error("request failed: {}", e.what());
    finish(a, FinishReason::kFailed, -1, e.what());
  }
}

std::span<const int32_t> Engine::draw(std::span<const LogitsRow> rows) {
  std::vector<kernel::SampleParams> params;
  const bool all_draw = std::ranges::all_of(rows, &LogitsRow::draws);
  std::vector<kernel::RowLogprobs> of_prompts(all_draw ? 0 : rows.size());
  for (size_t k = 0; k < rows.size(); ++k) {
    Active& a = *rows[k].a;
    const SamplingSettings& settings = a.request.sampling;
    kernel::SampleParams p;
    if (rows[k].draws) {
      std::span<uint32_t> mask;
      guarded(a, [&] { mask = mask_of(a); });
      p = a.sampler->next(a.tokens, a.n_prompt, mask);
      if (settings.top_logprobs >= 0) {
        p.logprobs = &a.logprobs;
        p.top_logprobs = settings.top_logprobs;
      }
    } else {
      p.id_limit = settings.id_limit;
      p.given = 0;
      if (rows[k].next < a.n_prompt) {
        p.given = a.tokens[rows[k].next];
        p.logprobs = &of_prompts[k];
        p.top_logprobs = settings.prompt_logprobs;
      }
    }
    params.push_back(p);
  }
  if (params.empty()) return {};
  const std::span<const int32_t> ids = runner_.sample(params);
  for (size_t k = 0; k < rows.size(); ++k)
    if (!rows[k].draws && rows[k].next < rows[k].a->n_prompt)
      rows[k].a->prompt_logprobs.push_back(token_logprobs(ids[k], of_prompts[k]));
  return ids;
}

// Once the whole prompt is read.
void Engine::tell_prompt(Active& a) {
  if (a.prompt_logprobs.empty() || a.memory->computed() < a.n_prompt) return;
  Event event;
  event.prompt_logprobs = std::exchange(a.prompt_logprobs, {});
  event.usage = a.usage();
  if (a.request.on_event) a.request.on_event(event);
}

void Engine::advance(Active& a, int32_t token) {
  const Clock::time_point now = Clock::now();
  if (a.n_generated() == 0) a.first_token = now;
  a.last_token = now;
  if (token < 0) return finish(a, FinishReason::kDeadEnd);
  const bool is_stop = !a.request.ignore_stop_ids &&
                       std::ranges::find(a.request.stop_ids, token) != a.request.stop_ids.end();
  if (is_stop) {
    a.tokens.push_back(token);  // counted as generated, never shown
    return finish(a, FinishReason::kStopId, token);
  }
  OutputGate::Verdict verdict{1, false};
  if (a.request.gate) verdict = a.request.gate->preview({&token, 1});
  a.tokens.push_back(token);
  if (a.request.constraint) a.request.constraint->advance(token);
  if (a.request.gate) a.request.gate->commit(verdict.kept);

  std::optional<FinishReason> reason;
  if (verdict.stop) {
    reason = FinishReason::kStopped;
  } else if (a.n_generated() >= a.max_tokens) {
    reason = a.tokens.size() >= max_context() ? FinishReason::kContext : FinishReason::kLength;
  }
  if (a.request.on_event && verdict.kept > 0) {
    Event event;
    event.tokens = {&token, 1};
    event.usage = a.usage();
    event.timings = a.timings(now);
    if (a.request.sampling.top_logprobs >= 0)
      event.logprobs.push_back(token_logprobs(token, a.logprobs));
    event.usage = {a.n_prompt, a.hit.tokens, a.n_generated(), a.hit.miss, a.hit.known};
    a.request.on_event(event);
  }
  if (reason) finish(a, *reason);
}

void Engine::finish(Active& a, FinishReason reason, int32_t stop_id, std::string error) {
  if (a.finished) return;
  a.finished = true;
  Event event;
  event.finished = reason;
  event.stop_id = stop_id;
  event.usage = a.usage();
  event.timings = a.timings(Clock::now());
  event.error = std::move(error);
  const bool running = a.memory.has_value();
  if (running) {
    if (reason != FinishReason::kFailed) keep_answer(a);
    reserved_pages_ -= a.reserved_pages;
    a.memory.reset();
  }
  {  // Before the event: who has seen it finds its place free.
    const std::lock_guard lock(wake_->mutex);
    --(running ? stats_.running : stats_.waiting);
    publish();
  }
  try {
    if (a.request.on_event) a.request.on_event(event);
  } catch (const std::exception& e) {
    log_error("request sink failed: {}", e.what());
  }
  const std::lock_guard lock(wake_->mutex);
  if (--unfinished_ == 0) idle_.notify_all();
}

// A step that throws is a defect: nobody knows what the state holds, so everything ends and nothing
// new is taken.
void Engine::fail_all(const std::string& why) {
  log_error("engine step failed: {}", why);
  {
    const std::lock_guard lock(wake_->mutex);
    stats_.failed = true;
    for (auto& a : inbox_) waiting_.push(std::move(a));
    inbox_.clear();
  }
  for (auto& a : active_) finish(*a, FinishReason::kFailed, -1, why);
  active_.clear();
  end_waiting(FinishReason::kFailed, why);
}

}  // namespace flare::runtime
