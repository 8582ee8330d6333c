// The IR: a graph of one role, made by a builder that reads like the paper.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"
#include "graph/types.h"

namespace flare::graph {

// A node's input or output: `cols` columns of a produced value, beginning at `column`.
// Rows are those of the value's extent. Cheap to copy.
struct Value {
  int32_t id = -1;
  uint32_t column = 0;
  uint32_t cols = 0;
  // Columns [begin, begin+n) of this value.
  Value columns(uint32_t begin, uint32_t n) const { return {id, column + begin, n}; }
};

// A weight matrix or constant of the graph, by index into its parameter lists.
struct Weight {
  int32_t index = -1;
  uint32_t rows = 0, cols = 0;
};
struct Constant {
  int32_t index = -1;
  uint32_t cols = 0;
  DType dtype = DType::kF32;  // or kI32
};
// A paged region or a continuation-row field, by index into the declared states.
struct State {
  int32_t index = -1;
};

struct StateInfo {
  enum class Kind { kPaged, kRecurrent, kConvTail };
  std::string name;
  Kind kind = Kind::kPaged;
  DType dtype = DType::kF32;
  uint64_t elements = 0;  // per token (paged) or per sequence
};

struct ValueInfo {
  Extent extent = Extent::kRows;
  uint32_t cols = 0;
};

// One operand of a node, in the order of its op's contract (kernel/<op>.h).
struct NodeOperand {
  enum class Kind { kNone, kInput, kOutput, kWeight, kConstant, kState, kIo };
  Kind kind = Kind::kNone;
  Value value;        // kInput, kOutput
  int32_t index = 0;  // kWeight, kConstant, kState, kIo
};

struct Node {
  Op op = Op::kAdd;
  Policy policy = Policy::kA16Only;  // of linear
  std::vector<NodeOperand> operands;
  std::vector<Immediate> immediates;
};

struct Graph {
  std::string role;
  std::vector<ValueInfo> values;
  std::vector<Node> nodes;
  std::vector<std::string> weight_names;
  std::vector<std::string> constant_names;
  std::vector<DType> constant_dtypes;
  std::vector<StateInfo> states;
  std::vector<std::string> taps;
};

// Text a person reads: one node a line with names and shapes.
std::string graph_text(const Graph& graph);

// Appends nodes; checks shapes as it goes (a mismatch is a defect of model code: FLARE_ASSERT).
class Builder {
 public:
  explicit Builder(std::string role);

  Weight weight(std::string_view name, uint32_t rows, uint32_t cols);
  Constant constant(std::string_view name, uint32_t cols, DType dtype = DType::kF32);
  State state(StateInfo info);

  // Each of these appends nodes and returns what they make, on the rows of its first value.
  // Formulas, shapes and constants: kernel/<op>.h.
  Value embed(Weight table, double scale = 1);
  // Room for `cols` columns on the rows of `like`, to be filled by linear_into.
  Value buffer(Value like, uint32_t cols);
  // y = W x (+ bias) into a view of a buffer.
  void linear_into(Value y, Value x, Weight w, Policy policy,
                   std::optional<Constant> bias = std::nullopt);
  Value rms_norm(Value x, Constant w, double eps, bool offset);
  Value add(Value x, Value y);
  Value swiglu(Value gate, Value up);
  Value geglu(Value gate, Value up);
  Value gate_mul(Value x, Value gate);
  // `columns` is an i32 constant; the result has as many columns.
  Value gather_columns(Value x, Constant columns);
  struct Rope {
    Constant frequencies;
    double factor = 1;                     // on cos and sin
    int64_t section_h = 0, section_w = 0;  // interleaved MRoPE
  };
  Value rope(Value x, uint32_t head_dim, const Rope& rope);
  struct Attention {
    uint32_t query_heads = 0, kv_heads = 0, head_dim = 0;
    double scale = 1;
    int64_t window = 0;             // 0: none
    double softcap = 0;             // 0: none
    std::optional<Constant> sinks;  // [query_heads] logits
  };
  // Writes k and v to their pages, then attends.
  Value attention(Value q, Value k, Value v, State keys, State values, const Attention& shape);
  Value conv_causal_silu(Value u, Constant w, uint32_t taps, State tail);
  struct Delta {
    uint32_t key_heads = 0, key_dim = 0, value_heads = 0, value_dim = 0, taps = 0;
    Constant convolution, a_log, dt_bias;
    State tail, state;
    uint32_t conv_cols() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
    uint32_t factor_cols() const {
      return key_heads * key_dim + value_heads + value_heads * value_dim;
    }
  };
  // Convolution, gates and delta rule. u: queries, keys and values of all heads.
  Value gated_delta(Value u, Value a, Value b, const Delta& delta);
  // The same for rows that may be rejected: the states stay until gated_delta_commit takes the
  // accepted ones from u and `factors`.
  struct Verified {
    Value o, factors;
  };
  Verified gated_delta_verify(Value u, Value a, Value b, const Delta& delta);
  void gated_delta_commit(Value u, Value factors, const Delta& delta);
  Value gated_norm(Value x, Value z, Constant w, double eps);
  // Logits of the wanted rows, f32, into Io::kLogits.
  void logits(Value x, Weight head, Policy policy);
  // Draws ids from Io::kLogits of `vocab` columns into Io::kSampled.
  void sample(uint32_t vocab);
  // Keeps a copy of x for parity tools, if taps are wanted.
  void tap(std::string_view name, Value x);

  Graph finish();

 private:
  Value result(Extent extent, uint32_t cols);
  Node& node(Op op);
  Value gated_unit(Op op, Value gate, Value up);
  Value add_gated_delta(Op op, Value u, Value a, Value b, const Delta& delta);
  Graph graph_;
};

}  // namespace flare::graph
