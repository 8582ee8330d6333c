// The memory plan's arithmetic, what it lowers, and what it refuses.
#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace flare::runtime {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

// 1 GiB of weights, rows of 4 MiB, pages of 2 MiB for 128 tokens; logits of 8 rows.
package::PreparedModel model(uint32_t max_context, uint32_t max_concurrency) {
  package::PreparedModel m;
  m.vocab_size = 1024;
  m.capacity = {max_context, max_concurrency, 512, 512 + max_concurrency};
  package::Rank rank;
  rank.weight_bytes = kGiB;
  rank.row.bytes = 4 * kMiB;
  rank.page = {128, 2 * kMiB, {{"k", 0, 2 * kMiB, graph::DType::kF8E4M3}}};
  graph::Plan step;
  step.capacity = {520, 8, 8};
  rank.catalog = {{"step", step}};
  m.ranks.push_back(std::move(rank));
  return m;
}
constexpr uint64_t kScratch = 16 * kMiB;

uint64_t io(const package::PreparedModel& m) {
  return 8 * 1024 * 4 + uint64_t{m.capacity.max_rows} * 64;
}

// Takes the same from every budget.
uint64_t program(const package::PreparedModel& m) {
  return plan_memory(m, kScratch, {}, 64 * kGiB, 32 * kGiB).program;
}

Error refusal(const package::PreparedModel& m, const MemoryWishes& wishes) {
  try {
    plan_memory(m, kScratch, wishes, 64 * kGiB, 32 * kGiB);
  } catch (const Error& e) {
    EXPECT_EQ(code_name(e.code()), code_name(Code::kDoesNotFit));
    return e;
  }
  return Error(Code::kInternal, "no error");
}

TEST(MemoryPlan, CoversEveryRequestsFullContextWhereMemoryAllows) {
  const auto m = model(4096, 8);
  const MemoryPlan plan = plan_memory(m, kScratch, {}, 64 * kGiB, 32 * kGiB);
  EXPECT_EQ(plan.max_context, 4096u);
  EXPECT_EQ(plan.max_concurrency, 8u);
  EXPECT_EQ(plan.rows, 9u);
  EXPECT_EQ(plan.pages, 8u * 32);
  EXPECT_EQ(plan.weights, kGiB);
  EXPECT_EQ(plan.scratch, kScratch);
  EXPECT_EQ(plan.io, io(m));
  EXPECT_EQ(plan.total(),
            plan.program + kGiB + kScratch + io(m) + 9 * 4 * kMiB + 8 * 32 * 2 * kMiB);
  EXPECT_LE(plan.total(), plan.budget);
  EXPECT_EQ(plan.note, "");
}

TEST(MemoryPlan, LeavesTheAllowanceToTheMachine) {
  // package.md §11.5: ⌈T/20⌉ + 2 GiB + 64 MiB stay free.
  const MemoryPlan plan = plan_memory(model(4096, 8), kScratch, {}, 60 * kGiB, 32 * kGiB);
  EXPECT_EQ(plan.budget, 32 * kGiB - 3 * kGiB - 2 * kGiB - 64 * kMiB);
  // A small machine: half of what is free.
  EXPECT_EQ(plan_memory(model(512, 1), kScratch, {}, 8 * kGiB, 4 * kGiB).budget, 2 * kGiB);
}

TEST(MemoryPlan, KeepsWithinALimit) {
  using Kind = MemoryLimit::Kind;
  const auto budget = [](const MemoryLimit& limit) {
    return plan_memory(model(512, 1), kScratch, {.limit = limit}, 60 * kGiB, 32 * kGiB).budget;
  };
  const uint64_t usable = 32 * kGiB - 3 * kGiB - 2 * kGiB - 64 * kMiB;
  EXPECT_EQ(budget({.bytes = 3 * kGiB}), 3 * kGiB);
  EXPECT_EQ(budget({.bytes = 31 * kGiB}), usable);
  EXPECT_EQ(budget({.kind = Kind::kReserve, .bytes = 20 * kGiB}), usable - 20 * kGiB);
  EXPECT_EQ(budget({.kind = Kind::kShare, .share = 0.25}), 15 * kGiB);
  EXPECT_EQ(budget({.kind = Kind::kShare, .share = 1}), usable);
  const Error error = refusal(model(512, 1), {.limit = MemoryLimit{Kind::kReserve, 40 * kGiB, 1}});
  EXPECT_NE(error.message().find("than the 0 B"), std::string::npos) << error.message();
}

TEST(MemoryPlan, HasAsManyPagesAsItMay) {
  using Kind = PageLimit::Kind;
  const auto plan = [](const PageLimit& pages) {
    return plan_memory(model(4096, 8), kScratch, {.pages = pages}, 60 * kGiB, 32 * kGiB);
  };
  EXPECT_EQ(plan({}).pages, 8u * 32);
  EXPECT_EQ(plan({Kind::kContext, 0}).pages, 32u);
  EXPECT_EQ(plan({Kind::kBytes, 101 * kMiB}).pages, 50u);
  const MemoryPlan whole = plan({Kind::kMemory, 0});
  EXPECT_LE(whole.total(), whole.budget);
  EXPECT_GT(whole.total() + 2 * kMiB, whole.budget);
  const MemoryPlan little = plan({Kind::kBytes, 21 * kMiB});
  EXPECT_EQ(little.pages, 10u);
  EXPECT_EQ(little.max_context, 1280u);
  const Error error = refusal(model(4096, 8), {.pages = {Kind::kBytes, kMiB}});
  EXPECT_NE(error.message().find("--kv-cache-limit: 1.0 MiB hold no page of 2.0 MiB"),
            std::string::npos)
      << error.message();
}

TEST(MemoryPlan, SnapshotsLeaveThePageThatMustBeThere) {
  auto m = model(4096, 1);
  m.ranks[0].row.bytes = kMiB / 16;
  // Behind two rows a page and 102 KiB: an eighth of that would hold four snapshots.
  const MemoryLimit limit{.bytes = program(m) + kGiB + kScratch + io(m) + kMiB / 8 + 2 * kMiB +
                                   kMiB / 10};
  MemoryWishes wishes{.limit = limit};
  wishes.snapshots = 8;
  const MemoryPlan plan = plan_memory(m, kScratch, wishes, 64 * kGiB, 32 * kGiB);
  EXPECT_EQ(plan.pages, 1u);
  EXPECT_EQ(plan.snapshots, 1u);
  EXPECT_EQ(plan.max_context, 128u);
  EXPECT_LE(plan.total(), limit.bytes);
}

TEST(MemoryPlan, CountsTheVocabularyOfConstraintsOfServers) {
  auto m = model(4096, 8);
  m.frontend.tokenizer_json = "{}";
  const auto served = [&](uint32_t vocab_size) {
    m.vocab_size = vocab_size;
    MemoryWishes wishes;
    const uint64_t alone = plan_memory(m, kScratch, wishes, 64 * kGiB, 32 * kGiB).program;
    wishes.serves = true;
    return plan_memory(m, kScratch, wishes, 64 * kGiB, 32 * kGiB).program - alone;
  };
  // 248,077 tokens: the vocabulary of Qwen3.5.
  EXPECT_EQ(served(248'077) - served(77), 248'000u * 250);
}

TEST(MemoryPlan, GivesFewerPagesBeforeItLowersAnything) {
  const auto m = model(4096, 8);
  // Room for 40 pages: one full context of 32 fits, eight do not.
  const MemoryLimit limit{.bytes =
                              program(m) + kGiB + kScratch + io(m) + 9 * 4 * kMiB + 40 * 2 * kMiB};
  const MemoryPlan plan = plan_memory(m, kScratch, {false, false, limit}, 64 * kGiB, 32 * kGiB);
  EXPECT_EQ(plan.pages, 40u);
  EXPECT_EQ(plan.max_context, 4096u);
  EXPECT_EQ(plan.max_concurrency, 8u);
  EXPECT_LE(plan.total(), limit.bytes);
}

TEST(MemoryPlan, LowersDefaultsAndSaysSo) {
  const auto m = model(4096, 8);
  // Two rows and 10 pages.
  const MemoryLimit limit{.bytes =
                              program(m) + kGiB + kScratch + io(m) + 2 * 4 * kMiB + 10 * 2 * kMiB};
  const MemoryPlan plan = plan_memory(m, kScratch, {false, false, limit}, 64 * kGiB, 32 * kGiB);
  EXPECT_EQ(plan.max_concurrency, 1u);
  EXPECT_EQ(plan.max_context, 1280u);
  EXPECT_EQ(plan.pages, 10u);
  EXPECT_LE(plan.total(), limit.bytes);
  EXPECT_NE(plan.note.find("from 4096 to 1280"), std::string::npos) << plan.note;
  EXPECT_NE(plan.note.find("concurrency lowered from 8 to 1"), std::string::npos) << plan.note;
  const std::string text = memory_plan_text(plan);
  EXPECT_NE(text.find(plan.note), std::string::npos);
  EXPECT_NE(text.find("weights 1.0 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("10 pages × 2.0 MiB (fp8_e4m3)"), std::string::npos) << text;
  EXPECT_NE(text.find("up to 1 requests at once, 1280 tokens each"), std::string::npos) << text;
}

TEST(MemoryPlan, B020_RefusesAGivenContextAndNamesTheLargestThatFits) {
  const auto m = model(4096, 1);
  const MemoryLimit limit{.bytes =
                              program(m) + kGiB + kScratch + io(m) + 2 * 4 * kMiB + 10 * 2 * kMiB};
  const Error e = refusal(m, {true, true, limit});
  EXPECT_NE(e.message().find("4096"), std::string::npos) << e.message();
  EXPECT_NE(e.message().find("1280"), std::string::npos) << e.message();
  // What the message names does fit.
  EXPECT_EQ(
      plan_memory(model(1280, 1), kScratch, {true, true, limit}, 64 * kGiB, 32 * kGiB).max_context,
      1280u);
}

TEST(MemoryPlan, RefusesAGivenConcurrencyAndNamesTheLargestThatFits) {
  const auto m = model(4096, 100);
  const MemoryLimit limit{.bytes =
                              program(m) + kGiB + kScratch + io(m) + 21 * 4 * kMiB + 1 * 2 * kMiB};
  const Error e = refusal(m, {false, true, limit});
  EXPECT_NE(e.message().find("--max-concurrency 100"), std::string::npos) << e.message();
  EXPECT_NE(e.message().find("20 does"), std::string::npos) << e.message();
}

TEST(MemoryPlan, RefusesAMachineThatIsTooSmallAndNamesTheShortfall) {
  const auto m = model(4096, 1);
  // 30 MiB less than two rows and a page.
  const MemoryLimit limit{.bytes = program(m) + kGiB + kScratch + io(m) + 10 * kMiB - 30 * kMiB};
  const Error e = refusal(m, {false, false, limit});
  EXPECT_NE(e.message().find("30.0 MiB more"), std::string::npos) << e.message();
  EXPECT_NE(e.message().find("weights 1.0 GiB"), std::string::npos) << e.message();
  EXPECT_FALSE(e.hint().empty());
}

TEST(MemoryPlan, AModelWithoutPagesNeedsRowsOnly) {
  auto m = model(4096, 4);
  m.ranks[0].page.bytes = 0;
  const MemoryPlan plan = plan_memory(m, kScratch, {}, 64 * kGiB, 32 * kGiB);
  EXPECT_EQ(plan.pages, 0u);
  EXPECT_EQ(plan.max_context, 4096u);
  EXPECT_EQ(plan.max_concurrency, 4u);
}

TEST(MemoryPlan, CountsTheProgramAndTheTokenizer) {
  auto m = model(4096, 8);
  const uint64_t without = program(m);
  EXPECT_GT(without, 4 * kMiB);
  m.frontend.tokenizer_json = std::string(kMiB, ' ');
  EXPECT_GE(program(m), without + 2 * kMiB);  // the text and what is made of it
}

}  // namespace
}  // namespace flare::runtime
