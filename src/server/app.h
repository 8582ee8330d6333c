// The HTTP application: the table of routes, probes, and what every request passes first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/api/call.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace flare::server {

struct AppOptions {
  std::vector<std::string> model_ids;  // served names; empty: the model's own
  bool any_model = false;              // every `model` is taken
  bool strict_fields = false;          // unknown field names are errors
  bool loopback = true;                // only loopback Host and Origin headers are taken
};

// Answers requests; any thread. Before open() it serves probes and says model_loading.
class App {
 public:
  explicit App(AppOptions options) : options_(std::move(options)) {}

  // Must not throw (the contract of http::Handler).
  void handle(http::Request request, std::shared_ptr<http::Exchange> exchange);
  // Lends the service, which must outlive the last request.
  void open(Service& service);
  // From now on generating endpoints and /ready answer server_draining.
  void drain() { draining_ = true; }

 private:
  struct Route;
  static const Route kRoutes[];
  struct Call {
    const http::Request& request;
    std::string_view tail;  // of a path that ends with an id
    std::shared_ptr<http::Exchange> exchange;
  };

  void dispatch(const http::Request& request, std::shared_ptr<http::Exchange> exchange);
  void check_origin(const http::Request& request) const;
  void health(const Call& call);
  void live(const Call& call);
  void ready(const Call& call);
  void version(const Call& call);
  void list_models(const Call& call);
  void show_model(const Call& call);
  void chat(const Call& call);
  void complete(const Call& call);
  void complete_natively(const Call& call);
  void tokenize(const Call& call);
  void detokenize(const Call& call);
  void apply_template(const Call& call);
  // A protocol's function on the request's body; generating ones do not begin while draining.
  void generate(const Call& call, void (*protocol)(const ApiCall&));
  void inspect(const Call& call, void (*protocol)(const ApiCall&));

  // Throws model_loading.
  Service& service() const;
  std::vector<std::string> served_names() const;
  // The name to echo. Throws model_not_found.
  std::string chosen_model(const Json& body) const;
  Json model_json(const std::string& name) const;

  const AppOptions options_;
  std::atomic<Service*> service_{nullptr};
  std::atomic<int64_t> opened_unix_{0};
  std::atomic<bool> draining_{false};
};

}  // namespace flare::server
