// One error in the words of each protocol.
#include "server/api/errors.h"

#include <gtest/gtest.h>

namespace flare::server {
namespace {

// Status and body of the error as `path` writes it.
std::pair<int, Json> written(std::string_view path, const ApiError& error) {
  const http::Answer answer = error_answer(path, "req_1", error);
  return {answer.status, parse_json(answer.body, "error")};
}

TEST(Errors, TheFormFollowsThePath) {
  const ApiError error{400, "invalid_value", "'n' is 9", "n"};
  EXPECT_EQ(written("/v1/chat/completions", error).second,
            parse_json(R"({"error":{"message":"'n' is 9","type":"invalid_request_error",
                                    "param":"n","code":"invalid_value"}})",
                       "x"));
  const Json messages = parse_json(
      R"({"type":"error","error":{"type":"invalid_request_error","message":"'n' is 9",
          "code":"invalid_value"},"request_id":"req_1"})",
      "x");
  EXPECT_EQ(written("/v1/messages", error).second, messages);
  EXPECT_EQ(written("/v1/messages/count_tokens", error).second, messages);
  EXPECT_NE(written("/v1/messagesx", error).second, messages);
}

TEST(Errors, StatusAndTypeOfEachProtocol) {
  struct Case {
    int status;
    const char *type, *messages_type;
    int messages_status;
  };
  for (const Case& c : {Case{400, "invalid_request_error", "invalid_request_error", 400},
                        Case{401, "authentication_error", "authentication_error", 401},
                        Case{403, "permission_error", "permission_error", 403},
                        Case{404, "not_found_error", "not_found_error", 404},
                        Case{408, "invalid_request_error", "timeout_error", 408},
                        Case{413, "invalid_request_error", "invalid_request_error", 413},
                        Case{429, "rate_limit_error", "overloaded_error", 529},
                        Case{500, "server_error", "api_error", 500},
                        Case{503, "server_error", "overloaded_error", 529},
                        Case{504, "server_error", "timeout_error", 504}}) {
    const auto [status, body] = written("/v1/responses", {c.status, "c", "m", {}});
    EXPECT_EQ(status, c.status);
    EXPECT_EQ(body.at("error").at("type"), Json(c.type)) << c.status;
    const auto [other_status, other] = written("/v1/messages", {c.status, "c", "m", {}});
    EXPECT_EQ(other_status, c.messages_status);
    EXPECT_EQ(other.at("error").at("type"), Json(c.messages_type)) << c.status;
  }
}

TEST(Errors, HeadersBelongToTheStatus) {
  const auto headers = [](int status, const char* param) {
    return error_answer("/", "r", {status, "c", "m", param}).headers;
  };
  EXPECT_EQ(headers(405, "GET, HEAD"), (http::Headers{{"Allow", "GET, HEAD"}}));
  EXPECT_EQ(headers(429, ""), (http::Headers{{"Retry-After", "1"}}));
  EXPECT_EQ(headers(503, ""), (http::Headers{{"Retry-After", "1"}}));
  EXPECT_EQ(headers(401, ""), (http::Headers{{"WWW-Authenticate", "Bearer"}}));
  EXPECT_TRUE(headers(400, "x").empty());
}

}  // namespace
}  // namespace flare::server
