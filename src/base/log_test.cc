// One record is one line, in text and as JSON.
#include "base/log.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/json/json.h"
#include "base/one_line.h"

namespace flare {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  void TearDown() override {
    set_log_sink({});
    set_log_format(LogFormat::kText);
    set_log_level(LogLevel::kInfo);
  }
  std::vector<std::string> lines_;
};

// What a client sends must not look like a record of ours, nor move the cursor.
constexpr std::string_view kHostile =
    "a\r\n12:00:00.000 error all is lost\x1b[2J\xc2\x9b\x31m \"q\" \\ \xff\0 é";

TEST_F(Log, NothingInATextMakesASecondLine) {
  log_line(LogLevel::kInfo, kHostile);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].find('\n'), lines_[0].size() - 1);
  for (const char c : lines_[0].substr(0, lines_[0].size() - 1))
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << static_cast<int>(c);
  EXPECT_NE(lines_[0].find(R"(a\x0d\n12:00:00.000 error all is lost\x1b[2J\xc2\x9b1m "q" \ \xff)"),
            std::string::npos)
      << lines_[0];
}

TEST_F(Log, JsonLinesAreJson) {
  set_log_format(LogFormat::kJson);
  log_line(LogLevel::kWarn, kHostile);
  ASSERT_EQ(lines_.size(), 1u);
  const Json line = parse_json(lines_[0], "line");
  EXPECT_EQ(line.at("level").as_string(), "warn");
  EXPECT_EQ(line.at("message").as_string(), one_line(kHostile));
}

TEST_F(Log, LevelsThatAreOffWriteNothing) {
  set_log_level(LogLevel::kWarn);
  log_line(LogLevel::kInfo, "no");
  log_info("no");
  log_line(LogLevel::kError, "yes");
  EXPECT_EQ(lines_.size(), 1u);
}

}  // namespace
}  // namespace flare
