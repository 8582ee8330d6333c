// Requests of one connection, one after the other: head, judgement, body, answer.
#include "server/http/session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "server/http/exchange.h"
#include "server/http/head.h"

namespace flare::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::awaitable;
using asio::use_awaitable;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using std::chrono::seconds;
using Parser = bhttp::request_parser<bhttp::string_body>;

// Input that is kept for later: of pipelined requests, or of one unit that is not complete.
constexpr size_t kMaxKept = 64 << 10;
// A body from here on is parsed by the thread for large ones.
constexpr size_t kLargeBody = 1 << 20;
// What a client may send between two looks at the other connections.
constexpr size_t kMaxBurst = 1 << 20;
// Says nothing, and may come before any answer to an HTTP/1.1 client (RFC 9110 §15.2).
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// How long an HTTP/1.0 client that has sent its last byte is taken to wait for an answer.
constexpr seconds kOldClientPatience(1);

// The connection is over; its exchange has been told.
struct Lost {};

// Bytes of a body in memory, given back when its handler has returned.
class BodyShare {
 public:
  explicit BodyShare(std::atomic<uint64_t>* total) : total_(total) {}
  BodyShare(BodyShare&& other) noexcept
      : total_(other.total_), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyShare& operator=(BodyShare&&) = delete;
  ~BodyShare() { *total_ -= bytes_; }
  // Takes up to `bytes` in all; false: they would exceed `limit`.
  bool grow_to(uint64_t bytes, uint64_t limit) {
    if (bytes <= bytes_) return true;
    const uint64_t more = bytes - bytes_;
    if (*total_ + more > limit) return false;
    *total_ += more;
    bytes_ = bytes;
    return true;
  }

 private:
  std::atomic<uint64_t>* total_;
  uint64_t bytes_ = 0;
};

class Session {
 public:
  Session(Shared& shared, std::shared_ptr<Connection> connection, bool crowded)
      : shared_(shared),
        options_(shared.options),
        connection_(std::move(connection)),
        crowded_(crowded) {}

  awaitable<void> run();

 private:
  using Read = Connection::Read;
  // Why a request ends before its handler: a refusal, an answer to the head, or a lost client.
  enum class Fate { kGoOn, kAnswered, kClose };

  awaitable<bool> serve_one();
  awaitable<bool> await_request();
  awaitable<Fate> read_head(Parser& parser, Request* request);
  awaitable<Fate> check_head(const Parser& parser, Request* request);
  awaitable<Fate> judge(const Parser& parser, Request* request);
  awaitable<Fate> read_body(Parser& parser, const Request& request, BodyShare* share);
  awaitable<Fate> refuse(const Request& request, int status, std::string_view code,
                         std::string message);
  awaitable<bool> run_handler(Request request, BodyShare share, bool keep_alive, bool is_11);
  awaitable<bool> answer(QueuedExchange& exchange, const Request& request, bool keep_alive,
                         bool is_11);
  awaitable<bool> stream(QueuedExchange& exchange, QueuedExchange::Output output, bool chunked);
  awaitable<bool> wait_output(TimePoint deadline);
  awaitable<void> write_all(std::string_view bytes, QueuedExchange* exchange = nullptr);
  awaitable<void> linger();
  std::string too_large() const {
    return fmt::format("the request body exceeds {} bytes", options_.max_body_bytes);
  }
  void responded(const Request& request, int status) const {
    if (shared_.hooks.responded) shared_.hooks.responded(request.path, status);
  }

  Shared& shared_;
  const Options& options_;
  const std::shared_ptr<Connection> connection_;
  const bool crowded_;
  std::string input_;            // arrived, not parsed
  bool body_too_large_ = false;  // says the head
  bool input_ended_ = false;     // the client has sent its last byte
};

awaitable<void> Session::run() {
  try {
    while (co_await serve_one()) {
    }
  } catch (const Lost&) {
    co_return;
  }
  co_await linger();
}

// Until the first byte of a request. False: there will be none.
awaitable<bool> Session::await_request() {
  const TimePoint deadline = Clock::now() + seconds(crowded_ ? 1 : options_.idle_seconds);
  while (true) {
    // Empty lines between requests are no request (RFC 9112 §2.2).
    const size_t begin = input_.find_first_not_of("\r\n");
    input_.erase(0, std::min(begin, input_.size()));
    if (!input_.empty()) co_return true;
    const uint64_t ticket = shared_.n_waits++;
    shared_.idle.emplace(ticket, connection_.get());
    const Read result = co_await connection_->read(&input_, deadline);
    shared_.idle.erase(ticket);
    if (result != Read::kData) co_return false;
  }
}

awaitable<bool> Session::serve_one() {
  if (!co_await await_request()) co_return false;
  Parser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  Request request;
  const bool draining = shared_.draining;
  Fate fate = co_await read_head(parser, &request);
  const bool is_11 = parser.is_header_done() && parser.get().version() == 11;
  const bool keep_alive = parser.is_header_done() && parser.keep_alive() && !draining && !crowded_;
  if (fate == Fate::kGoOn) fate = co_await check_head(parser, &request);
  if (fate == Fate::kGoOn) fate = co_await judge(parser, &request);
  if (fate == Fate::kAnswered) co_return keep_alive&& is_11&& parser.is_done();
  BodyShare share(&shared_.body_bytes);
  if (fate == Fate::kGoOn) fate = co_await read_body(parser, request, &share);
  if (fate != Fate::kGoOn) co_return false;
  request.body = std::move(parser.release().body());
  co_return co_await run_handler(std::move(request), std::move(share), keep_alive, is_11);
}

awaitable<Session::Fate> Session::refuse(const Request& request, int status, std::string_view code,
                                         std::string message) {
  const Answer answer = shared_.hooks.refusal(request, status, code, std::move(message));
  responded(request, answer.status);
  co_await write_all(answer_text(request, answer, false));
  co_return Fate::kClose;
}

awaitable<Session::Fate> Session::read_head(Parser& parser, Request* request) {
  const TimePoint deadline = Clock::now() + seconds(crowded_ ? 1 : options_.header_seconds);
  error_code failure;
  Read result = Read::kData;
  while (result == Read::kData) {
    input_.erase(0, parser.put(asio::buffer(input_), failure));
    if (failure && failure != bhttp::error::need_more) break;
    if (parser.is_header_done()) {
      failure = {};
      break;
    }
    result = co_await connection_->read(&input_, deadline);
  }
  const auto& head = parser.get();
  request->method = std::string(head.method_string());
  for (const auto& field : head)
    request->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  complete_head(head.target(), request);
  if (result == Read::kTimeout)
    co_return co_await refuse(*request, 408, "request_timeout", "the request header took too long");
  if (result != Read::kData) co_return Fate::kClose;
  if (failure == bhttp::error::header_limit)
    co_return co_await refuse(*request, 431, "headers_too_large", "request headers are too large");
  body_too_large_ = failure == bhttp::error::body_limit;
  if (failure && !body_too_large_)
    co_return co_await refuse(*request, 400, "invalid_request", "malformed HTTP request");
  co_return Fate::kGoOn;
}

// What a proxy in front might read differently is refused (RFC 9112 §3.2, §6.3).
awaitable<Session::Fate> Session::check_head(const Parser& parser, Request* request) {
  const auto& head = parser.get();
  if (std::distance(head.begin(), head.end()) > options_.max_header_fields)
    co_return co_await refuse(*request, 431, "headers_too_large", "too many request headers");
  const size_t n_hosts = head.count(bhttp::field::host);
  if (n_hosts > 1 || (n_hosts == 0 && head.version() == 11))
    co_return co_await refuse(*request, 400, "invalid_request", "one Host header expected");
  const bool is_encoded = head.count(bhttp::field::transfer_encoding) > 0;
  if (is_encoded && !beast::iequals(head[bhttp::field::transfer_encoding], "chunked"))
    co_return co_await refuse(*request, 400, "invalid_request",
                              "a Transfer-Encoding other than chunked");
  if (is_encoded && head.version() != 11)
    co_return co_await refuse(*request, 400, "invalid_request",
                              "a Transfer-Encoding in HTTP/1.0, which has none");
  const std::string_view length = request->header("content-length");
  if (head.count(bhttp::field::content_length) > 1 ||
      length.find_first_not_of("0123456789") != std::string_view::npos)
    co_return co_await refuse(*request, 400, "invalid_request", "one Content-Length expected");
  co_return Fate::kGoOn;
}

awaitable<Session::Fate> Session::judge(const Parser& parser, Request* request) {
  std::optional<Answer> verdict;
  if (shared_.hooks.on_head) verdict = shared_.hooks.on_head(request);
  if (!verdict && crowded_)
    co_return co_await refuse(*request, 503, "server_overloaded", "too many connections");
  if (!verdict && body_too_large_)
    co_return co_await refuse(*request, 413, "body_too_large", too_large());
  if (!verdict) co_return Fate::kGoOn;
  const bool more = parser.is_done() && parser.keep_alive() && parser.get().version() == 11 &&
                    !crowded_ && !shared_.draining;
  responded(*request, verdict->status);
  co_await write_all(answer_text(*request, *verdict, more));
  co_return Fate::kAnswered;
}

awaitable<Session::Fate> Session::read_body(Parser& parser, const Request& request,
                                            BodyShare* share) {
  if (parser.is_done()) co_return Fate::kGoOn;
  if (parser.get().version() == 11 &&
      beast::iequals(parser.get()[bhttp::field::expect], "100-continue"))
    co_await write_all(kContinue);
  const TimePoint end = Clock::now() + seconds(options_.body_seconds);
  error_code failure;
  Read result = Read::kData;
  size_t burst = 0;
  parser.eager(true);
  while (true) {
    if (!input_.empty()) input_.erase(0, parser.put(asio::buffer(input_), failure));
    if (parser.is_done()) co_return Fate::kGoOn;
    if (failure && failure != bhttp::error::need_more) break;
    if (input_.size() >= kMaxKept) failure = bhttp::error::bad_chunk;  // a line without end
    if (!share->grow_to(parser.get().body().size(), options_.max_bodies_bytes))
      co_return co_await refuse(request, 503, "server_overloaded",
                                "too many large requests at once");
    if (failure == bhttp::error::bad_chunk) break;
    if (burst > kMaxBurst) {
      burst = 0;
      co_await asio::post(use_awaitable);
    }
    const size_t before = input_.size();
    const TimePoint idle_end = Clock::now() + seconds(options_.body_idle_seconds);
    result = co_await connection_->read(&input_, std::min(end, idle_end));
    if (result != Read::kData) break;
    burst += input_.size() - before;
    if (Clock::now() >= end) {
      result = Read::kTimeout;
      break;
    }
  }
  if (result == Read::kTimeout)
    co_return co_await refuse(request, 408, "request_timeout", "the request body took too long");
  if (result != Read::kData) co_return Fate::kClose;
  if (failure == bhttp::error::body_limit)
    co_return co_await refuse(request, 413, "body_too_large", too_large());
  co_return co_await refuse(request, 400, "invalid_request", "malformed HTTP body");
}

awaitable<bool> Session::run_handler(Request request, BodyShare share, bool keep_alive,
                                     bool is_11) {
  const auto exchange = std::make_shared<QueuedExchange>(request, options_.max_unread_bytes,
                                                         [weak = std::weak_ptr(connection_)] {
                                                           if (const auto connection = weak.lock())
                                                             connection->wake_soon();
                                                         });
  Request head;  // what the answer needs, while the handler has the request
  head.method = request.method;
  head.path = request.path;
  head.id = request.id;
  head.reply_headers = std::move(request.reply_headers);
  {
    const std::lock_guard lock(shared_.idle_mutex);
    ++shared_.n_exchanges;
  }
  bool again = false;
  std::exception_ptr failure;  // Lost, or no memory
  try {
    auto& pool = request.body.size() >= kLargeBody ? shared_.large_workers : shared_.workers;
    asio::post(pool.get_executor(), [this_shared = &shared_, exchange, request = std::move(request),
                                     share = std::move(share)]() mutable {
      this_shared->handler(std::move(request), exchange);
    });
    again = co_await answer(*exchange, head, keep_alive, is_11);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) exchange->client_gone();
  {
    const std::lock_guard lock(shared_.idle_mutex);
    --shared_.n_exchanges;
  }
  shared_.became_idle.notify_all();
  if (failure) std::rethrow_exception(failure);
  co_return again && !shared_.draining;
}

// Waits for output while watching the client; bytes of a next request are kept. Throws Lost when
// the client has left. True: it has just sent its last byte. It may have closed the connection or
// only its sending side: that is told by an error behind what the caller must write now.
awaitable<bool> Session::wait_output(TimePoint deadline) {
  using Watch = Connection::Watch;
  const bool watched = !input_ended_ && input_.size() < kMaxKept;  // a flood: writing will tell
  const Read result = watched ? connection_->read_now(&input_) : Read::kNothing;
  if (result == Read::kData) co_return false;
  if (result == Read::kEnd) co_return input_ended_ = true;
  if (result != Read::kNothing || (input_ended_ && connection_->has_failed())) throw Lost();
  co_await connection_->wait(deadline, input_ended_ ? Watch::kFailure
                                       : watched    ? Watch::kInput
                                                    : Watch::kNothing);
  co_return false;
}

awaitable<bool> Session::answer(QueuedExchange& exchange, const Request& request, bool keep_alive,
                                bool is_11) {
  QueuedExchange::Output output;
  std::optional<TimePoint> first_ping, look;  // look: whether who sends no more is still there
  if (input_ended_) look = Clock::now();
  while (!(output = exchange.take()).started) {
    if (output.gone) throw Lost();
    const TimePoint now = Clock::now();
    if (look && now >= *look) {
      if (!is_11) throw Lost();
      co_await write_all(kContinue, &exchange);
      look = now + seconds(options_.ping_seconds);
    }
    if (output.offered && !first_ping) first_ping = now + seconds(options_.ping_seconds);
    if (first_ping && now >= *first_ping) {
      exchange.begin_offered();
      continue;
    }
    const TimePoint next = first_ping.value_or(now + std::chrono::hours(1));
    if (co_await wait_output(std::min(next, look.value_or(next))))
      look = Clock::now() + (is_11 ? seconds(0) : kOldClientPatience);
  }
  responded(request, exchange.status());
  std::string head = head_text(exchange.status(), request, exchange.headers(),
                               keep_alive && (is_11 || !output.streaming));
  if (output.streaming) {
    add_header("Content-Type", "text/event-stream; charset=utf-8", &head);
    add_header("Cache-Control", "no-store", &head);
    add_header("X-Accel-Buffering", "no", &head);
    if (is_11) add_header("Transfer-Encoding", "chunked", &head);
    co_await write_all(head + "\r\n", &exchange);
    co_return co_await stream(exchange, std::move(output), is_11) && keep_alive&& is_11;
  }
  if (!exchange.content_type().empty()) add_header("Content-Type", exchange.content_type(), &head);
  add_header("Content-Length", fmt::format("{}", output.bytes.size()), &head);
  if (keep_alive && !is_11) add_header("Connection", "keep-alive", &head);
  head += "\r\n";
  if (request.method != "HEAD") head += output.bytes;
  co_await write_all(head);
  co_return keep_alive;
}

awaitable<bool> Session::stream(QueuedExchange& exchange, QueuedExchange::Output output,
                                bool chunked) {
  const seconds silence(options_.ping_seconds);
  TimePoint last_write = Clock::now();
  bool ask = false;  // whether the client is there
  while (true) {
    if (output.gone) throw Lost();
    const bool is_silent = ask || Clock::now() - last_write >= silence;
    if (output.bytes.empty() && !output.ended && is_silent) output.bytes = exchange.ping();
    ask = false;
    if (!output.bytes.empty()) {
      if (chunked) output.bytes = fmt::format("{:x}\r\n{}\r\n", output.bytes.size(), output.bytes);
      if (chunked && output.ended) output.bytes += "0\r\n\r\n";
      co_await write_all(output.bytes, &exchange);
      last_write = Clock::now();
      if (output.ended) co_return true;
    } else if (output.ended) {
      if (chunked) co_await write_all("0\r\n\r\n", &exchange);
      co_return true;
    }
    output = exchange.take();
    if (!output.bytes.empty() || output.ended || output.gone) continue;
    if (Clock::now() < last_write + silence) ask = co_await wait_output(last_write + silence);
    output = exchange.take();
  }
}

// Throws Lost if the connection fails, makes no progress for too long, or `exchange` gives it up.
awaitable<void> Session::write_all(std::string_view bytes, QueuedExchange* exchange) {
  TimePoint deadline = Clock::now() + seconds(options_.stall_seconds);
  while (!bytes.empty()) {
    const std::optional<size_t> n =
        connection_->is_open() ? connection_->write_now(bytes) : std::nullopt;
    const bool given_up = exchange != nullptr && exchange->is_gone();
    if (!n || given_up || (*n == 0 && Clock::now() >= deadline)) {
      if (exchange != nullptr) exchange->client_gone();
      throw Lost();
    }
    if (*n == 0) {
      co_await connection_->wait_room(deadline);
      continue;
    }
    bytes.remove_prefix(*n);
    deadline = Clock::now() + seconds(options_.stall_seconds);
  }
}

// Closing with unread input resets the connection, and the client may lose an answer that it has
// not read yet: so say goodbye, then read on for a moment.
awaitable<void> Session::linger() {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  connection_->shutdown_send();
  const TimePoint deadline = Clock::now() + seconds(crowded_ ? 1 : 2);
  size_t discarded = 0, burst = 0;
  while (discarded < kMaxBytes) {
    input_.clear();
    if (co_await connection_->read(&input_, deadline) != Read::kData) co_return;
    discarded += input_.size();
    if ((burst += input_.size()) < kMaxBurst) continue;
    burst = 0;
    co_await asio::post(use_awaitable);
    if (Clock::now() >= deadline) co_return;
  }
}

Answer plain_refusal(const Request&, int status, std::string_view code, std::string message) {
  return {.status = status,
          .content_type = "text/plain",
          .body = fmt::format("{}: {}\n", code, message)};
}

}  // namespace

Shared::Shared(const Options& o, Handler h, Hooks k)
    : options(o), handler(std::move(h)), hooks(std::move(k)), workers(o.workers) {
  if (!hooks.refusal) hooks.refusal = plain_refusal;
}

awaitable<void> run_session(Shared& shared, std::shared_ptr<Connection> connection,
                            std::shared_ptr<const TlsContext> tls, bool crowded) {
  const TimePoint deadline = Clock::now() + seconds(shared.options.header_seconds);
  try {
    if (!tls || co_await connection->handshake(std::move(tls), deadline)) {
      Session session(shared, connection, crowded);
      co_await session.run();
    }
  } catch (const std::exception& defect) {  // memory, for one: the others go on
    log_error("connection: {}", defect.what());
  }
  connection->close();
}

}  // namespace flare::server::http
