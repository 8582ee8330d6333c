// The HTTP façade: requests in, responses and event streams out. Transport details stay behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flare::server::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // as sent, without '?'
  Headers headers;
  std::string body;
  std::string id;           // x-request-id of the client if printable, else our own
  std::string key_label;    // of the key that came with it; empty without keys
  std::string cache_salt;   // keeps its cached prefixes from callers with another; empty: shared
  uint32_t timeout_ms = 0;  // the client wants its answer by then, from its arrival on; 0: none
  Headers reply_headers;    // what its answer carries besides its own

  // First value of a header (names compared without case); empty if absent.
  std::string_view header(std::string_view name) const;
  // Whether a header stands there several times, with different values.
  bool has_several(std::string_view name) const;
};

// A whole answer as data.
struct Answer {
  int status = 200;
  std::string content_type;  // empty: without body
  std::string body;
  Headers headers;
};

// A line of an event stream that its readers skip.
inline constexpr std::string_view kCommentPing = ": ping\n\n";

// One request's answer. Any thread; calls after the client is gone do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Of the request: its id, as the answer shows it, and its path.
  virtual const std::string& request_id() const = 0;
  virtual const std::string& request_path() const = 0;
  // The salt of cached prefixes where the request names none; empty where callers share them.
  virtual const std::string& cache_salt() const = 0;
  // When the request was complete.
  virtual std::chrono::steady_clock::time_point arrived() const {
    return std::chrono::steady_clock::now();
  }
  // By when its client wants the answer.
  virtual std::optional<std::chrono::steady_clock::time_point> deadline() const {
    return std::nullopt;
  }
  // A complete response. False if there is one already or a stream has begun; then nothing is sent.
  virtual bool respond(int status, std::string_view content_type, std::string body,
                       Headers headers = {}) = 0;
  // 200 text/event-stream; `ping` keeps it alive while nothing is written. The first call counts,
  // also after offer_stream().
  virtual void begin_stream(Headers headers = {}, std::string ping = std::string(kCommentPing)) = 0;
  // As begin_stream(), but only when the first ping is due: until then respond() can still send an
  // error with its own status.
  virtual void offer_stream(Headers headers, std::string ping) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void end() = 0;
  // `gone` runs once, on a transport thread, if the client disappears or stops reading before the
  // answer is complete; at once if it already has.
  virtual void on_disconnect(std::function<void()> gone) = 0;
};

// Runs on a worker thread; must not throw. It may keep the exchange and answer later.
using Handler = std::function<void(Request, std::shared_ptr<Exchange>)>;

// What the transport asks of the application on its own threads: neither may block or throw.
struct Hooks {
  // Judges a request by its head, before its body is read. An answer ends it: no handler sees it.
  std::function<std::optional<Answer>(Request*)> on_head;
  // The form of the transport's own refusals. The request may lack what was never read.
  std::function<Answer(const Request&, int status, std::string_view code, std::string message)>
      refusal;
  // A response begins; the path is the client's. May be absent, as the next.
  std::function<void(std::string_view path, int status)> responded;
  std::function<void(uint32_t open)> connections_changed;
};

struct Options {
  bool tcp = true;  // listen on host and port
  std::string host = "127.0.0.1";
  uint16_t port = 8000;         // 0: any free one
  std::string unix_path;        // listen there too; empty: no
  std::vector<int> inherited;   // sockets that a service manager opened; no others then
  std::string tls_certificate;  // PEM file; empty: no encryption
  std::string tls_key;          // PEM file
  int workers = 2;              // threads for handlers
  uint64_t max_body_bytes = uint64_t{64} << 20;
  uint64_t max_bodies_bytes = uint64_t{1} << 30;  // of all requests that wait for their handler
  uint32_t max_header_bytes = 32 << 10;
  uint32_t max_connections = 1024;
  int idle_seconds = 75;    // keep-alive without a request
  int header_seconds = 10;  // from first byte to the end of the header
  uint32_t max_header_fields = 100;
  int body_seconds = 120;      // from the end of the header to the end of the body
  int body_idle_seconds = 15;  // without a byte of the body
  int ping_seconds = 5;        // silence in a stream before a comment line
  uint64_t max_unread_bytes = uint64_t{4} << 20;  // output a client has not taken
  int stall_seconds = 30;                         // a write without progress
};

// Whether the options listen on loopback addresses and paths alone.
bool is_local_only(const Options& options);
// Whether they listen on any network address, loopback included.
bool listens_on_network(const Options& options);

class TlsContext;

// Listens from construction. Exchanges must not be used after the server is gone: stop what answers
// them first. With TLS the process must ignore SIGPIPE. Errors: kUsage (address), kNetwork (bind),
// kExists (path), those of TlsContext::load.
class Server {
 public:
  Server(const Options& options, Handler handler, Hooks hooks = {});
  ~Server();
  uint16_t port() const;  // of the first network address; 0 if there is none
  // "http://127.0.0.1:8000", "https://…", "unix:/path".
  std::vector<std::string> urls() const;
  uint32_t connections() const;
  // For the connections that follow; they are encrypted already.
  void set_tls(std::shared_ptr<const TlsContext> tls);
  // No new connections, and no further request on those that are there; running exchanges go on.
  void stop_accepting();
  // Waits until every exchange has been answered and its answer handed to the system. False: the
  // deadline passed first.
  bool wait_idle(std::chrono::steady_clock::time_point deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flare::server::http
