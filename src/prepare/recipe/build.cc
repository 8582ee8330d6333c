// Streaming of a plan into an artifact, and the report about it.
#include "prepare/recipe/build.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "artifact/reader.h"
#include "base/error.h"
#include "base/file_stamps.h"
#include "base/one_line.h"
#include "base/team.h"
#include "base/version.h"
#include "codec/nvfp4.h"
#include "codec/search.h"
#include "prepare/checkpoint_source.h"
#include "prepare/frontend_notes.h"
#include "prepare/import/artifact_model.h"
#include "prepare/import/gguf_repacked.h"
#include "prepare/import/import.h"
#include "prepare/recipe/calibration.h"
#include "prepare/recipe/encode.h"
#include "prepare/recipe/encode_nvfp4.h"
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

std::vector<Resource> read_resources(const checkpoint::Checkpoint& checkpoint) {
  std::vector<Resource> resources;
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

// The components of a checkpoint that can be imported, asked for or not.
std::string known_components(const checkpoint::Checkpoint& checkpoint, const ImportedModel& model) {
  std::vector<std::string> all;
  for (const ImportedComponent& component : model.components) all.push_back(component.id);
  for (const SkippedComponent& component : model.skipped) all.push_back(component.id);
  std::string known;
  for (const ImportedComponent& component : import_checkpoint(checkpoint, all).components)
    known += (known.empty() ? "" : ", ") + component.id;
  return known;
}

void check_components(const BuildOptions& options, const checkpoint::Checkpoint& checkpoint,
                      const ImportedModel& model, const fs::path& source) {
  if (std::ranges::find(options.components, "text") == options.components.end())
    throw Error(Code::kUsage, "--components: text is not in the list, the others need it");
  for (const std::string& id : options.components) {
    if (model.find(id) != nullptr) continue;
    const bool is_there =
        std::ranges::find(model.skipped, id, &SkippedComponent::id) != model.skipped.end();
    throw Error(Code::kComponent, "{}: component {} {}, only {} can be built", source.string(),
                quote(id),
                is_there ? "is there and cannot be imported" : "is not in this checkpoint",
                known_components(checkpoint, model));
  }
}

// What the build knows beside the plan while it encodes.
struct Encoding {
  const ImportedModel& model;
  std::optional<Calibration> calibration;
};

std::string architecture_of(const ImportedModel& model) {
  return model.components.front().config.at("architectures").as_array()[0].as_string();
}

void check_architecture(const Recipe& recipe, const ImportedModel& model, const fs::path& source) {
  if (recipe.architecture.empty() || recipe.architecture == architecture_of(model)) return;
  throw Error(Code::kUsage, "recipe {} is for {}, {} is {}", recipe.name, recipe.architecture,
              source.string(), architecture_of(model))
      .set_hint("`ignition recipes list` shows the recipes for every architecture");
}

// A checkpoint that a rule names, opened and imported.
struct NamedSource {
  std::string name;
  checkpoint::Checkpoint checkpoint;
  ImportedModel model;
};

std::vector<std::unique_ptr<NamedSource>> open_sources(const BuildOptions& options,
                                                       const std::vector<std::string>& components) {
  std::vector<std::unique_ptr<NamedSource>> out;
  for (const auto& [name, path] : options.sources) {
    auto source = std::make_unique<NamedSource>(name, checkpoint::Checkpoint::open(path));
    source->model = import_checkpoint(source->checkpoint, components);
    out.push_back(std::move(source));
  }
  return out;
}

// The checkpoints of a build by the names that parents have for them.
using Checkpoints = std::map<std::string, const checkpoint::Checkpoint*>;

Json files_of(const checkpoint::Checkpoint& checkpoint) {
  Json::Array files;
  for (const fs::path& file : checkpoint.paths())
    files.emplace_back(one_line(file.filename().string()));
  return Json::object({{"kind", checkpoint.gguf() != nullptr ? "gguf" : "safetensors"},
                       {"files", std::move(files)}});
}

// What makes the words of a member.
std::string encoder_of(const ParentPlan& parent, size_t i, const Encoding& encoding) {
  const ImportedParameter& member = *parent.members[i];
  const codec::Format& format = codec::format(parent.format);
  if (format.quantised && copies_words(member, format)) return std::string(kImported);
  const bool calibrated =
      encoding.calibration && !encoding.calibration->importance(encoding.model, member).empty();
  return encoder_name(format, parent.encoders[i], calibrated);
}

// Encoders by name, each with the formats it wrote.
Json encoders_of(const ArtifactPlan& plan, const Encoding& encoding) {
  std::map<std::string, std::set<std::string>> formats;
  for (const ParentPlan& parent : plan.parents)
    for (size_t i = 0; i < parent.members.size(); ++i)
      formats[encoder_of(parent, i, encoding)].emplace(codec::format(parent.format).name);
  Json::Object out;
  for (const auto& [encoder, names] : formats) {
    Json::Array list;
    for (const std::string& name : names) list.emplace_back(name);
    out.emplace_back(encoder, Json(std::move(list)));
  }
  return Json(std::move(out));
}

Json provenance_of(Json origin, const Checkpoints& checkpoints, const std::string& recipe,
                   const BuildOptions& options, const ArtifactPlan& plan,
                   const Encoding& encoding) {
  Json out = Json::object({{"source", std::move(origin)}, {"recipe", recipe}});
  if (!options.overrides.empty()) {
    Json::Array rules;
    for (const Rule& rule : read_rules(options.overrides)) {
      Json one = Json::object({{"pattern", rule.pattern.text()}});
      for (const auto& [key, value] : rule_members(rule)) one.set(key, value);
      rules.push_back(std::move(one));
    }
    out.set("overrides", std::move(rules));
  }
  Json sources = Json::object();
  for (const auto& [name, checkpoint] : checkpoints)
    if (!name.empty()) sources.set(name, files_of(*checkpoint));
  if (!sources.as_object().empty()) out.set("sources", std::move(sources));
  out.set("encoders", encoders_of(plan, encoding));
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
  ParentEncoder(const Checkpoints& checkpoints, artifact::Writer& writer, Progress& progress,
                const BuildOptions& options, const Encoding& encoding)
      : encoding_(encoding),
        checkpoints_(checkpoints),
        writer_(writer),
        progress_(progress),
        options_(options),
        team_(std::max(1, options.threads)) {}

  void write(const ParentPlan& parent) {
    format_ = &codec::format(parent.format);
    planes_ = format_->planes(parent.geometry);
    offset_ = writer_.directory().objects[parent.object].offset;
    encodes_nvfp4_ = parent.format == codec::FormatId::kNvfp4 &&
                     !copies_words(*parent.members.front(), *format_);
    if (encodes_nvfp4_) divisor_ = divisor_of(parent);
    element_ = 0;
    for (size_t i = 0; i < parent.members.size(); ++i) {
      const ImportedParameter& member = *parent.members[i];
      checkpoint_ = checkpoints_.at(parent.sources[i]);
      write_member(member, parent.encoders[i]);
      element_ += codec::element_count(member.shape);
    }
    write_gaps(parent.geometry);
    // Members of a parent with a tail agree in it (plan.cc).
    std::vector<std::byte> tail = tail_of(*parent.members.front(), *format_);
    if (encodes_nvfp4_) {
      tail.resize(sizeof(float));
      store_le(tail.data(), divisor_);
    }
    FLARE_ASSERT(planes_end_ + tail.size() == planes_.total_bytes);
    if (tail.empty()) return;
    writer_.write(offset_ + planes_end_, tail);
    progress_.advance(tail.size());
  }

  std::vector<EncodingError> errors;  // of what was searched for

 private:
  // Blocks of rows whose values or encoded bytes, whichever are more, fill kBlockBytes.
  uint64_t block_rows(codec::Geometry geometry) const {
    uint64_t encoded_row_bytes = 0;
    for (int p = 0; p < planes_.count; ++p) encoded_row_bytes += planes_.plane[p].row_bytes;
    const uint64_t row_bytes = std::max(encoded_row_bytes, geometry.cols * sizeof(float));
    const uint64_t step = row_step(*format_);
    return std::max<uint64_t>(1, kBlockBytes / row_bytes / step) * step;
  }

  // Calls body(first row, rows) for the blocks of a member and gives the source's pages back.
  template <typename Body>
  void for_blocks(const ImportedParameter& member, Body&& body) {
    const codec::Geometry geometry = geometry_of(member);
    const uint64_t block = block_rows(geometry);
    for (uint64_t row = 0; row < geometry.rows; row += block) {
      if (options_.check_stop) options_.check_stop();
      const uint64_t n = std::min(block, geometry.rows - row);
      body(row, n);
      release_rows(*checkpoint_, member, row, row + n);
    }
    release_sources(*checkpoint_, member);
  }

  // Where row `row` of the member at work begins in a plane, and the bytes it has there. Vectors
  // that share an object lie one behind the other in its only row.
  uint64_t row_bytes(int p, uint64_t cols) const {
    return format_->word_bytes != 0 ? cols * format_->word_bytes : planes_.plane[p].row_bytes;
  }
  uint64_t row_at(int p, uint64_t cols, uint64_t row) const {
    if (format_->word_bytes != 0) return offset_ + (element_ + row * cols) * format_->word_bytes;
    return offset_ + planes_.plane[p].offset + (element_ / cols + row) * planes_.plane[p].row_bytes;
  }

  void write_member(const ImportedParameter& member, Encoder encoder) {
    importance_.clear();
    if (encoding_.calibration && encoder == Encoder::kSearch)
      importance_ = encoding_.calibration->importance(encoding_.model, member);
    const RowEncoder how = {encoder, importance_};
    const bool measured = encoder == Encoder::kSearch && codec::search_of(format_->id) != nullptr &&
                          !copies_words(member, *format_);
    ErrorSums sums;
    for_blocks(member, [&](uint64_t row, uint64_t n) {
      if (encodes_nvfp4_)
        write_nvfp4_block(member, row, n);
      else
        write_block(member, how, row, n);
      if (measured)
        sums.add(measure_rows(member, *format_, row, n, encoded_rows(), importance_, team_));
    });
    if (!measured) return;
    const auto relative = [&](double sum) {
      return sums.signal > 0 ? std::sqrt(sum / sums.signal) : 0;
    };
    errors.push_back({member.name, std::string(format_->name),
                      encoder_name(*format_, encoder, !importance_.empty()), !importance_.empty(),
                      relative(sums.before), relative(sums.after)});
  }

  // The first pass of §8.5: over every member.
  float divisor_of(const ParentPlan& parent) {
    float largest = 0;
    for (size_t i = 0; i < parent.members.size(); ++i) {
      checkpoint_ = checkpoints_.at(parent.sources[i]);
      for_blocks(*parent.members[i], [&](uint64_t row, uint64_t n) {
        largest = std::max(largest, largest_magnitude(*parent.members[i], row, n, team_));
      });
    }
    return codec::nvfp4_divisor(largest);
  }

  // Scales of 128 rows lie together, so blocks of so many rows are objects by themselves.
  void write_nvfp4_block(const ImportedParameter& member, uint64_t row, uint64_t n) {
    const codec::Geometry block{.rows = n, .cols = geometry_of(member).cols};
    const codec::Planes planes = format_->planes(block);
    buffers_[0].resize(planes.total_bytes);
    encode_nvfp4_rows(member, row, n, divisor_, block, 0, buffers_[0].data(), team_);
    for (int p = 0; p < planes.count; ++p) {
      const Bytes bytes =
          Bytes(buffers_[0]).subspan(planes.plane[p].offset, n * planes.plane[p].row_bytes);
      writer_.write(row_at(p, block.cols, row), bytes);
      progress_.advance(bytes.size());
    }
  }

  PlaneRows encoded_rows() {
    PlaneRows rows;
    for (int p = 0; p < planes_.count; ++p) rows.plane[p] = buffers_[p].data();
    return rows;
  }

  void write_block(const ImportedParameter& member, const RowEncoder& how, uint64_t row,
                   uint64_t n) {
    const uint64_t cols = geometry_of(member).cols;
    for (int p = 0; p < planes_.count; ++p) buffers_[p].resize(n * row_bytes(p, cols));
    encode_rows(member, *format_, row, n, encoded_rows(), team_, how);
    for (int p = 0; p < planes_.count; ++p) {
      writer_.write(row_at(p, cols, row), buffers_[p]);
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
  const Checkpoints& checkpoints_;
  const checkpoint::Checkpoint* checkpoint_ = nullptr;  // of the member at work
  artifact::Writer& writer_;
  Progress& progress_;
  const BuildOptions& options_;
  Team team_;
  const codec::Format* format_ = nullptr;
  codec::Planes planes_;
  uint64_t planes_end_ = 0;
  uint64_t offset_ = 0;
  uint64_t element_ = 0;  // of the parent, where the member at work begins
  bool encodes_nvfp4_ = false;
  float divisor_ = 1;  // of nvfp4 that is encoded
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

// A name with `*` for the number of its layer.
std::string without_layer(std::string name) {
  for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
    size_t end = slash + 1;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    if (end > slash + 1 && (end == name.size() || name[end] == '/'))
      name.replace(slash + 1, end - slash - 1, "*");
  }
  return name;
}

// "text/layers/*/mlp/{gate,up}".
std::string parameters_text(const ParentPlan& parent) {
  std::string names;
  for (const ImportedParameter* member : parent.members) {
    const std::string name = without_layer(member->name);
    if (names.empty())
      names = name;
    else
      names += "," + name.substr(name.rfind('/') + 1);
  }
  if (parent.members.size() == 1) return names;
  return names.insert(names.rfind('/') + 1, "{") + "}";
}

void count_groups(const ArtifactPlan& plan, const Encoding& encoding, BuildReport& report) {
  std::map<std::tuple<std::string, std::string, std::string>, size_t> at;
  for (const ParentPlan& parent : plan.parents) {
    const artifact::Object& object = plan.directory.objects[parent.object];
    const auto [entry, is_new] = at.emplace(
        std::tuple(parameters_text(parent), object.format, encoder_of(parent, 0, encoding)),
        report.groups.size());
    if (is_new)
      report.groups.push_back({.parameters = std::get<0>(entry->first),
                               .format = object.format,
                               .encoder = std::get<2>(entry->first)});
    GroupTotal& total = report.groups[entry->second];
    ++total.objects;
    total.weights += codec::element_count(object.shape);
    total.bytes += object.bytes;
  }
}

BuildReport report_of(Chooser& chooser, const ArtifactPlan& plan, const Encoding& encoding) {
  const ImportedModel& model = encoding.model;
  BuildReport report;
  report.recipe = chooser.recipe().name;
  report.architecture = architecture_of(model);
  report.parameters = plan.directory.bindings.size();
  count_formats(plan, report);
  count_groups(plan, encoding, report);
  const artifact::Object& last = plan.directory.objects.back();
  report.payload_bytes = last.offset + last.bytes;
  for (const Resource& resource : plan.resources) report.resources.push_back(resource.role);
  report.skipped = model.skipped;
  report.notes = model.notes;
  for (std::string& note : encoded_notes(model, chooser)) report.notes.push_back(std::move(note));
  const auto resource = [&](std::string_view role) -> std::optional<std::string> {
    for (const Resource& one : plan.resources)
      if (one.role == role) return one.bytes;
    return std::nullopt;
  };
  for (std::string& note : frontend_notes(resource, "source"))
    report.notes.push_back(std::move(note));
  if (plan.resources.empty())
    report.notes.emplace_back("no tokenizer files in the source: the model takes token ids only");
  return report;
}

// A model that is to become an artifact, whatever it was opened from.
struct Input {
  fs::path path;  // for messages
  ImportedModel& model;
  Checkpoints checkpoints;                        // "" is the model's own
  std::map<std::string, ImportedModel*> sources;  // of the others
  std::vector<Resource> resources;
  Json metadata;
  Json origin;        // provenance of what was opened
  FileStamps stamps;  // of every file that is read
};

void write_artifact(const Input& input, const ArtifactPlan& plan, const fs::path& target,
                    const BuildOptions& options, const Encoding& encoding, BuildReport& report) {
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
  ParentEncoder encoder(input.checkpoints, writer, progress, options, encoding);
  try {
    for (const ParentPlan& parent : plan.parents) encoder.write(parent);
  } catch (Error& error) {
    if (error.code() == Code::kValue) error.add_context(input.path.string());
    throw;
  }
  report.errors = std::move(encoder.errors);
  for (const AuxiliaryPlan& auxiliary : plan.auxiliaries) {
    std::vector<std::byte> bytes(auxiliary.words.size() * sizeof(int32_t));
    for (size_t i = 0; i < auxiliary.words.size(); ++i)
      store_le(bytes.data() + i * sizeof(int32_t), auxiliary.words[i]);
    writer.write(writer.directory().objects[auxiliary.object].offset, bytes);
    progress.advance(bytes.size());
  }
  input.stamps.check();
  writer.finish();
  progress.finish();
  report.files.push_back(target);
  for (size_t i = 1; i < writer.directory().files.size(); ++i)
    report.files.push_back(target.parent_path() / writer.directory().files[i].path);
}

// The recipe with the encoder that the options ask for.
Recipe chosen_recipe(const BuildOptions& options) {
  Recipe recipe = find_recipe(options.recipe);
  const bool calibrates = !options.calibration.empty();
  if (calibrates && options.encoder == Encoder::kAbsmax)
    throw Error(Code::kUsage, "encoder absmax with a calibration: only a search heeds it");
  recipe.encoder = options.encoder.value_or(calibrates ? Encoder::kSearch : recipe.encoder);
  return recipe;
}

// What says how numbers become words needs numbers that do.
void check_encoder_matters(const BuildOptions& options, const std::string& recipe,
                           const ArtifactPlan& plan, const Encoding& encoding) {
  const std::string_view flag = !options.calibration.empty() ? "--calibration"
                                : options.encoder            ? "--encoder"
                                                             : "";
  const auto encodes = [&](const ParentPlan& parent) {
    const codec::Format& format = codec::format(parent.format);
    return format.quantised && std::ranges::any_of(parent.members, [&](const auto* member) {
             return !copies_words(*member, format) &&
                    (!encoding.calibration ||
                     !encoding.calibration->importance(encoding.model, *member).empty());
           });
  };
  if (flag.empty() || std::ranges::any_of(plan.parents, encodes)) return;
  throw Error(Code::kUsage, "{}: recipe {} encodes no {} into a format with scales", flag, recipe,
              encoding.calibration ? "measured parameter" : "parameter");
}

// Blocks of GGUF files whose words another format takes over, where it is asked to: q2_g64_fp16 is
// never made in another way, q8_g32_fp16 is unless a rule wants the words.
void take_over_blocks(Input& input, Chooser& chooser) {
  for (const ImportedComponent& component : input.model.components)
    for (const ImportedParameter& parameter : component.parameters) {
      const Decision decision = chooser.decide(component, parameter);
      const codec::FormatId format = decision.choice.format;
      if (!decision.imported && format != codec::FormatId::kQ2G64) continue;
      const auto source = input.sources.find(decision.source);
      if (!decision.source.empty() && source == input.sources.end()) continue;  // the plan tells
      ImportedModel& model = decision.source.empty() ? input.model : *source->second;
      if (ImportedParameter* found = model.find_parameter(parameter.name))
        take_over_blocks(*input.checkpoints.at(decision.source), format, *found);
    }
}

BuildReport build(Input input, const Recipe& recipe, const std::vector<std::string>& components,
                  const fs::path& target, const BuildOptions& options) {
  std::vector<Rule> rules;
  if (!options.overrides.empty()) rules = read_rules(options.overrides);
  Chooser chooser(recipe, std::move(rules));
  take_over_blocks(input, chooser);
  ArtifactPlan plan = plan_artifact(input.model, chooser, components, std::move(input.resources),
                                    {input.sources.begin(), input.sources.end()});
  Encoding encoding{input.model, std::nullopt};
  if (!options.calibration.empty()) encoding.calibration = read_calibration(options.calibration);
  check_encoder_matters(options, recipe.name, plan, encoding);
  plan.directory.metadata = input.metadata;
  plan.directory.provenance = provenance_of(std::move(input.origin), input.checkpoints, recipe.name,
                                            options, plan, encoding);
  BuildReport report = report_of(chooser, plan, encoding);
  report.name = input.metadata.at("name").as_string();
  if (!options.dry_run) write_artifact(input, plan, target, options, encoding, report);
  return report;
}

}  // namespace

BuildReport build_artifact(const fs::path& source, const fs::path& target,
                           const BuildOptions& options) {
  const Recipe recipe = chosen_recipe(options);
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
                source.string())
        .set_hint(source.extension() == ".ninfer" ? "`ignition quantize` encodes an artifact again"
                                                  : "");
  const auto checkpoint = checkpoint::Checkpoint::open(source);
  ImportedModel model = import_checkpoint(checkpoint, options.components);
  check_components(options, checkpoint, model, source);
  check_architecture(recipe, model, source);
  const std::string name = options.name.empty() ? checkpoint_name(source) : options.name;
  Input input{.path = source,
              .model = model,
              .checkpoints = {{"", &checkpoint}},
              .resources = read_resources(checkpoint),
              .metadata = Json::object({{"name", name}}),
              .origin = files_of(checkpoint)};
  input.stamps.add(checkpoint.paths());
  const auto sources = open_sources(options, options.components);
  for (const auto& named : sources) {
    input.checkpoints[named->name] = &named->checkpoint;
    input.sources[named->name] = &named->model;
    input.stamps.add(named->checkpoint.paths());
  }
  return build(std::move(input), recipe, options.components, target, options);
}

BuildReport quantize_artifact(const fs::path& source, const fs::path& target,
                              const BuildOptions& options) {
  const Recipe recipe = chosen_recipe(options);
  auto reader = artifact::Reader::open(source);
  reader.open_all_parts();
  ImportedModel model = import_artifact(reader, options.components);
  check_architecture(recipe, model, source);
  std::vector<std::string> components;
  for (const ImportedComponent& component : model.components) components.push_back(component.id);
  Input input{.path = source, .model = model, .metadata = reader.directory().metadata};
  // Its parameters give their own pages back.
  const checkpoint::Checkpoint none;
  input.checkpoints[""] = &none;
  for (const auto& [id, component] : reader.directory().components)
    if (std::ranges::find(components, id) != components.end())
      for (const auto& [role, object] : component.resources)
        input.resources.push_back({role, reader.read_resource(object), id});
  if (!options.name.empty() || input.metadata.find("name") == nullptr)
    input.metadata.set("name",
                       options.name.empty() ? one_line(source.stem().string()) : options.name);
  Json::Array files;
  input.stamps.add(reader.file_paths());
  for (const fs::path& file : reader.file_paths())
    files.emplace_back(one_line(file.filename().string()));
  input.origin = Json::object({{"kind", "artifact"},
                               {"files", std::move(files)},
                               {"artifact_id", reader.id_hex()},
                               {"provenance", reader.directory().provenance}});
  const auto sources = open_sources(options, components);
  for (const auto& named : sources) {
    input.checkpoints[named->name] = &named->checkpoint;
    input.sources[named->name] = &named->model;
    input.stamps.add(named->checkpoint.paths());
  }
  return build(std::move(input), recipe, components, target, options);
}

}  // namespace flare::prepare
