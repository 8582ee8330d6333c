// What the application says to the head of a request, by the rules of the moment.
#include "server/app.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

namespace flare::server {
namespace {

std::shared_ptr<const Access> only(const std::string& host) {
  return Access::make({.allowed_hosts = {host}});
}

TEST(App, JudgesByTheRulesThatWereSetLast) {
  observe::Observer observer;
  App app({}, only("old.example"), observer);
  const http::Hooks hooks = app.hooks();
  const auto status = [&hooks](const std::string& host) {
    http::Request request{.method = "GET", .path = "/live", .headers = {{"Host", host}}};
    return hooks.on_head(&request).value().status;
  };
  EXPECT_EQ(status("old.example"), 200);
  EXPECT_EQ(status("new.example"), 403);
  // A reload comes from another thread than requests: the thread sanitizer sees whether they meet.
  std::atomic<bool> done{false};
  std::thread reloads([&] {
    for (int i = 0; i < 1000; ++i) app.set_access(only(i % 2 == 0 ? "old.example" : "new.example"));
    done = true;
  });
  while (!done) {
    const int either = status("old.example");
    EXPECT_TRUE(either == 200 || either == 403) << either;
  }
  reloads.join();
  EXPECT_EQ(status("old.example"), 403);
  EXPECT_EQ(status("new.example"), 200);
}

}  // namespace
}  // namespace flare::server
