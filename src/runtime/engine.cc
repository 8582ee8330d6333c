// The step loop and the commit order: gate preview → model commit → budget → gate commit → event.
#include "runtime/engine.h"

#include <algorithm>
#include <limits>
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

void check_prompt(const std::vector<int32_t>& prompt, bool answers, uint32_t max_context,
                  uint32_t vocab_size) {
  if (prompt.empty()) throw Error(Code::kInvalid, "prompt: empty, at least one token expected");
  if (prompt.size() + (answers ? 1 : 0) > max_context)
    throw Error(Code::kInvalid, "prompt: {} tokens and room for an answer exceed the context of {}",
                prompt.size(), max_context);
  for (int32_t id : prompt)
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size)
      throw Error(Code::kInvalid, "prompt: token id {} is outside 0..{}", id, vocab_size - 1);
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
  const auto nudge = [wake = wake_] {
    const std::lock_guard lock(wake->mutex);
    wake->nudged = true;
    wake->changed.notify_one();
  };
  auto tier = std::make_unique<DiskTier>(*options_.disk, shape, nudge, nudge);
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

std::unique_ptr<Active> Engine::make_active(Request request, std::vector<int32_t> prompt) const {
  const uint64_t n_prompt = prompt.size();
  auto a = std::make_unique<Active>();
  a->n_prompt = static_cast<uint32_t>(n_prompt);
  a->max_tokens =
      static_cast<uint32_t>(std::min<uint64_t>(request.max_tokens, max_context() - n_prompt));
  a->request = std::move(request);
  a->tokens = std::move(prompt);
  a->sampler.emplace(a->request.sampling,
                     a->request.ignore_stop_ids ? std::vector<int32_t>{} : a->request.stop_ids,
                     model_.vocab_size);
  return a;
}

Admission Engine::submit(Request request, Ticket* ticket) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return submit(std::move(one), ticket);
}

Admission Engine::submit(std::vector<Request> choices, Ticket* ticket) {
  FLARE_ASSERT(!choices.empty());
  const std::vector<int32_t> prompt = std::move(choices.front().prompt);
  const bool answers = std::ranges::any_of(choices, [](const auto& c) { return c.max_tokens > 0; });
  check_prompt(prompt, answers, max_context(), model_.vocab_size);
  const bool tells_prompt =
      std::ranges::any_of(choices, [](const auto& c) { return c.sampling.prompt_logprobs >= 0; });
  if (tells_prompt && !has_prompt_logprobs())
    throw Error(Code::kInvalid, "{}: was not prepared for log-probabilities of prompts",
                model_.name);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<Active>> group;
  for (Request& choice : choices) {
    group.push_back(make_active(std::move(choice), prompt));
    Active& a = *group.back();
    a.cancelled = cancelled;
    a.submitted = Clock::now();
    // Whose prompt's log-probabilities are asked for reads every row of it.
    if (group.size() > 1 && !tells_prompt) a.leader = group.front().get();
  }
  group.front()->leads = group.size() > 1 && !tells_prompt;
  if (ticket) {
    ticket->cancelled_ = cancelled;
    ticket->wake_ = wake_;
  }
  {
    const std::lock_guard lock(wake_->mutex);
    if (failed_) return Admission::kFailed;
    if (stopping_) return Admission::kStopping;
    if (queue_full(group.size())) return Admission::kQueueFull;
    for (auto& a : group) {
      ++stats_.waiting;
      ++n_places_;
      ++unfinished_;
      a->arrival = arrivals_++;
      inbox_.push_back(std::move(a));
    }
  }
  wake_->changed.notify_one();
  return Admission::kAccepted;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(wake_->mutex);
  EngineStats stats = stats_;
  stats.failed = failed_;
  stats.queue_full = queue_full(1);
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
  // Every block of the tree that a sequence holds too has a second reference, and so has one that
  // waits to be written: while anything runs, those count as its own.
  const uint32_t shared = active_.empty() ? 0 : pages.shared();
  const uint32_t idle = stats_.prefixes.pages - std::min(stats_.prefixes.pages, shared);
  stats_.pages_cached = idle + loading_pages();
  stats_.pages_active = pages.used() - std::min(stats_.pages_cached, pages.used());
  stats_.rows_active = stats_.prefilling = 0;
  running_rows_.clear();
  for (const auto& a : active_) {
    if (!a || !a->memory || a->finished) continue;
    const uint32_t read = std::min(a->memory->computed(), a->n_prompt);
    ++stats_.rows_active;
    stats_.prefilling += a->n_generated() == 0 ? 1 : 0;
    running_rows_.push_back({a->arrival + 1, a->n_prompt, a->hit.tokens, read, a->n_generated(),
                             a->max_tokens, a->submitted});
  }
}

// Counts places, not what waits alone: requests on their way from the inbox to their row, or held
// back by pages, must not open the queue.
bool Engine::queue_full(size_t n_more) const {
  return n_places_ + n_more >
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
  stopping_ = wake_->nudged = true;
  wake_->changed.notify_one();
  return idle_.wait_until(lock, deadline, [this] { return unfinished_ == 0; });
}

void Engine::loop() {
  runner_.backend().pin_members();
  while (collect()) {
    try {
      drop_ended();
      admit();
      if (!active_.empty()) run_step();
      if (options_.audit) audit();
    } catch (const std::exception& e) {
      fail_all(e.what());
    }
  }
  try {
    if (reading_) finish_reading();  // what is kept of it must be whole
  } catch (const std::exception& e) {
    fail_all(e.what());
  }
  end_all(FinishReason::kCancelled);
  if (prefixes_) prefixes_->close();
}

// How soon a request that waits for the disk notices its deadline, and that the disk hangs.
constexpr std::chrono::milliseconds kDeadlineCheck{100};

// What the next request will want, while nobody waits for it: its row, snapshots of its prompt and
// of its answer, and pages.
constexpr uint32_t kIdleRows = 3, kIdlePages = 16;

// Backs a part of what will be wanted: so many rows and pages. False: there is enough.
bool Engine::prepare_memory(uint32_t rows, uint32_t pages) {
  try {
    return runner_.rows().prepare_part(rows) || runner_.pages().prepare_part(pages);
  } catch (const Error&) {
    return false;  // whoever needs it will hear why there is none
  }
}

// Waits for something to do and takes new requests in. False: leave.
bool Engine::collect() {
  std::unique_lock lock(wake_->mutex);
  while (active_.empty() && waiting_.empty() && inbox_.empty() && !quitting_) {
    lock.unlock();
    const bool more = prepare_memory(kIdleRows, kIdlePages);
    lock.lock();
    if (!more) break;
  }
  publish();
  const auto called = [this] { return quitting_ || wake_->nudged || !inbox_.empty(); };
  if (active_.empty() && waiting_.empty())
    wake_->changed.wait(lock, called);
  else if ((active_.empty() || lacks_pages_) && prefixes_ && prefixes_->loading())  // end nudges
    wake_->changed.wait_for(lock, kDeadlineCheck, called);
  wake_->nudged = lacks_pages_ = false;
  for (auto& a : inbox_) waiting_.push(std::move(a));
  inbox_.clear();
  draining_ = stopping_;
  return !quitting_;
}

// Why a request is over before its time, if it is.
std::optional<FinishReason> Engine::ended(const Active& a, Clock::time_point now) const {
  if (a.cancelled->load(std::memory_order_relaxed)) return FinishReason::kCancelled;
  if (a.request.deadline && now >= *a.request.deadline) return FinishReason::kDeadline;
  // Who runs may end; who was never admitted hears at once (serving.md S15.2).
  if (draining_ && !a.was_admitted()) return FinishReason::kCancelled;
  if (!a.was_admitted() && options_.pending_timeout.count() > 0 &&
      now - a.submitted >= options_.pending_timeout)
    return FinishReason::kQueueTimeout;
  return std::nullopt;
}

void Engine::drop_ended() {
  if (reading_) end_readers();
  const Clock::time_point now = Clock::now();
  const auto gone = [&](Active& a) {
    if (a.reading) return false;
    const auto reason = a.finished ? std::nullopt : ended(a, now);
    if (reason) finish(a, *reason);
    return a.finished;
  };
  waiting_.erase_if(gone);
  std::erase_if(active_, [&gone](const auto& a) { return gone(*a); });
}

void Engine::end_all(FinishReason reason, const std::string& error) {
  for (const auto& a : active_) a->leads = false;
  for (const auto& a : active_) finish(*a, reason, -1, error);
  active_.clear();
  waiting_.erase_if([&](Active& a) {
    finish(a, reason, -1, error);
    return true;
  });
}

// What the constraint leaves; empty: everything.
std::span<uint32_t> Engine::mask_of(Active& a) {
  if (!a.request.constraint) return {};
  a.mask.assign((model_.vocab_size + 31) / 32, 0);
  return a.request.constraint->fill_mask(a.mask) ? std::span(a.mask) : std::span<uint32_t>();
}

// Of the rows planned for each active request those of answers, and of prompts that lack one row
// alone, or those of other prompts, or both.
Engine::Batch Engine::gather(const std::vector<uint32_t>& rows, bool answers, bool prompts) {
  Batch batch;
  for (size_t i = 0; i < active_.size(); ++i) {
    Active& a = *active_[i];
    if (rows[i] == 0 || !(wanted_rows(a) == 1 ? answers : prompts)) continue;
    const uint32_t computed = a.memory->computed(), end = computed + rows[i];
    const bool draws = end == a.tokens.size() && a.max_tokens > 0;
    const bool every = computed < a.n_prompt && a.wants_prompt_logprobs();
    batch.members.push_back(&a);
    batch.entries.push_back(
        {&*a.memory, std::span(a.tokens).subspan(computed, rows[i]), draws || every, every});
    for (uint32_t next = computed + 1; every && next < end; ++next)
      batch.logits.push_back({&a, next, false});
    if (draws || every) batch.logits.push_back({&a, end, draws});
    (computed >= a.n_prompt && rows[i] == 1 ? batch.decode_rows : batch.prompt_rows) += rows[i];
    const uint32_t fresh = std::max(computed, a.computed_once);
    batch.replayed_tokens += std::min(fresh, end) - computed;
    batch.new_prompt_tokens += std::min(std::max(fresh, a.n_prompt), end) - std::min(fresh, end);
    a.computed_once = std::max(a.computed_once, end);
  }
  return batch;
}

// Prompts beside answers are read in pieces, a part of one between two steps of answers. So is
// memory taken: streams that began together want their next pages, and rows for snapshots, in the
// same step.
void Engine::run_step() {
  if (options_.before_step) options_.before_step();
  fork_choices();
  const auto planned = plan_rows();
  lacks_pages_ = !planned.has_value();
  if (lacks_pages_) return;
  Batch step = gather(*planned, true, false);
  Batch prompts = gather(*planned, false, true);
  if (step.entries.empty() && !reading_) {
    step = std::move(prompts);
    pass_frontiers(step);
  } else if (!prompts.entries.empty()) {
    runner_.begin_piece(prompts.entries);
    for (Active* a : prompts.members) a->reading = true;
    reading_ = std::make_unique<Batch>(std::move(prompts));
    reading_seconds_ = 0;
  }
  double preparing = 0, beside = 0;
  if (step.decode_rows > 0) {
    const Clock::time_point begin = Clock::now();
    const auto each = static_cast<uint32_t>(active_.size()) + 1;
    prepare_memory(each, each);
    preparing = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const bool reads = reading_ && (step.entries.empty() || !pace_.rests());
  if (reads) {
    const double before = reading_seconds_;
    const bool ended = read_on(step.entries.empty() ? std::numeric_limits<double>::infinity()
                                                    : pace_.piece_seconds() - preparing);
    beside = ended ? 0 : reading_seconds_ - before;
  }
  if (!step.entries.empty()) {
    const Clock::time_point begin = Clock::now();
    runner_.step(step.entries);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (step.decode_rows > 0)
      pace_.record_answers(seconds, reads);
    else
      pace_.record_alone(step.prompt_rows, seconds);
    settle(step, seconds, beside);
  }
  erase_finished();
}

// Goes on with the piece. True: it has ended.
bool Engine::read_on(double seconds) {
  const Clock::time_point begin = Clock::now();
  const bool whole = runner_.run_piece(seconds, [this] {
    const Clock::time_point now = Clock::now();
    return std::ranges::any_of(reading_->members,
                               [&](const Active* a) { return !a->finished && ended(*a, now); });
  });
  reading_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  if (!whole) {
    end_readers();
    return false;
  }
  const std::unique_ptr<Batch> piece = std::exchange(reading_, nullptr);
  for (Active* a : piece->members) a->reading = false;
  pace_.record_piece(piece->prompt_rows, runner_.longest_launch());
  settle(*piece, reading_seconds_, 0);
  return true;
}

// Between two launches of the piece. Who has ended hears so; its memory is given back when the
// others' rows are computed, or now if nobody is left to compute for.
void Engine::end_readers() {
  const Clock::time_point now = Clock::now();
  std::vector<std::pair<Active*, FinishReason>> over;
  size_t n_left = 0;
  for (Active* a : reading_->members) {
    if (a->finished) continue;
    if (const auto reason = ended(*a, now))
      over.emplace_back(a, *reason);
    else
      ++n_left;
  }
  if (n_left == 0) {
    const std::unique_ptr<Batch> piece = std::exchange(reading_, nullptr);
    for (Active* a : piece->members) {
      a->reading = false;
      a->torn = true;
    }
    runner_.drop_piece();
  }
  for (const auto& [a, reason] : over) finish(*a, reason);
}

// At once, before its requests change.
void Engine::finish_reading() {
  while (reading_) read_on(std::numeric_limits<double>::infinity());
  erase_finished();
}

// What follows from rows that were computed in so many seconds, `beside` more being spent on a
// piece that goes on: prefixes are kept, tokens drawn and told.
void Engine::settle(const Batch& batch, double seconds, double beside) {
  for (const auto& a : active_) keep_prefix(*a);
  const std::span<const int32_t> ids = draw(batch.logits);
  uint64_t drawn = 0;
  for (size_t k = 0; k < batch.logits.size(); ++k)
    drawn += batch.logits[k].draws && !batch.logits[k].a->finished && ids[k] >= 0;
  {
    const std::lock_guard lock(wake_->mutex);
    ++stats_.steps;
    const StepKind kind = batch.decode_rows == 0                  ? StepKind::kPrefill
                          : batch.prompt_rows == 0 && beside == 0 ? StepKind::kDecode
                                                                  : StepKind::kMixed;
    stats_.step_seconds[static_cast<size_t>(kind)].record(seconds + beside);
    stats_.prompt_tokens += batch.new_prompt_tokens;
    stats_.replayed_tokens += batch.replayed_tokens;
    stats_.generated_tokens += drawn;
    publish();
  }
  for (Active* a : batch.members) {
    guarded(*a, [&] { tell_progress(*a); });
    guarded(*a, [&] { tell_prompt(*a); });
  }
  for (size_t k = 0; k < batch.logits.size(); ++k)
    if (batch.logits[k].draws)
      guarded(*batch.logits[k].a, [&] { advance(*batch.logits[k].a, ids[k]); });
  for (Active* a : batch.members)  // those that wanted their prompt read and no answer
    if (!a->finished && !a->leader && a->remaining() == 0) finish(*a, FinishReason::kLength);
}

void Engine::erase_finished() {
  releases_ += std::erase_if(active_, [](const auto& a) { return a->finished && !a->reading; });
}

// A request whose constraint, gate or sink throws ends alone.
void Engine::guarded(Active& a, const std::function<void()>& work) {
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
  a.told_prompt = true;
  event.usage = a.usage();
  if (a.request.on_event) a.request.on_event(event);
}

// What is read again behind a pause was told before.
void Engine::tell_progress(Active& a) {
  if (!a.request.tells_progress || a.leader || a.n_generated() > 0) return;
  const uint32_t read = std::min(a.memory->computed(), a.n_prompt);
  if (read <= a.told_progress) return;
  a.told_progress = read;
  Event event;
  event.usage = a.usage();
  event.timings = a.timings(Clock::now());
  event.progress = {read, event.timings.prefill_ms};
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
    if (!a.reading) a.memory.reset();
    ++releases_;
  }
  if (a.leads) stop_leading(a);
  {  // Before the event: who has seen it finds its place free.
    const std::lock_guard lock(wake_->mutex);
    --(running ? stats_.running : stats_.waiting);
    --n_places_;
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
    failed_ = true;
    for (auto& a : inbox_) waiting_.push(std::move(a));
    inbox_.clear();
  }
  runner_.drop_piece();
  reading_.reset();
  for (const auto& a : active_)
    if (a->kept != nullptr) prefixes_->tree().return_row(std::exchange(a->kept, nullptr));
  end_all(FinishReason::kFailed, why);
  if (options_.on_failure) options_.on_failure();
}

void Engine::audit() {
  if (prefixes_) prefixes_->tree().audit();
  const auto kept = prefixes_ ? prefixes_->tree().stats() : PrefixTree::Stats{};
  const uint32_t loading = loading_pages();
  if (runner_.memory_plan().row_bytes > 0) {
    const size_t rows = active_.size() + kept.snapshots;
    const uint32_t read = prefixes_ && prefixes_->loading() ? 1 : 0;
    FLARE_ASSERT(runner_.rows().used() >= rows && runner_.rows().used() <= rows + read);
  }
  std::vector<const std::byte*> held;
  for (const auto& a : active_) {
    FLARE_ASSERT(a->memory && (!a->finished || a->reading));
    const auto* const table = a->memory->page_table();
    held.insert(held.end(), table, table + a->memory->n_pages());
  }
  std::ranges::sort(held);
  uint32_t n_distinct = 0;
  for (size_t i = 0, end = 0; i < held.size(); i = end, ++n_distinct) {
    while (end < held.size() && held[end] == held[i]) ++end;
    // One more may be the tree's, and with that one the disk's.
    const uint32_t references = runner_.pages().references(held[i]);
    FLARE_ASSERT(references >= end - i && references <= end - i + (options_.disk ? 2 : 1));
  }
  FLARE_ASSERT(runner_.pages().used() >= std::max(n_distinct, kept.pages));
  FLARE_ASSERT(runner_.pages().used() <= n_distinct + kept.pages + loading);
  if (active_.empty()) FLARE_ASSERT(runner_.pages().used() == kept.pages + loading);
  for (size_t i = 1; i < active_.size(); ++i)
    FLARE_ASSERT(goes_before(*active_[i - 1], *active_[i]));
}

}  // namespace flare::runtime
