// The transport thread: accepts connections and runs their sessions, all as coroutines.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/http/session.h"

namespace flare::server::http {
namespace {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::error_code;

// Connections beyond the limit that still get a probe's answer or a refusal.
constexpr uint32_t kMaxCrowd = 64;

// A peer that is gone without a word is found out.
void set_tcp_options(int fd, int stall_seconds) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, stall_seconds * 1000);
}

}  // namespace

struct Server::Impl {
  Impl(const Options& options, Handler handler, Hooks hooks)
      : listeners(Listener::open_all(options)),
        shared(options, std::move(handler), std::move(hooks)) {
    if (!options.tls_certificate.empty())
      tls = TlsContext::load(options.tls_certificate, options.tls_key);
    for (const Listener& listener : listeners)
      acceptors.emplace_back(shared.io, ::dup(listener.fd()));
  }

  asio::awaitable<void> accept_loop(asio::posix::stream_descriptor& acceptor, bool is_tcp);
  void admit(int fd);
  void count_connections(uint32_t open);
  bool close_longest_idle();

  std::vector<Listener> listeners;
  Shared shared;
  std::vector<asio::posix::stream_descriptor> acceptors;  // transport thread
  std::shared_ptr<const TlsContext> tls;                  // transport thread
  std::thread thread;
};

asio::awaitable<void> Server::Impl::accept_loop(asio::posix::stream_descriptor& acceptor,
                                                bool is_tcp) {
  while (!shared.draining) {
    error_code ec;
    co_await acceptor.async_wait(asio::posix::descriptor_base::wait_read,
                                 asio::redirect_error(use_awaitable, ec));
    if (ec || shared.draining) co_return;
    const int fd =
        ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (is_tcp) set_tcp_options(fd, shared.options.stall_seconds);
      admit(fd);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      close_longest_idle();
      asio::steady_timer pause(shared.io, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(use_awaitable, ec));
    }
  }
}

void Server::Impl::admit(int fd) {
  const uint32_t limit = shared.options.max_connections;
  const bool crowded = shared.connections >= limit && !close_longest_idle();
  if (crowded && shared.connections >= limit + kMaxCrowd) {
    ::close(fd);
    return;
  }
  std::shared_ptr<Connection> connection;
  try {
    connection = std::make_shared<Connection>(shared.io, fd);
  } catch (const std::exception& refused) {  // by the system: no room for one more
    log_warn("connection: {}", refused.what());
    ::close(fd);
    return;
  }
  count_connections(shared.connections + 1);
  asio::co_spawn(shared.io, run_session(shared, std::move(connection), tls, crowded),
                 [this](std::exception_ptr) { count_connections(shared.connections - 1); });
}

void Server::Impl::count_connections(uint32_t open) {
  shared.connections = open;
  if (shared.hooks.connections_changed) shared.hooks.connections_changed(open);
}

// Makes room: who is between two requests can come again. False: nobody is.
bool Server::Impl::close_longest_idle() {
  if (shared.idle.empty()) return false;
  const auto longest = shared.idle.begin();
  longest->second->close();
  shared.idle.erase(longest);
  return true;
}

Server::Server(const Options& options, Handler handler, Hooks hooks) try
    : impl_(std::make_unique<Impl>(options, std::move(handler), std::move(hooks))) {
  for (size_t i = 0; i < impl_->acceptors.size(); ++i)
    asio::co_spawn(impl_->shared.io,
                   impl_->accept_loop(impl_->acceptors[i], impl_->listeners[i].port() != 0),
                   asio::detached);
  impl_->thread = std::thread([this] { impl_->shared.io.run(); });
} catch (const boost::system::system_error& refused) {
  throw std::system_error(refused.code(), refused.what());
}

bool Server::wait_idle(std::chrono::steady_clock::time_point deadline) {
  Shared& shared = impl_->shared;
  std::unique_lock lock(shared.idle_mutex);
  return shared.became_idle.wait_until(lock, deadline, [&] { return shared.n_exchanges == 0; });
}

Server::~Server() {
  stop_accepting();
  impl_->shared.io.stop();
  impl_->thread.join();
  impl_->shared.workers.join();
  impl_->shared.large_workers.join();
}

uint16_t Server::port() const {
  for (const Listener& listener : impl_->listeners)
    if (listener.port() != 0) return listener.port();
  return 0;
}

std::vector<std::string> Server::urls() const {
  std::vector<std::string> urls;
  const std::string_view scheme = impl_->shared.options.tls_certificate.empty() ? "http" : "https";
  for (const Listener& listener : impl_->listeners)
    urls.push_back(listener.port() == 0 ? listener.address()
                                        : fmt::format("{}://{}", scheme, listener.address()));
  return urls;
}

uint32_t Server::connections() const { return impl_->shared.connections; }

void Server::set_tls(std::shared_ptr<const TlsContext> tls) {
  asio::post(impl_->shared.io, [this, tls = std::move(tls)] { impl_->tls = tls; });
}

void Server::stop_accepting() {
  impl_->shared.draining = true;
  asio::post(impl_->shared.io, [this] {
    error_code ignored;
    for (auto& acceptor : impl_->acceptors) acceptor.close(ignored);
  });
}

}  // namespace flare::server::http
