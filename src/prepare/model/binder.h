// What model code uses to bind logical parameters while it emits a graph.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/matrix.h"
#include "graph/graph.h"
#include "kernel/backend.h"
#include "prepare/parameter_source.h"

namespace flare::prepare {

struct ModelOptions {
  bool exact = false;                             // f32 reference arithmetic, f32 keys and values
  bool taps = false;                              // emit hidden.K and hidden.final
  bool input_taps = false;                        // emit what every projection reads, by its name
  graph::DType kv_dtype = graph::DType::kF8E4M3;  // of keys and values in pages
};

// A graph with what its weights and constants are bound to, index by index.
struct BoundGraph {
  graph::Graph graph;
  std::vector<codec::Matrix> weights;
  std::vector<kernel::Constant> constants;
};

// Typed members of a component config. Errors: kBinding "config key 'x': …".
class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}
  bool has(std::string_view key) const;
  uint32_t u32(std::string_view key) const;
  uint32_t u32_or(std::string_view key, uint32_t otherwise) const;
  double real(std::string_view key) const;
  double positive_real(std::string_view key) const;
  double positive_real_or(std::string_view key, double otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  Config object(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<uint32_t> u32s(std::string_view key) const;

 private:
  const Json& json_;
};

// A projection to bind: its parameter name and number of output rows.
struct Projection {
  std::string parameter;
  uint32_t rows = 0;
};

// Binds one role's graph. Confined to one thread; the source outlives it.
class Binder {
 public:
  Binder(ParameterSource& source, const ModelOptions& options, std::string role)
      : source_(source),
        options_(options),
        component_(role.substr(0, role.find('.'))),
        builder_(std::move(role)) {}

  graph::Builder& graph() { return builder_; }
  const ModelOptions& options() const { return options_; }
  Config config(std::string_view component) const { return Config(source_.config(component)); }
  bool has(std::string_view parameter) const { return source_.has(parameter); }

  // A direct vector parameter of n elements.
  graph::Constant vector(const std::string& parameter, uint32_t n);
  // A direct [rows, cols] parameter.
  graph::Constant table(const std::string& parameter, uint32_t rows, uint32_t cols);
  // A vector that preparation computed.
  graph::Constant computed(const std::string& name, std::vector<float> values);
  graph::Weight embedding(const std::string& parameter, uint32_t rows, uint32_t cols);
  // As the source stores it.
  const codec::Matrix& matrix(graph::Weight weight) const { return weights_[weight.index]; }

  // W_i x for each projection of `input`, side by side in one value (result i+1 begins in the
  // column where result i ends) and fused into as few launches as formats and policies allow. A
  // bias `<parameter>_bias` is added where the model has one. Where a use stores its columns in
  // another order (the auxiliary input_columns), a node puts those of x into it first.
  std::vector<graph::Value> linear(graph::Value x, const std::string& input,
                                   const std::vector<Projection>& projections);
  graph::Value linear(graph::Value x, const std::string& input, const std::string& parameter,
                      uint32_t rows);
  void logits(graph::Value x, const std::string& input, const std::string& parameter,
              uint32_t rows);
  void tap(std::string_view name, graph::Value x) {
    if (options_.taps) builder_.tap(name, x);
  }

  // Every parameter of the role's component was bound once; one left over is kBinding.
  BoundGraph finish();

 private:
  // x in the order of `columns`, once for neighbouring uses; x itself where they are empty.
  struct Ordered {
    std::vector<int32_t> columns;
    graph::Value x;
  };
  graph::Value in_stored_order(graph::Value x, const std::vector<int32_t>& columns,
                               std::vector<Ordered>& known);
  // Of a use, checked against the width of its input.
  std::vector<int32_t> stored_columns(const std::string& parameter, const std::string& input,
                                      uint32_t cols);
  struct Bound {
    codec::Matrix matrix;
    graph::Policy policy;
  };
  Bound bind(const std::string& parameter, const std::string& input, uint32_t rows, uint32_t cols);
  graph::Weight add_weight(const std::string& name, codec::Matrix matrix);
  void claim(const std::string& parameter);
  void tap_input(const std::string& input, graph::Value x);

  ParameterSource& source_;
  ModelOptions options_;
  std::string component_;  // of the role: "text" of "text.step"
  graph::Builder builder_;
  std::set<std::string, std::less<>> claimed_;
  std::set<std::string, std::less<>> tapped_;  // inputs with a tap
  std::vector<codec::Matrix> weights_;
  std::vector<kernel::Constant> constants_;
};

}  // namespace flare::prepare
