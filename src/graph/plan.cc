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

// A number in [0, limit] of field `where`.
uint64_t bounded(const Json& json, uint64_t limit, std::string_view where) {
  const uint64_t v = json.as_u64(where);
  if (v > limit) throw Error(Code::kDirectory, "{}: {} found, 0..{} expected", where, v, limit);
  return v;
}
uint32_t u32_at(const Json& json, std::string_view where) {
  return static_cast<uint32_t>(bounded(json, UINT32_MAX, where));
}

Operand operand_from_json(const Json& json, const std::string& where) {
  const Json::Array& a = json.as_array(where);
  if (a.size() != 7) throw Error(Code::kDirectory, "{}: {} numbers, 7 expected", where, a.size());
  Operand o;
  o.space = static_cast<Space>(bounded(a[0], 6, where + ".space"));
  o.dtype = static_cast<DType>(bounded(a[1], kDTypes - 1, where + ".dtype"));
  o.extent = static_cast<Extent>(bounded(a[2], 2, where + ".extent"));
  o.index = u32_at(a[3], where + ".index");
  o.offset = a[4].as_u64(where + ".offset");
  o.cols = u32_at(a[5], where + ".cols");
  o.stride = u32_at(a[6], where + ".stride");
  return o;
}

Launch launch_from_json(const Json& json, const Plan& plan, const std::string& where,
                        std::string_view (*kernel_name)(uint16_t)) {
  const Json::Array& a = json.as_array(where);
  if (a.size() != 6) throw Error(Code::kDirectory, "{}: {} fields, 6 expected", where, a.size());
  Launch launch;
  launch.kernel = static_cast<uint16_t>(bounded(a[1], UINT16_MAX, where + ".kernel"));
  launch.first_operand = u32_at(a[2], where + ".first_operand");
  launch.n_operands = u32_at(a[3], where + ".n_operands");
  launch.first_immediate = u32_at(a[4], where + ".first_immediate");
  launch.n_immediates = u32_at(a[5], where + ".n_immediates");
  const std::string& name = a[0].as_string(where + ".name");
  const std::string_view here = kernel_name(launch.kernel);
  if (here == "?")
    throw Error(Code::kDirectory, "{}.kernel: {} ({}) is unknown", where, launch.kernel,
                quote(name));
  if (name != here)
    throw Error(Code::kDirectory, "{}.name: {} found, kernel {} is {} here", where, quote(name),
                launch.kernel, here);
  if (uint64_t{launch.first_operand} + launch.n_operands > plan.operands.size())
    throw Error(Code::kDirectory, "{}.n_operands: [{}, {}+{}) leaves the {} operands", where,
                launch.first_operand, launch.first_operand, launch.n_operands,
                plan.operands.size());
  if (uint64_t{launch.first_immediate} + launch.n_immediates > plan.immediates.size())
    throw Error(Code::kDirectory, "{}.n_immediates: [{}, {}+{}) leaves the {} immediates", where,
                launch.first_immediate, launch.first_immediate, launch.n_immediates,
                plan.immediates.size());
  return launch;
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
  for (const Immediate& i : plan.immediates) immediates.push_back(std::bit_cast<int64_t>(i));
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
  const auto path = [&](std::string_view name) { return fmt::format("{}: {}", where, name); };
  const auto field = [&](std::string_view name) -> const Json& { return json.at(name, where); };
  const auto count = [&](std::string_view name) {
    return static_cast<int32_t>(bounded(field(name), INT32_MAX, path(name)));
  };
  // Calls read(item, "where: name[i]") for every item of an array.
  const auto each = [&](std::string_view name, auto read) {
    const Json::Array& items = field(name).as_array(path(name));
    for (size_t i = 0; i < items.size(); ++i)
      read(items[i], fmt::format("{}: {}[{}]", where, name, i));
  };
  if (field("v").as_u64(path("v")) != 1)
    throw Error(Code::kDirectory, "{}: plan version {}, 1 expected", path("v"),
                field("v").to_text());
  Plan plan;
  plan.role = field("role").as_string(path("role"));
  plan.capacity = {count("rows"), count("sequences"), count("logits")};
  plan.arena_bytes = field("arena_bytes").as_u64(path("arena_bytes"));
  each("operands", [&](const Json& item, const std::string& at) {
    plan.operands.push_back(operand_from_json(item, at));
  });
  each("immediates", [&](const Json& item, const std::string& at) {
    plan.immediates.push_back(integer(item.as_i64(at)));
  });
  each("taps",
       [&](const Json& item, const std::string& at) { plan.taps.push_back(item.as_string(at)); });
  each("launches", [&](const Json& item, const std::string& at) {
    plan.launches.push_back(launch_from_json(item, plan, at, kernel_name));
  });
  return plan;
}

}  // namespace flare::graph
