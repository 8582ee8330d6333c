// The HTTP façade against a client of plain sockets.
#include "server/http/client_fixture.h"

namespace flare::server::http {
namespace {

TEST(Http, KeepsTheConnectionAndDecodesPaths) {
  const Server server(local(), echo);
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /a%20b?q=%20 HTTP/1.1\r\nHost: x\r\nx-test: yes\r\n\r\n");
    const auto [head, body] = client.response();
    EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n")) << head;
    EXPECT_NE(head.find("x-extra: 1"), std::string::npos);
    EXPECT_EQ(body, "GET /a b?q=%20|yes|");
  }
}

TEST(Http, AnswersPipelinedRequestsInOrder) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
      "GET /3 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.response().second, "GET /1?||");
  EXPECT_EQ(client.response().second, "POST /2?||abc");
  EXPECT_EQ(client.response().second, "GET /3?||");
}

TEST(Http, TakesChunkedBodiesAndContinue) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.response().second, "POST /?||abcde");
  client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_EQ(client.response().second, "POST /?||ok");
}

TEST(Http, HeadHasTheLengthAndNoBody) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("Content-Length: 9\r\n"), std::string::npos);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");  // nothing stands between the two heads
  EXPECT_EQ(client.response().second, "GET /?||");
}

// A proxy's form of a target (RFC 9112 §3.2.2).
TEST(Http, TakesAWholeUrlWhoseHostCounts) {
  const Server server(local(), [](const Request& request, const auto& exchange) {
    exchange->respond(200, "text/plain",
                      fmt::format("{}?{}|{}", request.path, request.query, request.header("host")));
  });
  RawClient client(server.port());
  const auto answer = [&client](std::string_view target) {
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: header\r\n\r\n", target));
    return client.response().second;
  };
  EXPECT_EQ(answer("http://url:80/a%20b?c=/d"), "/a b?c=/d|url:80");
  EXPECT_EQ(answer("HTTPS://url/"), "/?|url");
  EXPECT_EQ(answer("http://url"), "/?|url");
  EXPECT_EQ(answer("http://url?c"), "/?c|url");
  EXPECT_EQ(answer("/http://url/"), "/http://url/?|header");
}

// Which knew neither chunks nor expectations (RFC 9112 §6.1, RFC 9110 §10.1.1).
TEST(Http, OldClientsAreNotExpectedToKnowWhatCameLater) {
  const Server server(local(), echo);
  EXPECT_TRUE(last_words(server,
                         "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: "
                         "chunked\r\n\r\n0\r\n\r\n")
                  .starts_with("HTTP/1.1 400 "));
  RawClient client(server.port());
  client.send("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  client.send("ok");
  EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 200 "));
}

TEST(Http, OldClientsGetAClosedConnection) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send("GET / HTTP/1.0\r\n\r\n");
  const std::string all = client.read_to_end();
  EXPECT_TRUE(all.ends_with("GET /?||")) << all;
}

TEST(Http, EchoesAPrintableRequestIdAndMakesOneOtherwise) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nx-request-id: mine-1\r\n\r\n");
  EXPECT_NE(client.response().first.find("x-request-id: mine-1\r\n"), std::string::npos);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nx-request-id: two words\r\n\r\n");
  EXPECT_NE(client.response().first.find("x-request-id: req_"), std::string::npos);
}

TEST(Http, LimitsHaveTheirStatus) {
  Options options = local();
  options.max_body_bytes = 100;
  options.max_header_bytes = 2000;
  options.max_header_fields = 20;
  const Server server(options, echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_NE(last_words(server, post + "Content-Length: 101\r\n\r\n").find(" 413 "),
            std::string::npos);
  EXPECT_NE(last_words(server, post + "Transfer-Encoding: chunked\r\n\r\nff\r\n" +
                                   std::string(255, 'x') + "\r\n0\r\n\r\n")
                .find("body_too_large"),
            std::string::npos);
  EXPECT_NE(last_words(server, post + "a: " + std::string(3000, 'x') + "\r\n\r\n").find(" 431 "),
            std::string::npos);
  std::string many = post;
  for (int i = 0; i < 30; ++i) many += "a: b\r\n";
  EXPECT_NE(last_words(server, many + "\r\n").find(" 431 "), std::string::npos);
  EXPECT_NE(last_words(server, post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n").find(" 400 "),
            std::string::npos);
  EXPECT_NE(last_words(server, "no http at all\r\n\r\n").find(" 400 "), std::string::npos);
}

TEST(Http, RequestsThatAProxyMightReadDifferentlyAreRefused) {
  const Server server(local(), echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  for (const char* rest :
       {"Host: y\r\nContent-Length: 0\r\n\r\n", "Transfer-Encoding: gzip\r\n\r\nabc",
        "Transfer-Encoding: chunked, gzip\r\n\r\nabc",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "Content-Length: 3, 3\r\n\r\nabc"})
    EXPECT_NE(last_words(server, post + rest).find(" 400 "), std::string::npos) << rest;
}

TEST(Http, SlowRequestsTimeOut) {
  Options options = local();
  options.header_seconds = 1;
  options.body_idle_seconds = 1;
  const Server server(options, echo);
  EXPECT_NE(last_words(server, "GET / HTTP/1.1\r\nHost:").find(" 408 "), std::string::npos);
  EXPECT_NE(
      last_words(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab").find(" 408 "),
      std::string::npos);
}

TEST(Http, StreamsChunkByChunkAndKeepsTheConnection) {
  Stage stage;
  const Server server(local(), stage.handler());
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send(kGet);
    const auto exchange = stage.next();
    exchange->begin_stream();
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_NE(head.find("Content-Type: text/event-stream"), std::string::npos);
    EXPECT_NE(head.find("Cache-Control: no-store"), std::string::npos);
    exchange->write("data: one\n\n");
    EXPECT_EQ(client.read_until("one\n\n\r\n"), "b\r\ndata: one\n\n\r\n");
    exchange->write("data: two\n\n");
    exchange->end();
    const std::string rest = client.read_until("0\r\n\r\n");
    EXPECT_NE(rest.find("data: two\n\n"), std::string::npos);
    EXPECT_TRUE(rest.ends_with("\r\n0\r\n\r\n"));
  }
}

TEST(Http, AStreamThatIsOverBeforeItsHeadWentOutIsWhole) {
  const Server server(local(), [](const Request&, const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream();
    for (int i = 0; i < 100; ++i) exchange->write(fmt::format("{},", i));
    exchange->end();
  });
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += fmt::format("{},", i);
  const std::string all = last_words(server, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), expected);
}

TEST(Http, SilentStreamsPing) {
  Options options = local();
  options.ping_seconds = 1;
  Stage stage;
  const Server server(options, stage.handler());
  RawClient client(server.port());
  client.send(kGet);
  const auto exchange = stage.next();
  exchange->begin_stream();
  EXPECT_TRUE(client.read_until(": ping\n\n").ends_with(": ping\n\n"));
  exchange->end();
}

TEST(Http, AClientThatLeavesIsNoticedInEveryPhase) {
  Stage stage;
  const std::string path = fmt::format("{}/leaves.{}", ::testing::TempDir(), ::getpid());
  Options options = local();
  options.unix_path = path;
  const Server server(options, stage.handler());
  for (const bool is_unix : {false, true})
    for (const bool streaming : {false, true})
      for (const bool half_first : {false, true}) {
        RawClient client = is_unix ? RawClient(path) : RawClient(server.port());
        client.send(kGet);
        const auto exchange = stage.next();
        if (streaming) {
          exchange->begin_stream();
          client.read_until("\r\n\r\n");
        }
        if (half_first) client.half_close();
        client.close();
        EXPECT_TRUE(told_gone(*exchange)) << is_unix << streaming << half_first;
        exchange->write("nobody listens");
        exchange->end();
      }
}

// Who only closes the sending side may still read: what may be said before an answer tells.
TEST(Http, AClientThatSendsNoMoreGetsItsAnswer) {
  Stage stage;
  const Server server(local(), stage.handler());
  RawClient whole(server.port());
  whole.send(kGet);
  auto exchange = stage.next();
  whole.half_close();
  EXPECT_EQ(whole.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  exchange->respond(200, "text/plain", "late");
  EXPECT_TRUE(whole.read_to_end().ends_with("\r\n\r\nlate"));

  RawClient streaming(server.port());
  streaming.send(kGet);
  exchange = stage.next();
  exchange->begin_stream();
  exchange->write("data: one\n\n");
  streaming.read_until("one\n\n");
  streaming.half_close();
  EXPECT_TRUE(streaming.read_until(": ping\n\n").ends_with(": ping\n\n"));
  exchange->write("data: two\n\n");
  exchange->end();
  EXPECT_TRUE(streaming.read_to_end().ends_with("data: two\n\n\r\n0\r\n\r\n"));

  RawClient pipelined(server.port());
  pipelined.send(std::string(kGet) + std::string(kGet));
  pipelined.half_close();
  stage.next()->respond(200, "text/plain", "first");
  stage.next()->respond(200, "text/plain", "second");
  const std::string both = pipelined.read_to_end();
  EXPECT_NE(both.find("first"), std::string::npos);
  EXPECT_TRUE(both.ends_with("second")) << both;
}

// Nothing may be said to it before its answer, so it is waited for a second.
TEST(Http, AnOldClientThatSendsNoMoreGetsWhatComesSoon) {
  const Server quick(local(), echo);
  RawClient client(quick.port());
  client.send("GET / HTTP/1.0\r\n\r\n");
  client.half_close();
  EXPECT_TRUE(client.read_to_end().ends_with("GET /?||"));
  Stage stage;
  const Server slow(local(), stage.handler());
  RawClient waiting(slow.port());
  waiting.send("GET / HTTP/1.0\r\n\r\n");
  const auto exchange = stage.next();
  waiting.half_close();
  EXPECT_TRUE(told_gone(*exchange));
  EXPECT_EQ(waiting.read_to_end(), "");
}

TEST(Http, AClientThatLeavesAfterItsLastByteIsNoticed) {
  Options options = local();
  options.ping_seconds = 1;
  Stage stage;
  const Server server(options, stage.handler());
  RawClient client(server.port());
  client.send(kGet);
  const auto exchange = stage.next();
  client.half_close();
  client.read_until("\r\n\r\n");
  client.close();
  EXPECT_TRUE(told_gone(*exchange));
}

TEST(Http, AClientThatDoesNotReadIsCutOff) {
  Options options = local();
  options.max_unread_bytes = 1 << 20;
  Stage stage;
  const Server server(options, stage.handler());
  RawClient client(server.port());
  client.send(kGet);
  const auto exchange = stage.next();
  exchange->begin_stream();
  auto told = std::make_shared<std::promise<void>>();
  exchange->on_disconnect([told] { told->set_value(); });
  auto gone = told->get_future();
  // More than the socket buffers and the limit hold, whatever the system's defaults.
  for (int i = 0; i < 200 && gone.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
       ++i)
    exchange->write(std::string(1 << 20, 'x'));
  EXPECT_EQ(gone.wait_for(std::chrono::milliseconds(kPatienceMs)), std::future_status::ready);
}

TEST(Http, StopsAcceptingAndWaitsForRunningAnswers) {
  Stage stage;
  Server server(local(), stage.handler());
  RawClient client(server.port());
  client.send(kGet);
  const auto exchange = stage.next();
  server.stop_accepting();
  EXPECT_FALSE(server.wait_idle(std::chrono::steady_clock::now()));
  exchange->respond(200, "text/plain", "late");
  EXPECT_TRUE(
      server.wait_idle(std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs)));
  EXPECT_TRUE(client.read_to_end().ends_with("late"));
}

// Host is what tells one site from another (RFC 9112 §3.2).
TEST(Http, ARequestWithoutHostIsRefusedUnlessItIsOld) {
  const Server server(local(), echo);
  EXPECT_NE(last_words(server, "GET / HTTP/1.1\r\n\r\n").find(" 400 "), std::string::npos);
  EXPECT_NE(last_words(server, "GET / HTTP/1.0\r\n\r\n").find(" 200 "), std::string::npos);
}

TEST(Http, EmptyLinesBetweenRequestsAreNone) {
  const Server server(local(), echo);
  RawClient client(server.port());
  client.send("\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.response().second, "GET /a?||");
  EXPECT_EQ(client.response().second, "GET /b?||");
}

TEST(Http, APortInUseIsANetworkError) {
  const Server server(local(), echo);
  Options taken = local();
  taken.port = server.port();
  try {
    const Server second(taken, echo);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNetwork);
    EXPECT_FALSE(error.hint().empty());
  }
  Options wrong = local();
  wrong.host = "nowhere.example";
  EXPECT_THROW(Server(wrong, echo), Error);
}

}  // namespace
}  // namespace flare::server::http
