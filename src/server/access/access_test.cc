// Keys, hosts and origins: what gets in, and what is said of what does not.
#include "server/access/access.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/test_support.h"

namespace flare::server {
namespace {

namespace fs = std::filesystem;

class KeyFile : public testing::Test {
 protected:
  fs::path write(std::string_view text, mode_t mode = 0600) const {
    const fs::path path = folder_.write("keys", text);
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string error(std::string_view text) const {
    return error_of([&] { KeyRing::read(write(text)); }).message();
  }
  TemporaryFolder folder_;
};

TEST_F(KeyFile, HasOneKeyALineWithAnOptionalLabel) {
  const KeyRing ring = KeyRing::read(write(
      "# our keys\n\nsk-one alice\r\n  sk-two\tbob # on leave\nsk-three\nsk#four # no label\n"));
  ASSERT_EQ(ring.size(), 4u);
  EXPECT_EQ(*ring.find("sk-one"), "alice");
  EXPECT_EQ(*ring.find("sk-two"), "bob");
  // sha256sum of "sk-three" begins so.
  EXPECT_EQ(*ring.find("sk-three"), "key-46a984dc");
  EXPECT_NE(ring.find("sk#four"), nullptr);
  for (const char* wrong : {"", "sk-", "sk-one ", "SK-ONE", "alice", "#", "our"})
    EXPECT_EQ(ring.find(wrong), nullptr) << wrong;
}

TEST_F(KeyFile, TheLabelOfAnUnlabelledKeyDoesNotDependOnItsLine) {
  const std::string first = *KeyRing::read(write("aaa\nbbb\n")).find("aaa");
  EXPECT_EQ(*KeyRing::read(write("bbb x\n# c\naaa\n")).find("aaa"), first);
}

TEST_F(KeyFile, ErrorsNameTheLineAndNeverTheKey) {
  for (const std::string text : {"good\nsecret two words\n", "good\nsecr\xc3\xa9t\n",
                                 "good\nsecret la\x01"
                                 "bel\n",
                                 "good\nsecret\n#\nsecret\n"}) {
    const std::string message = error(text);
    EXPECT_NE(message.find(text.find('#') == std::string::npos ? "line 2" : "line 4"),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("secr"), std::string::npos) << message;
  }
  EXPECT_NE(error("\n# nothing\n").find("no key"), std::string::npos);
  EXPECT_NE(error(std::string(600, 'k')).find("line 1"), std::string::npos);
  EXPECT_EQ(code_of([&] { KeyRing::read(folder_ / "absent"); }), Code::kNotFound);
  EXPECT_NE(code_of([&] { KeyRing::read(folder_.path()); }), Code::kInternal);
}

TEST_F(KeyFile, IsRefusedIfOthersCanWriteIt) {
  for (const mode_t mode : {0660u, 0606u, 0622u}) {
    const Error error = error_of([&] { KeyRing::read(write("key\n", mode)); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_NE(error.hint().find("chmod"), std::string::npos);
  }
  EXPECT_EQ(KeyRing::read(write("key\n", 0644)).size(), 1u);
  EXPECT_EQ(KeyRing::read(write("key\n", 0400)).size(), 1u);
}

TEST(Hosts, AreParsedStrictly) {
  EXPECT_EQ(host_name("LocalHost:80"), "localhost");
  EXPECT_EQ(host_name("[::1]:8000"), "[::1]");
  EXPECT_EQ(host_name("a-b.c_d"), "a-b.c_d");
  for (const char* wrong : {"", ":80", "a:", "a:x", "a:80:80", "a:123456", "[::1", "[x]", "[::1]80",
                            "localhost:80@evil.example", "a b", "a/b", "localhost\xff"})
    EXPECT_EQ(host_name(wrong), "") << wrong;
  for (const char* name : {"localhost", "127.0.0.1", "127.255.1.2", "[::1]"})
    EXPECT_TRUE(is_loopback_name(name)) << name;
  for (const char* name : {"127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
                           "0.0.0.0", "127.1", ""})
    EXPECT_FALSE(is_loopback_name(name)) << name;
}

TEST(Hosts, OnLoopbackMustBeLoopbackOrAllowed) {
  const SiteRules local({.hosts = {"Box.Example"}});
  for (const char* host : {"", "localhost", "127.0.0.1:8000", "[::1]:1", "box.example:8000"})
    EXPECT_TRUE(local.takes_host(host)) << host;
  for (const char* host : {"evil.example", "box.example.evil", "127.0.0.1:x", "10.0.0.1"})
    EXPECT_FALSE(local.takes_host(host)) << host;
  EXPECT_TRUE(SiteRules({.loopback = false}).takes_host("any.example"));
}

TEST(Origins, AreLoopbackOnesUnlessListed) {
  const SiteRules local({});
  for (const char* origin :
       {"http://localhost", "https://127.0.0.1:3000", "http://[::1]:80", "tauri://localhost"})
    EXPECT_TRUE(local.takes_origin(origin, "localhost:8000")) << origin;
  for (const char* origin :
       {"null", "https://evil.example", "http://localhost.evil.example", "http://localhost:80@evil",
        "://localhost", "localhost", "http://", "file://", "http://127.0.0.1.evil.example"})
    EXPECT_FALSE(local.takes_origin(origin, "localhost:8000")) << origin;
  const SiteRules listed({.origins = {"https://Chat.Example", "http://box:8080", "http://b:80"}});
  EXPECT_TRUE(listed.takes_origin("https://chat.example", "localhost"));
  EXPECT_TRUE(listed.takes_origin("https://chat.example:443", "localhost"));
  EXPECT_TRUE(listed.takes_origin("http://box:8080", "localhost"));
  EXPECT_TRUE(listed.takes_origin("http://b", "localhost"));
  for (const char* origin :
       {"http://chat.example", "https://chat.example:8443", "http://box", "http://localhost:1"})
    EXPECT_FALSE(listed.takes_origin(origin, "localhost")) << origin;
}

// The server's own chat page comes with the server's own name; a name that an attacker points here
// would look the same, so without keys only addresses and known names count.
TEST(Origins, ThePageOfTheServerItselfMayAsk) {
  const SiteRules open({.hosts = {"box.example"}, .loopback = false});
  EXPECT_TRUE(open.takes_origin("http://192.168.1.5:8000", "192.168.1.5:8000"));
  EXPECT_TRUE(open.takes_origin("http://box.example", "BOX.example"));
  EXPECT_FALSE(open.takes_origin("http://192.168.1.5:8000", "192.168.1.5:9000"));
  EXPECT_FALSE(open.takes_origin("http://rebound.example", "rebound.example"));
  const SiteRules keyed({.loopback = false, .has_keys = true});
  EXPECT_TRUE(keyed.takes_origin("https://llm.example", "llm.example"));
}

TEST(Origins, AnyOneNeedsKeys) {
  EXPECT_EQ(code_of([] { SiteRules({.origins = {"*"}}); }), Code::kUsage);
  EXPECT_TRUE(
      SiteRules({.origins = {"*"}, .has_keys = true}).takes_origin("https://any.example", "x"));
  for (const char* wrong : {"example.com", "https://", "https://a/b", "https://a:b", "null", ""})
    EXPECT_EQ(code_of([&] { SiteRules({.origins = {wrong}}); }), Code::kUsage) << wrong;
  for (const char* wrong : {"a:80", "", "http://a", "a b"})
    EXPECT_EQ(code_of([&] { SiteRules({.hosts = {wrong}}); }), Code::kUsage) << wrong;
}

http::Request with(http::Headers headers) {
  http::Request request;
  request.method = "OPTIONS";
  request.headers = std::move(headers);
  return request;
}

TEST_F(KeyFile, B108EveryHeaderThatClientsUseIsUnderstood) {
  const auto access = Access::make({.api_key_file = write("k one\nother two\n").string()});
  for (const http::Headers& headers : {http::Headers{{"Authorization", "Bearer k"}},
                                       {{"authorization", "bearer k"}},
                                       {{"AUTHORIZATION", "BEARER  k"}},
                                       {{"X-Api-Key", "k"}},
                                       {{"Authorization", "Bearer stale"}, {"x-api-key", "k"}},
                                       {{"Authorization", "Basic eDp5"}, {"x-api-key", "k"}}}) {
    http::Request request = with(headers);
    EXPECT_FALSE(access->check_key(&request));
    EXPECT_EQ(request.key_label, "one");
  }
  for (const http::Headers& headers : {http::Headers{},
                                       {{"Authorization", "Bearer"}},
                                       {{"Authorization", "Bearer "}},
                                       {
                                           {"Authorization", "Basic k"},
                                       },
                                       {{"Authorization", "k"}},
                                       {{"x-api-key", "kk"}},
                                       {{"x-api-key", "one"}},
                                       {{"Cookie", "k"}}}) {
    http::Request request = with(headers);
    const auto error = access->check_key(&request);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, 401);
    EXPECT_EQ(request.key_label, "");
  }
  EXPECT_TRUE(access->has_several_keys());
  http::Request request = with({});
  EXPECT_FALSE(Access::make({})->check_key(&request));
}

TEST_F(KeyFile, ARenewalChangesItsPartAlone) {
  const auto error_of = [](const Access& access, http::Headers headers) {
    http::Request request = with(std::move(headers));
    auto error = access.check_site(&request);
    if (!error) error = access.check_key(&request);
    return error ? error->code : "";
  };
  const http::Headers page = {{"Origin", "https://a.example"}, {"x-api-key", "old"}};
  const auto first =
      Access::make({.api_key_file = write("old\n"), .cors_origins = {"https://a.example"}});
  EXPECT_EQ(error_of(*first, page), "");
  const auto renewed = first->with_keys(write("new\n"));
  EXPECT_EQ(error_of(*renewed, page), "invalid_api_key");
  EXPECT_EQ(error_of(*first, page), "");
  const auto open = renewed->with_sites({"*"}, {});
  EXPECT_EQ(error_of(*open, {{"Origin", "https://any.example"}, {"x-api-key", "new"}}), "");
  EXPECT_EQ(error_of(*open, {{"Origin", "https://any.example"}, {"x-api-key", "old"}}),
            "invalid_api_key");
  EXPECT_THROW(open->with_keys(""), Error);  // "*" needs keys
  EXPECT_THROW(first->with_keys("")->with_sites({"*"}, {}), Error);
  EXPECT_EQ(error_of(*first->with_keys(""), {{"Origin", "https://a.example"}}), "");
}

TEST(Preflight, GrantsTheAskedHeadersAndNeverCredentials) {
  http::Request request = with({{"Origin", "http://localhost:3000"},
                                {"Access-Control-Request-Method", "POST"},
                                {"Access-Control-Request-Headers", "authorization,x-stainless-os"},
                                {"Access-Control-Request-Private-Network", "true"}});
  const auto access = Access::make({});
  EXPECT_FALSE(access->check_site(&request));
  auto answer = Access::preflight(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 204);
  http::Headers all = answer->headers;
  all.insert(all.end(), request.reply_headers.begin(), request.reply_headers.end());
  const auto value = [&](std::string_view name) {
    for (const auto& [key, text] : all)
      if (key == name) return text;
    return std::string("absent");
  };
  EXPECT_EQ(value("Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(value("Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  EXPECT_NE(value("Access-Control-Allow-Methods").find("POST"), std::string::npos);
  EXPECT_EQ(value("Access-Control-Allow-Private-Network"), "true");
  EXPECT_EQ(value("Access-Control-Allow-Credentials"), "absent");
  EXPECT_EQ(value("Vary"), "Origin");
  // What could break out of a header line is not repeated.
  request.headers[2].second = "a\r\nSet-Cookie: b";
  answer = Access::preflight(request);
  EXPECT_EQ(answer->headers.size(), 3u);
}

TEST(Preflight, IsNothingElse) {
  EXPECT_FALSE(Access::preflight(with({{"Origin", "http://localhost"}})));
  EXPECT_FALSE(Access::preflight(with({{"Access-Control-Request-Method", "POST"}})));
  http::Request request = with({{"Origin", "http://evil.example"}});
  const auto error = Access::make({})->check_site(&request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "origin_not_allowed");
  EXPECT_TRUE(request.reply_headers.empty());
}

}  // namespace
}  // namespace flare::server
