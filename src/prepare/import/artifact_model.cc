// Rows of mapped objects as encoded sources, and what names say about parameters.
#include "prepare/import/artifact_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "codec/nvfp4.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

using codec::FormatId;

// Immutable; points into the reader's mappings.
class ArtifactRows final : public EncodedSource {
 public:
  ArtifactRows(EncodedFacts facts, codec::Matrix rows)
      : EncodedSource(std::move(facts)), rows_(std::move(rows)) {}

  void read_rows(uint64_t row, uint64_t n_rows, float* out) const override {
    const uint64_t cols = rows_.cols;
    const std::vector<int32_t>& columns = facts().input_columns;
    std::vector<float> stored(columns.size());
    for (uint64_t r = 0; r < n_rows; ++r, out += cols) {
      codec::decode_row(rows_, row + r, columns.empty() ? out : stored.data());
      for (size_t c = 0; c < columns.size(); ++c) out[columns[c]] = stored[c];
    }
  }

  void copy_rows(FormatId id, uint64_t row, uint64_t n_rows, const PlaneRows& dst) const override {
    const codec::Format& format = codec::format(id);
    const codec::Planes to =
        format.planes({.rows = au(n_rows, row_step(format)), .cols = rows_.cols});
    uint64_t done = 0;
    for_segments(row, n_rows, [&](const codec::Segment& segment, uint64_t first, uint64_t n) {
      const codec::Planes from = format.planes(segment.geometry);
      for (int p = 0; p < from.count; ++p) {
        const uint64_t bytes = to.plane[p].row_bytes;
        if (p == 1 && format.layout == codec::LayoutId::kBlockScale)
          copy_scales(segment, from, first, n, n_rows, done, dst.plane[p]);
        else
          std::memcpy(dst.plane[p] + done * bytes,
                      segment.object + from.plane[p].offset + first * bytes, n * bytes);
      }
      done += n;
    });
  }

  bool release_rows(uint64_t row, uint64_t n_rows) const override {
    for_segments(row, n_rows, [&](const codec::Segment& segment, uint64_t first, uint64_t n) {
      const codec::Planes planes = codec::format(segment.format).planes(segment.geometry);
      for (int p = 0; p < planes.count; ++p)
        release_mapped({segment.object + planes.plane[p].offset + first * planes.plane[p].row_bytes,
                        n * planes.plane[p].row_bytes});
    });
    return true;
  }

 private:
  static uint64_t au(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

  // Calls body(segment, its row, rows) for the runs of [row, row+n_rows).
  template <typename Body>
  void for_segments(uint64_t row, uint64_t n_rows, Body body) const {
    for (const codec::Segment& segment : rows_.segments) {
      if (n_rows == 0) return;
      if (row >= segment.rows()) {
        row -= segment.rows();
        continue;
      }
      const uint64_t n = std::min(n_rows, segment.rows() - row);
      body(segment, segment.row_begin + row, n);
      n_rows -= n;
      row = 0;
    }
  }

  // Scales stand in tiles of rows, which another first row arranges anew.
  void copy_scales(const codec::Segment& segment, const codec::Planes& from, uint64_t first,
                   uint64_t n, uint64_t block, uint64_t done, std::byte* out) const {
    const codec::Geometry to{.rows = block, .cols = rows_.cols};
    const std::byte* scales = segment.object + from.plane[1].offset;
    for (uint64_t r = 0; r < n; ++r)
      for (uint64_t group = 0; group < rows_.cols / 16; ++group)
        out[codec::nvfp4_scale_offset(to, done + r, group)] =
            scales[codec::nvfp4_scale_offset(segment.geometry, first + r, group)];
  }

  const codec::Matrix rows_;
};

constexpr std::string_view kFine[] = {"gdn/a_projection", "gdn/b_projection",  "moe/router",
                                      "moe/shared_score", "kernel_projection", "hidden_projection"};
constexpr std::string_view kFp32[] = {"gdn/a_log", "gdn/dt_bias"};

ParameterKind kind_of(const ImportedParameter& parameter) {
  const auto ends = [&](std::string_view end) { return parameter.name.ends_with(end); };
  if (parameter.name == "text/token_embedding") return ParameterKind::kEmbedding;
  if (parameter.name == "text/output_head") return ParameterKind::kHead;
  if (parameter.inputs.empty()) return ParameterKind::kPlain;
  return std::ranges::any_of(kFine, ends) ? ParameterKind::kFineProjection
                                          : ParameterKind::kProjection;
}

// Packing groups by what the last part of a name stands beside (§15.3 to §15.5), the first that is
// complete and compatible wins.
constexpr std::array<std::array<std::string_view, 4>, 11> kGroups = {{
    {"query", "key", "gate", "value"},
    {"query", "key", "value", "z"},
    {"query", "key", "value", ""},
    {"query", "key", "", ""},
    {"gate", "value", "", ""},
    {"value", "z", "", ""},
    {"a_projection", "b_projection", "", ""},
    {"gate", "up", "", ""},
    {"router", "shared_score", "", ""},
    {"query_bias", "key_bias", "value_bias", ""},
}};

class ArtifactImport {
 public:
  ArtifactImport(artifact::Reader& reader, const std::vector<std::string>& wanted)
      : reader_(reader), directory_(reader.directory()), wanted_(wanted) {}

  ImportedModel run() {
    for (const artifact::Use& use : directory_.uses) uses_[use.parameter].push_back(&use);
    for (const std::string& id : wanted_)
      if (directory_.find_component(id) == nullptr)
        throw Error(Code::kComponent, "{}: component {} is not in this artifact",
                    reader_.path().string(), quote(id));
    for (const auto& [id, component] : directory_.components) add_component(id, component);
    if (model_.components.empty() || model_.components.front().id != "text")
      throw Error(Code::kComponent, "{}: component text is not in this artifact or not asked for",
                  reader_.path().string());
    return std::move(model_);
  }

 private:
  void add_component(const std::string& id, const artifact::Component& record) {
    if (!wanted_.empty() && std::ranges::find(wanted_, id) == wanted_.end()) {
      SkippedComponent skipped{.id = id};
      for (const auto& [name, binding] : directory_.bindings)
        if (name.starts_with(id + "/")) ++skipped.tensors;
      model_.skipped.push_back(std::move(skipped));
      return;
    }
    ImportedComponent& component = model_.components.emplace_back();
    component.id = id;
    component.target = record.target;
    component.config = record.config;
    if (record.proposal) component.proposal = {record.proposal->domain, record.proposal->rows};
    for (const auto& [name, binding] : directory_.bindings) {
      const std::string first = name.substr(0, name.find('/'));
      if (first == id || (id == "text" && first == "proposal"))
        add_parameter(name, binding, component);
    }
    add_packing(component);
  }

  void add_parameter(const std::string& name, const artifact::Binding& binding,
                     ImportedComponent& component) {
    ImportedParameter& parameter = component.parameters.emplace_back();
    parameter.name = name;
    parameter.shape = shape_of(name, binding);
    for (const artifact::Use* use : uses_[name]) parameter.inputs.push_back(use->input);
    parameter.kind = kind_of(parameter);
    parameter.fp32_direct =
        std::ranges::any_of(kFp32, [&](std::string_view end) { return name.ends_with(end); });
    // The embedding and a head that is bound to the same data.
    const artifact::Binding* embedding = directory_.find_binding("text/token_embedding");
    if (name == "text/output_head" && embedding != nullptr && binding.parts.empty() &&
        embedding->parts.empty() && embedding->object == binding.object)
      parameter.tied_to = "text/token_embedding";
    const codec::Geometry geometry = codec::geometry_of(parameter.shape);
    codec::Matrix rows = reader_.matrix(binding, geometry, name);
    parameter.pieces.push_back(
        {nullptr, 0, geometry.rows,
         std::make_shared<ArtifactRows>(facts_of(parameter, rows), std::move(rows))});
  }

  codec::Shape shape_of(const std::string& name, const artifact::Binding& binding) const {
    if (binding.parts.empty()) return reader_.tensor(binding.object).object->shape;
    uint64_t elements = 0;
    for (const artifact::Part& part : binding.parts)
      elements = checked_add(elements, part.end - part.begin, name);
    const codec::Shape& parent = reader_.tensor(binding.parts.front().object).object->shape;
    if (parent.size() < 2) return {elements};
    if (elements % parent.back() != 0)
      throw Error(Code::kBinding, "{}: parameter '{}' has {} elements, whole rows of {} expected",
                  reader_.path().string(), name, elements, parent.back());
    return {elements / parent.back(), parent.back()};
  }

  EncodedFacts facts_of(const ImportedParameter& parameter, const codec::Matrix& rows) {
    EncodedFacts facts{.name = parameter.name, .geometry = {.rows = rows.rows, .cols = rows.cols}};
    const codec::Format& format = codec::format(rows.segments.front().format);
    facts.formats.push_back(format.id);
    for (const codec::Segment& segment : rows.segments)
      if (segment.format != format.id) facts.formats.clear();
    if (format.layout == codec::LayoutId::kBlockScale) read_divisor(rows, facts);
    read_uses(parameter, facts);
    return facts;
  }

  // One for all rows, or the words cannot be taken over.
  static void read_divisor(const codec::Matrix& rows, EncodedFacts& facts) {
    for (const codec::Segment& segment : rows.segments) {
      const codec::Geometry g = segment.geometry;
      const uint64_t end = codec::format(segment.format).planes(g).total_bytes;
      const uint64_t matrix_rows = g.rows / g.divisors;
      for (uint64_t i = segment.row_begin / matrix_rows; i <= (segment.row_end - 1) / matrix_rows;
           ++i) {
        const float divisor = load_le<float>(segment.object + end - 4 * (g.divisors - i));
        if (facts.divisor.value_or(divisor) != divisor) facts.formats.clear();
        facts.divisor = divisor;
      }
    }
  }

  void read_uses(const ImportedParameter& parameter, EncodedFacts& facts) {
    for (const artifact::Use* use : uses_[parameter.name]) {
      for (graph::Policy policy :
           {graph::Policy::kA16Only, graph::Policy::kAllowA8, graph::Policy::kAllowA4})
        if (graph::policy_name(policy) == use->activation_policy) facts.policy = policy;
      for (const auto& [role, binding] : use->auxiliaries) {
        if (role == "input_columns")
          facts.input_columns = words<int32_t>(binding, codec::geometry_of(parameter.shape).cols);
        else if (role == "activation_input_divisor")
          facts.activation_divisor = words<float>(binding, 1).front();
        else
          throw Error(Code::kSupport,
                      "{}: the use of '{}' has auxiliary {}, which cannot be carried over",
                      reader_.path().string(), parameter.name, quote(role));
      }
    }
    check_columns(parameter, facts.input_columns);
  }

  void check_columns(const ImportedParameter& parameter,
                     const std::vector<int32_t>& columns) const {
    std::vector<bool> seen(columns.size());
    for (const int32_t to : columns) {
      const auto at = static_cast<size_t>(to);
      if (to < 0 || at >= columns.size() || seen[at])
        throw Error(Code::kBinding,
                    "{}: input_columns of '{}' name {}, every number of 0 … {} once expected",
                    reader_.path().string(), parameter.name, to, columns.size() - 1);
      seen[at] = true;
    }
  }

  // Words of four bytes of an auxiliary.
  template <typename Word>
  std::vector<Word> words(const artifact::Binding& binding, uint64_t n) {
    std::vector<artifact::Part> parts = binding.parts;
    if (parts.empty()) parts.push_back({binding.object, 0, n});
    std::vector<Word> out;
    for (const artifact::Part& part : parts) {
      const artifact::TensorInfo info = reader_.tensor(part.object);
      const uint64_t elements = codec::element_count(info.object->shape);
      const bool fits = info.format->word_bytes == sizeof(Word) && part.end <= elements &&
                        part.end - part.begin <= n - out.size();
      if (!fits)
        throw Error(Code::kBinding, "{}: auxiliary in object {} has another shape than {} words",
                    reader_.path().string(), quote(part.object), n);
      const std::byte* from = reader_.mapped(part.object).data();
      for (uint64_t i = part.begin; i < part.end; ++i)
        out.push_back(load_le<Word>(from + i * sizeof(Word)));
    }
    if (out.size() != n)
      throw Error(Code::kBinding, "{}: an auxiliary has {} words, {} expected",
                  reader_.path().string(), out.size(), n);
    return out;
  }

  static void add_packing(ImportedComponent& component) {
    std::vector<std::string> folders;
    std::set<std::string> names;
    for (const ImportedParameter& parameter : component.parameters) {
      names.insert(parameter.name);
      const std::string folder = parameter.name.substr(0, parameter.name.rfind('/') + 1);
      if (std::ranges::find(folders.rbegin(), folders.rend(), folder) == folders.rend())
        folders.push_back(folder);
    }
    for (const std::string& folder : folders)
      for (const auto& group : kGroups) {
        std::vector<std::string> members;
        for (std::string_view last : group)
          if (!last.empty()) members.push_back(folder + std::string(last));
        if (members.size() > 1 &&
            std::ranges::all_of(members, [&](const auto& name) { return names.contains(name); }))
          component.packing.push_back(std::move(members));
      }
  }

  artifact::Reader& reader_;
  const artifact::Directory& directory_;
  const std::vector<std::string>& wanted_;
  std::map<std::string, std::vector<const artifact::Use*>> uses_;
  ImportedModel model_;
};

}  // namespace

ImportedModel import_artifact(artifact::Reader& reader,
                              const std::vector<std::string>& components) {
  return ArtifactImport(reader, components).run();
}

}  // namespace flare::prepare
