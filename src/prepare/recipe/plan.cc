// Placement: packing groups first, then the rest in registry order.
#include "prepare/recipe/plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <vector>

#include "artifact/writer.h"
#include "base/checked.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

struct Placed {
  size_t parent;
  uint64_t begin, end;  // elements of the parent
};

std::string folder_of(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

// Both are made of the same words of the same tensors.
bool same_data(const ImportedParameter& a, const ImportedParameter& b) {
  const auto same_piece = [](const Piece& x, const Piece& y) {
    return x.tensor == y.tensor && x.row_begin == y.row_begin && x.row_end == y.row_end &&
           x.encoded == y.encoded;
  };
  const auto same_columns = [](const Columns& x, const Columns& y) {
    return x.begin == y.begin && x.end == y.end;
  };
  return a.shape == b.shape && a.transform == b.transform &&
         std::ranges::equal(a.pieces, b.pieces, same_piece) &&
         std::ranges::equal(a.columns, b.columns, same_columns);
}

class Planner {
 public:
  Planner(const ImportedModel& model, Chooser& chooser, const std::vector<std::string>& components,
          const NamedModels& sources)
      : chooser_(chooser), sources_(sources) {
    for (const ImportedComponent& component : model.components)
      if (std::ranges::find(components, component.id) != components.end())
        components_.push_back(&component);
  }

  ArtifactPlan plan(std::vector<Resource> resources) {
    plan_.resources = std::move(resources);
    add_resources();
    for (const ImportedComponent* component : components_) decide(*component);
    chooser_.finish();
    check_shares();
    check_sources();
    for (const Rule* rule : chooser_.groups()) place_explicit_groups(*rule);
    for (const ImportedComponent* component : components_)
      for (const auto& group : component->packing) place_packing_group(group);
    for (const ImportedComponent* component : components_)
      for (const ImportedParameter& parameter : component->parameters)
        if (decision(parameter).share.empty() && !placed_.contains(parameter.name))
          place({&parameter}, stored_shape(parameter));
    for (const ImportedComponent* component : components_)
      for (const ImportedParameter& parameter : component->parameters) add_auxiliaries(parameter);
    artifact::place_objects(plan_.directory);
    for (const ImportedComponent* component : components_) add_component(*component);
    plan_.directory.index();
    return std::move(plan_);
  }

 private:
  static std::string id_of(const Resource& resource) {
    return "resource/" + resource.component + "/" + resource.role;
  }

  void add_resources() {
    for (const Resource& resource : plan_.resources)
      plan_.directory.objects.push_back({.kind = artifact::Object::Kind::kResource,
                                         .id = id_of(resource),
                                         .encoding = "raw_bytes_v1",
                                         .bytes = resource.bytes.size()});
  }

  void decide(const ImportedComponent& component) {
    for (const ImportedParameter& parameter : component.parameters) {
      by_name_[parameter.name] = &parameter;
      Decision& made = decisions_[parameter.name] = chooser_.decide(component, parameter);
      if (!made.share.empty()) shared_.insert(made.share);
      const codec::Format& format = codec::format(made.choice.format);
      if (!made.share.empty() || copies_words(data_of(parameter), format)) continue;
      if (const auto stored = unreadable_format(data_of(parameter)))
        throw Error(
            Code::kSupport,
            "{}: parameter '{}' is {} in the source, which nothing here reads numbers from; "
            "expected format keep, or a source in another format",
            made.format_place, parameter.name, codec::format(*stored).name);
      if (format.encode == nullptr)
        throw Error(Code::kUsage,
                    "{}: parameter '{}' is not {} in the source, and that format is never encoded "
                    "from numbers; expected a format that is, or a source that holds it",
                    made.format_place, parameter.name, format.name);
      if (format.id == codec::FormatId::kInt32)
        throw Error(Code::kUsage,
                    "{}: parameter '{}' holds real numbers, which int32 does not; expected another "
                    "format",
                    made.format_place, parameter.name);
      if (made.imported)
        throw Error(
            Code::kUsage,
            "{}: parameter '{}' is not {} in the source, import_encoded copies nothing "
            "else; expected a source that holds it, or a format that is encoded from numbers",
            made.format_place, parameter.name, format.name);
    }
  }

  const Decision& decision(const ImportedParameter& parameter) const {
    return decisions_.at(parameter.name);
  }

  // The parameter as its source has it.
  const ImportedParameter& data_of(const ImportedParameter& parameter) const {
    const std::string& name = decision(parameter).source;
    if (name.empty()) return parameter;
    const auto source = sources_.find(name);
    if (source == sources_.end())
      throw Error(Code::kUsage, "{}: '{}' comes from source {}, which is not given",
                  decision(parameter).source_place, parameter.name, quote(name))
          .set_hint(fmt::format("add --source {}=PATH", name));
    for (const ImportedComponent& component : source->second->components)
      if (const ImportedParameter* found = component.find(parameter.name)) {
        if (found->shape != parameter.shape)
          throw Error(Code::kBinding,
                      "source {}: parameter '{}' has another shape than the model's", quote(name),
                      parameter.name);
        return *found;
      }
    throw Error(Code::kBinding, "source {}: parameter '{}' is missing", quote(name),
                parameter.name);
  }

  void check_shares() const {
    for (const auto& [name, made] : decisions_) {
      if (made.share.empty()) continue;
      const ImportedParameter& parameter = *by_name_.at(name);
      const auto owner = by_name_.find(made.share);
      if (owner == by_name_.end() || owner->second == &parameter)
        throw Error(Code::kUsage, "{}: '{}' shares the object of {}, which is no other parameter",
                    made.share_place, name, quote(made.share));
      if (!decision(*owner->second).share.empty())
        throw Error(Code::kUsage, "{}: '{}' shares the object of '{}', which has none of its own",
                    made.share_place, name, made.share);
      if (parameter.tied_to != made.share && !same_data(parameter, *owner->second))
        throw Error(Code::kUsage, "{}: '{}' shares the object of '{}', which is other data",
                    made.share_place, name, made.share);
    }
  }

  void check_sources() const {
    for (const auto& [name, model] : sources_)
      if (std::ranges::none_of(decisions_, [&](const auto& d) { return d.second.source == name; }))
        throw Error(Code::kUsage, "source {} is given and no rule takes a parameter from it",
                    quote(name))
            .set_hint(fmt::format("add a rule with source = \"{}\" to --override", name));
  }

  // A quantised parameter of another rank is stored as [product of leading dimensions, last].
  codec::Shape stored_shape(const ImportedParameter& parameter) const {
    const codec::Format& format = codec::format(decision(parameter).choice.format);
    if (!format.quantised || parameter.shape.size() == 2) return parameter.shape;
    const codec::Geometry geometry = geometry_of(parameter);
    return {geometry.rows, geometry.cols};
  }

  // Why these cannot be rows of one object; empty: they can.
  std::string obstacle(const std::vector<const ImportedParameter*>& members) const {
    const FormatChoice& first = decision(*members.front()).choice;
    uint64_t rows = 0;
    for (const ImportedParameter* member : members) {
      const Decision& made = decision(*member);
      const bool is_vector = member->shape.size() == 1 && !codec::format(first.format).quantised;
      if (member->shape.size() != members.front()->shape.size() ||
          (member->shape.size() != 2 && !is_vector))
        return fmt::format("'{}' is no matrix", member->name);
      if (placed_.contains(member->name)) return fmt::format("'{}' has a place", member->name);
      if (!made.share.empty() || shared_.contains(member->name))
        return fmt::format("'{}' shares an object", member->name);
      if (made.separate) return fmt::format("'{}' is separate", member->name);
      if (!is_vector && member->shape[1] != members.front()->shape[1])
        return fmt::format("'{}' has another width", member->name);
      if (made.choice.format != first.format || made.choice.encoder != first.encoder)
        return fmt::format("'{}' has another format or encoder", member->name);
      const codec::Format& format = codec::format(first.format);
      const ImportedParameter &one = data_of(*members.front()), &other = data_of(*member);
      if (format.quantised && copies_words(one, format) != copies_words(other, format))
        return fmt::format("only one of '{}' and '{}' is copied", members.front()->name,
                           member->name);
      if (weight_divisor(one, format) != weight_divisor(other, format))
        return fmt::format("'{}' has another divisor", member->name);
      rows = checked_add(rows, member->shape[0], "packed rows");
    }
    return {};
  }

  void place_group(std::vector<const ImportedParameter*> members) {
    codec::Shape shape = members.front()->shape;
    shape[0] = 0;
    for (const ImportedParameter* member : members) shape[0] += member->shape[0];
    place(std::move(members), std::move(shape));
  }

  void place_packing_group(const std::vector<std::string>& names) {
    std::vector<const ImportedParameter*> members;
    for (const std::string& name : names) {
      const auto member = by_name_.find(name);
      if (member == by_name_.end()) return;
      members.push_back(member->second);
    }
    if (obstacle(members).empty()) place_group(std::move(members));
  }

  // A group in each folder that has parameters which this rule, as the last with a group, selects.
  // A recipe's group that cannot be formed is passed by; a user's is an error.
  void place_explicit_groups(const Rule& rule) {
    std::vector<std::string> folders;
    for (const ImportedComponent* component : components_)
      for (const ImportedParameter& parameter : component->parameters) {
        const std::string folder = folder_of(parameter.name);
        if (decision(parameter).group == &rule && (folders.empty() || folders.back() != folder))
          folders.push_back(folder);
      }
    for (const std::string& folder : folders) {
      std::vector<const ImportedParameter*> members;
      std::string problem;
      for (const std::string& last : rule.group) {
        const auto found = by_name_.find(folder + last);
        if (found == by_name_.end())
          problem = fmt::format("'{}{}' does not exist", folder, last);
        else if (decision(*found->second).group != &rule)
          problem = fmt::format("'{}{}' is not selected by it", folder, last);
        else
          members.push_back(found->second);
      }
      if (problem.empty()) problem = obstacle(members);
      if (problem.empty())
        place_group(std::move(members));
      else if (!rule.where.empty())
        throw Error(Code::kUsage, "{}: the group in '{}' cannot be one object: {}", rule.where,
                    folder, problem);
    }
  }

  void place(std::vector<const ImportedParameter*> members, codec::Shape shape) {
    const FormatChoice& choice = decision(*members.front()).choice;
    const codec::Format& format = codec::format(choice.format);
    ParentPlan parent{.object = plan_.directory.objects.size(),
                      .format = format.id,
                      .geometry = codec::geometry_of(shape)};
    uint64_t element = 0;
    for (const ImportedParameter* member : members) {
      const uint64_t elements = codec::element_count(member->shape);
      placed_[member->name] = {plan_.parents.size(), element, element + elements};
      element += elements;
      parent.members.push_back(&data_of(*member));
      parent.encoders.push_back(decision(*member).choice.encoder);
      parent.sources.push_back(decision(*member).source);
    }
    artifact::Object object{.id = fmt::format("weight/{:06}", plan_.parents.size()),
                            .format = std::string(format.name),
                            .layout = std::string(format.layout_name)};
    try {
      object.bytes = codec::encoded_bytes(format, format.layout_name, shape, 1);
    } catch (Error& error) {
      error.add_context(fmt::format("parameter '{}'", members.front()->name));
      throw;
    }
    object.shape = std::move(shape);
    plan_.directory.objects.push_back(std::move(object));
    plan_.parents.push_back(std::move(parent));
  }

  // One object for all uses with the same columns, one for each use's divisor (§14.6).
  void add_auxiliaries(const ImportedParameter& parameter) {
    const codec::Format& format = codec::format(decision(parameter).choice.format);
    if (parameter.inputs.empty()) return;
    if (std::vector<int32_t> words = input_columns(data_of(parameter), format); !words.empty()) {
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
    const std::string& share = decision(parameter).share;
    const std::string& owner = share.empty() ? parameter.name : share;
    std::optional<float> least = activation_divisor(data_of(parameter), format);
    if (!least) return least;
    for (const ImportedParameter* member : plan_.parents[placed_.at(owner).parent].members)
      if (const auto other = activation_divisor(*member, format)) least = std::min(*least, *other);
    return least;
  }

  artifact::Binding binding_of(const ImportedParameter& parameter) const {
    const std::string& share = decision(parameter).share;
    const std::string& owner = share.empty() ? parameter.name : share;
    const Placed& placed = placed_.at(owner);
    const ParentPlan& parent = plan_.parents[placed.parent];
    const artifact::Object& object = plan_.directory.objects[parent.object];
    if (object.shape == parameter.shape) return {.object = object.id};
    return {.parts = {{object.id, placed.begin, placed.end}}};
  }

  void add_component(const ImportedComponent& component) {
    artifact::Component record{.config = component.config, .target = component.target};
    for (const Resource& resource : plan_.resources)
      if (resource.component == component.id)
        record.resources.emplace_back(resource.role, id_of(resource));
    if (component.proposal)
      record.proposal = {component.proposal->first, component.proposal->second};
    plan_.directory.components.emplace_back(component.id, std::move(record));
    for (const ImportedParameter& parameter : component.parameters) {
      plan_.directory.bindings.emplace_back(parameter.name, binding_of(parameter));
      for (const std::string& input : parameter.inputs) {
        if (!is_built(input)) continue;
        artifact::Use use{.parameter = parameter.name,
                          .input = input,
                          .activation_policy =
                              std::string(graph::policy_name(decision(parameter).choice.policy))};
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

  // An input belongs to the component that its name begins with.
  bool is_built(const std::string& input) const {
    const std::string id = input.substr(0, input.find('/'));
    return std::ranges::any_of(
        components_, [&](const ImportedComponent* component) { return component->id == id; });
  }

  Chooser& chooser_;
  const NamedModels& sources_;
  std::vector<const ImportedComponent*> components_;
  ArtifactPlan plan_;
  std::map<std::string, const ImportedParameter*> by_name_;
  std::map<std::string, Decision> decisions_;
  std::map<std::string, Placed> placed_;
  std::map<std::string, std::string> input_columns_;  // parameter → object of its uses' auxiliary
  std::map<std::pair<std::string, std::string>, std::string> activation_divisors_;  // by use
  std::set<std::string> shared_;  // parameters whose object others have too
};

}  // namespace

ArtifactPlan plan_artifact(const ImportedModel& model, Chooser& chooser,
                           const std::vector<std::string>& components,
                           std::vector<Resource> resources, const NamedModels& sources) {
  return Planner(model, chooser, components, sources).plan(std::move(resources));
}

}  // namespace flare::prepare
