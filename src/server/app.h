// The HTTP application: the table of routes, probes, and what every request passes first.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/access/access.h"
#include "server/api/call.h"
#include "server/api/errors.h"
#include "server/api/openai/response_store.h"
#include "server/http/http.h"
#include "server/observe/overview.h"
#include "server/service/service.h"

namespace flare::server {

struct AppOptions {
  std::vector<std::string> model_ids;  // served names; empty: the model's own
  bool any_model = false;              // every `model` is taken
  bool strict_fields = false;          // unknown field names are errors
  bool metrics_public = false;         // /metrics needs no key
  bool metric_aliases = true;          // metrics under the names of others too
  bool share_cache = false;            // callers with different keys share cached prefixes
  bool web = true;                     // serve the chat page
};

// Answers requests; any thread. Before open() it serves probes and says model_loading.
class App {
 public:
  // The observer outlives the app.
  App(AppOptions options, std::shared_ptr<const Access> access, observe::Observer& observer)
      : options_(std::move(options)), observer_(observer), access_(std::move(access)) {}

  // Must not throw (the contract of http::Handler).
  void handle(http::Request request, std::shared_ptr<http::Exchange> exchange);
  // Host, origin, preflight and key of every request, and the probes' answers, on transport
  // threads.
  http::Hooks hooks();
  // Other keys, hosts and origins for the requests that follow.
  void set_access(std::shared_ptr<const Access> access) {
    const std::lock_guard lock(access_mutex_);
    access_ = std::move(access);
  }
  // Lends the service, which must outlive the last request.
  void open(Service& service);
  // From now on generating endpoints and /ready answer server_draining.
  void drain() { draining_ = true; }
  // What an operator sees now; any thread.
  observe::Overview overview() const;

 private:
  // Who may use a route, and where its handler runs.
  enum class Entry : uint8_t {
    kKey,      // needs a key where the server has keys; runs on a worker
    kOpen,     // needs none
    kMetrics,  // needs one unless --metrics-public
    kProbe,    // needs none; runs on a transport thread, so it must neither wait nor work long
  };
  struct Route;
  static const Route kRoutes[];
  struct Call {
    const http::Request& request;
    std::string_view tail;  // of a path that ends with an id
    std::shared_ptr<http::Exchange> exchange;
  };

  void dispatch(const http::Request& request, std::shared_ptr<http::Exchange> exchange);
  static const Route* find_route(const http::Request& request, std::string_view* tail,
                                 std::string* allowed);
  std::optional<http::Answer> judge(http::Request* request);
  std::shared_ptr<const Access> access() const {
    const std::lock_guard lock(access_mutex_);
    return access_;
  }
  http::Answer probe(const Route& route, const http::Request& request);
  void health(const Call& call);
  void live(const Call& call);
  void ready(const Call& call);
  void version(const Call& call);
  void metrics(const Call& call);
  void status(const Call& call);
  void list_models(const Call& call);
  void show_model(const Call& call);
  void chat(const Call& call);
  void complete(const Call& call);
  void message(const Call& call);
  void count_message(const Call& call);
  void respond(const Call& call);
  void count_response_input(const Call& call);
  void show_response(const Call& call);
  void delete_response(const Call& call);
  void no_such_path(const Call& call);
  void embed(const Call& call);
  void rerank(const Call& call);
  void score(const Call& call);
  void complete_natively(const Call& call);
  void tokenize(const Call& call);
  void detokenize(const Call& call);
  void apply_template(const Call& call);
  // A protocol's function on the request's body; generating ones do not begin while draining.
  using Protocol = std::function<void(const ApiCall&)>;
  void generate(const Call& call, const Protocol& protocol, bool any_model = false);
  void inspect(const Call& call, const Protocol& protocol, bool any_model = false);
  void props(const Call& call);
  void page(const Call& call);

  // Throws model_loading.
  Service& service() const;
  std::vector<std::string> served_names() const;
  // The name to echo. Throws model_not_found, unless any name is taken.
  std::string chosen_model(const Json& body, bool any_model) const;
  Json model_json(const std::string& name) const;
  observe::Scrape scrape() const;
  void count_response(std::string_view path, int status);
  void count_rejection(const http::Exchange& exchange, const ApiError& error);

  const AppOptions options_;
  observe::Observer& observer_;
  // Not std::atomic<std::shared_ptr>: g++ 12 does not order a read of one before the next write.
  mutable std::mutex access_mutex_;
  std::shared_ptr<const Access> access_;  // guarded by access_mutex_
  std::atomic<Service*> service_{nullptr};
  std::atomic<int64_t> opened_unix_{0};
  std::atomic<bool> draining_{false};
  ResponseStore responses_;
};

}  // namespace flare::server
