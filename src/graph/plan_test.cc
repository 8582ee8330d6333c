// Plans written out and read back without loss; malformed ones refused by the field's name.
#include "graph/plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace flare::graph {
namespace {

std::string_view kernel_name(uint16_t id) {
  constexpr std::string_view names[] = {"embed", "linear", "sample"};
  return id < 3 ? names[id] : "?";
}

// Immediates that a careless reader or writer would change.
const int64_t kWords[] = {
    0,
    -1,
    std::numeric_limits<int64_t>::min(),
    std::numeric_limits<int64_t>::max(),
    std::bit_cast<int64_t>(-0.0),
    std::bit_cast<int64_t>(uint64_t{0x7ff8dead'beef1234}),  // quiet NaN with a payload
    std::bit_cast<int64_t>(uint64_t{0x7ff0000000000001}),   // signalling NaN
    std::bit_cast<int64_t>(uint64_t{0xfff8000000000000}),
    std::bit_cast<int64_t>(std::numeric_limits<double>::infinity()),
    std::bit_cast<int64_t>(std::numeric_limits<double>::denorm_min()),
    std::bit_cast<int64_t>(1e-6),
};

Plan sample() {
  Plan plan;
  plan.role = "text.step";
  plan.capacity = {520, 8, 7};
  plan.arena_bytes = UINT64_MAX;
  plan.operands = {
      {},
      {Space::kArena, DType::kF32, Extent::kRows, 0, uint64_t{1} << 40, 96, 128},
      {Space::kWeight, DType::kU8, Extent::kOne, 17, 0, 64, 64},
      {Space::kPage, DType::kBf16, Extent::kOne, 3, 4096, 256, 256},
      {Space::kRow, DType::kF32, Extent::kOne, 4, 64, UINT32_MAX, UINT32_MAX},
      {Space::kIo, DType::kI32, Extent::kLogits, UINT32_MAX, 0, 1, 1},
      {Space::kConst, DType::kF32, Extent::kOne, 2, 0, 0, 0},
  };
  for (const int64_t word : kWords) plan.immediates.push_back(std::bit_cast<Immediate>(word));
  plan.launches = {{0, 0, 3, 0, 1}, {1, 3, 4, 1, 10}, {2, 7, 0, 11, 0}};
  plan.taps = {"hidden.0", "hidden.final"};
  return plan;
}

TEST(Plan, ComesBackFromJsonBitForBit) {
  const Plan plan = sample();
  const std::string text = plan_to_json(plan, kernel_name).to_text();
  const Plan back = plan_from_json(parse_json(text, "plan"), "plan", kernel_name);
  EXPECT_EQ(back.role, plan.role);
  EXPECT_EQ(back.capacity, plan.capacity);
  EXPECT_EQ(back.arena_bytes, plan.arena_bytes);
  EXPECT_EQ(back.operands, plan.operands);
  EXPECT_EQ(back.taps, plan.taps);
  ASSERT_EQ(back.immediates.size(), std::size(kWords));
  for (size_t i = 0; i < std::size(kWords); ++i)
    EXPECT_EQ(std::bit_cast<int64_t>(back.immediates[i]), kWords[i]) << i;
  ASSERT_EQ(back.launches.size(), plan.launches.size());
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    EXPECT_EQ(back.launches[i].kernel, plan.launches[i].kernel);
    EXPECT_EQ(back.launches[i].first_operand, plan.launches[i].first_operand);
    EXPECT_EQ(back.launches[i].n_operands, plan.launches[i].n_operands);
    EXPECT_EQ(back.launches[i].first_immediate, plan.launches[i].first_immediate);
    EXPECT_EQ(back.launches[i].n_immediates, plan.launches[i].n_immediates);
  }
  EXPECT_EQ(plan_to_json(back, kernel_name).to_text(), text);
}

TEST(Plan, AnEmptyPlanComesBackToo) {
  const Plan back = plan_from_json(plan_to_json({}, kernel_name), "plan", kernel_name);
  EXPECT_TRUE(back.operands.empty() && back.launches.empty() && back.immediates.empty());
}

void expect_refused(const Json& json, const std::vector<std::string>& words) {
  try {
    plan_from_json(json, "file: plans[3]", kernel_name);
    ADD_FAILURE() << "taken, expected " << words[0];
  } catch (const Error& e) {
    EXPECT_EQ(code_name(e.code()), code_name(Code::kDirectory)) << e.message();
    EXPECT_EQ(e.message().find("file: plans[3]"), 0u) << e.message();
    for (const std::string& word : words)
      EXPECT_NE(e.message().find(word), std::string::npos) << word << " in " << e.message();
  }
}

Json changed(std::string_view field, Json value) {
  Json json = plan_to_json(sample(), kernel_name);
  json.set(field, std::move(value));
  return json;
}
// Item `i` of field[index] replaced.
Json changed(std::string_view field, size_t index, size_t i, Json value) {
  const Json json = plan_to_json(sample(), kernel_name);
  Json::Array items = json.at(field).as_array();
  items[index].mutable_array()[i] = std::move(value);
  return changed(field, items);
}

TEST(Plan, NamesAFieldThatIsMissing) {
  const Json whole = plan_to_json(sample(), kernel_name);
  for (const auto& [name, value] : whole.as_object()) {
    Json::Object members = whole.as_object();
    std::erase_if(members, [&](const Json::Member& m) { return m.first == name; });
    expect_refused(members, {"'" + name + "'", "missing"});
  }
}

TEST(Plan, NamesAFieldOfTheWrongType) {
  for (const char* name : {"v", "rows", "sequences", "logits", "arena_bytes"}) {
    expect_refused(changed(name, "x"), {name, "integer"});
    expect_refused(changed(name, -1), {name});
    expect_refused(changed(name, 1.5), {name});
  }
  expect_refused(changed("role", 3), {"role", "string"});
  EXPECT_THROW(plan_from_json(Json::array(), "plan", kernel_name), Error);
  for (const char* name : {"operands", "immediates", "launches", "taps"})
    expect_refused(changed(name, Json::object()), {name, "array"});
  expect_refused(changed("taps", Json::array({"a", 1})), {"taps[1]", "string"});
  expect_refused(changed("immediates", Json::array({1, 2, uint64_t{1} << 63})), {"immediates[2]"});
  expect_refused(changed("immediates", Json::array({1.0})), {"immediates[0]"});
}

TEST(Plan, NamesANumberThatIsOutOfRange) {
  expect_refused(changed("v", 2), {"v", "2", "1 expected"});
  for (const char* name : {"rows", "sequences", "logits"})
    expect_refused(changed(name, uint64_t{1} << 31), {name, "2147483648"});
  const char* parts[] = {"space", "dtype", "extent", "index", "offset", "cols", "stride"};
  const uint64_t limits[] = {6, kDTypes - 1, 2, UINT32_MAX, 0, UINT32_MAX, UINT32_MAX};
  for (size_t i = 0; i < 7; ++i) {
    const std::string at = "operands[2]." + std::string(parts[i]);
    expect_refused(changed("operands", 2, i, "x"), {at, "integer"});
    expect_refused(changed("operands", 2, i, -1), {at});
    if (limits[i] > 0) expect_refused(changed("operands", 2, i, limits[i] + 1), {at});
  }
  const char* fields[] = {"name",       "kernel",          "first_operand",
                          "n_operands", "first_immediate", "n_immediates"};
  for (size_t i = 1; i < 6; ++i) {
    const std::string at = "launches[1]." + std::string(fields[i]);
    expect_refused(changed("launches", 1, i, "x"), {at, "integer"});
    expect_refused(changed("launches", 1, i, uint64_t{1} << 32), {at});
  }
  expect_refused(changed("launches", 1, 0, 5), {"launches[1].name", "string"});
}

TEST(Plan, NamesALaunchThatReachesTooFar) {
  expect_refused(changed("launches", 1, 3, 5), {"launches[1].n_operands", "7 operands"});
  expect_refused(changed("launches", 1, 2, UINT32_MAX), {"launches[1].n_operands"});
  expect_refused(changed("launches", 1, 5, 11), {"launches[1].n_immediates", "11 immediates"});
  expect_refused(changed("launches", 1, 4, UINT32_MAX), {"launches[1].n_immediates"});
}

TEST(Plan, NamesAKernelThatIsAnotherHere) {
  expect_refused(changed("launches", 1, 0, "embed"), {"launches[1].name", "embed", "linear"});
  expect_refused(changed("launches", 1, 1, 65537), {"launches[1].kernel", "65537"});
  // An unknown id whose name is what unknown ids are called.
  Json json = changed("launches", 1, 1, 9);
  Json::Array launches = json.at("launches").as_array();
  launches[1].mutable_array()[0] = "?";
  json.set("launches", launches);
  expect_refused(json, {"launches[1].kernel", "9", "unknown"});
}

TEST(Plan, NamesAnEntryOfTheWrongLength) {
  Json::Array operands(7, Json::array({0, 0, 0, 0, 0, 0}));
  expect_refused(changed("operands", operands), {"operands[0]", "6 numbers, 7 expected"});
  expect_refused(changed("launches", Json::array({Json::array({"embed", 0})})),
                 {"launches[0]", "2 fields, 6 expected"});
  expect_refused(changed("launches", Json::array({4})), {"launches[0]", "array"});
}

TEST(Plan, TextHasOneLineALaunch) {
  EXPECT_EQ(plan_text(sample(), kernel_name),
            "plan text.step: 3 launches, up to 520 rows, 8 sequences, 7 logits rows, arena "
            "18446744073709551615 bytes\n"
            "  embed -, arena+1099511627776 f32 T×96, weight[17] 1×64\n"
            "  linear page+4096 bf16 256, row+64 f32 4294967295, io[4294967295] L×1, "
            "const[2] 1×0\n"
            "  sample\n");
}

}  // namespace
}  // namespace flare::graph
