// Placement: packing groups first, then the rest in registry order.
#include "prepare/recipe/plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "artifact/writer.h"
#include "base/checked.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

struct Placed {
  size_t parent;
  uint64_t row_begin, row_end;
};

class Planner {
 public:
  Planner(const ImportedModel& model, const Recipe& recipe) : model_(model), recipe_(recipe) {}

  ArtifactPlan plan(std::vector<TextResource> resources) {
    plan_.resources = std::move(resources);
    add_resources();
    for (const ImportedComponent& component : model_.components) choose_formats(component);
    for (const ImportedComponent& component : model_.components)
      for (const auto& group : component.packing) place_group(component, group);
    for (const ImportedComponent& component : model_.components)
      for (const ImportedParameter& parameter : component.parameters)
        if (parameter.tied_to.empty() && !placed_.contains(parameter.name))
          place({&parameter}, stored_shape(parameter));
    for (const ImportedComponent& component : model_.components)
      for (const ImportedParameter& parameter : component.parameters) add_auxiliaries(parameter);
    artifact::place_objects(plan_.directory);
    for (const ImportedComponent& component : model_.components) add_component(component);
    plan_.directory.index();
    return std::move(plan_);
  }

 private:
  // Text is the only component with resources today.
  void add_resources() {
    for (const TextResource& resource : plan_.resources)
      plan_.directory.objects.push_back({.kind = artifact::Object::Kind::kResource,
                                         .id = "resource/text/" + resource.role,
                                         .encoding = "raw_bytes_v1",
                                         .bytes = resource.bytes.size()});
  }

  void choose_formats(const ImportedComponent& component) {
    for (const ImportedParameter& parameter : component.parameters) {
      choices_[parameter.name] = choose_format(recipe_, component, parameter);
      if (!parameter.tied_to.empty()) shared_.insert(parameter.tied_to);
    }
  }

  // A quantised parameter of another rank is stored as [product of leading dimensions, last].
  codec::Shape stored_shape(const ImportedParameter& parameter) const {
    const codec::Format& format = codec::format(choices_.at(parameter.name).format);
    if (!format.quantised || parameter.shape.size() == 2) return parameter.shape;
    const codec::Geometry geometry = geometry_of(parameter);
    return {geometry.rows, geometry.cols};
  }

  void place_group(const ImportedComponent& component, const std::vector<std::string>& names) {
    std::vector<const ImportedParameter*> members;
    for (const std::string& name : names) {
      const ImportedParameter* member = component.find(name);
      if (member == nullptr || member->shape.size() != 2 || placed_.contains(name) ||
          !member->tied_to.empty() || shared_.contains(name))
        return;
      members.push_back(member);
    }
    codec::Shape shape = {0, members.front()->shape[1]};
    const codec::FormatId format = choices_.at(members.front()->name).format;
    const auto divisor = [&](const ImportedParameter* member) {
      return weight_divisor(*member, codec::format(format));
    };
    for (const ImportedParameter* member : members) {
      if (member->shape[1] != shape[1] || choices_.at(member->name).format != format ||
          divisor(member) != divisor(members.front()))
        return;
      shape[0] = checked_add(shape[0], member->shape[0], "packed rows");
    }
    place(std::move(members), std::move(shape));
  }

  void place(std::vector<const ImportedParameter*> members, codec::Shape shape) {
    const codec::Format& format = codec::format(choices_.at(members.front()->name).format);
    ParentPlan parent{.object = plan_.directory.objects.size(),
                      .format = format.id,
                      .geometry = codec::geometry_of(shape)};
    uint64_t row = 0;
    for (const ImportedParameter* member : members) {
      const uint64_t rows = geometry_of(*member).rows;
      placed_[member->name] = {plan_.parents.size(), row, row + rows};
      row += rows;
    }
    artifact::Object object{.id = fmt::format("weight/{:06}", plan_.parents.size()),
                            .format = std::string(format.name),
                            .layout = std::string(format.layout_name)};
    object.bytes = codec::encoded_bytes(format, format.layout_name, shape, 1);
    object.shape = std::move(shape);
    for (const ImportedParameter* member : members)
      parent.encoders.push_back(choices_.at(member->name).encoder);
    parent.members = std::move(members);
    plan_.directory.objects.push_back(std::move(object));
    plan_.parents.push_back(std::move(parent));
  }

  // One object for all uses with the same columns, one for each use's divisor (§14.6).
  void add_auxiliaries(const ImportedParameter& parameter) {
    const codec::Format& format = codec::format(choices_.at(parameter.name).format);
    if (parameter.inputs.empty()) return;
    if (std::vector<int32_t> words = input_columns(parameter, format); !words.empty()) {
      auto same = std::ranges::find(plan_.auxiliaries, words, &AuxiliaryPlan::words);
      const size_t object = same != plan_.auxiliaries.end()
                                ? same->object
                                : add_auxiliary(codec::FormatId::kInt32, {words.size()}, words);
      input_columns_[parameter.name] = plan_.directory.objects[object].id;
    }
    if (const auto divisor = parent_activation_divisor(parameter, format))
      for (const std::string& input : parameter.inputs) {
        const size_t object =
            add_auxiliary(codec::FormatId::kFp32, {}, {std::bit_cast<int32_t>(*divisor)});
        activation_divisors_[{parameter.name, input}] = plan_.directory.objects[object].id;
      }
  }

  size_t add_auxiliary(codec::FormatId id, codec::Shape shape, std::vector<int32_t> words) {
    const codec::Format& format = codec::format(id);
    artifact::Object object{.id = fmt::format("auxiliary/{:06}", plan_.auxiliaries.size()),
                            .shape = std::move(shape),
                            .format = std::string(format.name),
                            .layout = std::string(format.layout_name)};
    object.bytes = codec::encoded_bytes(format, format.layout_name, object.shape, 1);
    const size_t index = plan_.directory.objects.size();
    plan_.auxiliaries.push_back({index, std::move(words)});
    plan_.directory.objects.push_back(std::move(object));
    return index;
  }

  // All uses of one parent get the least divisor of its members (§8.6).
  std::optional<float> parent_activation_divisor(const ImportedParameter& parameter,
                                                 const codec::Format& format) const {
    const std::string& owner = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    std::optional<float> least = activation_divisor(parameter, format);
    if (!least) return least;
    for (const ImportedParameter* member : plan_.parents[placed_.at(owner).parent].members)
      if (const auto other = activation_divisor(*member, format)) least = std::min(*least, *other);
    return least;
  }

  artifact::Binding binding_of(const ImportedParameter& parameter) const {
    const std::string& owner = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    const Placed& placed = placed_.at(owner);
    const ParentPlan& parent = plan_.parents[placed.parent];
    const artifact::Object& object = plan_.directory.objects[parent.object];
    if (object.shape == parameter.shape) return {.object = object.id};
    const uint64_t cols = parent.geometry.cols;
    return {.parts = {{object.id, placed.row_begin * cols, placed.row_end * cols}}};
  }

  void add_component(const ImportedComponent& component) {
    artifact::Component record{.config = component.config};
    if (component.id == "text")
      for (const TextResource& resource : plan_.resources)
        record.resources.emplace_back(resource.role, "resource/text/" + resource.role);
    plan_.directory.components.emplace_back(component.id, std::move(record));
    for (const ImportedParameter& parameter : component.parameters) {
      plan_.directory.bindings.emplace_back(parameter.name, binding_of(parameter));
      for (const std::string& input : parameter.inputs) {
        artifact::Use use{.parameter = parameter.name,
                          .input = input,
                          .activation_policy =
                              std::string(graph::policy_name(choices_.at(parameter.name).policy))};
        const auto columns = input_columns_.find(parameter.name);
        if (columns != input_columns_.end())
          use.auxiliaries.emplace_back("input_columns",
                                       artifact::Binding{.object = columns->second});
        const auto divisor = activation_divisors_.find({parameter.name, input});
        if (divisor != activation_divisors_.end())
          use.auxiliaries.emplace_back("activation_input_divisor",
                                       artifact::Binding{.object = divisor->second});
        plan_.directory.uses.push_back(std::move(use));
      }
    }
  }

  const ImportedModel& model_;
  const Recipe& recipe_;
  ArtifactPlan plan_;
  std::map<std::string, FormatChoice> choices_;
  std::map<std::string, Placed> placed_;
  std::map<std::string, std::string> input_columns_;  // parameter → object of its uses' auxiliary
  std::map<std::pair<std::string, std::string>, std::string> activation_divisors_;  // by use
  std::set<std::string> shared_;
};

}  // namespace

ArtifactPlan plan_artifact(const ImportedModel& model, const Recipe& recipe,
                           std::vector<TextResource> resources) {
  return Planner(model, recipe).plan(std::move(resources));
}

}  // namespace flare::prepare
