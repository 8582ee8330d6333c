// Streaming of a plan into an artifact, and the report about it.
#include "prepare/recipe/build.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/team.h"
#include "base/version.h"
#include "codec/search.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/import.h"
#include "prepare/recipe/calibration.h"
#include "prepare/recipe/encode.h"
#include "prepare/recipe/encoded_notes.h"
#include "prepare/recipe/encoding_error.h"
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

// What the build knows beside the plan while it encodes.
struct Encoding {
  const ImportedModel& model;
  std::optional<Calibration> calibration;
};

// Encoders by name, each with the formats it wrote.
Json encoders_of(const ArtifactPlan& plan, const Encoding& encoding) {
  std::map<std::string, std::set<std::string>> formats;
  for (const ParentPlan& parent : plan.parents)
    for (size_t i = 0; i < parent.members.size(); ++i) {
      const ImportedParameter& member = *parent.members[i];
      const codec::Format& format = codec::format(parent.format);
      const bool calibrated =
          encoding.calibration && !encoding.calibration->importance(encoding.model, member).empty();
      const bool imported = format.quantised && copies_words(member, format);
      formats[imported ? "import_encoded" : encoder_name(format, parent.encoders[i], calibrated)]
          .emplace(format.name);
    }
  Json::Object out;
  for (const auto& [encoder, names] : formats) {
    Json::Array list;
    for (const std::string& name : names) list.emplace_back(name);
    out.emplace_back(encoder, Json(std::move(list)));
  }
  return out;
}

Json provenance_of(const checkpoint::Checkpoint& checkpoint, const Recipe& recipe,
                   const ArtifactPlan& plan, const Encoding& encoding) {
  Json::Array files;
  for (const checkpoint::SafetensorsFile& file : checkpoint.files())
    files.emplace_back(file.path().filename().string());
  const checkpoint::GgufFile* gguf = checkpoint.gguf();
  for (const checkpoint::GgufFile& part : checkpoint.gguf_parts())
    files.emplace_back(part.path().filename().string());
  const char* kind = gguf != nullptr ? "gguf" : "safetensors";
  Json out = Json::object({{"source", Json::object({{"kind", kind}, {"files", files}})},
                           {"recipe", recipe.name},
                           {"encoders", encoders_of(plan, encoding)}});
  if (encoding.calibration)
    out.set("calibration", Json::object({{"model", encoding.calibration->model},
                                         {"tokens", encoding.calibration->tokens},
                                         {"text_sha256", encoding.calibration->text_sha256}}));
  out.set("tool", fmt::format("ignition {}", kVersion));
  return out;
}

// Encodes one parent block by block and hands the bytes to the artifact writer.
class ParentEncoder {
 public:
  ParentEncoder(const checkpoint::Checkpoint& checkpoint, artifact::Writer& writer,
                Progress& progress, const BuildOptions& options, const Encoding& encoding)
      : encoding_(encoding),
        checkpoint_(checkpoint),
        writer_(writer),
        progress_(progress),
        options_(options),
        team_(std::max(1, options.threads)) {}

  void write(const ParentPlan& parent) {
    format_ = &codec::format(parent.format);
    planes_ = format_->planes(parent.geometry);
    offset_ = writer_.directory().objects[parent.object].offset;
    uint64_t row = 0;
    for (size_t i = 0; i < parent.members.size(); ++i) {
      write_member(*parent.members[i], parent.encoders[i], row);
      row += geometry_of(*parent.members[i]).rows;
    }
    write_gaps(parent.geometry);
    // Members of a parent with a tail agree in it (plan.cc).
    const std::vector<std::byte> tail = tail_of(*parent.members.front(), *format_);
    FLARE_ASSERT(planes_end_ + tail.size() == planes_.total_bytes);
    if (tail.empty()) return;
    writer_.write(offset_ + planes_end_, tail);
    progress_.advance(tail.size());
  }

  std::vector<EncodingError> errors;  // of what was searched for

 private:
  void write_member(const ImportedParameter& member, Encoder encoder, uint64_t parent_row) {
    const codec::Geometry geometry = geometry_of(member);
    importance_.clear();
    if (encoding_.calibration && encoder == Encoder::kSearch)
      importance_ = encoding_.calibration->importance(encoding_.model, member);
    const RowEncoder how = {encoder, importance_};
    const bool measured = encoder == Encoder::kSearch && codec::search_of(format_->id) != nullptr &&
                          !copies_words(member, *format_);
    ErrorSums sums;
    uint64_t encoded_row_bytes = 0;
    for (int p = 0; p < planes_.count; ++p) encoded_row_bytes += planes_.plane[p].row_bytes;
    const uint64_t row_bytes = std::max(encoded_row_bytes, geometry.cols * sizeof(float));
    const uint64_t step = row_step(*format_);
    const uint64_t block = std::max<uint64_t>(1, kBlockBytes / row_bytes / step) * step;
    for (uint64_t row = 0; row < geometry.rows; row += block) {
      if (options_.check_stop) options_.check_stop();
      const uint64_t n = std::min(block, geometry.rows - row);
      write_block(member, how, row, n, parent_row + row);
      if (measured)
        sums.add(measure_rows(member, *format_, row, n, encoded_rows(), importance_, team_));
      release_rows(checkpoint_, member, row, row + n);
    }
    release_sources(checkpoint_, member);
    if (!measured) return;
    const auto relative = [&](double sum) {
      return sums.signal > 0 ? std::sqrt(sum / sums.signal) : 0;
    };
    errors.push_back({member.name, std::string(format_->name),
                      encoder_name(*format_, encoder, !importance_.empty()), !importance_.empty(),
                      relative(sums.before), relative(sums.after)});
  }

  PlaneRows encoded_rows() {
    PlaneRows rows;
    for (int p = 0; p < planes_.count; ++p) rows.plane[p] = buffers_[p].data();
    return rows;
  }

  void write_block(const ImportedParameter& member, const RowEncoder& how, uint64_t row, uint64_t n,
                   uint64_t parent_row) {
    for (int p = 0; p < planes_.count; ++p) buffers_[p].resize(n * planes_.plane[p].row_bytes);
    encode_rows(member, *format_, row, n, encoded_rows(), team_, how);
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

  const Encoding& encoding_;
  std::vector<float> importance_;  // of the member being written
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
                    const fs::path& target, const BuildOptions& options, const Encoding& encoding,
                    BuildReport& report) {
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
  ParentEncoder encoder(checkpoint, writer, progress, options, encoding);
  for (const ParentPlan& parent : plan.parents) encoder.write(parent);
  report.errors = std::move(encoder.errors);
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
  Recipe recipe = find_recipe(options.recipe);
  const bool calibrates = !options.calibration.empty();
  if (calibrates && options.encoder == Encoder::kAbsmax)
    throw Error(Code::kUsage, "encoder absmax with a calibration: only a search heeds it");
  recipe.encoder = options.encoder.value_or(calibrates ? Encoder::kSearch : recipe.encoder);
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
  Encoding encoding{model, std::nullopt};
  if (calibrates) encoding.calibration = read_calibration(options.calibration);
  ArtifactPlan plan = plan_artifact(model, recipe, read_resources(checkpoint));
  const std::string name = options.name.empty() ? checkpoint_name(source) : options.name;
  plan.directory.metadata = Json::object({{"name", name}});
  plan.directory.provenance = provenance_of(checkpoint, recipe, plan, encoding);
  BuildReport report = report_of(model, recipe, plan);
  report.name = name;
  if (!options.dry_run) write_artifact(checkpoint, plan, target, options, encoding, report);
  return report;
}

}  // namespace flare::prepare
