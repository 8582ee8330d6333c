// Clients that are many, slow, hostile or gone: the others go on.
#include <fcntl.h>
#include <sys/resource.h>

#include "server/http/client_fixture.h"

namespace flare::server::http {
namespace {

// Descriptors for `n` connections, whose both ends are in this process.
bool can_open(rlim_t n) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= 2 * n + 100) return true;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 2 * n + 100);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 2 * n + 100;
}

bool answers(const Server& server) {
  RawClient client(server.port());
  client.send(kGet);
  return client.response().second == "GET /?||";
}

TEST(Robustness, AThousandIdleConnectionsCostNothingToTheNextClient) {
  if (!can_open(1000)) GTEST_SKIP() << "this system allows too few descriptors";
  const Server server(local(), echo);
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<RawClient>(server.port()));
    idle.back()->send(kGet);
  }
  for (const auto& client : idle) EXPECT_EQ(client->response().second, "GET /?||");
  EXPECT_EQ(server.connections(), 1000u);
  EXPECT_TRUE(answers(server));
  idle[500]->send(kGet);  // they are still served
  EXPECT_EQ(idle[500]->response().second, "GET /?||");
}

TEST(Robustness, TwoHundredHalfHeadsEndWith408AndDelayNobody) {
  Options options = local();
  options.header_seconds = 1;
  const Server server(options, echo);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port()));
    slow.back()->send("GET / HTTP/1.1\r\nHost: x\r\nX-A: ");
  }
  EXPECT_TRUE(answers(server));
  for (const auto& client : slow) {
    client->send("b");  // one byte more does not buy time
    EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 408 "));
  }
}

// Full of idle clients, the one that waited longest makes room; full of busy ones, the next is
// told.
TEST(Robustness, BeyondTheLimitTheLongestIdleLeavesOrTheNextIsRefused) {
  Options options = local();
  options.max_connections = 2;
  Stage stage;
  const Server server(options, stage.handler());
  RawClient first(server.port());
  first.send(kGet);
  stage.next()->respond(200, "text/plain", "1");
  EXPECT_EQ(first.response().second, "1");
  RawClient second(server.port());
  second.send(kGet);
  stage.next()->respond(200, "text/plain", "2");
  EXPECT_EQ(second.response().second, "2");

  RawClient third(server.port());
  EXPECT_EQ(first.read_to_end(), "");  // closed for the third
  third.send(kGet);
  const auto busy = stage.next();
  second.send(kGet);
  const auto busy_too = stage.next();
  RawClient fourth(server.port());
  fourth.send(kGet);
  const std::string refusal = fourth.read_to_end();
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 503 ")) << refusal;
  EXPECT_NE(refusal.find("server_overloaded"), std::string::npos);
  busy->respond(200, "text/plain", "3");
  busy_too->respond(200, "text/plain", "2 again");
  EXPECT_EQ(third.response().second, "3");
  EXPECT_EQ(second.response().second, "2 again");
}

TEST(Robustness, AProbeIsAnsweredBeyondTheLimit) {
  Options options = local();
  options.max_connections = 1;
  Hooks hooks;
  hooks.on_head = [](Request* request) -> std::optional<Answer> {
    if (request->path != "/health") return std::nullopt;
    return Answer{.content_type = "text/plain", .body = "ok"};
  };
  Stage stage;
  const Server server(options, stage.handler(), hooks);
  RawClient busy(server.port());
  busy.send(kGet);
  const auto exchange = stage.next();
  RawClient probe(server.port());
  probe.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(probe.response().second, "ok");
  exchange->respond(200, "text/plain", "done");
  EXPECT_EQ(busy.response().second, "done");
}

TEST(Robustness, AGigabyteIsRefusedBeforeItComes) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n");
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(answers(server));
}

TEST(Robustness, BodiesInMemoryAreBoundedTogether) {
  Options options = local();
  options.max_bodies_bytes = 1 << 20;
  const Server server(options, echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 800000\r\n\r\n";
  RawClient first(server.port());
  first.send(head + std::string(700000, 'x'));
  RawClient second(server.port());
  std::string refusal;
  second.send(head + std::string(700000, 'x'));
  // One of the two is one too many; the first byte tells which.
  pollfd both[] = {{first.fd(), POLLIN, 0}, {second.fd(), POLLIN, 0}};
  ASSERT_GT(::poll(both, 2, kPatienceMs), 0);
  RawClient& refused = both[0].revents != 0 ? first : second;
  RawClient& served = both[0].revents != 0 ? second : first;
  EXPECT_TRUE(refused.read_to_end().starts_with("HTTP/1.1 503 "));
  served.send(std::string(100000, 'x'));
  EXPECT_EQ(served.response().second.size(), 800000 + std::string("POST /?||").size());
}

TEST(Robustness, ChunkedBodiesMayBeCutAnywhere) {
  const Server server(local(), echo);
  const std::string request =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;a=\"b c\";d\r\nhello\r\n000001\r\n \r\nA\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n";
  RawClient client(server.port());
  for (size_t cut = 1; cut < request.size(); ++cut) {
    client.send(request.substr(0, cut));
    client.send(request.substr(cut));
    ASSERT_EQ(client.response().second, "POST /?||hello 0123456789") << cut;
  }
  for (const char c : request) client.send(std::string(1, c));
  EXPECT_EQ(client.response().second, "POST /?||hello 0123456789");
}

TEST(Robustness, HostileChunksAreRefused) {
  const Server server(local(), echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& body :
       {std::string("-1\r\nx\r\n0\r\n\r\n"), std::string("1 \r\nx\r\n0\r\n\r\n"),
        std::string("0x1\r\nx\r\n0\r\n\r\n"), std::string("1\r\nxy\r\n0\r\n\r\n"),
        std::string("11111111111111111\r\nx"), std::string("\r\n\r\n"),
        "1;" + std::string(100'000, 'a'), "1;a=\"" + std::string(100'000, 'b'),
        "0\r\nX: " + std::string(100'000, 'c')})
    EXPECT_TRUE(last_words(server, head + body).starts_with("HTTP/1.1 400 ")) << body.substr(0, 20);
  EXPECT_TRUE(last_words(server, head + "fffffffffffffffe\r\nx").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(answers(server));
}

TEST(Robustness, AHundredRequestsInOnePieceAreAnsweredInOrder) {
  const Server server(local(), echo);
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 100; ++i)
    all += fmt::format("POST /{} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{:02}", i, i);
  client.send(all);
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(client.response().second, fmt::format("POST /{}?||{:02}", i, i));
}

// Whoever waits for nothing but the answer and then vanishes: the exchange hears of it.
TEST(Robustness, B038AClientThatResetsItsConnectionIsNoticed) {
  Stage stage;
  const Server server(local(), stage.handler());
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
  const auto exchange = stage.next();
  const linger now{1, 0};
  ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  client.close();
  EXPECT_TRUE(told_gone(*exchange));
  EXPECT_FALSE(exchange->respond(200, "text/plain", "late"));
}

// Pipelined bytes do not hide that the client left.
TEST(Robustness, B038AClientThatLeavesBehindPipelinedRequestsIsNoticed) {
  Stage stage;
  const Server server(local(), stage.handler());
  RawClient client(server.port());
  client.send(std::string(kGet) + std::string(kGet));
  const auto exchange = stage.next();
  client.close();
  EXPECT_TRUE(told_gone(*exchange));
}

TEST(Robustness, AStalledReaderIsCutOffWithinItsTime) {
  Options options = local();
  options.stall_seconds = 1;
  options.max_unread_bytes = uint64_t{1} << 40;  // time alone ends it
  Stage stage;
  const Server server(options, stage.handler());
  RawClient client(server.port());
  client.send(kGet);
  const auto exchange = stage.next();
  exchange->begin_stream();
  exchange->write(std::string(64 << 20, 'x'));  // more than the system's buffers take
  EXPECT_TRUE(told_gone(*exchange));
}

// The bytes that a client takes slowly arrive whole.
TEST(Robustness, ASlowReaderGetsEverything) {
  Stage stage;
  const Server server(local(), stage.handler());
  RawClient client(server.port());
  client.send(kGet);
  stage.next()->respond(200, "text/plain", std::string(8 << 20, 'y'));
  EXPECT_EQ(client.response().second.size(), size_t{8} << 20);
}

TEST(Robustness, ServersEndWhileClientsAreInEveryPhase) {
  Stage stage;
  std::vector<std::unique_ptr<RawClient>> clients;
  {
    const Server server(local(), stage.handler());
    for (const char* bytes :
         {"", "GET / HT", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
          "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      clients.back()->send(bytes);
    }
    stage.next()->begin_stream();
    clients.back()->read_until("\r\n\r\n");
  }
  for (const auto& client : clients) client->read_to_end();
}

}  // namespace
}  // namespace flare::server::http
