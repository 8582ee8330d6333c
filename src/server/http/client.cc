// One IO context, one coroutine for each exchange, and a list of idle connections.
#include "server/http/client.h"

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <set>
#include <vector>

#include "base/error.h"

namespace flare::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

using Parser = bhttp::response_parser<bhttp::buffer_body>;

std::string words_of(const error_code& ec) {
  if (ec == beast::error::timeout) return "timeout";
  if (ec == bhttp::error::end_of_stream || ec == bhttp::error::partial_message ||
      ec == asio::error::eof)
    return "the connection was closed";
  return ec.message();
}

Headers headers_of(const Parser& parser) {
  Headers headers;
  for (const auto& field : parser.get())
    headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  return headers;
}

}  // namespace

Url parse_url(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kUsage, "{} is no URL of a server: {}", quote(text), why);
  };
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with("https://")) throw refuse("https is not spoken, http://… expected");
  if (!text.starts_with(kScheme)) throw refuse("http://HOST[:PORT] expected");
  std::string_view rest = text.substr(kScheme.size());
  Url url;
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    url.prefix = rest.substr(slash);
    while (url.prefix.ends_with('/')) url.prefix.pop_back();
    rest = rest.substr(0, slash);
  }
  const size_t bracket = rest.rfind(']');
  const size_t colon = rest.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (has_port) {
    const std::string_view digits = rest.substr(colon + 1);
    const char* end = digits.data() + digits.size();
    const auto [stop, failure] = std::from_chars(digits.data(), end, url.port);
    if (failure != std::errc() || stop != end || url.port == 0)
      throw refuse("port 1..65535 expected");
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  for (const char c : rest)
    if (static_cast<unsigned char>(c) <= ' ' ||
        std::string_view("@?#[]").find(c) != std::string_view::npos)
      throw refuse("a host name or address expected");
  if (rest.empty()) throw refuse("a host name or address expected");
  url.host = rest;
  return url;
}

struct Client::Impl {
  explicit Impl(Url u) : url(std::move(u)) {}

  using Stream = beast::tcp_stream;
  const Url url;
  asio::io_context ioc{1};
  std::atomic<bool> stopped{false};
  std::vector<std::unique_ptr<Stream>> idle;
  std::set<Stream*> busy;
  std::set<asio::steady_timer*> pauses;
  std::vector<tcp::endpoint> addresses;  // resolved once

  struct Attempt {
    std::string failure;
    bool answered = false;  // a byte of the answer has come
  };

  asio::awaitable<void> exchange(Outgoing request, std::shared_ptr<Receiver> receiver);
  asio::awaitable<Attempt> attempt(Stream& stream, const Outgoing& request, Receiver& receiver,
                                   bool* keep);
  asio::awaitable<error_code> connect(Stream& stream);
  asio::awaitable<error_code> read_body(Stream& stream, beast::flat_buffer& buffer, Parser& parser,
                                        Receiver& receiver);
  void cancel_all();
};

asio::awaitable<error_code> Client::Impl::connect(Stream& stream) {
  error_code ec;
  if (addresses.empty()) {
    tcp::resolver resolver(ioc);
    const auto found = co_await resolver.async_resolve(url.host, fmt::format("{}", url.port),
                                                       redirect_error(use_awaitable, ec));
    if (ec) co_return ec;
    for (const auto& entry : found) addresses.push_back(entry.endpoint());
  }
  co_await stream.async_connect(addresses, redirect_error(use_awaitable, ec));
  if (!ec) {
    error_code ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
  }
  co_return ec;
}

asio::awaitable<error_code> Client::Impl::read_body(Stream& stream, beast::flat_buffer& buffer,
                                                    Parser& parser, Receiver& receiver) {
  std::vector<char> space(64 << 10);
  while (!parser.is_done()) {
    parser.get().body().data = space.data();
    parser.get().body().size = space.size();
    error_code ec;
    co_await bhttp::async_read_some(stream, buffer, parser, redirect_error(use_awaitable, ec));
    const size_t n = space.size() - parser.get().body().size;
    if (n > 0) receiver.data({space.data(), n});
    if (ec && ec != bhttp::error::need_buffer) co_return ec;
  }
  co_return error_code();
}

asio::awaitable<Client::Impl::Attempt> Client::Impl::attempt(Stream& stream,
                                                             const Outgoing& request,
                                                             Receiver& receiver, bool* keep) {
  bhttp::request<bhttp::string_body> message;
  message.version(11);
  message.method_string(request.method);
  message.target(url.prefix + request.path);
  const bool v6 = url.host.find(':') != std::string::npos;
  message.set(bhttp::field::host, v6 ? fmt::format("[{}]:{}", url.host, url.port)
                                     : fmt::format("{}:{}", url.host, url.port));
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  error_code ec;
  co_await bhttp::async_write(stream, message, redirect_error(use_awaitable, ec));
  if (ec) co_return Attempt{words_of(ec)};
  beast::flat_buffer buffer;
  Parser parser;
  parser.body_limit(boost::none);
  co_await bhttp::async_read_header(stream, buffer, parser, redirect_error(use_awaitable, ec));
  if (ec) co_return Attempt{words_of(ec), buffer.size() > 0 || ec == beast::error::timeout};
  receiver.head(static_cast<int>(parser.get().result_int()), headers_of(parser));
  ec = co_await read_body(stream, buffer, parser, receiver);
  *keep = !ec && parser.keep_alive();
  co_return Attempt{ec ? words_of(ec) : "", true};
}

// A kept connection may have been closed by the server meanwhile: then a fresh one is tried.
asio::awaitable<void> Client::Impl::exchange(Outgoing request, std::shared_ptr<Receiver> receiver) {
  const auto deadline = std::chrono::steady_clock::now() + request.timeout;
  Attempt result;
  while (!stopped) {
    const bool fresh = idle.empty();
    std::unique_ptr<Stream> stream;
    if (fresh) {
      stream = std::make_unique<Stream>(ioc);
    } else {
      stream = std::move(idle.back());
      idle.pop_back();
    }
    busy.insert(stream.get());
    if (request.timeout.count() > 0) stream->expires_at(deadline);
    bool keep = false;
    error_code ec;
    if (fresh) ec = co_await connect(*stream);
    if (ec)
      result = {words_of(ec), true};
    else
      result = co_await attempt(*stream, request, *receiver, &keep);
    busy.erase(stream.get());
    stream->expires_never();
    if (keep) idle.push_back(std::move(stream));
    if (result.failure.empty() || result.answered || fresh) break;
  }
  receiver->done(stopped && !(result.failure.empty() && result.answered) ? "stopped"
                                                                         : result.failure);
}

void Client::Impl::cancel_all() {
  for (Stream* stream : busy) stream->cancel();
  for (asio::steady_timer* pause : pauses) pause->cancel();
}

Client::Client(Url url) : impl_(std::make_unique<Impl>(std::move(url))) {}
Client::~Client() = default;

void Client::send(Outgoing request, std::shared_ptr<Receiver> receiver) {
  asio::co_spawn(impl_->ioc, impl_->exchange(std::move(request), std::move(receiver)),
                 [](std::exception_ptr failure) {
                   if (failure) std::rethrow_exception(failure);
                 });
}

void Client::after(std::chrono::nanoseconds pause, std::function<void()> then) {
  if (impl_->stopped) return;
  auto timer = std::make_shared<asio::steady_timer>(impl_->ioc, pause);
  impl_->pauses.insert(timer.get());
  timer->async_wait([this, timer, then = std::move(then)](error_code ec) {
    impl_->pauses.erase(timer.get());
    if (!ec && !impl_->stopped) then();
  });
}

void Client::run() {
  impl_->ioc.restart();
  impl_->ioc.run();
}

void Client::stop() {
  impl_->stopped = true;
  asio::post(impl_->ioc, [this] { impl_->cancel_all(); });
}

bool Client::stopped() const { return impl_->stopped; }

}  // namespace flare::server::http
