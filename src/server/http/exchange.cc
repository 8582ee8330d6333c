// A queue of bytes with a bound, and the state of an answer.
#include "server/http/exchange.h"

#include <utility>

namespace flare::server::http {

bool QueuedExchange::respond(int status, std::string_view content_type, std::string body,
                             Headers headers) {
  const std::lock_guard lock(mutex_);
  if (started_ || gone_) return false;
  started_ = ended_ = true;
  status_ = status;
  content_type_ = content_type;
  headers_ = std::move(headers);
  queue_.push_back(std::move(body));
  wake_();
  return true;
}

void QueuedExchange::begin_stream(Headers headers, std::string ping) {
  const std::lock_guard lock(mutex_);
  if (started_ || gone_) return;
  started_ = streaming_ = true;
  headers_ = std::move(headers);
  ping_ = std::move(ping);
  wake_();
}

void QueuedExchange::offer_stream(Headers headers, std::string ping) {
  const std::lock_guard lock(mutex_);
  if (started_ || gone_) return;
  offered_ = true;
  headers_ = std::move(headers);
  ping_ = std::move(ping);
  wake_();
}

void QueuedExchange::begin_offered() {
  const std::lock_guard lock(mutex_);
  if (offered_ && !started_) started_ = streaming_ = true;
}

void QueuedExchange::write(std::string bytes) {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || ended_ || bytes.empty()) return;
    queued_bytes_ += bytes.size();
    queue_.push_back(std::move(bytes));
    if (queued_bytes_ > max_unread_) gone = mark_gone();
    wake_();
  }
  if (gone) gone();
}

void QueuedExchange::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wake_();
}

void QueuedExchange::on_disconnect(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      on_gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

QueuedExchange::Output QueuedExchange::take() {
  const std::lock_guard lock(mutex_);
  Output out{started_, offered_, streaming_, ended_, gone_, {}};
  for (std::string& part : queue_) {
    if (out.bytes.empty())
      out.bytes = std::move(part);
    else
      out.bytes += part;
  }
  queue_.clear();
  queued_bytes_ = 0;
  return out;
}

bool QueuedExchange::is_gone() {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void QueuedExchange::client_gone() {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    gone = mark_gone();
  }
  if (gone) gone();
}

// Under the mutex; what is returned is called without it.
std::function<void()> QueuedExchange::mark_gone() {
  if (gone_) return {};
  gone_ = true;
  queue_.clear();
  return std::exchange(on_gone_, {});
}

}  // namespace flare::server::http
