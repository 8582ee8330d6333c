// `ignition build` and `quantize`: a checkpoint, or another artifact, becomes an artifact.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "frontend/tokenizer/unicode.h"
#include "ignition/commands.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/recipe.h"

namespace flare::app {
namespace {

struct Flags {
  std::string source, output, recipe = "direct", overrides, components, name, max_file_bytes,
                              artifact_id, encoder, calibration;
  std::vector<std::string> sources;
  int threads = 0;
  bool force = false, dry_run = false;
};

constexpr const char* kFooter = R"(
Examples:
  ignition build models/nano --output nano.ninfer
  ignition build models/nano --output nano.ninfer --recipe q4 --force
  ignition build models/nano --output nano.ninfer --recipe q4 --calibration nano.calibration
  ignition build ~/models/large --output large.ninfer --recipe q8 --max-file-bytes 4G
  ignition build ~/models/large --recipe q4 --override rules.toml --dry-run

Exit codes: 0 done, 2 usage, 3 source or folder missing, 4 source invalid, 8 output exists)";

constexpr const char* kQuantizeFooter = R"(
Examples:
  ignition quantize nano.ninfer --output nano-q4.ninfer --recipe q4
  ignition quantize nano.ninfer --output nano-q6.ninfer --recipe q6 --override rules.toml
  ignition quantize nano.ninfer --recipe keep --components text --dry-run

Numbers are decoded and encoded anew; words that have the wanted format already are copied.

Exit codes: 0 done, 2 usage, 3 file or folder missing, 4 artifact invalid, 8 output exists)";

Json report_json(const prepare::BuildReport& report) {
  Json::Array files, formats, groups, errors, resources, skipped, notes;
  for (const auto& error : report.errors)
    errors.push_back(Json::object({{"parameter", error.parameter},
                                   {"format", error.format},
                                   {"encoder", error.encoder},
                                   {"weighted", error.calibrated},
                                   {"error_before", error.before},
                                   {"error", error.after}}));
  for (const auto& file : report.files) files.emplace_back(file.string());
  for (const auto& total : report.formats)
    formats.push_back(Json::object({{"format", total.format},
                                    {"objects", total.objects},
                                    {"weights", total.weights},
                                    {"bytes", total.bytes}}));
  for (const auto& total : report.groups)
    groups.push_back(Json::object({{"parameters", total.parameters},
                                   {"format", total.format},
                                   {"encoder", total.encoder},
                                   {"objects", total.objects},
                                   {"weights", total.weights},
                                   {"bytes", total.bytes},
                                   {"bits_per_weight", total.bits_per_weight()}}));
  for (const auto& role : report.resources) resources.emplace_back(role);
  for (const auto& component : report.skipped)
    skipped.push_back(Json::object(
        {{"component", component.id}, {"tensors", component.tensors}, {"bytes", component.bytes}}));
  for (const auto& note : report.notes) notes.emplace_back(note);
  return Json::object({{"name", report.name},
                       {"architecture", report.architecture},
                       {"recipe", report.recipe},
                       {"files", files},
                       {"parameters", report.parameters},
                       {"weights", report.weights},
                       {"weight_bytes", report.weight_bytes},
                       {"payload_bytes", report.payload_bytes},
                       {"bits_per_weight", report.bits_per_weight()},
                       {"formats", formats},
                       {"errors", errors},
                       {"groups", groups},
                       {"resources", resources},
                       {"skipped", skipped},
                       {"notes", notes}});
}

// Parameters, format, encoder, objects, weights, size and bits per weight of every group.
std::string groups_text(const prepare::BuildReport& report) {
  size_t width = 0;
  for (const auto& total : report.groups) width = std::max(width, total.parameters.size());
  std::string out;
  for (const auto& total : report.groups)
    out += fmt::format("  {:<{}}  {:<20} {:<15}{:>5} ×{:>10} weights {:>12} {:>6.2f} bits\n",
                       total.parameters, width, total.format, total.encoder, total.objects,
                       human_count(total.weights / total.objects), human_bytes(total.bytes),
                       total.bits_per_weight());
  return out;
}

std::string report_text(const prepare::BuildReport& report, bool dry_run, bool with_groups) {
  std::string out =
      fmt::format("{}  {}\n  {} weights in {} parameters, {}, {:.2f} bits per weight, recipe {}\n",
                  report.name, report.architecture, human_count(report.weights), report.parameters,
                  human_bytes(report.weight_bytes), report.bits_per_weight(), report.recipe);
  for (const auto& total : report.formats)
    out += fmt::format("  {:<14}{:>6} objects {:>10} weights {:>12}\n", total.format, total.objects,
                       human_count(total.weights), human_bytes(total.bytes));
  if (with_groups) out += groups_text(report);
  for (const auto& error : report.errors)
    out += fmt::format("  {:<40} {:<12} {} {:.5f} → {:.5f}\n", error.parameter, error.format,
                       error.calibrated ? "weighted error" : "error", error.before, error.after);
  for (const auto& component : report.skipped)
    out += fmt::format("  left out: component {} ({} tensors, {})\n", component.id,
                       component.tensors, human_bytes(component.bytes));
  for (const auto& note : report.notes) out += fmt::format("  note: {}\n", note);
  if (dry_run) return out + "dry run: nothing was written\n";
  for (const auto& file : report.files) out += file.string() + "\n";
  return out;
}

// --source NAME=PATH, each name once.
std::vector<std::pair<std::string, std::filesystem::path>> parse_sources(
    const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::filesystem::path>> out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos || equals + 1 == text.size())
      throw Error(Code::kUsage, "--source is {}, expected NAME=PATH", quote(text));
    const std::string name = text.substr(0, equals);
    for (const auto& [other, path] : out)
      if (other == name) throw Error(Code::kUsage, "--source {} is given twice", quote(name));
    out.emplace_back(name, text.substr(equals + 1));
  }
  return out;
}

void check_flags(const Flags& flags) {
  if (flags.output.empty() && !flags.dry_run)
    throw Error(Code::kUsage, "--output is missing, expected the artifact to write");
  if (frontend::tokenizer::valid_utf8_prefix(flags.name) != flags.name.size())
    throw Error(Code::kUsage, "--name is {}, expected UTF-8", quote(flags.name));
}

using Build = prepare::BuildReport (*)(const std::filesystem::path&, const std::filesystem::path&,
                                       const prepare::BuildOptions&);

int run(Build build, const Flags& flags, const CommonFlags& common) {
  check_flags(flags);
  prepare::BuildOptions options{.recipe = flags.recipe,
                                .components = {},
                                .overrides = flags.overrides,
                                .sources = parse_sources(flags.sources),
                                .name = flags.name,
                                .threads = thread_count(flags.threads),
                                .force = flags.force,
                                .dry_run = flags.dry_run,
                                .progress = common.progress,
                                .check_stop = check_interrupted};
  if (!flags.encoder.empty()) options.encoder = prepare::encoder_from_name(flags.encoder);
  options.calibration = flags.calibration;
  if (!flags.components.empty()) options.components = parse_list("--components", flags.components);
  if (!flags.max_file_bytes.empty())
    options.max_file_bytes = parse_size("--max-file-bytes", flags.max_file_bytes);
  if (!flags.artifact_id.empty()) options.artifact_id = artifact::id_from_hex(flags.artifact_id);
  check_interrupted();
  try {
    const auto report = build(flags.source, flags.output, options);
    print_result(common, report_json(report),
                 common.quiet
                     ? ""
                     : report_text(report, flags.dry_run, flags.dry_run || common.verbose > 0));
  } catch (Error& error) {
    if (error.code() == Code::kExists && !flags.force)
      error.set_hint("choose another --output, or add --force to replace it");
    throw;
  }
  return 0;
}

// Everything but the source.
void declare_flags(CLI::App& app, Flags& all) {
  Flags* const flags = &all;
  app.add_option("--output", flags->output, "artifact to write; needed but for --dry-run")
      ->type_name("FILE.ninfer");
  app.add_option("--recipe", flags->recipe, "format recipe, see `ignition recipes list` (direct)")
      ->type_name("NAME");
  app.add_option("--override", flags->overrides, "rules applied after the recipe (docs/recipes.md)")
      ->type_name("FILE.toml");
  app.add_option("--source", flags->sources, "a checkpoint that rules name; may be repeated")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--encoder", flags->encoder, "absmax, or search for better scales (the recipe's)")
      ->type_name("NAME");
  app.add_option("--calibration", flags->calibration,
                 "weigh errors by what `ignition calibrate` wrote; implies --encoder search")
      ->type_name("FILE");
  app.add_option(
         "--components", flags->components,
         flags->components.empty() ? "components to keep (all)" : "components to build (text)")
      ->type_name("LIST");
  app.add_option("--name", flags->name, "public name of the model (the source's)")
      ->type_name("TEXT");
  app.add_option("--max-file-bytes", flags->max_file_bytes, "split into files of at most this size")
      ->type_name("SIZE");
  app.add_option("--artifact-id", flags->artifact_id, "32 hex digits (random)")->type_name("HEX");
  app.add_option("--threads", flags->threads, "workers (cores of this process)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.add_flag("--force", flags->force, "replace an existing artifact");
  app.add_flag("--dry-run", flags->dry_run, "plan and report, write nothing");
}

}  // namespace

std::function<int()> declare_build(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("SOURCE", flags->source, "checkpoint folder, .safetensors or .gguf file")
      ->required();
  flags->components = "text";
  declare_flags(app, *flags);
  app.footer(kFooter);
  return [flags, &common] { return run(prepare::build_artifact, *flags, common); };
}

std::function<int()> declare_quantize(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->source, "artifact (.ninfer)")->required();
  declare_flags(app, *flags);
  app.footer(kQuantizeFooter);
  return [flags, &common] { return run(prepare::quantize_artifact, *flags, common); };
}

}  // namespace flare::app
