// One request on its way into a protocol.
#pragma once

#include <memory>
#include <string>

#include "base/json/json.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace flare::server {

struct ApiCall {
  Service& service;
  const http::Request& request;
  const Json& body;  // an object
  std::shared_ptr<http::Exchange> exchange;
  std::string model;  // the name to echo
  bool strict_fields = false;
};

}  // namespace flare::server
