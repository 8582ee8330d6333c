// Finished responses and the items they were made of, in memory (serving.md S1).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/json/json.h"

namespace flare::server {

// What is kept of one response. Immutable.
struct StoredResponse {
  std::string owner;   // of the request's key; others do not see it
  Json response;       // as it was answered
  Json::Array input;   // the whole history it answers, every item with an id
  Json::Array output;  // its own items
};

// The least recently used go first. Any thread.
class ResponseStore {
 public:
  explicit ResponseStore(size_t max_responses = 1024, uint64_t max_bytes = uint64_t{256} << 20)
      : max_responses_(max_responses), max_bytes_(max_bytes) {}

  // One that is larger than the store is not kept.
  void put(const std::string& id, StoredResponse response);
  // nullptr: unknown, forgotten, or another owner's. The others count as a use.
  std::shared_ptr<const StoredResponse> get(const std::string& id, const std::string& owner);
  std::optional<Json> item(const std::string& item_id, const std::string& owner);
  bool remove(const std::string& id, const std::string& owner);

 private:
  struct Entry {
    std::string id;
    uint64_t bytes = 0;
    std::shared_ptr<const StoredResponse> response;
  };
  using Entries = std::list<Entry>;  // least recently used first
  Entries::iterator find(const std::string& id, const std::string& owner);
  void drop(Entries::iterator entry);

  const size_t max_responses_;
  const uint64_t max_bytes_;
  std::mutex mutex_;  // guards the rest
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_id_;
  std::unordered_map<std::string, std::string> holder_of_item_;  // item id → response id
  uint64_t bytes_ = 0;
};

}  // namespace flare::server
