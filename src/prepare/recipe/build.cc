// Streaming of a plan into an artifact, and the report about it.
#include "prepare/recipe/build.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/team.h"
#include "base/version.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/import.h"
#include "prepare/recipe/encode.h"
#include "prepare/recipe/encoded_notes.h"
#include "prepare/recipe/plan.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;

// Source and encoded bytes of one block: large enough to keep a team busy, far below the memory
// bound of spec/cli.md §6.
constexpr uint64_t kBlockBytes = 16u << 20;

// §11.1, in the order of §14.6.
constexpr std::string_view kTextRoles[] = {"tokenizer.json", "tokenizer_config.json",
                                           "chat_template.jinja", "generation_config.json"};
// The vocabulary of a folder without tokenizer.json, behind them.
constexpr std::string_view kSentencePieceRole = "tokenizer.model";

std::vector<TextResource> read_resources(const checkpoint::Checkpoint& checkpoint) {
  std::vector<TextResource> resources;
  for (std::string_view role : kTextRoles) {
    auto text = checkpoint_resource(checkpoint, role);
    if (text && !text->empty()) resources.push_back({std::string(role), std::move(*text)});
  }
  if (resources.empty() || resources[0].role != kTextRoles[0]) {
    auto bytes = checkpoint_resource(checkpoint, kSentencePieceRole);
    if (bytes && !bytes->empty())
      resources.push_back({std::string(kSentencePieceRole), std::move(*bytes)});
  }
  return resources;
}

void check_components(const BuildOptions& options, const ImportedModel& model,
                      const fs::path& source) {
  if (options.components.empty())
    throw Error(Code::kUsage, "components: the list is empty, expected text");
  for (const std::string& id : options.components) {
    if (model.find(id) != nullptr) continue;
    std::string known;
    for (const ImportedComponent& component : model.components)
      known += (known.empty() ? "" : ", ") + component.id;
    throw Error(Code::kComponent, "{}: component {} cannot be built from this checkpoint, only {}",
                source.string(), quote(id), known);
  }
}

Json provenance_of(const checkpoint::Checkpoint& checkpoint, const Recipe& recipe) {
  Json::Array files;
  for (const checkpoint::SafetensorsFile& file : checkpoint.files())
    files.emplace_back(file.path().filename().string());
  const checkpoint::GgufFile* gguf = checkpoint.gguf();
  if (gguf != nullptr) files.emplace_back(gguf->path().filename().string());
  const char* kind = gguf != nullptr ? "gguf" : "safetensors";
  const char* encoder = recipe.projection                ? "grouped_absmax"
                        : recipe.keep && gguf != nullptr ? "import_encoded"
                                                         : "cast_direct";
  return Json::object({{"source", Json::object({{"kind", kind}, {"files", files}})},
                       {"recipe", recipe.name},
                       {"encoder", encoder},
                       {"tool", fmt::format("ignition {}", kVersion)}});
}

// Encodes one parent block by block and hands the bytes to the artifact writer.
class ParentEncoder {
 public:
  ParentEncoder(const checkpoint::Checkpoint& checkpoint, artifact::Writer& writer,
                Progress& progress, const BuildOptions& options)
      : checkpoint_(checkpoint),
        writer_(writer),
        progress_(progress),
        options_(options),
        team_(std::max(1, options.threads)) {}

  void write(const ParentPlan& parent) {
    format_ = &codec::format(parent.format);
    planes_ = format_->planes(parent.geometry);
    offset_ = writer_.directory().objects[parent.object].offset;
    uint64_t row = 0;
    for (const ImportedParameter* member : parent.members) {
      write_member(*member, row);
      row += geometry_of(*member).rows;
    }
    write_gaps(parent.geometry);
    // Members of a parent with a tail agree in it (plan.cc).
    const std::vector<std::byte> tail = tail_of(*parent.members.front(), *format_);
    FLARE_ASSERT(planes_end_ + tail.size() == planes_.total_bytes);
    if (tail.empty()) return;
    writer_.write(offset_ + planes_end_, tail);
    progress_.advance(tail.size());
  }

 private:
  void write_member(const ImportedParameter& member, uint64_t parent_row) {
    const codec::Geometry geometry = geometry_of(member);
    uint64_t encoded_row_bytes = 0;
    for (int p = 0; p < planes_.count; ++p) encoded_row_bytes += planes_.plane[p].row_bytes;
    const uint64_t row_bytes = std::max(encoded_row_bytes, geometry.cols * sizeof(float));
    const uint64_t step = row_step(*format_);
    const uint64_t block = std::max<uint64_t>(1, kBlockBytes / row_bytes / step) * step;
    for (uint64_t row = 0; row < geometry.rows; row += block) {
      if (options_.check_stop) options_.check_stop();
      const uint64_t n = std::min(block, geometry.rows - row);
      write_block(member, row, n, parent_row + row);
      release_rows(checkpoint_, member, row, row + n);
    }
    release_sources(checkpoint_, member);
  }

  void write_block(const ImportedParameter& member, uint64_t row, uint64_t n, uint64_t parent_row) {
    PlaneRows rows;
    for (int p = 0; p < planes_.count; ++p) {
      buffers_[p].resize(n * planes_.plane[p].row_bytes);
      rows.plane[p] = buffers_[p].data();
    }
    encode_rows(member, *format_, row, n, rows, team_);
    for (int p = 0; p < planes_.count; ++p) {
      const codec::Plane& plane = planes_.plane[p];
      writer_.write(offset_ + plane.offset + parent_row * plane.row_bytes, buffers_[p]);
      progress_.advance(buffers_[p].size());
    }
  }

  void write_gaps(codec::Geometry geometry) {
    uint64_t end = 0;
    for (int p = 0; p < planes_.count; ++p) {
      const codec::Plane& plane = planes_.plane[p];
      if (plane.offset > end) {
        const std::vector<std::byte> zeros(plane.offset - end);
        writer_.write(offset_ + end, zeros);
        progress_.advance(zeros.size());
      }
      end = plane.offset + plane.row_bytes * geometry.rows;
    }
    planes_end_ = end;
  }

  const checkpoint::Checkpoint& checkpoint_;
  artifact::Writer& writer_;
  Progress& progress_;
  const BuildOptions& options_;
  Team team_;
  const codec::Format* format_ = nullptr;
  codec::Planes planes_;
  uint64_t planes_end_ = 0;
  uint64_t offset_ = 0;
  std::vector<std::byte> buffers_[codec::kMaxPlanes];
};

void count_formats(const ArtifactPlan& plan, BuildReport& report) {
  std::map<codec::FormatId, FormatTotal> totals;
  for (const ParentPlan& parent : plan.parents) {
    const artifact::Object& object = plan.directory.objects[parent.object];
    const uint64_t weights = codec::element_count(object.shape);
    FormatTotal& total = totals[parent.format];
    total.format = object.format;
    ++total.objects;
    total.weights += weights;
    total.bytes += object.bytes;
    report.weights += weights;
    report.weight_bytes += object.bytes;
  }
  for (auto& [id, total] : totals) report.formats.push_back(std::move(total));
  std::ranges::stable_sort(report.formats, std::greater{}, &FormatTotal::bytes);
}

BuildReport report_of(const ImportedModel& model, const Recipe& recipe, const ArtifactPlan& plan) {
  BuildReport report;
  report.recipe = recipe.name;
  report.architecture = model.find("text")->config.at("architectures").as_array()[0].as_string();
  report.parameters = plan.directory.bindings.size();
  count_formats(plan, report);
  const artifact::Object& last = plan.directory.objects.back();
  report.payload_bytes = last.offset + last.bytes;
  for (const TextResource& resource : plan.resources) report.resources.push_back(resource.role);
  report.skipped = model.skipped;
  report.notes = model.notes;
  for (std::string& note : encoded_notes(model, recipe)) report.notes.push_back(std::move(note));
  if (plan.resources.empty())
    report.notes.emplace_back("no tokenizer files in the source: the model takes token ids only");
  return report;
}

void write_artifact(const checkpoint::Checkpoint& checkpoint, const ArtifactPlan& plan,
                    const fs::path& target, const BuildOptions& options, BuildReport& report) {
  artifact::Writer writer(target, plan.directory,
                          {.max_file_bytes = options.max_file_bytes,
                           .id = options.artifact_id,
                           .force = options.force});
  Progress progress("build", report.payload_bytes, "B", options.progress);
  for (size_t i = 0; i < plan.resources.size(); ++i) {
    const std::string& bytes = plan.resources[i].bytes;
    writer.write(writer.directory().objects[i].offset, as_bytes(bytes));
    progress.advance(bytes.size());
  }
  ParentEncoder encoder(checkpoint, writer, progress, options);
  for (const ParentPlan& parent : plan.parents) encoder.write(parent);
  for (const AuxiliaryPlan& auxiliary : plan.auxiliaries) {
    std::vector<std::byte> bytes(auxiliary.words.size() * sizeof(int32_t));
    for (size_t i = 0; i < auxiliary.words.size(); ++i)
      store_le(bytes.data() + i * sizeof(int32_t), auxiliary.words[i]);
    writer.write(writer.directory().objects[auxiliary.object].offset, bytes);
    progress.advance(bytes.size());
  }
  writer.finish();
  progress.finish();
  report.files.push_back(target);
  for (size_t i = 1; i < writer.directory().files.size(); ++i)
    report.files.push_back(target.parent_path() / writer.directory().files[i].path);
}

}  // namespace

BuildReport build_artifact(const fs::path& source, const fs::path& target,
                           const BuildOptions& options) {
  const Recipe& recipe = find_recipe(options.recipe);
  std::error_code error;
  if (!fs::exists(source, error))
    throw Error(
        Code::kNotFound,
        "{}: no such file or folder, expected a checkpoint folder, a .safetensors file or a "
        "GGUF file",
        source.string());
  if (!is_checkpoint(source))
    throw Error(Code::kSupport,
                "{}: no supported kind of checkpoint, expected a checkpoint folder, a .safetensors "
                "file or a GGUF file",
                source.string());
  const auto checkpoint = checkpoint::Checkpoint::open(source);
  const ImportedModel model = import_checkpoint(checkpoint);
  check_components(options, model, source);
  ArtifactPlan plan = plan_artifact(model, recipe, read_resources(checkpoint));
  const std::string name = options.name.empty() ? checkpoint_name(source) : options.name;
  plan.directory.metadata = Json::object({{"name", name}});
  plan.directory.provenance = provenance_of(checkpoint, recipe);
  BuildReport report = report_of(model, recipe, plan);
  report.name = name;
  if (!options.dry_run) write_artifact(checkpoint, plan, target, options, report);
  return report;
}

}  // namespace flare::prepare
