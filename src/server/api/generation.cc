// Starting, locking and ending of answers.
#include "server/api/generation.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace flare::server {
namespace {

using runtime::Admission;
using runtime::FinishReason;

ApiError admission_error(Admission admission) {
  switch (admission) {
    case Admission::kQueueFull:
      return {429, "server_overloaded", "the queue is full, try again later", {}};
    case Admission::kStopping:
      return {503, "server_draining", "the server is shutting down", {}};
    default:
      return {500, "engine_failed", "the engine has failed", {}};
  }
}

// The error that an end without an answer is; nullopt: an answer.
std::optional<ApiError> error_of(const TextEvent& event) {
  if (!event.finished) return std::nullopt;
  switch (*event.finished) {
    case FinishReason::kFailed:
      return ApiError{500, "engine_failed", "the engine failed: " + event.error, {}};
    case FinishReason::kCancelled:
      return ApiError{503, "server_draining", "the server is shutting down", {}};
    case FinishReason::kDeadline:
      return ApiError{504, "deadline_exceeded", "the request's deadline has passed", {}};
    case FinishReason::kQueueTimeout:
      return ApiError{503, "queue_timeout", "the request waited too long, try again later", {}};
    default:
      return std::nullopt;
  }
}

}  // namespace

// What the observer is told of the request, whatever becomes of it.
void Generation::begin_observation(Service& service, const std::vector<Run>& runs) {
  const auto api = observe::api_of_path(setup_.exchange->request_path());
  if (!api || !service.observer()) return;
  observation_ = std::make_shared<observe::Observation>(
      service.observer(), *api, setup_.exchange->request_id(), setup_.exchange->arrived());
  observe::RequestRecord& record = observation_->record();
  record.model = service.model_name();
  record.stream = setup_.stream;
  record.n_choices = static_cast<uint32_t>(choices_.size());
  record.seed = static_cast<int64_t>(runs.front().settings.sampling.seed);
  record.tool_format = service.engine().model().frontend.tool_format;
}

// Before the event's hook: who has the answer finds it counted.
void Generation::note(size_t choice, const TextEvent& event) {
  if (!observation_) return;
  observe::RequestRecord& record = observation_->record();
  observation_->tokens(choice, event.tokens.size());
  for (const frontend::OutputEvent& delta : event.deltas) {
    if (delta.kind == frontend::OutputEvent::Kind::kCallStart) ++record.cut_tool_calls;
    if (delta.kind != frontend::OutputEvent::Kind::kCallEnd) continue;
    --record.cut_tool_calls;
    ++record.tool_calls;
  }
  if (!event.finished) return;
  const bool shares = choice > 0 && choices_[choice].run == choices_[choice - 1].run;
  observation_->choice_ended(!shares, event.usage, event.timings);
  record.reasoning_tokens += event.reasoning_tokens;
  if (event.finished == FinishReason::kDeadEnd) ++record.dead_ends;
  if (choice == 0) record.finish = finish_reason_text(event);
}

void Generation::start(Service& service, std::vector<Run> runs) {
  // More than there are places would be refused however long its client tries.
  uint64_t n_choices = 0;
  for (const Run& run : runs) n_choices += static_cast<uint64_t>(run.n);
  const uint64_t places =
      uint64_t{service.engine().memory_plan().max_concurrency} + service.engine().max_pending();
  if (n_choices > places)
    throw ApiError{400, "invalid_value",
                   fmt::format("the request asks for {} choices, at most {} expected (running and "
                               "waiting places)",
                               n_choices, places),
                   "n"};
  std::vector<runtime::Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);  // events wait until all are queued
    for (size_t run = 0; run < runs.size(); ++run)
      for (int i = 0; i < runs[run].n; ++i) choices_.push_back({.run = run});
    begin_observation(service, runs);
    size_t first = 0;
    for (Run& run : runs) {
      // The caller's own salt divides further, and cannot name another caller's.
      if (const std::string& caller = setup_.exchange->cache_salt(); !caller.empty())
        run.settings.cache_salt = caller + '\n' + run.settings.cache_salt;
      run.settings.deadline = setup_.exchange->deadline();
      const Admission admission = service.generate(
          std::move(run.prompt), run.settings, static_cast<size_t>(run.n),
          [self = shared_from_this(), first](size_t i, const TextEvent& event) {
            self->take(first + i, event);
          },
          &tickets.emplace_back());
      first += static_cast<size_t>(run.n);
      if (admission == Admission::kAccepted) continue;
      over_ = true;
      for (const runtime::Ticket& ticket : tickets) ticket.cancel();
      throw admission_error(admission);
    }
    if (observation_) observation_->accepted();
    if (setup_.stream) setup_.exchange->offer_stream(setup_.headers, setup_.ping);
  }
  setup_.exchange->on_disconnect([tickets = std::move(tickets), observation = observation_] {
    if (observation) observation->client_left();
    for (const runtime::Ticket& ticket : tickets) ticket.cancel();
  });
}

void Generation::take(size_t choice, const TextEvent& event) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  note(choice, event);
  if (const auto error = error_of(event)) {
    choices_[choice].last = event;
    return fail(*error);
  }
  open();
  if (event.finished) choices_[choice].last = event;
  on_event(choice, event);
  if (!event.finished || ++n_finished_ < choices_.size()) return;
  over_ = true;
  if (observation_) observation_->finish(observe::Outcome::kCompleted);
  on_complete();
  if (setup_.stream) setup_.exchange->end();
}

void Generation::open() {
  if (opened_ || !setup_.stream) return;
  opened_ = true;
  setup_.exchange->begin_stream(setup_.headers);
  on_open();
}

// Other choices may still run: their later events are dropped.
void Generation::fail(const ApiError& error) {
  over_ = true;
  if (observation_) {
    observe::RequestRecord& record = observation_->record();
    const bool left = observation_->has_client_left();
    if (!left) record.error_code = error.code;
    if (!opened_) record.status = left ? 0 : error.status;
    const bool late = error.code == "queue_timeout" || error.code == "deadline_exceeded";
    observation_->finish(left   ? observe::Outcome::kCancelled
                         : late ? observe::Outcome::kTimedOut
                                : observe::Outcome::kFailed);
  }
  if (!opened_ && respond_error(*setup_.exchange, error)) return;
  if (!setup_.stream) return;  // the client has left
  open();
  on_stream_error(error);
  setup_.exchange->end();
}

void Generation::respond(const Json& body) {
  setup_.exchange->respond(200, "application/json", body.to_text(), setup_.headers);
}

void Generation::send(const Json& data) {
  setup_.exchange->write("data: " + data.to_text() + "\n\n");
}

void Generation::send(std::string_view name, const Json& data) {
  setup_.exchange->write(fmt::format("event: {}\ndata: {}\n\n", name, data.to_text()));
}

runtime::Usage Generation::total_usage() const {
  runtime::Usage total = choices_[0].last->usage;
  for (size_t i = 1; i < choices_.size(); ++i) {
    const runtime::Usage& usage = choices_[i].last->usage;
    total.generated_tokens += usage.generated_tokens;
    if (choices_[i].run == choices_[i - 1].run) continue;
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
  }
  return total;
}

uint64_t Generation::reasoning_tokens() const {
  uint64_t n = 0;
  for (const Choice& choice : choices_) n += choice.last->reasoning_tokens;
  return n;
}

std::string fresh_id(std::string_view prefix) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

Json stop_reason(const TextEvent& last, const std::vector<int32_t>& stop_ids) {
  switch (*last.finished) {
    case FinishReason::kStopped:
      return Json(last.stop_string);
    case FinishReason::kStopId:
      return std::ranges::find(stop_ids, last.stop_id) != stop_ids.end() ? Json(last.stop_id)
                                                                         : Json();
    case FinishReason::kContext:
      return Json("context");
    case FinishReason::kDeadEnd:
      return Json("constraint_dead_end");
    default:
      return Json();
  }
}

}  // namespace flare::server
