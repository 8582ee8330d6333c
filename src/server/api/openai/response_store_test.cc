// What is kept, for whom, and what goes first.
#include "server/api/openai/response_store.h"

#include <gtest/gtest.h>

namespace flare::server {
namespace {

Json item(const std::string& id, size_t bytes = 0) {
  return Json::object({{"id", id}, {"text", std::string(bytes, 'x')}});
}

StoredResponse stored(const std::string& owner, const std::string& item_id, size_t bytes = 0) {
  return {.owner = owner,
          .response = Json::object({{"of", item_id}}),
          .input = {item("in_" + item_id)},
          .output = {item(item_id, bytes)}};
}

TEST(ResponseStore, TheLeastRecentlyUsedGoesFirst) {
  ResponseStore store(2);
  store.put("a", stored("", "1"));
  store.put("b", stored("", "2"));
  EXPECT_TRUE(store.get("a", ""));
  store.put("c", stored("", "3"));
  EXPECT_TRUE(store.get("a", ""));
  EXPECT_FALSE(store.get("b", ""));
  EXPECT_FALSE(store.item("2", ""));
  EXPECT_FALSE(store.item("in_2", ""));
  EXPECT_EQ(store.item("3", ""), item("3"));
  EXPECT_EQ(store.item("in_1", ""), item("in_1"));
}

TEST(ResponseStore, BytesAreBounded) {
  ResponseStore store(100, 5000);
  for (int i = 0; i < 20; ++i)
    store.put("r" + std::to_string(i), stored("", std::to_string(i), 1000));
  int kept = 0;
  for (int i = 0; i < 20; ++i) kept += store.get("r" + std::to_string(i), "") ? 1 : 0;
  EXPECT_EQ(kept, 4);
  EXPECT_TRUE(store.get("r19", ""));
  store.put("huge", stored("", "h", 6000));
  EXPECT_FALSE(store.get("huge", ""));
  EXPECT_TRUE(store.get("r19", ""));
}

TEST(ResponseStore, OthersSeeNothing) {
  ResponseStore store;
  store.put("a", stored("ann", "1"));
  EXPECT_FALSE(store.get("a", "bob"));
  EXPECT_FALSE(store.item("1", "bob"));
  EXPECT_FALSE(store.remove("a", "bob"));
  EXPECT_TRUE(store.get("a", "ann"));
  EXPECT_TRUE(store.remove("a", "ann"));
  EXPECT_FALSE(store.remove("a", "ann"));
  EXPECT_FALSE(store.item("1", "ann"));
}

TEST(ResponseStore, ReplacingKeepsTheCount) {
  ResponseStore store(2);
  for (int i = 0; i < 5; ++i) store.put("a", stored("", std::to_string(i)));
  store.put("b", stored("", "b"));
  EXPECT_TRUE(store.get("a", ""));
  EXPECT_TRUE(store.get("b", ""));
  EXPECT_FALSE(store.item("3", ""));
  EXPECT_TRUE(store.item("4", ""));
}

}  // namespace
}  // namespace flare::server
