// Which cases of a large test matrix run: all of them, or a seeded sample.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

#include "base/error.h"

namespace flare {

// What `make test` and `make test-full` choose (docs/testing.md). FLARE_TEST_FULL set and not
// empty: every case. FLARE_TEST_SEED=N: the sample of that seed; else a new seed each time,
// printed.
struct TestMatrix {
  bool full = false;
  uint64_t seed = 0;

  static TestMatrix from_environment() {
    TestMatrix matrix;
    const char* full = std::getenv("FLARE_TEST_FULL");
    matrix.full = full != nullptr && *full != '\0';
    matrix.seed = std::random_device()();
    if (const char* text = std::getenv("FLARE_TEST_SEED")) {
      const std::string_view digits = text;
      const char* const end = digits.data() + digits.size();
      const auto [stop, failure] = std::from_chars(digits.data(), end, matrix.seed);
      if (failure != std::errc() || stop != end)
        throw Error(Code::kUsage, "FLARE_TEST_SEED is {}, expected a number", quote(digits));
    }
    return matrix;
  }
  // Of this process; tells once how to repeat its choice.
  static const TestMatrix& get() {
    static const TestMatrix matrix = [] {
      const TestMatrix chosen = from_environment();
      if (!chosen.full) fmt::print("Sampled test matrix: FLARE_TEST_SEED={}\n", chosen.seed);
      return chosen;
    }();
    return matrix;
  }
};

// Picks the cases of one test: of every `one_in` neighbours in the order of asking, the one that
// the seed and the test's name choose; under FLARE_TEST_FULL all. So every stretch of the matrix is
// met. A picked case may not depend on those left out: give each its own random generator, seeded
// by number().
//
//   SampledCases cases(8);
//   for (const Shape& shape : shapes)
//     if (cases.next()) check(shape, std::mt19937(cases.number()));
//
// The test fails if none ran, as it may with fewer than `one_in` cases.
class SampledCases {
 public:
  explicit SampledCases(int64_t one_in, const TestMatrix& matrix = TestMatrix::get())
      : one_in_(one_in), matrix_(matrix) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    FLARE_ASSERT(one_in > 0 && test != nullptr);
    for (const std::string_view name : {test->test_suite_name(), test->name()})
      for (const char c : name) name_ = mix(name_ ^ static_cast<unsigned char>(c));
  }
  ~SampledCases() { EXPECT_GT(n_run_, 0) << "no case of " << number_ << " ran"; }
  SampledCases(const SampledCases&) = delete;
  SampledCases& operator=(const SampledCases&) = delete;

  // Whether the next case runs.
  bool next() {
    const int64_t index = number_++;
    const auto block = static_cast<uint64_t>(index / one_in_);
    const uint64_t picked = mix(matrix_.seed ^ mix(name_ + block)) % static_cast<uint64_t>(one_in_);
    const bool runs = matrix_.full || static_cast<uint64_t>(index % one_in_) == picked;
    n_run_ += runs ? 1 : 0;
    return runs;
  }
  // Of the case that next() was last asked for: 1, 2, … over the whole matrix.
  uint32_t number() const { return static_cast<uint32_t>(number_); }
  int64_t n_run() const { return n_run_; }

 private:
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
  static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  const int64_t one_in_;
  const TestMatrix matrix_;
  uint64_t name_ = 0;
  int64_t number_ = 0;
  int64_t n_run_ = 0;
};

}  // namespace flare
