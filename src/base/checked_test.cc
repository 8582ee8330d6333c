// Promises of checked.h and error.h: what would wrap throws, and messages stay fit to print.
#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/test_support.h"

namespace flare {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(Checked, ProductsAndSumsAreExactOrThrow) {
  EXPECT_EQ(checked_mul(0xffffffff, 0xffffffff), 0xfffffffe00000001u);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(0, kMax), 0u);
  EXPECT_EQ(code_of([] { checked_mul(uint64_t{1} << 32, uint64_t{1} << 32); }), Code::kRange);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(code_of([] { checked_add(kMax, 1); }), Code::kRange);
}

TEST(Checked, AlignUpReachesTheNextMultipleOrThrows) {
  EXPECT_EQ(checked_align_up(0, 4096), 0u);
  EXPECT_EQ(checked_align_up(1, 4096), 4096u);
  EXPECT_EQ(checked_align_up(4096, 4096), 4096u);
  EXPECT_EQ(checked_align_up(10, 3), 12u);
  EXPECT_EQ(checked_align_up(kMax, 5), kMax);  // 2^64−1 is a multiple of 5
  EXPECT_EQ(code_of([] { checked_align_up(kMax, 2); }), Code::kRange);
}

TEST(Checked, CastKeepsTheValueOrThrows) {
  EXPECT_EQ(checked_cast<uint8_t>(255), 255);
  EXPECT_EQ(checked_cast<int32_t>(0x7fffffff), 0x7fffffff);
  EXPECT_EQ(checked_cast<uint64_t>(kMax), kMax);
  EXPECT_EQ(code_of([] { checked_cast<uint8_t>(256); }), Code::kRange);
  EXPECT_EQ(code_of([] { checked_cast<int64_t>(uint64_t{1} << 63); }), Code::kRange);
}

TEST(Checked, SubspanStaysInside) {
  const std::vector<int> data = {0, 1, 2, 3, 4};
  const std::span<const int> all(data);
  EXPECT_EQ(subspan_checked(all, 1, 3).size(), 3u);
  EXPECT_EQ(subspan_checked(all, 1, 3)[0], 1);
  EXPECT_EQ(subspan_checked(all, 5, 0).size(), 0u);
  EXPECT_EQ(code_of([&] { subspan_checked(all, 6, 0); }), Code::kRange);
  EXPECT_EQ(code_of([&] { subspan_checked(all, 2, 4); }), Code::kRange);
  EXPECT_EQ(code_of([&] { subspan_checked(all, 2, kMax); }), Code::kRange);
  EXPECT_EQ(code_of([&] { subspan_checked(all, kMax, kMax); }), Code::kRange);
}

TEST(Checked, MessageNamesTheQuantityAndTheNumbers) {
  try {
    checked_mul(uint64_t{1} << 40, uint64_t{1} << 40, "x.ninfer: object 'w' size");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(),
              "x.ninfer: object 'w' size: 1099511627776 × 1099511627776 exceeds 64 bits");
  }
}

TEST(Error, ContextGoesInFrontAndTheHintStaysApart) {
  Error error(Code::kUsage, "--isa {}: v2 expected", quote("v9"));
  error.add_context("flare run").set_hint("try --isa v2");
  EXPECT_STREQ(error.what(), "flare run: --isa 'v9': v2 expected");
  EXPECT_EQ(error.hint(), "try --isa v2");
  EXPECT_EQ(error.code(), Code::kUsage);
}

TEST(Error, EveryCodeHasItsExitCodeAndName) {
  EXPECT_EQ(exit_code(Code::kInternal), 1);
  EXPECT_EQ(exit_code(Code::kUsage), 2);
  EXPECT_EQ(exit_code(Code::kNotFound), 3);
  EXPECT_EQ(exit_code(Code::kInvalid), 4);
  EXPECT_EQ(exit_code(Code::kFraming), 4);
  EXPECT_EQ(exit_code(Code::kWrongMachine), 6);
  EXPECT_EQ(exit_code(Code::kDoesNotFit), 7);
  EXPECT_EQ(exit_code(Code::kExists), 8);
  EXPECT_EQ(exit_code(Code::kNetwork), 9);
  EXPECT_EQ(code_name(Code::kExists), "destination_exists");
  EXPECT_EQ(code_name(Code::kFraming), "framing");
}

TEST(Error, QuotedTextIsOneShortLineOfUtf8) {
  EXPECT_EQ(quote("plain"), "'plain'");
  EXPECT_EQ(quote("a\nb\tc\x1b[31m\x7f"), "'a\\nb\\x09c\\x1b[31m\\x7f'");
  EXPECT_EQ(quote(std::string_view("\0", 1)), "'\\x00'");
  EXPECT_EQ(quote("é€😀"), "'é€😀'");
  EXPECT_EQ(quote("\xff"), "'\\xff'");
  EXPECT_EQ(quote("\xc3"), "'\\xc3'");                             // cut short
  EXPECT_EQ(quote("\xc0\xaf"), "'\\xc0\\xaf'");                    // longer than needed
  EXPECT_EQ(quote("\xed\xa0\x80"), "'\\xed\\xa0\\x80'");           // a surrogate
  EXPECT_EQ(quote("\xc2\x9b"), "'\\xc2\\x9b'");                    // CSI, which terminals obey
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "'\\xf4\\x90\\x80\\x80'");  // beyond U+10FFFF
  std::string smileys;
  for (int i = 0; i < 100; ++i) smileys += "😀";
  const std::string cut = quote(smileys);
  EXPECT_LT(cut.size(), 100u);
  EXPECT_EQ(cut.substr(cut.size() - 8), "😀…'");
}

}  // namespace
}  // namespace flare
