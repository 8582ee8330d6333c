// Binding of parameters and the fusing of projections that read the same input.
#include "prepare/model/binder.h"

#include "base/error.h"
#include "kernel/kernels.h"

namespace flare::prepare {
namespace {

const Json& member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (!value) throw Error(Code::kBinding, "config key {} is missing", quote(key));
  return *value;
}

std::string key_text(std::string_view key) { return fmt::format("config key {}", quote(key)); }

// A member read by `get`: a wrong JSON type is an error of the config.
template <typename Get>
auto typed(const Json& json, std::string_view key, Get get) {
  try {
    return get(member(json, key), key_text(key));
  } catch (const Error& e) {
    throw Error(Code::kBinding, "{}", e.message());
  }
}

uint32_t small(uint64_t v, uint64_t least, const std::string& where) {
  if (v < least || v > INT32_MAX)
    throw Error(Code::kBinding, "{} is {}, {}..{} expected", where, v, least, INT32_MAX);
  return static_cast<uint32_t>(v);
}

}  // namespace

bool Config::has(std::string_view key) const {
  const Json* value = json_.find(key);
  return value && !value->is_null();
}
uint32_t Config::u32(std::string_view key) const {
  return typed(json_, key, [](const Json& v, const std::string& where) {
    return small(v.as_u64(where), 1, where);
  });
}
uint32_t Config::u32_or(std::string_view key, uint32_t otherwise) const {
  return has(key) ? u32(key) : otherwise;
}
double Config::real(std::string_view key) const {
  return typed(json_, key,
               [](const Json& v, const std::string& where) { return v.as_double(where); });
}
double Config::positive_real(std::string_view key) const {
  const double v = real(key);
  if (!(v > 0))
    throw Error(Code::kBinding, "{} is {}, a positive number expected", key_text(key), v);
  return v;
}
double Config::positive_real_or(std::string_view key, double otherwise) const {
  return has(key) ? positive_real(key) : otherwise;
}
std::string Config::text_or(std::string_view key, std::string_view otherwise) const {
  if (!has(key)) return std::string(otherwise);
  return typed(json_, key,
               [](const Json& v, const std::string& where) { return v.as_string(where); });
}
bool Config::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  return typed(json_, key,
               [](const Json& v, const std::string& where) { return v.as_bool(where); });
}
Config Config::object(std::string_view key) const {
  typed(json_, key, [](const Json& v, const std::string& where) { return v.as_object(where); });
  return Config(member(json_, key));
}
std::vector<std::string> Config::texts(std::string_view key) const {
  return typed(json_, key, [](const Json& v, const std::string& where) {
    std::vector<std::string> out;
    for (const Json& item : v.as_array(where)) out.push_back(item.as_string(where));
    return out;
  });
}
std::vector<uint32_t> Config::u32s(std::string_view key) const {
  return typed(json_, key, [](const Json& v, const std::string& where) {
    std::vector<uint32_t> out;
    for (const Json& item : v.as_array(where)) out.push_back(small(item.as_u64(where), 0, where));
    return out;
  });
}

graph::Constant Binder::vector(const std::string& parameter, uint32_t n) {
  claim(parameter);
  return computed(parameter, source_.values(parameter, n));
}

graph::Constant Binder::table(const std::string& parameter, uint32_t rows, uint32_t cols) {
  claim(parameter);
  const graph::Constant c = builder_.constant(parameter, cols);
  constants_.push_back({rows, cols, source_.values(parameter, uint64_t{rows} * cols)});
  return c;
}

graph::Constant Binder::computed(const std::string& name, std::vector<float> values) {
  const auto n = static_cast<uint32_t>(values.size());
  const graph::Constant c = builder_.constant(name, n);
  constants_.push_back({1, n, std::move(values)});
  return c;
}

graph::Weight Binder::add_weight(const std::string& name, codec::Matrix matrix) {
  for (const codec::Segment& segment : matrix.segments)
    if (const codec::Format& format = codec::format(segment.format); format.stored_only)
      throw Error(Code::kSupport, "{}: '{}' is {}, a format that can be stored alone, not run",
                  source_.path().string(), name, format.name);
  const graph::Weight w =
      builder_.weight(name, static_cast<uint32_t>(matrix.rows), static_cast<uint32_t>(matrix.cols));
  weights_.push_back(std::move(matrix));
  return w;
}

graph::Weight Binder::embedding(const std::string& parameter, uint32_t rows, uint32_t cols) {
  claim(parameter);
  return add_weight(parameter, source_.matrix(parameter, {rows, cols}));
}

Binder::Bound Binder::bind(const std::string& parameter, const std::string& input, uint32_t rows,
                           uint32_t cols) {
  const graph::Policy policy =
      options_.exact ? graph::Policy::kExact : source_.policy(parameter, input);
  return {source_.matrix(parameter, {rows, cols}), policy};
}

std::vector<graph::Value> Binder::linear(graph::Value x, const std::string& input,
                                         const std::vector<Projection>& projections) {
  uint32_t total = 0;
  for (const Projection& p : projections) total += p.rows;
  tap_input(input, x);
  const graph::Value y = builder_.buffer(x, total);
  std::vector<graph::Value> out;
  std::vector<Ordered> ordered;
  uint32_t column = 0;
  size_t i = 0;
  while (i < projections.size()) {
    // Neighbours join one launch while the same kernel would run each of them.
    Bound fused = bind(projections[i].parameter, input, projections[i].rows, x.cols);
    const auto kernel = kernel::route_linear(fused.matrix, fused.policy);
    const std::vector<int32_t> columns = stored_columns(projections[i].parameter, input, x.cols);
    const std::string first_bias = projections[i].parameter + "_bias";
    const bool biased = source_.has(first_bias);
    std::vector<float> bias;
    if (biased) bias = source_.values(first_bias, projections[i].rows);
    std::string name = projections[i].parameter;
    size_t end = i + 1;
    for (; end < projections.size(); ++end) {
      const Projection& next = projections[end];
      if (source_.has(next.parameter + "_bias") != biased) break;
      Bound bound = bind(next.parameter, input, next.rows, x.cols);
      if (bound.policy != fused.policy ||
          kernel::route_linear(bound.matrix, bound.policy) != kernel ||
          stored_columns(next.parameter, input, x.cols) != columns)
        break;
      for (const codec::Segment& s : bound.matrix.segments) codec::append_segment(fused.matrix, s);
      name += "|" + next.parameter.substr(next.parameter.rfind('/') + 1);
      if (biased) {
        const std::vector<float> more = source_.values(next.parameter + "_bias", next.rows);
        bias.insert(bias.end(), more.begin(), more.end());
      }
    }
    std::optional<graph::Constant> bias_constant;
    if (biased) bias_constant = computed(name + "_bias", std::move(bias));
    const graph::Weight w = add_weight(name, std::move(fused.matrix));
    builder_.linear_into(y.columns(column, w.rows), in_stored_order(x, columns, ordered), w,
                         fused.policy, bias_constant);
    for (; i < end; ++i) {
      claim(projections[i].parameter);
      if (biased) claim(projections[i].parameter + "_bias");
      out.push_back(y.columns(column, projections[i].rows));
      column += projections[i].rows;
    }
  }
  return out;
}

graph::Value Binder::linear(graph::Value x, const std::string& input, const std::string& parameter,
                            uint32_t rows) {
  return linear(x, input, {{parameter, rows}})[0];
}

std::vector<int32_t> Binder::stored_columns(const std::string& parameter, const std::string& input,
                                            uint32_t cols) {
  std::vector<int32_t> columns = source_.input_columns(parameter, input);
  if (!columns.empty() && columns.size() != cols)
    throw Error(Code::kBinding,
                "{}: auxiliary 'input_columns' of the use of '{}' at '{}' has {} columns, {} "
                "expected",
                source_.path().string(), parameter, input, columns.size(), cols);
  return columns;
}

graph::Value Binder::in_stored_order(graph::Value x, const std::vector<int32_t>& columns,
                                     std::vector<Ordered>& known) {
  if (columns.empty()) return x;
  for (const Ordered& ordered : known)
    if (ordered.columns == columns) return ordered.x;
  // Layers have it in common; constants stand in the order of the graph's.
  std::optional<graph::Constant> order;
  for (size_t i = 0; i < constants_.size() && !order; ++i)
    if (constants_[i].indices == columns)
      order = {static_cast<int32_t>(i), x.cols, graph::DType::kI32};
  if (!order) {
    order = builder_.constant(component_ + "/input_columns", x.cols, graph::DType::kI32);
    constants_.push_back({1, x.cols, {}, columns});
  }
  known.push_back({columns, builder_.gather_columns(x, *order)});
  return known.back().x;
}

void Binder::logits(graph::Value x, const std::string& input, const std::string& parameter,
                    uint32_t rows) {
  claim(parameter);
  tap_input(input, x);
  Bound head = bind(parameter, input, rows, x.cols);
  std::vector<Ordered> ordered;
  x = in_stored_order(x, stored_columns(parameter, input, x.cols), ordered);
  builder_.logits(x, add_weight(parameter, std::move(head.matrix)), head.policy);
}

// Once an input, whatever the number of projections that read it.
void Binder::tap_input(const std::string& input, graph::Value x) {
  if (options_.input_taps && tapped_.insert(input).second) builder_.tap(input, x);
}

// Model code that binds a parameter twice has a defect: two uses of one tensor share one binding.
void Binder::claim(const std::string& parameter) {
  FLARE_ASSERT(claimed_.insert(parameter).second);
}

BoundGraph Binder::finish() {
  std::string left_over;
  size_t n_left_over = 0;
  for (const std::string& parameter : source_.parameters(component_)) {
    if (claimed_.contains(parameter)) continue;
    if (n_left_over++ == 0) left_over = parameter;
  }
  if (n_left_over > 0)
    throw Error(Code::kBinding,
                "{}: the model has no use for {} of the parameters of component '{}', such as "
                "{}; none expected",
                source_.path().string(), n_left_over, component_, quote(left_over));
  return {builder_.finish(), std::move(weights_), std::move(constants_)};
}

}  // namespace flare::prepare
