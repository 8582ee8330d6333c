// Loads: event streams in pieces, what counts as a first token, failures by name, percentiles as
// numpy computes them, texts of wanted lengths.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "server/load/report.h"

namespace flare::server::load {
namespace {

std::vector<std::string> split(const std::vector<std::string>& pieces) {
  EventSplitter splitter;
  std::vector<std::string> events;
  for (const std::string& piece : pieces)
    splitter.feed(piece, [&](std::string_view data) { events.emplace_back(data); });
  return events;
}

TEST(Load, EventsAreTheSameWhereverTheStreamIsCut) {
  const std::string stream =
      ": ping\n\ndata: {\"a\":1}\n\nevent: x\r\ndata: one\r\ndata:two\r\n\r\nid: 5\n\ndata:\n\n"
      "data: [DONE]\n\ndata: open";
  const std::vector<std::string> expected = {"{\"a\":1}", "one\ntwo", "", "[DONE]"};
  for (size_t i = 0; i <= stream.size(); ++i)
    for (size_t k = i; k <= stream.size(); k += 7)
      ASSERT_EQ(split({stream.substr(0, i), stream.substr(i, k - i), stream.substr(k)}), expected)
          << i << " " << k;
}

Record read(int status, const std::vector<std::string>& pieces, std::string_view failure = "") {
  Record result;
  AnswerReader reader({}, Clock::now(), [&](Record record) { result = std::move(record); });
  if (status != 0) reader.head(status, {{"Retry-After", "3"}});
  for (const std::string& piece : pieces) reader.data(piece);
  reader.done(failure);
  return result;
}

std::string event(const std::string& json) { return "data: " + json + "\n\n"; }
const std::string kRole = event(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})");
const std::string kDone = "data: [DONE]\n\n";

TEST(Load, TheFirstTokenIsTheFirstTextReasoningOrCall) {
  for (const char* first : {R"({"content":"a"})", R"({"reasoning_content":"a"})",
                            R"({"reasoning":"a"})", R"({"tool_calls":[{"index":0}]})"}) {
    const Record record =
        read(200, {kRole, event(fmt::format(R"({{"choices":[{{"delta":{}}}]}})", first)),
                   event(R"({"choices":[{"delta":{"content":"b"}}]})"),
                   event(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"),
                   event(R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,)"
                         R"("prompt_tokens_details":{"cached_tokens":5}}})"),
                   kDone});
    EXPECT_TRUE(record.complete()) << record.failure;
    EXPECT_EQ(record.events, 2u) << first;
    EXPECT_EQ(record.gaps_s.size(), 1u);
    EXPECT_EQ(record.prompt_tokens, 7u);
    EXPECT_EQ(record.cached_tokens, 5u);
    EXPECT_EQ(record.tokens(), 9u);
    EXPECT_LE(record.first_s, record.last_s);
    EXPECT_LE(record.last_s, record.total_s);
  }
}

TEST(Load, TextCompletionsAreReadToo) {
  const Record record = read(200, {event(R"({"choices":[{"text":"a"}]})"),
                                   event(R"({"choices":[{"text":"b"}],"timings":{"draft_n":4,)"
                                         R"("draft_n_accepted":3}})"),
                                   kDone});
  EXPECT_TRUE(record.complete());
  EXPECT_EQ(record.text, "ab");
  EXPECT_EQ(record.tokens(), 2u);  // no usage: the events
  EXPECT_EQ(record.prompt_tokens, std::nullopt);
  EXPECT_EQ(record.drafts, 4u);
  EXPECT_EQ(record.drafts_kept, 3u);
}

TEST(Load, FailuresHaveNames) {
  const std::string error = R"({"error":{"message":"too many","code":"server_overloaded"}})";
  EXPECT_EQ(read(0, {}, "Connection refused").failure, "connect");
  EXPECT_EQ(read(0, {}, "Connection refused").detail, "Connection refused");
  EXPECT_EQ(read(0, {}, "timeout").failure, "timeout");
  EXPECT_EQ(read(200, {kRole}, "timeout").failure, "timeout");
  EXPECT_EQ(read(200, {kRole}, "stopped").failure, "stopped");
  EXPECT_EQ(read(200, {kRole}, "the connection was closed").failure, "cut");
  EXPECT_EQ(read(200, {kRole}).failure, "cut");  // ended without [DONE]
  EXPECT_EQ(read(200, {event(error)}).failure, "stream_error");
  EXPECT_EQ(read(200, {event(error), kDone}).detail, "too many");
  EXPECT_EQ(read(200, {event("{")}).failure, "bad_event");
  EXPECT_EQ(
      read(200, {event("[1]"), event("\"x\""), event(R"({"choices":[3,{"delta":4}]})"), kDone})
          .failure,
      "");
  const Record busy = read(429, {error});
  EXPECT_EQ(busy.failure, "429");
  EXPECT_EQ(busy.detail, "too many");
  EXPECT_EQ(busy.retry_after_s, 3);
  EXPECT_EQ(read(502, {"<html>"}).detail, "<html>");
}

// numpy.percentile(values, p), its default method.
TEST(Load, PercentilesAreThoseOfNumpy) {
  const std::vector<double> five = {10, 2, 3, 4, 1};
  EXPECT_DOUBLE_EQ(percentile(five, 50), 3);
  EXPECT_DOUBLE_EQ(percentile(five, 90), 7.6);
  EXPECT_DOUBLE_EQ(percentile(five, 99), 9.76);
  const std::vector<double> seven = {0.5, 0.25, 8, 4, 2, 1, 16};
  EXPECT_DOUBLE_EQ(percentile(seven, 0), 0.25);
  EXPECT_DOUBLE_EQ(percentile(seven, 50), 2);
  EXPECT_NEAR(percentile(seven, 90), 11.2, 1e-12);
  EXPECT_NEAR(percentile(seven, 99), 15.52, 1e-12);
  EXPECT_DOUBLE_EQ(percentile({5}, 99), 5);
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0);
}

TEST(Load, TheSummaryCountsWhatItShows) {
  PointResult result;
  result.wall_s = {2, 2};
  Record good;
  good.first_s = 0.1;
  good.last_s = 0.5;
  good.total_s = 0.6;
  good.gaps_s = {0.1, 0.3};
  good.events = 3;
  good.prompt_tokens = 100;
  good.cached_tokens = 40;
  good.output_tokens = 5;
  Record busy;
  busy.failure = "429";
  Record stopped;
  stopped.failure = "stopped";
  result.records = {good, busy, good, busy, stopped};
  const Summary s = summary_of(result);
  EXPECT_EQ(s.requests, 5u);
  EXPECT_EQ(s.complete, 2u);
  EXPECT_EQ(s.stopped, 1u);
  EXPECT_EQ(s.failures, (std::map<std::string, uint64_t>{{"429", 2}}));
  EXPECT_EQ(failures_text(s), "2 of 5 failed: 2 × 429");
  EXPECT_DOUBLE_EQ(s.first_ms.p50, 100);
  EXPECT_EQ(s.between_ms.n, 4u);
  EXPECT_DOUBLE_EQ(s.between_ms.mean, 200);
  EXPECT_DOUBLE_EQ(s.per_token_ms.mean, 100);  // 400 ms for four tokens
  EXPECT_DOUBLE_EQ(s.decode_per_s, 10);
  EXPECT_DOUBLE_EQ(s.requests_per_s, 0.5);
  EXPECT_DOUBLE_EQ(s.output_per_s, 2.5);
  EXPECT_DOUBLE_EQ(s.prefill_per_s, 600);  // 60 tokens in 0.1 s
}

TEST(Load, TextsHaveTheWantedLength) {
  const TokenScale scale = TokenScale::through(32, 74, 160, 330);
  EXPECT_DOUBLE_EQ(scale.per_word, 2);
  EXPECT_DOUBLE_EQ(scale.base, 10);
  EXPECT_EQ(scale.words(1010), 500u);
  EXPECT_EQ(scale.words(3), 1u);
  // A server that counts nothing: one token a word.
  EXPECT_DOUBLE_EQ(TokenScale::through(32, 32, 160, 160).per_word, 1);
  const auto n_words = [](const Json& messages) {
    int64_t n = 0;
    for (const Json& message : messages.as_array())
      n += 1 + std::ranges::count(message.at("content").as_string(), ' ');
    return n;
  };
  for (const Scenario scenario : {Scenario::kUniform, Scenario::kSharedPrefix, Scenario::kAgent}) {
    Conversations texts(scenario, 4000, {.base = 10, .per_word = 2}, 1);
    EXPECT_NEAR(static_cast<double>(n_words(texts.begin(0))), 2000, 15) << scenario_name(scenario);
  }
}

TEST(Load, ScenariosShareWhatTheySay) {
  const auto shared = [](const std::string& a, const std::string& b) {
    return std::ranges::mismatch(a, b).in1 - a.begin();
  };
  const auto content = [](const Json& messages, size_t i) {
    return messages.as_array()[i].at("content").as_string();
  };
  Conversations uniform(Scenario::kUniform, 1000, {}, 1);
  const Json first = uniform.begin(0), second = uniform.begin(1);
  EXPECT_EQ(first.as_array().size(), 1u);
  EXPECT_LT(shared(content(first, 0), content(second, 0)), 12);
  Conversations prefix(Scenario::kSharedPrefix, 1000, {}, 1);
  EXPECT_EQ(content(prefix.begin(0), 0), content(prefix.begin(1), 0));
  EXPECT_NE(content(prefix.begin(0), 1), content(prefix.begin(1), 1));
  EXPECT_EQ(content(prefix.shared(), 0), content(prefix.begin(2), 0));
  Conversations agent(Scenario::kAgent, 1000, {}, 1);
  Json messages = agent.begin(0);
  const Json before = messages;
  agent.go_on(&messages, "the answer");
  ASSERT_EQ(messages.as_array().size(), 4u);
  EXPECT_EQ(content(messages, 1), content(before, 1));
  EXPECT_EQ(content(messages, 2), "the answer");
  EXPECT_EQ(messages.as_array()[3].at("role").as_string(), "user");
  // Same seed, same texts; another seed shares none.
  EXPECT_EQ(Conversations(Scenario::kAgent, 1000, {}, 7).begin(0).to_text(),
            Conversations(Scenario::kAgent, 1000, {}, 7).begin(0).to_text());
  EXPECT_LT(shared(content(Conversations(Scenario::kAgent, 1000, {}, 7).begin(0), 0),
                   content(Conversations(Scenario::kAgent, 1000, {}, 8).begin(0), 0)),
            13);
}

TEST(Load, UrlsAreChecked) {
  const http::Url plain = http::parse_url("http://localhost:8000");
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, 8000);
  EXPECT_EQ(plain.prefix, "");
  const http::Url behind = http::parse_url("http://[::1]/a/b//");
  EXPECT_EQ(behind.host, "::1");
  EXPECT_EQ(behind.port, 80);
  EXPECT_EQ(behind.prefix, "/a/b");
  EXPECT_FALSE(behind.tls);
  const http::Url encrypted = http::parse_url("https://x/v1");
  EXPECT_TRUE(encrypted.tls);
  EXPECT_EQ(encrypted.host, "x");
  EXPECT_EQ(encrypted.port, 443);
  EXPECT_EQ(http::parse_url("https://x:8443").port, 8443);
  for (const char* wrong :
       {"", "localhost:8000", "https://", "http://", "http://:80", "http://x:0", "http://x:65536",
        "http://x:8a", "http://a b", "http://user@x", "http://x?y", "http://x:"})
    EXPECT_THROW(http::parse_url(wrong), Error) << wrong;
}

}  // namespace
}  // namespace flare::server::load
