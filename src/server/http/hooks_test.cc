// What the application decides on transport threads: verdicts on heads, the form of refusals, the
// word after an answer.
#include "server/http/client_fixture.h"

namespace flare::server::http {
namespace {

// "/probe" is answered by its head; "/no…" is refused.
Hooks judging() {
  Hooks hooks;
  hooks.on_head = [](Request* request) -> std::optional<Answer> {
    request->reply_headers.emplace_back("x-judged", "yes");
    if (request->path == "/probe")
      return Answer{.content_type = "text/plain", .body = "alive", .headers = {{"x-own", "1"}}};
    if (request->path.starts_with("/no")) return Answer{.status = 401};
    return std::nullopt;
  };
  hooks.refusal = [](const Request& request, int status, std::string_view code, std::string) {
    return Answer{.status = status,
                  .content_type = "text/plain",
                  .body = fmt::format("{} on {} of {}", code, request.path, request.id)};
  };
  return hooks;
}

TEST(Hooks, AVerdictOnTheHeadNeedsNoHandlerAndKeepsTheConnection) {
  const Server server(
      local(), [](const Request&, const std::shared_ptr<Exchange>&) { ADD_FAILURE(); }, judging());
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /probe HTTP/1.1\r\nHost: x\r\nx-request-id: mine\r\n\r\n");
    const auto [head, body] = client.response();
    EXPECT_EQ(body, "alive");
    for (const char* line : {"x-judged: yes", "x-own: 1", "x-request-id: mine", "request-id: mine"})
      EXPECT_NE(head.find(line), std::string::npos) << line;
  }
  client.send("HEAD /probe HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("Content-Length: 5"), std::string::npos);
  client.send("GET /probe HTTP/1.1\r\nHost: x\r\n\r\n");  // nothing stands between
  EXPECT_EQ(client.response().second, "alive");
}

// The body would be 60 MB; nobody waits for it, and `Expect` is not encouraged.
TEST(Hooks, ARefusedBodyIsNeverAskedFor) {
  const Server server(local(), echo, judging());
  RawClient client(server.port());
  client.send(
      "POST /no HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 60000000\r\n\r\n");
  const std::string all = client.read_to_end();
  EXPECT_TRUE(all.starts_with("HTTP/1.1 401 ")) << all;
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
}

TEST(Hooks, HeadersOfTheVerdictAreOnRealAnswersAndStreams) {
  Stage stage;
  const Server server(local(), stage.handler(), judging());
  RawClient client(server.port());
  client.send(kGet);
  stage.next()->respond(200, "text/plain", "whole");
  EXPECT_NE(client.response().first.find("x-judged: yes"), std::string::npos);
  client.send(kGet);
  const auto exchange = stage.next();
  exchange->begin_stream();
  EXPECT_NE(client.read_until("\r\n\r\n").find("x-judged: yes"), std::string::npos);
  exchange->end();
}

TEST(Hooks, RefusalsOfTheTransportHaveTheApplicationsForm) {
  Options options = local();
  options.max_body_bytes = 100;
  options.header_seconds = options.body_idle_seconds = 1;
  const Server server(options, echo, judging());
  const std::string post = "POST /v1/x HTTP/1.1\r\nHost: x\r\nx-request-id: me\r\n";
  EXPECT_TRUE(last_words(server, post + "Content-Length: 101\r\n\r\n")
                  .ends_with("body_too_large on /v1/x of me"));
  EXPECT_TRUE(last_words(server, post + "Content-Length: 50\r\n\r\n")
                  .ends_with("request_timeout on /v1/x of me"));
  EXPECT_TRUE(last_words(server, post + "Transfer-Encoding: gzip\r\n\r\n")
                  .ends_with("invalid_request on /v1/x of me"));
  // Who may not ask is not told what he may send.
  EXPECT_TRUE(last_words(server, "POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n")
                  .starts_with("HTTP/1.1 401 "));
}

TEST(Hooks, EveryAnswerIsReportedOnce) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> seen;
  Hooks hooks = judging();
  hooks.responded = [&](std::string_view path, int status) {
    const std::lock_guard lock(mutex);
    seen.push_back(fmt::format("{} {}", path, status));
  };
  uint32_t most = 0, open = 0;
  hooks.connections_changed = [&](uint32_t n) {
    const std::lock_guard lock(mutex);
    most = std::max(most, open = n);
    changed.notify_all();
  };
  const Server server(local(), echo, hooks);
  RawClient client(server.port());
  client.send(
      "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /probe HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /b HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n");
  client.read_to_end();
  client.close();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return open == 0; });
  EXPECT_EQ(most, 1u);
  EXPECT_EQ(seen, (std::vector<std::string>{"/a 200", "/probe 200", "/b 400"}));
}

// Both handlers wait; the transport thread still answers.
TEST(Hooks, B064ProbesAnswerWhileEveryWorkerIsBusy) {
  std::promise<void> leave;
  const std::shared_future<void> left = leave.get_future().share();
  Options options = local();
  options.workers = 1;
  {
    const Server server(
        options,
        [left](const Request&, const std::shared_ptr<Exchange>& exchange) {
          left.wait();
          exchange->respond(200, "text/plain", "late");
        },
        judging());
    RawClient busy(server.port()), waiting(server.port()), probe(server.port());
    busy.send(kGet);
    waiting.send(kGet);
    probe.send("GET /probe HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(probe.response().second, "alive");
    leave.set_value();
    EXPECT_EQ(busy.response().second, "late");
    EXPECT_EQ(waiting.response().second, "late");
  }
}

// A large body has a thread of its own: what is small does not wait for it.
TEST(Hooks, LargeBodiesDoNotHoldUpSmallRequests) {
  std::promise<void> leave;
  const std::shared_future<void> left = leave.get_future().share();
  Options options = local();
  options.workers = 1;
  const Server server(
      options, [left](const Request& request, const std::shared_ptr<Exchange>& exchange) {
        if (request.body.size() > 1000) left.wait();
        exchange->respond(200, "text/plain", fmt::format("{}", request.body.size()));
      });
  std::vector<std::unique_ptr<RawClient>> large;
  for (int i = 0; i < 3; ++i) {
    large.push_back(std::make_unique<RawClient>(server.port()));
    large.back()->send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" +
                       std::string(3000000, 'x'));
  }
  RawClient small(server.port());
  small.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(small.response().second, "3");
  leave.set_value();
  for (const auto& client : large) EXPECT_EQ(client->response().second, "3000000");
}

}  // namespace
}  // namespace flare::server::http
