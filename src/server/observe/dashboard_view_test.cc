// What stands on screens of many sizes.
#include "server/observe/dashboard_view.h"

#include <gtest/gtest.h>

namespace flare::server::observe {
namespace {

DashboardState busy(size_t n_rows) {
  DashboardState s;
  s.address = "http://127.0.0.1:8000";
  s.source = "models/nano";
  Overview& o = s.overview;
  o.phase = Phase::kReady;
  o.now = std::chrono::steady_clock::now();
  o.device = "cpu";
  o.max_pending = 64;
  o.numbers.model = "nano";
  runtime::EngineStats e;
  e.running = static_cast<uint32_t>(n_rows);
  e.prefilling = 1;
  e.waiting = 3;
  e.pages_total = 128;
  e.pages_active = 40;
  e.pages_cached = 24;
  o.numbers.engine = e;
  runtime::MemoryPlan plan;
  plan.weights = uint64_t{1} << 30;
  plan.max_concurrency = 8;
  plan.snapshots = 16;
  o.numbers.memory = plan;
  for (size_t i = 0; i < n_rows; ++i)
    o.rows.push_back({.number = i + 1,
                      .prompt_tokens = 1000,
                      .cached_tokens = 128,
                      .read_tokens = i == 0 ? 512u : 1000u,
                      .generated_tokens = i == 0 ? 0u : 17u,
                      .max_tokens = 4000,
                      .submitted = o.now - std::chrono::seconds(3)});
  o.latency.ttft = Observer::Quantiles{0.012, 0.5};
  o.latency.inter_token = Observer::Quantiles{0.004, 0.009};
  o.trouble.push_back({std::chrono::system_clock::now(), Api::kChat, 500, "engine_failed"});
  for (int i = 0; i < 60; ++i) {
    s.prefill_rates.push_back(i * 10);
    s.decode_rates.push_back(i % 7);
  }
  s.messages = {"12:00:00.000 info  \x1b[2Jhostile\tna\xc3\xafve \xe5\x8c\x97",
                "12:00:01.000 warn  last"};
  return s;
}

std::string text_of(const std::vector<DashboardRow>& rows) {
  std::string text;
  for (const DashboardRow& row : rows) text += row.text + "\n";
  return text;
}

TEST(DashboardView, FillsAnyScreenAndNoMore) {
  for (const size_t n_rows : {0, 1, 3, 500})
    for (int columns : {0, 1, 2, 9, 10, 11, 39, 40, 79, 80, 120, 300})
      for (int rows : {0, 1, 2, 3, 5, 9, 10, 11, 23, 24, 40, 100}) {
        const auto screen = dashboard_rows(busy(n_rows), columns, rows);
        ASSERT_EQ(screen.size(), columns == 0 ? 0u : static_cast<size_t>(rows));
        for (const DashboardRow& row : screen) {
          ASSERT_LE(cells(row.text), static_cast<size_t>(columns)) << row.text;
          for (const char c : row.text)
            ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << row.text;
        }
      }
}

TEST(DashboardView, HasEverythingAt80By24) {
  const std::string text = text_of(dashboard_rows(busy(3), 80, 24));
  for (const char* part : {"nano",
                           "http://127.0.0.1:8000",
                           "ready",
                           "3 of 8 running, 1 reading, 3 of 64 waiting",
                           "Prefill",
                           "Decode",
                           "p50 12 ms  p95 500 ms",
                           "p50 4.0 ms  p95 9.0 ms",
                           "40 active, 24 cached of 128",
                           "of 1.0 GiB planned",
                           "0 of 16",
                           "#1",
                           "prefill",
                           "512 /1000",
                           "#3",
                           "decode",
                           "17/4000",
                           "3.0 s",
                           "500 engine_failed",
                           "warn  last",
                           "█",
                           "▁"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(DashboardView, KeepsWhatMattersMostOnASmallScreen) {
  const std::string text = text_of(dashboard_rows(busy(3), 40, 10));
  for (const char* part : {"nano", "ready", "3 of 8 running", "Decode", "#1", "prefill"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(DashboardView, SaysHowManyItDoesNotShow) {
  const std::string text = text_of(dashboard_rows(busy(500), 80, 24));
  EXPECT_NE(text.find(" more\n"), std::string::npos) << text;
  EXPECT_NE(text.find("warn  last"), std::string::npos) << "messages keep a place\n" << text;
}

TEST(DashboardView, NeedsNoUnicode) {
  DashboardState s = busy(2);
  s.unicode = false;
  for (const DashboardRow& row : dashboard_rows(s, 80, 24))
    for (const char c : row.text) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << row.text;
}

TEST(DashboardView, DrawsWhileTheModelLoadsAndWhenItFailed) {
  EXPECT_NE(text_of(dashboard_rows({}, 80, 24)).find("loading"), std::string::npos);
  DashboardState s = busy(0);
  s.overview.phase = Phase::kFailed;
  const auto screen = dashboard_rows(s, 80, 24);
  EXPECT_EQ(screen[0].tone, Tone::kAlarm);
  EXPECT_NE(screen[0].text.find("failed"), std::string::npos);
}

TEST(RateHistory, IsPerSecondAndBounded) {
  RateHistory history;
  const auto begin = std::chrono::steady_clock::time_point{} + std::chrono::hours(1);
  for (int i = 0; i <= 1000; ++i)  // four looks a second
    history.add(begin + std::chrono::milliseconds(250) * i, static_cast<uint64_t>(i) * 25, 0);
  EXPECT_EQ(history.prefill().size(), RateHistory::kSamples);
  EXPECT_DOUBLE_EQ(history.prefill().back(), 100);
  EXPECT_DOUBLE_EQ(history.decode().back(), 0);
}

}  // namespace
}  // namespace flare::server::observe
