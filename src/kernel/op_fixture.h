// What the tests of ops share: guarded arrays, steps over scattered pages and rows, one call that
// runs a kernel at a level with a team. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "base/team.h"
#include "kernel/kernels.h"

namespace flare::kernel::testing {

inline constexpr float kGuard = -7777.25f;
inline constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// rows × cols floats with guards before, between and behind the rows.
class Array {
 public:
  static constexpr int64_t kMargin = 16;
  explicit Array(int64_t rows = 0, int64_t cols = 0, int64_t gap = 5)
      : rows_(rows), cols_(cols), stride_(cols + gap), data_(2 * kMargin + rows * stride_, kGuard) {
    fill(kPoison);
  }
  float* row(int64_t r) { return data_.data() + kMargin + r * stride_; }
  const float* row(int64_t r) const { return data_.data() + kMargin + r * stride_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  void fill(float value) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) row(r)[c] = value;
  }
  Array& randomise(std::mt19937& random, float scale = 1) {
    std::uniform_real_distribution<float> value(-scale, scale);
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) row(r)[c] = value(random);
    return *this;
  }
  OperandView view() {
    OperandView v;
    v.space = graph::Space::kArena;
    v.data = reinterpret_cast<std::byte*>(row(0));
    v.rows = rows_;
    v.cols = cols_;
    v.stride = stride_;
    return v;
  }
  // Bits of all elements and guards.
  bool same_bits(const Array& other) const {
    return data_.size() == other.data_.size() &&
           std::memcmp(data_.data(), other.data_.data(), data_.size() * sizeof(float)) == 0;
  }
  void expect_guards() const {
    for (size_t i = 0; i < data_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - kMargin;
      if (at >= 0 && at / stride_ < rows_ && at % stride_ < cols_) continue;
      ASSERT_EQ(data_[i], kGuard) << "guard " << at << " of " << rows_ << "×" << cols_;
    }
  }
  // |this − oracle| <= absolute + relative·|oracle| everywhere; NaN fails.
  void expect_near(const Array& oracle, double relative, double absolute) const {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) {
        const double want = oracle.row(r)[c];
        const double error = std::abs(row(r)[c] - want);
        ASSERT_TRUE(error <= absolute + relative * std::abs(want))
            << "(" << r << ", " << c << ") is " << row(r)[c] << ", expected " << want;
      }
  }

 private:
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  std::vector<float> data_;
};

// A constant: contiguous rows.
inline OperandView constant(std::vector<float>& values, int64_t rows, int64_t cols) {
  OperandView v;
  v.space = graph::Space::kConst;
  v.data = reinterpret_cast<std::byte*>(values.data());
  v.rows = rows;
  v.cols = v.stride = cols;
  return v;
}
inline std::vector<float> random_values(std::mt19937& random, int64_t n, float low, float high) {
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> out(n);
  for (float& x : out) x = value(random);
  return out;
}
inline OperandView state(graph::Space space, graph::DType dtype, uint64_t offset, int64_t cols) {
  OperandView v;
  v.space = space;
  v.dtype = dtype;
  v.offset = offset;
  v.rows = 1;
  v.cols = v.stride = cols;
  return v;
}
inline OperandView indices(const int32_t* data, int64_t rows, int64_t cols = 1) {
  OperandView v;
  v.space = graph::Space::kIo;
  v.dtype = graph::DType::kI32;
  v.data = reinterpret_cast<std::byte*>(const_cast<int32_t*>(data));
  v.rows = rows;
  v.cols = v.stride = cols;
  return v;
}

// The vector levels of this machine.
inline std::vector<Isa> levels() {
  std::vector<Isa> out;
  for (Isa isa : {Isa::kV2, Isa::kV3, Isa::kV4})
    if (isa <= machine_isa().value_or(Isa::kV2)) out.push_back(isa);
  return out;
}

// Runs a kernel with a poisoned workspace of the size that it asks for at these very counts.
inline void run_kernel(KernelId id, Isa isa, int n_members, std::span<const OperandView> operands,
                       std::span<const graph::Immediate> immediates, const StepInputs* step) {
  static std::map<int, std::unique_ptr<Team>> teams;
  std::unique_ptr<Team>& team = teams[n_members];
  if (!team) team = std::make_unique<Team>(n_members);
  LaunchArgs args{.operands = operands, .immediates = immediates, .step = step};
  const KernelInfo& info = kernel_info(id);
  constexpr size_t kTail = 64;
  const size_t bytes = info.workspace_bytes == nullptr ? 0 : info.workspace_bytes(args, n_members);
  std::vector<std::byte> workspace(bytes + 2 * kTail, std::byte{0xFF});
  const size_t shift = -reinterpret_cast<uintptr_t>(workspace.data()) % kTail;
  args.workspace = MutableBytes(workspace.data() + shift, bytes);
  const KernelFn fn = kernel_function(id, isa);
  team->run([&](Member& member) { fn(args, member); });
  for (size_t i = shift + bytes; i < workspace.size(); ++i)
    ASSERT_EQ(workspace[i], std::byte{0xFF}) << info.name << ": workspace overrun";
}

struct Sequence {
  int32_t past = 0;
  int32_t rows = 0;
};

// A step whose sequences have scattered pages and one continuation row each.
class Step {
 public:
  Step(const std::vector<Sequence>& sequences, int32_t page_tokens, uint64_t page_bytes,
       uint64_t row_bytes, std::mt19937& random) {
    begin_.push_back(0);
    size_t n_pages = 0;
    for (size_t b = 0; b < sequences.size(); ++b) {
      const Sequence& s = sequences[b];
      past_.push_back(s.past);
      for (int32_t i = 0; i < s.rows; ++i) row_sequence_.push_back(static_cast<int32_t>(b));
      begin_.push_back(begin_.back() + s.rows);
      n_pages += (s.past + s.rows + page_tokens - 1) / page_tokens;
    }
    page_bytes = (page_bytes + 127) / 64 * 64;
    row_bytes = (row_bytes + 127) / 64 * 64;
    memory.assign(n_pages * page_bytes + sequences.size() * row_bytes + 64, std::byte{0});
    std::vector<size_t> order(n_pages);
    for (size_t i = 0; i < n_pages; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::byte* base = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) % 64);
    size_t next = 0;
    for (const Sequence& s : sequences) {
      pages_.emplace_back();
      for (int32_t p = 0; p < (s.past + s.rows + page_tokens - 1) / page_tokens; ++p)
        pages_.back().push_back(base + order[next++] * page_bytes);
    }
    for (size_t b = 0; b < sequences.size(); ++b) {
      tables_.push_back(pages_[b].data());
      rows_.push_back(base + n_pages * page_bytes + b * row_bytes);
    }
    inputs.n_rows = begin_.back();
    inputs.n_sequences = static_cast<int32_t>(sequences.size());
    inputs.row_sequence = row_sequence_.data();
    inputs.sequence_begin = begin_.data();
    inputs.sequence_past = past_.data();
    inputs.page_tables = tables_.data();
    inputs.rows = rows_.data();
    inputs.page_tokens = page_tokens;
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // The sequence's f32 field at `offset` of its continuation row.
  float* field(int64_t b, uint64_t offset) { return reinterpret_cast<float*>(rows_[b] + offset); }
  const std::vector<std::byte*>& pages(int64_t b) const { return pages_[b]; }

  StepInputs inputs;
  // All pages and rows. Assigning a copy taken before restores them in place.
  std::vector<std::byte> memory;

 private:
  std::vector<int32_t> begin_;
  std::vector<int32_t> past_;
  std::vector<int32_t> row_sequence_;
  std::vector<std::vector<std::byte*>> pages_;
  std::vector<std::byte* const*> tables_;
  std::vector<std::byte*> rows_;
};

}  // namespace flare::kernel::testing
