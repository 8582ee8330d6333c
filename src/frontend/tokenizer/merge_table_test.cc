// Merging against the definition: again and again the first pair of the lowest rank.
#include "frontend/tokenizer/merge_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace flare::frontend::tokenizer {
namespace {

struct Rule {
  uint32_t rank;
  int32_t id;
};
using Rules = std::map<std::pair<int32_t, int32_t>, Rule>;

std::vector<int32_t> merged_by_definition(const Rules& rules, std::vector<int32_t> symbols) {
  while (true) {
    size_t best = symbols.size();
    uint32_t rank = MergeTable::kNoRank;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = rules.find({symbols[i], symbols[i + 1]});
      if (it == rules.end() || it->second.rank >= rank) continue;
      best = i;
      rank = it->second.rank;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = rules.at({symbols[best], symbols[best + 1]}).id;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

void expect_merged(const Rules& rules, const std::vector<int32_t>& symbols) {
  MergeTable table(rules.size());
  for (const auto& [pair, rule] : rules) table.add(pair.first, pair.second, rule.rank, rule.id);
  std::vector<int32_t> out{-7};
  MergeScratch scratch;
  std::vector<int32_t> changed = symbols;
  table.append_merged(changed, out, scratch);
  std::vector<int32_t> expected = merged_by_definition(rules, symbols);
  expected.insert(expected.begin(), -7);
  ASSERT_EQ(out, expected);
}

// Rules as training makes them, and rules that no training makes: later ones with lower ranks,
// equal ranks, tokens with several spellings.
Rules random_rules(std::mt19937& random, int32_t n_letters, bool trained) {
  Rules rules;
  int32_t n_ids = n_letters;
  for (uint32_t rank = 0; rank < 40; ++rank) {
    const auto id = [&] { return static_cast<int32_t>(random() % static_cast<uint32_t>(n_ids)); };
    const std::pair<int32_t, int32_t> pair{id(), id()};
    const bool known = !trained && n_ids > n_letters && random() % 4 == 0;
    const int32_t joined = known ? id() : n_ids;
    // A token that is made of itself could grow for ever in other hands, not in a list.
    const Rule rule{trained ? rank : static_cast<uint32_t>(random() % 20), joined};
    if (rules.emplace(pair, rule).second && !known) ++n_ids;
  }
  return rules;
}

class Merging : public ::testing::TestWithParam<bool> {};

TEST_P(Merging, IsTheFirstPairOfTheLowestRankAgainAndAgain) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int32_t n_letters = 1 + static_cast<int32_t>(random() % 5);
    const Rules rules = random_rules(random, n_letters, GetParam());
    for (const size_t n : {0, 1, 2, 3, 5, 8, 17, 63, 64, 65, 66, 130, 400}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << n << " symbols");
      std::vector<int32_t> symbols(n);
      const size_t period = 1 + random() % 6;
      const bool repeats = random() % 2 == 0;
      for (size_t i = 0; i < n; ++i) {
        symbols[i] = static_cast<int32_t>(random() % static_cast<uint32_t>(n_letters));
        if (repeats && i >= period) symbols[i] = symbols[i - period];
        if (random() % 50 == 0) symbols[i] = -1 - static_cast<int32_t>(random() % 2);
      }
      ASSERT_NO_FATAL_FAILURE(expect_merged(rules, symbols));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Merging, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Trained") : std::string("Any");
});

TEST(Merging, OfARunTakesTimeInProportion) {
  // Halves of a run of a million, as a vocabulary of spaces has them.
  MergeTable table(20);
  for (int32_t i = 0; i < 20; ++i) table.add(i, i, static_cast<uint32_t>(i), i + 1);
  std::vector<int32_t> symbols(1 << 20, 0), out;
  MergeScratch scratch;
  table.append_merged(symbols, out, scratch);
  EXPECT_EQ(out, (std::vector<int32_t>{20}));
}

}  // namespace
}  // namespace flare::frontend::tokenizer
