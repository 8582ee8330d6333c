// The prepared model: what preparation hands to the runtime, in memory.
//
// The in-memory twin of spec/package.md §3.4–§3.6: package files later add a reader and a writer of
// the same content. Everything is plain data; the runtime never changes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "codec/matrix.h"
#include "frontend/template/traits.h"
#include "graph/plan.h"
#include "kernel/backend.h"

namespace flare::package {

// Paged state: what one page of `tokens` tokens of one sequence holds over all layers.
struct PageRegion {
  std::string name;  // "layers/3/key"
  uint64_t offset = 0;
  uint64_t bytes = 0;
  graph::DType dtype = graph::DType::kBf16;
};
struct PageLayout {
  uint32_t tokens = 128;
  uint64_t bytes = 0;  // 0: the model has no paged state
  std::vector<PageRegion> regions;
};

// Continuation row: the fixed-size state of one sequence. The open page of the sequence is one of
// its fields (package.md §11.2).
struct RowField {
  enum class Kind { kRecurrent, kConvTail, kPartialPage };
  std::string name;
  Kind kind = Kind::kRecurrent;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  graph::DType dtype = graph::DType::kF32;
};
struct RowLayout {
  uint64_t bytes = 0;
  std::optional<uint64_t> partial_page;  // offset of the open page inside the row
  std::vector<RowField> fields;          // every field is zero in a new row
};

// One plan of the catalog (package.md §10.1).
struct CatalogEntry {
  std::string graph_class;  // "step", "sample"
  graph::Plan plan;
};

struct Capacity {
  uint32_t max_context = 0;      // tokens of one sequence
  uint32_t max_concurrency = 0;  // sequences in one step
  uint32_t prefill_chunk = 0;    // prompt rows in one step
  uint32_t max_rows = 0;         // rows in one step
};

// One tensor-parallel member. Copied never; weights point into what `keep_alive` owns.
struct Rank {
  std::vector<codec::Matrix> weights;
  std::vector<std::string> weight_names;
  std::vector<kernel::Constant> constants;
  PageLayout page;
  RowLayout row;
  std::vector<CatalogEntry> catalog;  // per class in ascending capacity
  uint64_t weight_bytes = 0;  // of weights as kernels read them, each counted once, and constants
  std::vector<std::shared_ptr<void>> keep_alive;
};

// Defaults of a request (serving.md S8.2). Neutral values where the model says nothing.
struct SamplingDefaults {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
};

// Decided once by preparation from the checkpoint's files, the model code and flags (architecture
// §5); the server only reads it.
struct FrontendBlock {
  std::optional<std::string> tokenizer_json;
  // Bytes of a SentencePiece .model, used where there is no tokenizer.json, and whether it puts
  // special tokens around a text.
  std::optional<std::string> sentencepiece_model;
  bool add_bos = true, add_eos = false;
  std::optional<std::string> chat_template;  // Jinja source
  std::optional<std::string> tool_template;  // used instead when tools are given
  std::string bos_token, eos_token;          // spellings for the template
  std::string tool_format;                   // a name of frontend/output; empty: none
  std::string reasoning_format;              // the same
  frontend::ReasoningTraits reasoning;       // of the template; neutral without a format
  frontend::ConversationRules rules;         // of the template
  std::vector<int32_t> stop_ids;             // generation ends at these
  SamplingDefaults sampling;
};

struct PreparedModel {
  std::string name;
  std::string source;  // file or folder it was made from, for messages
  std::string recipe;
  uint32_t vocab_size = 0;    // rows of the head
  uint32_t max_position = 0;  // of the architecture
  Capacity capacity;
  FrontendBlock frontend;
  std::vector<Rank> ranks;
};

}  // namespace flare::package
