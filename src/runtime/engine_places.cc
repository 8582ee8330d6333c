// Who has a place and who gives it up: admission, pauses under memory pressure, choices that share
// a prompt, and the prefixes that are found and kept on the way.
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "runtime/engine.h"

namespace flare::runtime {
namespace {

void append_pages(const Active& a, std::vector<const std::byte*>* pages) {
  const auto* const table = a.memory->page_table();
  pages->insert(pages->end(), table, table + a.memory->n_pages());
}

// A frontier inside a prompt may end a step early: that costs about what a step of one row does,
// which is what a handful of prompt rows cost. Nearer ones are left out.
constexpr uint32_t kLeastFrontierStep = 8;

// Of a step for several prompts: kernels are near their best, and the first prompts among many
// short ones end sooner than in a longer step.
constexpr uint32_t kSharedRows = 128;

// Pages that a sequence takes until it has read what it has, and a page's worth behind that.
uint32_t pages_ahead(const Active& a, const MemoryPlan& plan) {
  if (plan.page_bytes == 0 || a.finished) return 0;
  const uint64_t most = uint64_t{a.n_prompt} + a.max_tokens;
  const auto goal =
      static_cast<uint32_t>(std::min(most, a.tokens.size() + plan.page_tokens) / plan.page_tokens);
  const uint32_t have = a.leader   ? (a.n_prompt - 1) / plan.page_tokens
                        : a.memory ? a.memory->n_pages()
                                   : 0;
  return goal > have ? goal - have : 0;
}

}  // namespace

// In order of claims, as long as there are rows, and pages for what everybody needs next. Who
// cannot be taken in is asked again when a place was given up, pages came from the disk, or
// somebody else is first: otherwise less is free than before.
void Engine::admit() {
  if (prefixes_) prefixes_->poll();
  while (!waiting_.empty() && active_.size() < runner_.memory_plan().max_concurrency) {
    Active& first = *waiting_.front();
    const std::tuple asked{first.arrival, releases_, loading_pages()};
    if (refused_ == asked) return;
    if (!take_place(first)) return;
    start(waiting_.pop());
  }
}

// False: it waits for the disk, or there are no pages for it beside those that run. Alone it always
// has room, since the pool holds a whole context.
bool Engine::take_place(Active& a) {
  if (a.leader && (!a.leader->leads || !a.leader->memory)) a.leader = nullptr;
  const auto fits = [&] {
    if (active_.empty() && loading_pages() == 0) return true;
    if (pages_wanted(&a) + loading_pages() <= runner_.memory_plan().pages) return true;
    refused_ = std::tuple{a.arrival, releases_, loading_pages()};
    return false;
  };
  if (prefixes_ && !a.leader && !a.wants_prompt_logprobs()) {
    if (loading_pages() > 0 && !fits()) return false;  // what comes from the disk needs pages too
    if (!prefixes_->ready(a.tokens, a.request.cache_salt, &a.disk_wait)) return false;
  }
  a.memory.emplace(runner_.new_sequence());
  if (!a.leader) reuse_prefix(a);
  if (fits()) return true;
  a.memory.reset();
  a.frontiers.clear();
  return false;
}

// What those that run and the candidate hold and need next. All else can be had: it is free, or the
// prefix tree alone holds it.
uint64_t Engine::pages_wanted(const Active* candidate) const {
  const MemoryPlan& plan = runner_.memory_plan();
  std::vector<const std::byte*> held;
  uint64_t ahead = 0;
  const auto count = [&](const Active& a) {
    ahead += pages_ahead(a, plan);
    if (a.memory) append_pages(a, &held);
  };
  count(*candidate);
  for (const auto& a : active_) count(*a);
  std::ranges::sort(held);
  held.erase(std::ranges::unique(held).begin(), held.end());
  return held.size() + ahead;
}

void Engine::start(std::unique_ptr<Active> taken) {
  Active& a = *taken;
  const bool is_new = !a.was_admitted();
  if (is_new) a.admitted = Clock::now();
  if (a.leader) {  // its prompt counts once, as its leader's
    a.hit = a.leader->hit;
    a.computed_once = a.n_prompt;
  }
  const uint32_t found = std::min(a.memory->computed(), a.n_prompt);
  const uint32_t cached = found > a.computed_once ? found - a.computed_once : 0;
  a.computed_once = std::max(a.computed_once, found);
  const auto behind =
      std::ranges::find_if(active_, [&a](const auto& other) { return goes_before(a, *other); });
  active_.insert(behind, std::move(taken));
  {
    const std::lock_guard lock(wake_->mutex);
    --stats_.waiting;
    ++stats_.running;
    stats_.cached_prompt_tokens += cached;
    if (is_new && prefixes_ && !a.leader) stats_.queried_prompt_tokens += a.n_prompt;
    publish();
  }
  if (!is_new) return;
  guarded(a, [&a, found] {
    Event event;
    event.admitted = true;
    if (a.request.tells_progress && !a.leader) event.progress = {a.told_progress = found, 0};
    event.usage = a.usage();
    event.timings = a.timings(a.admitted);
    if (a.request.on_event) a.request.on_event(event);
  });
  erase_finished();
}

// The weakest claim gives its place up. Its pages stay in the prefix tree until they are needed,
// its row as a snapshot where there is room: what is gone is computed again from its tokens.
void Engine::pause_last() {
  std::unique_ptr<Active> a = std::move(active_.back());
  active_.pop_back();
  log_debug("paused request {} at {} tokens: no pages left", a->arrival, a->tokens.size());
  keep_paused(*a);
  a->memory.reset();
  a->prompt_logprobs.clear();  // the prompt is read again if it was not told yet
  a->frontiers.clear();
  a->published_pages = 0;
  ++releases_;
  {
    const std::lock_guard lock(wake_->mutex);
    --stats_.running;
    ++stats_.waiting;
    ++stats_.preemptions;
    publish();
  }
  waiting_.push(std::move(a));
}

// Choices whose leader has read the prompt up to its last rows go on from there: they share its
// pages and copy its row. Those without a place will look into the prefix tree.
void Engine::fork_choices() {
  for (const auto& leader : active_) {
    if (!leader->leads || leader->memory->computed() < fork_at(*leader)) continue;
    const SequenceMemory& read = *leader->memory;
    for (const auto& a : active_)
      if (a->leader == leader.get()) {
        if (read.computed() > 0)
          a->memory->adopt({read.page_table(), read.n_pages()}, read.row(), read.computed());
        a->leader = nullptr;
        a->told_progress = a->n_prompt;  // by the leader
      }
    stop_leading(*leader);
  }
}

// Whoever still waits for it goes on alone.
void Engine::stop_leading(Active& leader) {
  leader.leads = false;
  for (const auto& a : active_) {
    if (!a || a->leader != &leader) continue;
    a->leader = nullptr;
    if (a->memory) reuse_prefix(*a);
  }
  waiting_.each([&leader](Active& a) {
    if (a.leader == &leader) a.leader = nullptr;
  });
}

// Rows until it can draw. A deterministic engine computes the rows of an answer one by one, behind
// a pause too: as a prompt they would have other bits.
uint32_t Engine::wanted_rows(const Active& a) const {
  if (!options_.deterministic || a.leader || a.n_generated() == 0) return a.remaining();
  const uint32_t computed = a.memory->computed();
  return computed < a.n_prompt ? a.n_prompt - computed : 1;
}

// Where all answers have just begun, and prompts that came before their first tokens are being
// read, those are read on at full speed: who comes in a crowd waits for the crowd's prompts, not
// for its answers too. Each waits once and not for long.
void Engine::hold_answers(std::vector<uint32_t>& remaining) const {
  const Clock::time_point now = Clock::now();
  Clock::time_point first = now;  // of those prompts
  for (size_t i = 0; i < active_.size(); ++i)
    if (remaining[i] > 1 || active_[i]->reading) first = std::min(first, active_[i]->submitted);
  const auto waits = [&](const Active& a) {
    return a.n_generated() == 1 && first < a.first_token &&
           std::chrono::duration<double>(now - a.first_token).count() < pace_.hold_seconds();
  };
  for (size_t i = 0; i < active_.size(); ++i)
    if (remaining[i] == 1 && !waits(*active_[i])) return;
  for (uint32_t& rows : remaining) rows = rows == 1 ? 0 : rows;
}

// For each active request.
std::vector<uint32_t> Engine::rows_of_step() const {
  std::vector<uint32_t> remaining;
  for (const auto& a : active_) remaining.push_back(a->reading ? 0 : wanted_rows(*a));
  if (reading_)  // one piece at a time
    for (uint32_t& rows : remaining) rows = rows == 1 ? 1 : 0;
  hold_answers(remaining);
  const bool answers = std::ranges::find(remaining, 1u) != remaining.end();
  const uint64_t left = std::accumulate(remaining.begin(), remaining.end(), uint64_t{0});
  const bool several = std::ranges::count_if(remaining, [](uint32_t n) { return n > 1; }) > 1;
  const uint32_t most = several ? std::min(prefill_chunk_, kSharedRows) : prefill_chunk_;
  const uint32_t chunk =
      std::max(piece_, answers ? pace_.piece_rows(std::min(prefill_chunk_, runner_.piece_rows()))
                               : pace_.rows_alone(left, most));
  std::vector<uint32_t> rows = schedule_rows(remaining, {model_.capacity.max_rows, chunk, piece_});
  uint32_t logits = prompt_logits_;
  const size_t passed = answers || reading_ ? 0 : 1;  // frontiers, in a step of prompts alone
  for (size_t i = 0; i < active_.size(); ++i) {
    const Active& a = *active_[i];
    const uint32_t computed = a.memory->computed();
    if (a.frontiers.size() > passed)
      rows[i] = std::min(rows[i], a.frontiers.rbegin()[passed] - computed);
    if (a.leads) rows[i] = std::min(rows[i], fork_at(a) - computed);
    if (!a.wants_prompt_logprobs() || computed >= a.n_prompt) continue;
    if (rows[i] > logits) rows[i] = logits / piece_ * piece_;
    logits -= rows[i];
  }
  return rows;
}

// The rows of the next step. Pauses who must make room for it; the first one never has to, so that
// it ends some day. None: the last pages are on their way from the disk, however long that takes.
std::optional<std::vector<uint32_t>> Engine::plan_rows() {
  while (true) {
    std::vector<uint32_t> rows = rows_of_step();
    uint32_t pages = 0;
    for (size_t i = 0; i < active_.size(); ++i)
      if (rows[i] > 0) pages += active_[i]->memory->pages_to_fill(rows[i]);
    if (prefixes_) prefixes_->make_room(pages);
    if (runner_.pages().available() >= pages) return rows;
    if (reading_) {  // whoever is in it may have to pause
      finish_reading();
      continue;
    }
    if (active_.size() > 1) {
      pause_last();
      continue;
    }
    FLARE_ASSERT(loading_pages() > 0);  // a context fits beside nothing
    return std::nullopt;
  }
}

// A step of prompts alone passes the nearest frontier of each, where it copies the row.
void Engine::pass_frontiers(Batch& batch) {
  for (size_t i = 0; prefixes_ && i < batch.members.size(); ++i) {
    Active& a = *batch.members[i];
    StepEntry& entry = batch.entries[i];
    const uint32_t computed = a.memory->computed();
    if (a.frontiers.empty() || a.frontiers.back() >= computed + entry.tokens.size()) continue;
    a.kept = prefixes_->tree().begin_snapshot(std::span(a.tokens).first(a.frontiers.back()),
                                              a.request.cache_salt);
    entry.kept = a.kept;
    entry.n_kept = a.frontiers.back() - computed;
  }
}

void Engine::reuse_prefix(Active& a) {
  if (!prefixes_) return;
  PrefixTree::Hit hit = a.hit;
  hit.tokens = 0;
  if (!a.wants_prompt_logprobs())
    hit = prefixes_->tree().restore(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
  if (!a.was_admitted()) a.hit = hit;
  std::vector<uint32_t> wanted = a.request.frontiers;
  // Who repeats a prompt computes its last token again.
  if (wanted.empty()) wanted = {a.n_prompt - 1};
  if (prefixes_->tree().needs_snapshots() && options_.snapshot_interval > 0)
    for (uint64_t at = options_.snapshot_interval; at < a.n_prompt;
         at += options_.snapshot_interval)
      wanted.push_back(static_cast<uint32_t>(at));
  std::ranges::sort(wanted);
  uint32_t last = hit.tokens;
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
  if (computed / runner_.memory_plan().page_tokens > a.published_pages)
    prefixes_->tree().publish(a.tokens, a.request.cache_salt, *a.memory);
  if (a.kept != nullptr)
    prefixes_->tree().end_snapshot(std::span(a.tokens).first(a.frontiers.back()),
                                   a.request.cache_salt, std::exchange(a.kept, nullptr),
                                   a.request.session);
  while (!a.frontiers.empty() && a.frontiers.back() < computed) a.frontiers.pop_back();
  const bool reached = !a.frontiers.empty() && a.frontiers.back() == computed;
  if (reached) a.frontiers.pop_back();
  if (reached || (computed > a.n_prompt && interval > 0 && computed % interval == 0))
    prefixes_->tree().snapshot(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
  a.published_pages = computed / runner_.memory_plan().page_tokens;
}

// For itself: where it goes on from.
void Engine::keep_paused(Active& a) {
  const uint32_t computed = a.memory->computed();
  if (!prefixes_ || computed == 0 || (is_cut() && computed > a.n_prompt)) return;
  prefixes_->tree().snapshot(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
}

// However short the answer: no step ends early for it. A prefix that cannot be kept is no failure
// of the request.
void Engine::keep_answer(Active& a) {
  if (!prefixes_ || a.leader) return;
  try {
    if (!is_cut() && !a.reading && !a.torn)
      prefixes_->tree().snapshot(a.tokens, a.request.cache_salt, *a.memory, a.request.session);
    prefixes_->keep_on_disk(std::span(a.tokens).first(a.memory->computed()), a.request.cache_salt);
  } catch (const std::exception& e) {
    log_error("an answer's prefix was not kept: {}", e.what());
  }
}

}  // namespace flare::runtime
