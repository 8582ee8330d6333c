// A model whose every stored byte says which tokens came before it.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "runtime/cache/prefix_tree.h"
#include "runtime/cache/sequence.h"

namespace flare::runtime::test {

using Ids = std::vector<int32_t>;
constexpr uint32_t kTokens = 16;  // of a page

// The state behind a token is a hash of all tokens so far, and a page holds its low byte.
inline uint64_t next_state(uint64_t state, int32_t token) {
  state ^= static_cast<uint64_t>(token) + 0x9e3779b97f4a7c15u + (state << 6) + (state >> 2);
  return state * 0xff51afd7ed558ccdu;
}
inline uint64_t state_behind(std::span<const int32_t> tokens) {
  uint64_t state = 0;
  for (int32_t t : tokens) state = next_state(state, t);
  return state;
}

inline package::Rank make_rank(bool is_recurrent) {
  using Kind = package::RowField::Kind;
  package::Rank r;
  r.page = {kTokens, kTokens, {}};
  r.row.bytes = 64 + kTokens;
  r.row.partial_page = 64;
  if (is_recurrent) r.row.fields.push_back({"state", Kind::kRecurrent, 0, 64, graph::DType::kF32});
  r.row.fields.push_back({"partial_page", Kind::kPartialPage, 64, kTokens, graph::DType::kU8});
  return r;
}

inline Ids counting(int32_t from, int n) {
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back(from + i);
  return ids;
}

// Computes tokens up to `end` as a model would: from the state it finds. The pool has room.
inline void compute_rows(const package::Rank& rank, SequenceMemory& memory, const Ids& tokens,
                         uint32_t end) {
  const bool recurrent = has_recurrent_state(rank);
  const uint32_t n = end - memory.computed();
  memory.prepare_rows(n);
  uint64_t state = recurrent ? 0 : state_behind(std::span(tokens).first(memory.computed()));
  if (recurrent) std::memcpy(&state, memory.row(), sizeof state);
  for (uint32_t t = memory.computed(); t < end; ++t) {
    state = next_state(state, tokens[t]);
    memory.page_table()[t / kTokens][t % kTokens] = static_cast<std::byte>(state);
  }
  if (recurrent) std::memcpy(memory.row(), &state, sizeof state);
  memory.commit_rows(n);
}

// The first token for which the sequence holds something else than its tokens make; -1: none.
inline int64_t first_wrong_token(const package::Rank& rank, SequenceMemory& memory,
                                 const Ids& tokens) {
  memory.prepare_rows(0);
  uint64_t state = 0;
  const uint32_t n_full = memory.computed() / kTokens;
  for (uint32_t t = 0; t < memory.computed(); ++t) {
    state = next_state(state, tokens[t]);
    const std::byte* page = t / kTokens < n_full ? memory.page_table()[t / kTokens]
                                                 : memory.row() + *rank.row.partial_page;
    if (page[t % kTokens] != static_cast<std::byte>(state)) return t;
  }
  if (!has_recurrent_state(rank)) return -1;
  uint64_t stored = 0;
  std::memcpy(&stored, memory.row(), sizeof stored);
  return stored == state ? -1 : int64_t{memory.computed()};
}

}  // namespace flare::runtime::test
