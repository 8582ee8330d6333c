// Boost.Beast and Asio coroutines behind the façade: one IO thread, a pool of handler threads.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "server/http/http.h"

namespace flare::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using namespace std::chrono_literals;
using boost::system::error_code;

constexpr std::string_view kServerName = "flare";

std::string percent_decoded(std::string_view text) {
  std::string out;
  const auto hex = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string fresh_request_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req_{:016x}", random());
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

Answer plain_refusal(const Request&, int status, std::string_view code, std::string message) {
  return {.status = status,
          .content_type = "text/plain",
          .body = fmt::format("{}: {}\n", code, message)};
}

// Head and body as they go out.
std::string answer_text(const Request& request, const Answer& answer, bool keep_alive) {
  const std::string_view reason = bhttp::obsolete_reason(static_cast<bhttp::status>(answer.status));
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nServer: {}\r\n", answer.status, reason, kServerName);
  const auto add = [&](std::string_view name, std::string_view value) {
    text += fmt::format("{}: {}\r\n", name, value);
  };
  add("x-request-id", request.id);
  add("request-id", request.id);
  for (const auto& [name, value] : request.reply_headers) add(name, value);
  for (const auto& [name, value] : answer.headers) add(name, value);
  if (!answer.content_type.empty()) add("Content-Type", answer.content_type);
  if (answer.status != 204) add("Content-Length", fmt::format("{}", answer.body.size()));
  if (!keep_alive) add("Connection", "close");
  return text + "\r\n" + (request.method == "HEAD" ? "" : answer.body);
}

// What of a request stands in its head; partly empty where it could not be read.
Request request_of(const bhttp::request_header<>& head) {
  Request request;
  request.method = std::string(head.method_string());
  const std::string target(head.target());
  const size_t question = target.find('?');
  request.path = percent_decoded(std::string_view(target).substr(0, question));
  if (question != std::string::npos) request.query = target.substr(question + 1);
  for (const auto& field : head)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  const std::string_view theirs = request.header("x-request-id");
  request.id = !theirs.empty() && theirs.size() <= 128 && is_printable(theirs) ? std::string(theirs)
                                                                               : fresh_request_id();
  return request;
}

// Output of one exchange on its way to the IO thread. The mutex guards every field but ioc_.
class ExchangeImpl : public Exchange, public std::enable_shared_from_this<ExchangeImpl> {
 public:
  ExchangeImpl(asio::io_context& ioc, uint64_t max_unread, const Request& request)
      : ioc_(ioc),
        timer_(ioc),
        max_unread_(max_unread),
        id_(request.id),
        path_(request.path),
        salt_(request.cache_salt) {}
  std::chrono::steady_clock::time_point arrived() const override { return arrived_; }

  const std::string& request_id() const override { return id_; }
  const std::string& request_path() const override { return path_; }
  const std::string& cache_salt() const override { return salt_; }

  bool respond(int status, std::string_view content_type, std::string body,
               Headers headers) override {
    const std::lock_guard lock(mutex_);
    if (started_ || gone_) return false;
    started_ = ended_ = true;
    status_ = status;
    content_type_ = content_type;
    headers_ = std::move(headers);
    queue_.push_back(std::move(body));
    wake();
    return true;
  }
  void begin_stream(Headers headers, std::string ping) override {
    const std::lock_guard lock(mutex_);
    if (started_ || gone_) return;
    started_ = streaming_ = true;
    headers_ = std::move(headers);
    ping_ = std::move(ping);
    wake();
  }
  void offer_stream(Headers headers, std::string ping) override {
    const std::lock_guard lock(mutex_);
    if (started_ || gone_) return;
    offered_ = true;
    headers_ = std::move(headers);
    ping_ = std::move(ping);
    wake();
  }
  void write(std::string bytes) override {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      if (gone_ || ended_ || bytes.empty()) return;
      queued_bytes_ += bytes.size();
      queue_.push_back(std::move(bytes));
      if (queued_bytes_ > max_unread_) gone = mark_gone();
      wake();
    }
    if (gone) gone();
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wake();
  }
  void on_disconnect(std::function<void()> gone) override {
    {
      const std::lock_guard lock(mutex_);
      if (!gone_) {
        on_gone_ = std::move(gone);
        return;
      }
    }
    gone();
  }

  // The rest runs on the IO thread.
  struct Output {
    bool started = false, offered = false, streaming = false, ended = false, gone = false;
    std::string bytes;
  };
  // The first ping is due: what is offered begins.
  void begin_offered() {
    const std::lock_guard lock(mutex_);
    if (offered_ && !started_) started_ = streaming_ = true;
  }
  Output take() {
    const std::lock_guard lock(mutex_);
    Output out{started_, offered_, streaming_, ended_, gone_, {}};
    for (std::string& part : queue_) out.bytes += part;
    queue_.clear();
    queued_bytes_ = 0;
    return out;
  }
  // Returns when there may be something to take, or after `limit`.
  asio::awaitable<void> wait(std::chrono::steady_clock::duration limit) {
    {
      const std::lock_guard lock(mutex_);
      if (signalled_) {
        signalled_ = false;
        co_return;
      }
      timer_.expires_after(limit);
      waiting_ = true;
    }
    error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(use_awaitable, ignored));
    const std::lock_guard lock(mutex_);
    waiting_ = signalled_ = false;
  }
  void client_gone() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      gone = mark_gone();
    }
    if (gone) gone();
  }
  int status() const { return status_; }
  const std::string& content_type() const { return content_type_; }
  const Headers& headers() const { return headers_; }
  const std::string& ping() const { return ping_; }

 private:
  void wake() {  // mutex_ held
    signalled_ = true;
    if (waiting_) asio::post(ioc_, [self = shared_from_this()] { self->timer_.cancel(); });
  }
  std::function<void()> mark_gone() {  // mutex_ held
    if (gone_) return {};
    gone_ = true;
    return std::exchange(on_gone_, {});
  }

  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  asio::io_context& ioc_;
  asio::steady_timer timer_;  // IO thread
  const uint64_t max_unread_;
  const std::string id_, path_, salt_;
  std::mutex mutex_;
  bool started_ = false, offered_ = false, streaming_ = false, ended_ = false, gone_ = false;
  bool signalled_ = false, waiting_ = false;
  int status_ = 200;
  std::string content_type_;
  Headers headers_;
  std::string ping_;
  std::deque<std::string> queue_;
  uint64_t queued_bytes_ = 0;
  std::function<void()> on_gone_;
};

// What the answer needs to know of its request.
struct Reply {
  std::string request_id;
  unsigned http_version = 11;
  bool keep_alive = true;
  bool head = false;
  Headers headers;  // besides those of the answer
};

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (beast::iequals(key, name)) return value;
  return {};
}

struct Server::Impl {
  Impl(const Options& o, Handler h, Hooks k)
      : options(o),
        handler(std::move(h)),
        hooks(std::move(k)),
        workers(static_cast<size_t>(o.workers)),
        acceptor(ioc) {
    if (!hooks.refusal) hooks.refusal = plain_refusal;
  }

  Options options;
  Handler handler;
  Hooks hooks;
  asio::io_context ioc{1};
  asio::thread_pool workers;
  tcp::acceptor acceptor;
  uint16_t port = 0;
  uint32_t connections = 0;  // IO thread
  std::atomic<bool> draining{false};
  std::mutex idle_mutex;
  std::condition_variable idle;
  uint32_t n_exchanges = 0;  // guarded by idle_mutex
  std::thread io_thread;

  void listen();
  void count_connections(uint32_t open);
  asio::awaitable<void> accept_loop();
  asio::awaitable<void> session(tcp::socket socket);
  asio::awaitable<bool> serve_one(beast::tcp_stream& stream, beast::flat_buffer& buffer);
  asio::awaitable<bool> read_request(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                     bhttp::request_parser<bhttp::string_body>& parser,
                                     Request* request, bool* answered);
  template <typename T>
  asio::awaitable<bool> within(std::chrono::steady_clock::duration limit, asio::awaitable<T> work);
  asio::awaitable<bool> refuse(beast::tcp_stream& stream, const Request& request, int status,
                               std::string_view code, std::string message);
  asio::awaitable<bool> answer_now(beast::tcp_stream& stream, const Request& request,
                                   const Answer& answer, bool keep_alive);
  asio::awaitable<error_code> read_body(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                        bhttp::request_parser<bhttp::string_body>& parser);
  asio::awaitable<bool> answer(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                               ExchangeImpl& exchange, const Reply& reply);
  asio::awaitable<bool> wait_output(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                    ExchangeImpl& exchange,
                                    std::chrono::steady_clock::duration limit);
  asio::awaitable<bool> stream_out(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                   ExchangeImpl& exchange, ExchangeImpl::Output first,
                                   bhttp::response<bhttp::empty_body> header, bool chunked);
  asio::awaitable<void> write_all(beast::tcp_stream& stream, std::string_view bytes);
  asio::awaitable<void> linger(beast::tcp_stream& stream, beast::flat_buffer& buffer);
};

void Server::Impl::listen() {
  error_code ec;
  const auto address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, ec);
  if (ec) throw Error(Code::kUsage, "--host {}: an IP address expected", quote(options.host));
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol());
  acceptor.set_option(asio::socket_base::reuse_address(true));
  acceptor.bind(endpoint, ec);
  if (ec)
    throw Error(Code::kNetwork, "{}:{}: cannot be bound: {}", options.host, options.port,
                ec.message())
        .set_hint("choose another --port; 0 picks a free one");
  acceptor.listen();
  port = acceptor.local_endpoint().port();
}

asio::awaitable<void> Server::Impl::accept_loop() {
  while (!draining) {
    error_code ec;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(use_awaitable, ec));
    if (ec == asio::error::operation_aborted) co_return;
    if (ec) {  // out of descriptors, for one: wait for some to close
      asio::steady_timer pause(ioc, 50ms);
      co_await pause.async_wait(asio::redirect_error(use_awaitable, ec));
      continue;
    }
    if (connections >= options.max_connections) continue;  // closes the socket
    socket.set_option(tcp::no_delay(true), ec);
    socket.non_blocking(true, ec);
    count_connections(connections + 1);
    asio::co_spawn(ioc, session(std::move(socket)),
                   [this](std::exception_ptr) { count_connections(connections - 1); });
  }
}

void Server::Impl::count_connections(uint32_t open) {
  connections = open;
  if (hooks.connections_changed) hooks.connections_changed(open);
}

asio::awaitable<void> Server::Impl::session(tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  try {
    while (co_await serve_one(stream, buffer)) {
    }
  } catch (const boost::system::system_error&) {
    // The connection failed; its exchange has been told.
  }
  co_await linger(stream, buffer);
}

// Closing with unread input resets the connection, and the client may lose an answer that it has
// not read yet: so say goodbye, then read on for a moment.
asio::awaitable<void> Server::Impl::linger(beast::tcp_stream& stream, beast::flat_buffer& buffer) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  error_code ec;
  stream.socket().shutdown(tcp::socket::shutdown_send, ec);
  stream.expires_after(2s);
  size_t discarded = 0;
  while (!ec && discarded < kMaxBytes) {
    buffer.clear();
    discarded += co_await stream.async_read_some(buffer.prepare(16384),
                                                 asio::redirect_error(use_awaitable, ec));
  }
}

// Returns `keep_alive`.
asio::awaitable<bool> Server::Impl::answer_now(beast::tcp_stream& stream, const Request& request,
                                               const Answer& answer, bool keep_alive) {
  if (hooks.responded) hooks.responded(request.path, answer.status);
  co_await write_all(stream, answer_text(request, answer, keep_alive));
  co_return keep_alive;
}

asio::awaitable<bool> Server::Impl::refuse(beast::tcp_stream& stream, const Request& request,
                                           int status, std::string_view code, std::string message) {
  co_return co_await answer_now(stream, request,
                                hooks.refusal(request, status, code, std::move(message)), false);
}

// Runs `work` and cancels it when the limit passes (false). The stream's own timeouts close the
// connection, so that no 408 could be sent.
template <typename T>
asio::awaitable<bool> Server::Impl::within(std::chrono::steady_clock::duration limit,
                                           asio::awaitable<T> work) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer timer(ioc, limit);
  error_code ignored;
  const auto first =
      co_await (std::move(work) || timer.async_wait(asio::redirect_error(use_awaitable, ignored)));
  co_return first.index() == 0;
}

// False: the connection is done (a refusal has been sent where one is due). `answered`: the head
// was enough.
asio::awaitable<bool> Server::Impl::read_request(beast::tcp_stream& stream,
                                                 beast::flat_buffer& buffer,
                                                 bhttp::request_parser<bhttp::string_body>& parser,
                                                 Request* request, bool* answered) {
  parser.header_limit(options.max_header_bytes);
  parser.body_limit(options.max_body_bytes);
  error_code ec;
  if (buffer.size() == 0) {  // idle until the first byte
    stream.expires_after(std::chrono::seconds(options.idle_seconds));
    const size_t n = co_await stream.async_read_some(buffer.prepare(4096),
                                                     asio::redirect_error(use_awaitable, ec));
    if (ec) co_return false;
    buffer.commit(n);
  }
  stream.expires_never();
  const bool head_in_time =
      co_await within(std::chrono::seconds(options.header_seconds),
                      bhttp::async_read_header(stream.socket(), buffer, parser,
                                               asio::redirect_error(use_awaitable, ec)));
  *request = request_of(parser.get().base());
  if (!head_in_time)
    co_return co_await refuse(stream, *request, 408, "request_timeout",
                              "the request header took too long");
  if (ec == bhttp::error::header_limit)
    co_return co_await refuse(stream, *request, 431, "headers_too_large",
                              "request headers are too large");
  if (ec == bhttp::error::end_of_stream || ec == asio::error::connection_reset ||
      ec == asio::error::operation_aborted || ec == bhttp::error::partial_message)
    co_return false;
  if (ec == bhttp::error::body_limit)
    co_return co_await refuse(stream, *request, 413, "body_too_large",
                              "the request body is too large");
  if (ec)
    co_return co_await refuse(stream, *request, 400, "invalid_request", "malformed HTTP request");
  const auto& fields = parser.get();
  if (std::distance(fields.begin(), fields.end()) > options.max_header_fields)
    co_return co_await refuse(stream, *request, 431, "headers_too_large",
                              "too many request headers");
  // What a proxy in front might read differently (RFC 9112 §3.2, §6.3).
  if (fields.count(bhttp::field::host) > 1)
    co_return co_await refuse(stream, *request, 400, "invalid_request",
                              "more than one Host header");
  if (fields.count(bhttp::field::transfer_encoding) > 0 && !parser.chunked())
    co_return co_await refuse(stream, *request, 400, "invalid_request",
                              "a Transfer-Encoding other than chunked");
  const bool keep_alive = parser.keep_alive() && !draining;
  if (hooks.on_head) {
    if (const auto answer = hooks.on_head(request)) {
      const bool again = keep_alive && parser.is_done() && parser.get().version() == 11;
      *answered = true;
      co_return co_await answer_now(stream, *request, *answer, again);
    }
  }
  if (beast::iequals(parser.get()[bhttp::field::expect], "100-continue")) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await write_all(stream, kContinue);
  }
  ec = co_await read_body(stream, buffer, parser);
  if (ec == bhttp::error::body_limit)
    co_return co_await refuse(stream, *request, 413, "body_too_large",
                              "the request body is too large");
  if (ec == beast::error::timeout)
    co_return co_await refuse(stream, *request, 408, "request_timeout",
                              "the request body took too long");
  const bool cut = ec == bhttp::error::partial_message || ec == asio::error::eof ||
                   ec == asio::error::connection_reset;
  if (ec && !cut)
    co_return co_await refuse(stream, *request, 400, "invalid_request", "malformed HTTP body");
  co_return !ec;
}

asio::awaitable<error_code> Server::Impl::read_body(
    beast::tcp_stream& stream, beast::flat_buffer& buffer,
    bhttp::request_parser<bhttp::string_body>& parser) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.body_seconds);
  error_code ec;
  while (!ec && !parser.is_done()) {
    const auto now = std::chrono::steady_clock::now();
    const auto idle_end = now + std::chrono::seconds(options.body_idle_seconds);
    stream.expires_never();
    const bool in_time =
        co_await within(std::min(deadline, idle_end) - now,
                        bhttp::async_read_some(stream.socket(), buffer, parser,
                                               asio::redirect_error(use_awaitable, ec)));
    if (!in_time) co_return error_code(beast::error::timeout);
  }
  co_return ec;
}

asio::awaitable<bool> Server::Impl::serve_one(beast::tcp_stream& stream,
                                              beast::flat_buffer& buffer) {
  bhttp::request_parser<bhttp::string_body> parser;
  Request request;
  bool answered = false;
  if (!co_await read_request(stream, buffer, parser, &request, &answered)) co_return false;
  if (answered) co_return true;
  auto message = parser.release();
  const Reply reply{.request_id = request.id,
                    .http_version = message.version() == 10 ? 10u : 11u,
                    .keep_alive = message.keep_alive() && !draining,
                    .head = request.method == "HEAD",
                    .headers = std::move(request.reply_headers)};
  request.body = std::move(message.body());

  auto exchange = std::make_shared<ExchangeImpl>(ioc, options.max_unread_bytes, request);
  {
    const std::lock_guard lock(idle_mutex);
    ++n_exchanges;
  }
  asio::post(workers, [this, exchange, request = std::move(request)]() mutable {
    handler(std::move(request), exchange);
  });
  bool again = false;
  std::exception_ptr failure;
  try {
    again = co_await answer(stream, buffer, *exchange, reply);
  } catch (const boost::system::system_error&) {
    failure = std::current_exception();
    exchange->client_gone();
  }
  {
    const std::lock_guard lock(idle_mutex);
    --n_exchanges;
  }
  idle.notify_all();
  if (failure) std::rethrow_exception(failure);
  co_return again && !draining;
}

// Waits for output while watching the client; bytes of a next request go into the buffer. False:
// the client has left.
asio::awaitable<bool> Server::Impl::wait_output(beast::tcp_stream& stream,
                                                beast::flat_buffer& buffer, ExchangeImpl& exchange,
                                                std::chrono::steady_clock::duration limit) {
  using namespace asio::experimental::awaitable_operators;
  constexpr size_t kMaxPipelined = 64 << 10;
  stream.expires_never();
  if (buffer.size() >= kMaxPipelined) {  // a flood: no longer watched, writing will tell
    co_await exchange.wait(limit);
    co_return true;
  }
  const auto which = co_await (exchange.wait(limit) ||
                               stream.socket().async_wait(tcp::socket::wait_read, use_awaitable));
  if (which.index() == 0) co_return true;
  error_code ec;
  const size_t n = stream.socket().receive(buffer.prepare(4096), 0, ec);
  buffer.commit(n);
  if (ec == asio::error::would_block || ec == asio::error::try_again) co_return true;
  if (!ec && n > 0) co_return true;
  exchange.client_gone();
  co_return false;
}

asio::awaitable<bool> Server::Impl::answer(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                           ExchangeImpl& exchange, const Reply& reply) {
  ExchangeImpl::Output output;
  const std::chrono::seconds silence(options.ping_seconds);
  std::optional<std::chrono::steady_clock::time_point> first_ping;
  while (!(output = exchange.take()).started) {
    const auto now = std::chrono::steady_clock::now();
    if (output.offered && !first_ping) first_ping = now + silence;
    if (first_ping && now >= *first_ping) {
      exchange.begin_offered();
      continue;
    }
    const auto limit = first_ping ? *first_ping - now : std::chrono::nanoseconds(1h);
    if (output.gone || !co_await wait_output(stream, buffer, exchange, limit)) co_return false;
  }
  if (hooks.responded) hooks.responded(exchange.request_path(), exchange.status());
  bhttp::response<bhttp::empty_body> header{static_cast<bhttp::status>(exchange.status()),
                                            reply.http_version};
  header.set(bhttp::field::server, beast::string_view(kServerName.data(), kServerName.size()));
  header.set("x-request-id", reply.request_id);
  header.set("request-id", reply.request_id);
  for (const auto& [name, value] : reply.headers) header.set(name, value);
  for (const auto& [name, value] : exchange.headers()) header.set(name, value);
  if (output.streaming) {
    const bool chunked = reply.http_version == 11;
    header.set(bhttp::field::content_type, "text/event-stream; charset=utf-8");
    header.set(bhttp::field::cache_control, "no-store");
    header.set("X-Accel-Buffering", "no");
    header.keep_alive(reply.keep_alive && chunked);
    header.chunked(chunked);
    const bool whole = co_await stream_out(stream, buffer, exchange, std::move(output),
                                           std::move(header), chunked);
    co_return whole&& reply.keep_alive&& chunked;
  }
  header.set(bhttp::field::content_type, exchange.content_type());
  header.content_length(output.bytes.size());
  header.keep_alive(reply.keep_alive);
  stream.expires_after(std::chrono::seconds(options.stall_seconds));
  bhttp::response_serializer<bhttp::empty_body> serializer(header);
  co_await bhttp::async_write_header(stream, serializer, use_awaitable);
  if (!reply.head) co_await write_all(stream, output.bytes);
  co_return reply.keep_alive;
}

asio::awaitable<void> Server::Impl::write_all(beast::tcp_stream& stream, std::string_view bytes) {
  while (!bytes.empty()) {
    stream.expires_after(std::chrono::seconds(options.stall_seconds));
    bytes.remove_prefix(co_await stream.async_write_some(asio::buffer(bytes), use_awaitable));
  }
}

asio::awaitable<bool> Server::Impl::stream_out(beast::tcp_stream& stream,
                                               beast::flat_buffer& buffer, ExchangeImpl& exchange,
                                               ExchangeImpl::Output first,
                                               bhttp::response<bhttp::empty_body> header,
                                               bool chunked) {
  const auto silence = std::chrono::seconds(options.ping_seconds);
  stream.expires_after(std::chrono::seconds(options.stall_seconds));
  bhttp::response_serializer<bhttp::empty_body> serializer(header);
  co_await bhttp::async_write_header(stream, serializer, use_awaitable);
  ExchangeImpl::Output output = std::move(first);
  auto last_write = std::chrono::steady_clock::now();
  while (true) {
    if (output.gone) co_return false;
    const auto now = std::chrono::steady_clock::now();
    if (output.bytes.empty() && !output.ended && now - last_write >= silence)
      output.bytes = exchange.ping();
    if (!output.bytes.empty()) {
      if (chunked) output.bytes = fmt::format("{:x}\r\n{}\r\n", output.bytes.size(), output.bytes);
      co_await write_all(stream, output.bytes);
      last_write = std::chrono::steady_clock::now();
    }
    if (output.ended) break;
    output = exchange.take();
    if (output.gone) co_return false;
    if (!output.bytes.empty() || output.ended) continue;
    const auto left = last_write + silence - std::chrono::steady_clock::now();
    if (left.count() > 0 && !co_await wait_output(stream, buffer, exchange, left)) co_return false;
    output = exchange.take();
  }
  if (chunked) co_await write_all(stream, "0\r\n\r\n");
  co_return true;
}

Server::Server(const Options& options, Handler handler, Hooks hooks)
    : impl_(std::make_unique<Impl>(options, std::move(handler), std::move(hooks))) {
  impl_->listen();
  asio::co_spawn(impl_->ioc, impl_->accept_loop(), asio::detached);
  impl_->io_thread = std::thread([this] { impl_->ioc.run(); });
}

bool Server::wait_idle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(impl_->idle_mutex);
  return impl_->idle.wait_until(lock, deadline, [this] { return impl_->n_exchanges == 0; });
}

Server::~Server() {
  stop_accepting();
  impl_->ioc.stop();
  impl_->io_thread.join();
  impl_->workers.join();
}

uint16_t Server::port() const { return impl_->port; }

void Server::stop_accepting() {
  impl_->draining = true;
  asio::post(impl_->ioc, [this] {
    error_code ignored;
    impl_->acceptor.close(ignored);
  });
}

}  // namespace flare::server::http
