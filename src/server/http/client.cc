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
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace flare::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
namespace ssl = boost::asio::ssl;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

using Parser = bhttp::response_parser<bhttp::buffer_body>;

std::string words_of(const error_code& ec) {
  if (ec == beast::error::timeout) return "timeout";
  if (ec == bhttp::error::end_of_stream || ec == bhttp::error::partial_message ||
      ec == asio::error::eof || ec == ssl::error::stream_truncated)
    return "the connection was closed";
  if (ec.category() == asio::error::get_ssl_category()) return "TLS: " + ec.message();
  return ec.message();
}

// Null for a server that does not encrypt.
std::unique_ptr<ssl::context> tls_context(const Url& url, const std::string& ca_file) {
  if (!url.tls) {
    if (ca_file.empty()) return nullptr;
    throw Error(Code::kUsage, "{} is for https, the URL is http", ca_file);
  }
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  context->set_options(ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  context->set_verify_mode(ssl::verify_peer);
  context->set_verify_callback(ssl::host_name_verification(url.host));
  error_code ec;
  if (ca_file.empty()) {
    context->set_default_verify_paths(ec);
  } else {
    File::open(ca_file);  // names what is absent
    context->load_verify_file(ca_file, ec);
  }
  if (ec)
    throw Error(Code::kInvalid, "{}: {}, PEM certificates expected",
                ca_file.empty() ? "the system's certificates" : ca_file, ec.message());
  return context;
}

// A connection, encrypted or not.
struct Link {
  Link(asio::io_context& ioc, ssl::context* context) : plain(ioc) {
    if (context) tls.emplace(plain, *context);
  }
  beast::tcp_stream plain;
  std::optional<ssl::stream<beast::tcp_stream&>> tls;
};

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
  constexpr std::string_view kScheme = "http://", kTlsScheme = "https://";
  Url url;
  url.tls = text.starts_with(kTlsScheme);
  if (url.tls) url.port = 443;
  if (!url.tls && !text.starts_with(kScheme)) throw refuse("http[s]://HOST[:PORT] expected");
  std::string_view rest = text.substr(url.tls ? kTlsScheme.size() : kScheme.size());
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
  Impl(Url u, const std::string& ca_file) : url(std::move(u)), context(tls_context(url, ca_file)) {}

  const Url url;
  const std::unique_ptr<ssl::context> context;  // null: no encryption
  asio::io_context ioc{1};
  std::atomic<bool> stopped{false};
  std::vector<std::unique_ptr<Link>> idle;
  std::set<Link*> busy;
  std::set<asio::steady_timer*> pauses;
  std::vector<tcp::endpoint> addresses;  // resolved once

  struct Attempt {
    std::string failure;
    bool answered = false;  // a byte of the answer has come
  };

  asio::awaitable<void> exchange(Outgoing request, std::shared_ptr<Receiver> receiver);
  template <typename Stream>
  asio::awaitable<Attempt> attempt(Stream& stream, const Outgoing& request, Receiver& receiver,
                                   bool* keep);
  asio::awaitable<error_code> connect(Link& link);
  template <typename Stream>
  static asio::awaitable<error_code> read_body(Stream& stream, beast::flat_buffer& buffer,
                                               Parser& parser, Receiver& receiver);
  void cancel_all();
};

asio::awaitable<error_code> Client::Impl::connect(Link& link) {
  error_code ec;
  if (addresses.empty()) {
    tcp::resolver resolver(ioc);
    const auto found = co_await resolver.async_resolve(url.host, fmt::format("{}", url.port),
                                                       redirect_error(use_awaitable, ec));
    if (ec) co_return ec;
    for (const auto& entry : found) addresses.push_back(entry.endpoint());
  }
  co_await link.plain.async_connect(addresses, redirect_error(use_awaitable, ec));
  if (ec) co_return ec;
  error_code ignored;
  link.plain.socket().set_option(tcp::no_delay(true), ignored);
  if (!link.tls) co_return ec;
  asio::ip::make_address(url.host, ignored);  // names alone are told, addresses are not
  if (ignored) ::SSL_set_tlsext_host_name(link.tls->native_handle(), url.host.c_str());
  co_await link.tls->async_handshake(ssl::stream_base::client, redirect_error(use_awaitable, ec));
  co_return ec;
}

template <typename Stream>
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

template <typename Stream>
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
    std::unique_ptr<Link> link;
    if (fresh) {
      link = std::make_unique<Link>(ioc, context.get());
    } else {
      link = std::move(idle.back());
      idle.pop_back();
    }
    busy.insert(link.get());
    if (request.timeout.count() > 0) link->plain.expires_at(deadline);
    bool keep = false;
    error_code ec;
    if (fresh) ec = co_await connect(*link);
    if (ec)
      result = {words_of(ec), true};
    else if (link->tls)
      result = co_await attempt(*link->tls, request, *receiver, &keep);
    else
      result = co_await attempt(link->plain, request, *receiver, &keep);
    busy.erase(link.get());
    link->plain.expires_never();
    if (keep) idle.push_back(std::move(link));
    if (result.failure.empty() || result.answered || fresh) break;
  }
  receiver->done(stopped && !(result.failure.empty() && result.answered) ? "stopped"
                                                                         : result.failure);
}

void Client::Impl::cancel_all() {
  for (Link* link : busy) link->plain.cancel();
  for (asio::steady_timer* pause : pauses) pause->cancel();
}

Client::Client(Url url, const std::string& ca_file)
    : impl_(std::make_unique<Impl>(std::move(url), ca_file)) {}
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
