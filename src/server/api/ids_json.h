// Token ids as JSON.
#pragma once

#include <cstdint>
#include <span>

#include "base/json/json.h"

namespace flare::server {

inline Json ids_json(std::span<const int32_t> ids) {
  Json list = Json::array();
  for (const int32_t id : ids) list.push_back(id);
  return list;
}

}  // namespace flare::server
