// The text of a scrape; tests/cli/observe_test.py reads that of a running server strictly.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "server/observe/metrics.h"

namespace flare::server::observe {
namespace {

// Lines of one family's samples.
std::vector<std::string> samples(const std::string& text, const std::string& family) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(family) && line.find_first_of("{ ") == family.size())
      found.push_back(line.substr(family.size()));
  return found;
}

using Lines = std::vector<std::string>;

TEST(Exposition, HasEveryFamilyOnceWithHelpAndType) {
  const std::string text =
      exposition({.engine = runtime::EngineStats(), .memory = runtime::MemoryPlan(), .model = "m"});
  std::set<std::string> seen;
  std::istringstream in(text);
  std::string helped;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# HELP ")) {
      helped = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(seen.insert(helped).second) << helped;
      EXPECT_GT(line.size(), 7 + helped.size() + 5) << line;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.substr(7, line.find(' ', 7) - 7), helped);
    } else {
      EXPECT_TRUE(line.starts_with(helped)) << line;
      EXPECT_EQ(line.substr(line.rfind(' ')).find_first_of("nN"), std::string::npos)
          << "nan or inf: " << line;
    }
  }
  EXPECT_GT(seen.size(), 60u);
}

TEST(Exposition, EscapesLabels) {
  const std::string text = exposition({.memory = runtime::MemoryPlan(), .model = "a\"b\\c\nd"});
  ASSERT_EQ(samples(text, "vllm:cache_config_info").size(), 1u);
  EXPECT_TRUE(samples(text, "vllm:cache_config_info")[0].starts_with(
      R"({model_name="a\"b\\c\nd",block_size="128",)"));
}

TEST(Exposition, CountsHistogramsUpwards) {
  Metrics metrics;
  for (const double s : {0.0001, 0.0015, 0.0015, 7.0, 1e9, -1.0, std::nan("")})
    metrics.first_token(s);
  const Lines lines =
      samples(exposition({.counts = metrics.counts()}), "flare_ttft_seconds_bucket");
  EXPECT_EQ(lines.front(), R"({le="0.001"} 3)") << "what is no duration counts as none";
  EXPECT_EQ(lines[1], R"({le="0.002"} 5)");
  EXPECT_EQ(lines.back(), R"({le="+Inf"} 7)");
  EXPECT_EQ(lines[lines.size() - 2], R"({le="300"} 6)");
}

TEST(Exposition, HasTheDiskTierWhereThereIsOne) {
  runtime::EngineStats engine;
  engine.prefixes = {.snapshots = 3, .evicted_pages = 4, .evicted_snapshots = 5};
  EXPECT_EQ(samples(exposition({.engine = engine}), "flare_snapshots"),
            Lines{R"({tier="memory"} 3)"});
  engine.disk = runtime::DiskTier::Stats{.rows = 7, .evicted = 8};
  const std::string text = exposition({.engine = engine});
  EXPECT_EQ(samples(text, "flare_snapshots"),
            (Lines{R"({tier="memory"} 3)", R"({tier="disk"} 7)"}));
  EXPECT_EQ(samples(text, "flare_evictions_total"),
            (Lines{R"({tier="memory"} 9)", R"({tier="disk"} 8)"}));
}

TEST(Exposition, WorksWhileTheModelLoads) {
  const std::string text = exposition({});
  EXPECT_EQ(text.find("vllm:"), std::string::npos);
  EXPECT_TRUE(samples(text, "flare_requests_running").empty());
  EXPECT_EQ(samples(text, "flare_http_connections"), Lines{" 0"});
}

TEST(Exposition, LeavesAliasesOut) {
  const std::string text =
      exposition({.engine = runtime::EngineStats(), .model = "m", .aliases = false});
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    EXPECT_TRUE(line.starts_with('#') || line.starts_with("flare_")) << line;
}

TEST(Exposition, KeepsEveryDigitOfACount) {
  runtime::EngineStats engine;
  engine.generated_tokens = 9'007'199'254'740'993;  // no double
  EXPECT_EQ(samples(exposition({.engine = engine}), "flare_generation_tokens_total"),
            Lines{" 9007199254740993"});
}

}  // namespace
}  // namespace flare::server::observe
