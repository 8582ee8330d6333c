// Plans as text and as JSON.
#include "graph/plan.h"

#include <bit>

#include "base/error.h"

namespace flare::graph {
namespace {

std::string operand_text(const Operand& o) {
  if (o.space == Space::kNone) return "-";
  const std::string shape = fmt::format("{}×{}", extent_name(o.extent), o.cols);
  switch (o.space) {
    case Space::kArena:
      return fmt::format("arena+{} {} {}", o.offset, dtype_name(o.dtype), shape);
    case Space::kPage:
    case Space::kRow:
      return fmt::format("{}+{} {} {}", space_name(o.space), o.offset, dtype_name(o.dtype), o.cols);
    default:
      return fmt::format("{}[{}] {}", space_name(o.space), o.index, shape);
  }
}

// An enum stored as its index, checked against the number of its values.
template <typename E>
E enum_at(const Json& json, size_t limit, std::string_view where) {
  const uint64_t v = json.as_u64(where);
  if (v >= limit)
    throw Error(Code::kDirectory, "{}: {} is unknown, 0..{} expected", where, v, limit - 1);
  return static_cast<E>(v);
}

uint32_t u32_at(const Json& json, std::string_view where) {
  const uint64_t v = json.as_u64(where);
  if (v > UINT32_MAX) throw Error(Code::kDirectory, "{}: {} exceeds 32 bits", where, v);
  return static_cast<uint32_t>(v);
}

Operand operand_from_json(const Json& json, std::string_view where) {
  const Json::Array& a = json.as_array(where);
  if (a.size() != 7)
    throw Error(Code::kDirectory, "{}: operand of {} numbers, 7 expected", where, a.size());
  Operand o;
  o.space = enum_at<Space>(a[0], 7, where);
  o.dtype = enum_at<DType>(a[1], 4, where);
  o.extent = enum_at<Extent>(a[2], 3, where);
  o.index = u32_at(a[3], where);
  o.offset = a[4].as_u64(where);
  o.cols = u32_at(a[5], where);
  o.stride = u32_at(a[6], where);
  return o;
}

}  // namespace

std::string plan_text(const Plan& plan, std::string_view (*kernel_name)(uint16_t)) {
  std::string out = fmt::format(
      "plan {}: {} launches, up to {} rows, {} sequences, {} logits rows, arena {} bytes\n",
      plan.role, plan.launches.size(), plan.capacity.rows, plan.capacity.sequences,
      plan.capacity.logits, plan.arena_bytes);
  for (const Launch& l : plan.launches) {
    out += fmt::format("  {}", kernel_name(l.kernel));
    for (uint32_t i = 0; i < l.n_operands; ++i)
      out +=
          fmt::format("{} {}", i == 0 ? "" : ",", operand_text(plan.operands[l.first_operand + i]));
    out += '\n';
  }
  return out;
}

Json plan_to_json(const Plan& plan, std::string_view (*kernel_name)(uint16_t)) {
  Json operands = Json::array(), immediates = Json::array(), launches = Json::array();
  Json taps = Json::array();
  for (const Operand& o : plan.operands)
    operands.push_back(
        Json::array({static_cast<uint32_t>(o.space), static_cast<uint32_t>(o.dtype),
                     static_cast<uint32_t>(o.extent), o.index, o.offset, o.cols, o.stride}));
  for (const Immediate& i : plan.immediates) immediates.push_back(i.i);
  for (const Launch& l : plan.launches)
    launches.push_back(Json::array({kernel_name(l.kernel), uint32_t{l.kernel}, l.first_operand,
                                    l.n_operands, l.first_immediate, l.n_immediates}));
  for (const std::string& t : plan.taps) taps.push_back(t);
  return Json::object({{"v", 1},
                       {"role", plan.role},
                       {"rows", plan.capacity.rows},
                       {"sequences", plan.capacity.sequences},
                       {"logits", plan.capacity.logits},
                       {"arena_bytes", plan.arena_bytes},
                       {"operands", std::move(operands)},
                       {"immediates", std::move(immediates)},
                       {"launches", std::move(launches)},
                       {"taps", std::move(taps)}});
}

Plan plan_from_json(const Json& json, std::string_view where,
                    std::string_view (*kernel_name)(uint16_t)) {
  const auto field = [&](std::string_view name) -> const Json& { return json.at(name, where); };
  if (field("v").as_u64(where) != 1)
    throw Error(Code::kDirectory, "{}: plan version {}, 1 expected", where, field("v").to_text());
  Plan plan;
  plan.role = field("role").as_string(where);
  plan.capacity.rows = static_cast<int32_t>(u32_at(field("rows"), where));
  plan.capacity.sequences = static_cast<int32_t>(u32_at(field("sequences"), where));
  plan.capacity.logits = static_cast<int32_t>(u32_at(field("logits"), where));
  plan.arena_bytes = field("arena_bytes").as_u64(where);
  for (const Json& o : field("operands").as_array(where))
    plan.operands.push_back(operand_from_json(o, where));
  for (const Json& i : field("immediates").as_array(where))
    plan.immediates.push_back(integer(i.as_i64(where)));
  for (const Json& t : field("taps").as_array(where)) plan.taps.push_back(t.as_string(where));
  for (const Json& l : field("launches").as_array(where)) {
    const Json::Array& a = l.as_array(where);
    if (a.size() != 6)
      throw Error(Code::kDirectory, "{}: launch of {} fields, 6 expected", where, a.size());
    Launch launch;
    launch.kernel = static_cast<uint16_t>(u32_at(a[1], where));
    launch.first_operand = u32_at(a[2], where);
    launch.n_operands = u32_at(a[3], where);
    launch.first_immediate = u32_at(a[4], where);
    launch.n_immediates = u32_at(a[5], where);
    if (a[0].as_string(where) != kernel_name(launch.kernel))
      throw Error(Code::kDirectory, "{}: kernel {} is {} here, {} expected", where, launch.kernel,
                  kernel_name(launch.kernel), quote(a[0].as_string(where)));
    if (uint64_t{launch.first_operand} + launch.n_operands > plan.operands.size() ||
        uint64_t{launch.first_immediate} + launch.n_immediates > plan.immediates.size())
      throw Error(Code::kDirectory, "{}: launch {} names operands or immediates that do not exist",
                  where, plan.launches.size());
    plan.launches.push_back(launch);
  }
  return plan;
}

}  // namespace flare::graph
