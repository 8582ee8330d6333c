// Lines are made where things happen and written by a thread of their own.
#include "server/observe/request_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/version.h"

namespace flare::server::observe {
namespace {

constexpr int kVersionOfLines = 1;
constexpr size_t kMostWaiting = size_t{4} << 20;

double rounded(double ms) { return std::round(ms * 1000) / 1000; }

Json identity(const RequestRecord& r) {
  return Json::object({{"id", r.id}, {"api", api_text(r.api)}, {"model", r.model}});
}

}  // namespace

RequestLog::RequestLog(std::string path) : path_(std::move(path)), fd_(open_file()) {
  if (fd_ < 0)
    throw Error(Code::kWrite, "--request-log {}: cannot be opened: {}", quote(path_), errno_text());
  thread_ = std::thread([this] { run(); });
}

RequestLog::~RequestLog() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(fd_);
}

int RequestLog::open_file() const {
  return ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

void RequestLog::request_start(const RequestRecord& r) {
  Json line = identity(r);
  line.set("stream", r.stream);
  line.set("n", r.n_choices);
  line.set("seed", r.seed);
  write("request_start", std::move(line));
}

void RequestLog::request_done(const RequestRecord& r) {
  Json line = identity(r);
  line.set("status", r.status > 0 ? Json(r.status) : Json());
  line.set("outcome", outcome_text(r.outcome));
  line.set("finish", r.finish.empty() ? Json() : Json(r.finish));
  if (!r.error_code.empty()) line.set("error", r.error_code);
  line.set("stream", r.stream);
  line.set("n", r.n_choices);
  line.set("prompt_tokens", r.prompt_tokens);
  line.set("cached_tokens", r.cached_tokens);
  line.set("completion_tokens", r.generated_tokens);
  line.set("reasoning_tokens", r.reasoning_tokens);
  line.set("draft_tokens", r.drafted_tokens);
  line.set("accepted_tokens", r.accepted_tokens);
  line.set("tool_calls", r.tool_calls);
  line.set("images", r.images);
  line.set("miss", miss_text(r));
  line.set("queue_ms", rounded(r.queue_ms));
  line.set("prefill_ms", rounded(r.prefill_ms));
  line.set("decode_ms", rounded(r.decode_ms));
  line.set("ttft_ms", r.ttft_ms ? Json(rounded(*r.ttft_ms)) : Json());
  line.set("total_ms", rounded(r.total_ms));
  line.set("seed", r.seed);
  write("request_done", std::move(line));
}

void RequestLog::request_rejected(const RequestRecord& r) {
  Json line = identity(r);
  line.set("status", r.status);
  line.set("error", r.error_code);
  write("request_rejected", std::move(line));
}

void RequestLog::write(std::string_view event, Json members) {
  Json line = Json::object({{"v", kVersionOfLines}, {"time", utc_now_text()}, {"event", event}});
  for (auto& [name, value] : members.mutable_object()) line.set(name, std::move(value));
  enqueue(line.to_text() + "\n");
}

void RequestLog::enqueue(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() > kMostWaiting) {
      ++dropped_;
      ++dropped_unsaid_;
      return;
    }
    waiting_ += line;
  }
  changed_.notify_one();
}

void RequestLog::reopen() {
  {
    const std::lock_guard lock(mutex_);
    reopen_ = true;
  }
  changed_.notify_one();
}

uint64_t RequestLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void RequestLog::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return quit_ || reopen_ || !waiting_.empty(); });
    std::string lines = std::exchange(waiting_, {});
    const uint64_t lost = std::exchange(dropped_unsaid_, 0);
    const bool again = std::exchange(reopen_, false);
    const bool last = quit_;
    lock.unlock();
    if (lost > 0)
      lines += Json::object({{"v", kVersionOfLines},
                             {"time", utc_now_text()},
                             {"event", "lines_dropped"},
                             {"count", lost}})
                   .to_text() +
               "\n";
    write_out(lines);
    if (again) {
      if (const int fresh = open_file(); fresh >= 0) {
        ::close(std::exchange(fd_, fresh));
      } else {
        log_error("request log {}: cannot be opened again, the old file stays: {}", quote(path_),
                  errno_text());
      }
    }
    lock.lock();
    if (last && waiting_.empty()) return;
  }
}

// What the file system refuses is lost; the server goes on.
void RequestLog::write_out(const std::string& lines) {
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t n = ::write(fd_, lines.data() + done, lines.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return log_error("request log {}: {}", quote(path_), errno_text());
    done += static_cast<size_t>(n);
  }
}

}  // namespace flare::server::observe
