// What every connection of a server shares, and the life of one.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "server/http/connection.h"
#include "server/http/http.h"
#include "server/http/workers.h"

namespace flare::server::http {

// Confined to the transport thread where nothing else is said.
struct Shared {
  Shared(const Options& o, Handler h, Hooks k);

  const Options options;
  const Handler handler;
  Hooks hooks;
  boost::asio::io_context io{1};
  // Handlers. Large bodies have a thread of their own, so that reading them delays nobody else.
  Workers workers, large_workers{1};
  // Between two requests, longest first: what may be closed for others.
  std::map<uint64_t, Connection*> idle;
  uint64_t n_waits = 0;
  std::atomic<uint32_t> connections{0};  // any thread may read
  std::atomic<bool> draining{false};     // any thread
  std::atomic<uint64_t> body_bytes{0};   // of bodies that are not parsed yet; any thread
  std::mutex idle_mutex;
  std::condition_variable became_idle;
  uint32_t n_exchanges = 0;  // guarded by idle_mutex
};

// Serves one client, encrypted with `tls` unless it is null, until it leaves or must leave.
// `crowded`: there are more clients than allowed, so that it gets probes and refusals alone.
boost::asio::awaitable<void> run_session(Shared& shared, std::shared_ptr<Connection> connection,
                                         std::shared_ptr<const TlsContext> tls, bool crowded);

}  // namespace flare::server::http
