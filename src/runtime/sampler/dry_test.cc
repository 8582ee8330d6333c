// DRY against examples worked by hand and against its definition, tried at every place.
#include "runtime/sampler/dry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace flare::runtime {
namespace {

using Ids = std::vector<int32_t>;
using Penalties = std::map<int32_t, float>;

std::shared_ptr<const std::vector<uint32_t>> bits(const Ids& ids) {
  auto out = std::make_shared<std::vector<uint32_t>>(4);
  for (const int32_t id : ids)
    (*out)[static_cast<size_t>(id) / 32] |= 1u << (static_cast<uint32_t>(id) % 32);
  return out;
}

Penalties penalties(const DrySettings& settings, const Ids& breakers, const Ids& history) {
  DryPenalty dry(settings, breakers.empty() ? nullptr : bits(breakers));
  Penalties out;
  for (const auto& [id, value] : dry.penalties(history)) EXPECT_TRUE(out.emplace(id, value).second);
  return out;
}

TEST(Dry, PenalisesWhatWouldLengthenARepetition) {
  const DrySettings s{.multiplier = 2, .base = 3};
  EXPECT_EQ(penalties(s, {}, {0, 1}), Penalties{});
  // 0 1 came before 2: a run of the allowed length costs the multiplier.
  EXPECT_EQ(penalties(s, {}, {0, 1, 2, 0, 1}), (Penalties{{2, 2}}));
  // The longest run counts: 5 0 1 was followed by 7, 0 1 by 2.
  EXPECT_EQ(penalties(s, {}, {0, 1, 2, 5, 0, 1, 7, 5, 0, 1}), (Penalties{{2, 2}, {7, 6}}));
  // One id repeated: runs overlap themselves.
  EXPECT_EQ(penalties(s, {}, {4, 4, 4, 4, 4}), (Penalties{{4, 2 * 9}}));
  EXPECT_EQ(penalties({.multiplier = 0}, {}, {0, 1, 2, 0, 1}), Penalties{});
}

TEST(Dry, LooksAtItsWindowAlone) {
  DrySettings s{.multiplier = 1, .base = 1.1f, .allowed_length = 4};
  EXPECT_EQ(penalties(s, {}, {0, 1, 2, 3, 4, 0, 1}), Penalties{});
  s.allowed_length = 2;
  const Ids history = {0, 1, 2, 9, 0, 1};
  EXPECT_EQ(penalties(s, {}, history), (Penalties{{2, 1}}));
  s.penalty_last_n = 6;
  EXPECT_EQ(penalties(s, {}, history), (Penalties{{2, 1}}));
  for (int32_t n : {5, 2, 0}) {
    s.penalty_last_n = n;
    EXPECT_EQ(penalties(s, {}, history), Penalties{}) << n;
  }
}

TEST(Dry, BreakersEndRunsAndLoseNothing) {
  const DrySettings s{.multiplier = 1, .base = 2};
  // The run 0 3 1 is cut behind 3, which leaves less than the allowed length.
  EXPECT_EQ(penalties(s, {3}, {0, 3, 1, 7, 0, 3, 1}), Penalties{});
  EXPECT_EQ(penalties(s, {3}, {9, 3, 0, 1, 7, 9, 3, 0, 1}), (Penalties{{7, 1}}));
  EXPECT_EQ(penalties(s, {}, {9, 3, 0, 1, 7, 9, 3, 0, 1}), (Penalties{{7, 4}}));
  EXPECT_EQ(penalties(s, {3}, {0, 1, 3, 0, 1}), Penalties{});
  EXPECT_EQ(penalties(s, {1}, {0, 1, 2, 0, 1}), Penalties{});
}

TEST(Dry, LongRunsStayNumbers) {
  const Ids history(3000, 4);
  const Penalties p = penalties({.multiplier = 10, .base = 2}, {}, history);
  ASSERT_EQ(p.size(), 1u);
  EXPECT_EQ(p.at(4), std::numeric_limits<float>::max());
}

// The definition: every id, every place where it stands, the longest run before it.
Penalties plain(const DrySettings& s, const Ids& breakers, Ids window) {
  if (s.penalty_last_n >= 0 && std::cmp_less(s.penalty_last_n, window.size()))
    window.erase(window.begin(), window.end() - s.penalty_last_n);
  const auto n = static_cast<int>(window.size());
  const auto breaks = [&](int32_t id) {
    return std::find(breakers.begin(), breakers.end(), id) != breakers.end();
  };
  Penalties out;
  if (n <= s.allowed_length) return out;
  for (int at = 0; at < n; ++at) {
    int run = 0;  // window[at − run, at) is how the window ends, without a breaker
    while (run < at && window[n - 1 - run] == window[at - 1 - run] && !breaks(window[n - 1 - run]))
      ++run;
    if (run < s.allowed_length || at == n || breaks(window[at])) continue;
    const auto value =
        static_cast<float>(s.multiplier * std::pow(double{s.base}, run - s.allowed_length));
    out[window[at]] = std::max(out[window[at]], value);
  }
  return out;
}

TEST(Dry, IsWhatItsDefinitionSays) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    const uint32_t n_ids = 1 + random() % 5;
    Ids history(random() % 60);
    for (int32_t& id : history) id = static_cast<int32_t>(random() % n_ids);
    DrySettings s{.multiplier = 0.75f, .base = 1.25f};
    s.allowed_length = static_cast<int32_t>(1 + random() % 4);
    s.penalty_last_n = random() % 2 == 0 ? -1 : static_cast<int32_t>(random() % 50);
    const Ids breakers = random() % 2 == 0 ? Ids{} : Ids{static_cast<int32_t>(random() % 4)};
    EXPECT_EQ(penalties(s, breakers, history), plain(s, breakers, history)) << round;
  }
}

}  // namespace
}  // namespace flare::runtime
