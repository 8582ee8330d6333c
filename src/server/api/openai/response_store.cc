// A list in order of use, and two indexes into it.
#include "server/api/openai/response_store.h"

#include <utility>

namespace flare::server {
namespace {

const std::string* id_of(const Json& item) {
  const Json* id = item.find("id");
  return id && id->is_string() ? &id->as_string() : nullptr;
}

uint64_t bytes_of(const StoredResponse& response) {
  uint64_t bytes = response.response.to_text().size();
  for (const Json::Array* items : {&response.input, &response.output})
    for (const Json& item : *items) bytes += item.to_text().size();
  return bytes;
}

}  // namespace

void ResponseStore::put(const std::string& id, StoredResponse response) {
  const uint64_t bytes = bytes_of(response);
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  if (bytes > max_bytes_ || max_responses_ == 0) return;
  if (const auto old = by_id_.find(id); old != by_id_.end()) drop(old->second);
  while (entries_.size() >= max_responses_ || bytes_ + bytes > max_bytes_) drop(entries_.begin());
  entries_.push_back({id, bytes, std::move(kept)});
  bytes_ += bytes;
  by_id_[id] = std::prev(entries_.end());
  const StoredResponse& held = *entries_.back().response;
  for (const Json::Array* items : {&held.input, &held.output})
    for (const Json& item : *items)
      if (const std::string* name = id_of(item)) holder_of_item_[*name] = id;
}

ResponseStore::Entries::iterator ResponseStore::find(const std::string& id,
                                                     const std::string& owner) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->response->owner != owner) return entries_.end();
  entries_.splice(entries_.end(), entries_, found->second);
  return found->second;
}

std::shared_ptr<const StoredResponse> ResponseStore::get(const std::string& id,
                                                         const std::string& owner) {
  const std::lock_guard lock(mutex_);
  const auto entry = find(id, owner);
  return entry == entries_.end() ? nullptr : entry->response;
}

std::optional<Json> ResponseStore::item(const std::string& item_id, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  const auto holder = holder_of_item_.find(item_id);
  if (holder == holder_of_item_.end()) return std::nullopt;
  const auto entry = find(holder->second, owner);
  if (entry == entries_.end()) return std::nullopt;
  for (const Json::Array* items : {&entry->response->output, &entry->response->input})
    for (const Json& item : *items)
      if (const std::string* name = id_of(item); name && *name == item_id) return item;
  return std::nullopt;
}

bool ResponseStore::remove(const std::string& id, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  const auto entry = find(id, owner);
  if (entry == entries_.end()) return false;
  drop(entry);
  return true;
}

void ResponseStore::drop(Entries::iterator entry) {
  for (const Json::Array* items : {&entry->response->input, &entry->response->output})
    for (const Json& item : *items)
      if (const std::string* name = id_of(item)) {
        const auto holder = holder_of_item_.find(*name);
        if (holder != holder_of_item_.end() && holder->second == entry->id)
          holder_of_item_.erase(holder);
      }
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace flare::server
