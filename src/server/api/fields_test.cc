// Types and ranges of request fields: S1.1, S1.2, S1.4.
#include "server/api/fields.h"

#include <gtest/gtest.h>

#include "server/api/body.h"

namespace flare::server {
namespace {

// The code that `read` is refused with; empty if it is taken.
template <typename Read>
ApiError refusal(const Read& read) {
  try {
    read();
  } catch (const ApiError& error) {
    return error;
  }
  return {200, {}, {}, {}};
}

Json parsed(std::string_view text) { return parse_json(text, "test"); }

TEST(Fields, NullIsAbsentAndAWholeRealIsAnInteger) {
  const Json body = parsed(R"({"a":null,"b":5.0,"c":-7,"d":1e3})");
  const Fields fields(body);
  EXPECT_FALSE(fields.integer("a", 0, 9));
  EXPECT_FALSE(fields.number("missing", 0, 9));
  EXPECT_EQ(fields.integer("b", 0, 9), 5);
  EXPECT_EQ(fields.integer("c", -7, 9), -7);
  EXPECT_EQ(fields.integer("d", 0, 1000), 1000);
}

TEST(Fields, MembersThatNobodyAskedForAreUnread) {
  const Json body = parsed(R"({"z":1,"a":null,"b":"x","c":true,"y":{}})");
  const Fields fields(body);
  EXPECT_EQ(fields.unread(), (std::vector<std::string>{"z", "a", "b", "c", "y"}));
  EXPECT_FALSE(fields.integer("a", 0, 9));  // known, although null
  fields.without_effect("b", Shape::kText);
  fields.boolean("c");
  fields.boolean("missing");
  EXPECT_EQ(fields.unread(), (std::vector<std::string>{"z", "y"}));
}

TEST(Fields, TypesOfFieldsWithoutEffectAreChecked) {
  const Json body = parsed(R"({"s":"x","b":false,"i":3,"o":{},"l":[]})");
  const Fields fields(body);
  const std::pair<std::string_view, Shape> right[] = {{"s", Shape::kText},
                                                      {"b", Shape::kBoolean},
                                                      {"i", Shape::kInteger},
                                                      {"o", Shape::kObject},
                                                      {"l", Shape::kArray}};
  for (const auto& [name, value] : body.as_object())
    for (const auto& [owner, shape] : right) {
      const ApiError error = refusal([&] { fields.without_effect(name, shape); });
      EXPECT_EQ(error.code, owner == name ? "" : "invalid_type") << name << " as " << owner;
    }
  EXPECT_EQ(refusal([&] { fields.without_effect("s", Shape::kAny); }).status, 200);
}

TEST(Fields, WrongTypesAndRangesNameFieldValueAndRange) {
  const Json body = parsed(R"({"s":"1","f":1.5,"big":99,"huge":9223372036854775808,"e":1e300,
                              "l":[1,2,3],"t":"toolong"})");
  const Fields fields(body, "outer.");
  const ApiError type = refusal([&] { fields.number("s", 0, 1); });
  EXPECT_EQ(type.code, "invalid_type");
  EXPECT_EQ(type.param, "outer.s");
  EXPECT_EQ(refusal([&] { fields.integer("f", 0, 9); }).code, "invalid_type");
  EXPECT_EQ(refusal([&] { fields.boolean("s"); }).code, "invalid_type");
  EXPECT_EQ(refusal([&] { fields.object("l"); }).code, "invalid_type");
  const ApiError range = refusal([&] { fields.integer("big", 0, 9); });
  EXPECT_EQ(range.code, "invalid_value");
  EXPECT_EQ(range.message, "'outer.big' is 99, 0..9 expected");
  EXPECT_EQ(refusal([&] { fields.integer("huge", INT64_MIN, INT64_MAX); }).code, "invalid_value");
  EXPECT_EQ(refusal([&] { fields.integer("e", INT64_MIN, INT64_MAX); }).code, "invalid_value");
  EXPECT_EQ(refusal([&] { fields.array("l", 0, 2); }).code, "invalid_value");
  EXPECT_EQ(refusal([&] { fields.text("t", 3); }).code, "invalid_value");
}

TEST(Fields, RefusedFieldsPassWithNeutralValuesOnly) {
  const Json body = parsed(R"({"off":false,"on":true,"null":null})");
  const Fields fields(body);
  fields.refuse("absent");
  fields.refuse("null");
  fields.refuse("off", {Json(false)});
  const ApiError error = refusal([&] { fields.refuse("on", {Json(false)}); });
  EXPECT_EQ(error.code, "unsupported_parameter");
  EXPECT_EQ(error.param, "on");
}

http::Request request(std::string body, std::string type, std::string coding = {}) {
  http::Request out;
  out.body = std::move(body);
  if (!type.empty()) out.headers.emplace_back("Content-Type", std::move(type));
  if (!coding.empty()) out.headers.emplace_back("Content-Encoding", std::move(coding));
  return out;
}

ApiError body_refusal(const http::Request& given) {
  return refusal([&] { read_json_body(given); });
}

TEST(Body, IsOneJsonObjectOfItsMediaType) {
  EXPECT_EQ(read_json_body(request(R"({"a":1})", "application/json")).at("a"), Json(1));
  EXPECT_EQ(read_json_body(request("{}", "Application/JSON; charset=utf-8")), Json::object());
  EXPECT_EQ(body_refusal(request("{}", "text/plain")).status, 415);
  EXPECT_EQ(body_refusal(request("{}", "")).status, 415);
  EXPECT_EQ(body_refusal(request("{}", "application/json", "gzip")).status, 415);
  EXPECT_EQ(body_refusal(request("", "application/json")).code, "invalid_json");
  EXPECT_EQ(body_refusal(request("{} x", "application/json")).code, "invalid_json");
  EXPECT_EQ(body_refusal(request(R"({"a":1,"a":1})", "application/json")).code, "invalid_json");
  EXPECT_EQ(body_refusal(request("[]", "application/json")).code, "invalid_type");
  EXPECT_EQ(body_refusal(request("{\"a\":\"\xC3\"}", "application/json")).code, "invalid_encoding");
}

TEST(Body, NestsTo256LevelsAndNoFurther) {
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(body_refusal(request(nested(256), "application/json")).status, 200);
  EXPECT_EQ(body_refusal(request(nested(257), "application/json")).code, "invalid_json");
}

}  // namespace
}  // namespace flare::server
