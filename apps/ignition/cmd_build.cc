// `ignition build`: a checkpoint becomes an artifact.
#include <CLI/CLI.hpp>
#include <memory>

#include "frontend/tokenizer/unicode.h"
#include "ignition/commands.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/recipe.h"

namespace flare::app {
namespace {

struct Flags {
  std::string source, output, recipe = "direct", components = "text", name, max_file_bytes,
                              artifact_id, encoder, calibration;
  int threads = 0;
  bool force = false, dry_run = false;
};

constexpr const char* kFooter = R"(
Examples:
  ignition build models/nano --output nano.ninfer
  ignition build models/nano --output nano.ninfer --recipe q4 --force
  ignition build models/nano --output nano.ninfer --recipe q4 --calibration nano.calibration
  ignition build ~/models/large --output large.ninfer --recipe q8 --max-file-bytes 4G

Exit codes: 0 done, 2 usage, 3 source or folder missing, 4 source invalid, 8 output exists)";

Json report_json(const prepare::BuildReport& report) {
  Json::Array files, formats, errors, resources, skipped, notes;
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
                       {"resources", resources},
                       {"skipped", skipped},
                       {"notes", notes}});
}

std::string report_text(const prepare::BuildReport& report, bool dry_run) {
  std::string out =
      fmt::format("{}  {}\n  {} weights in {} parameters, {}, {:.2f} bits per weight, recipe {}\n",
                  report.name, report.architecture, human_count(report.weights), report.parameters,
                  human_bytes(report.weight_bytes), report.bits_per_weight(), report.recipe);
  for (const auto& total : report.formats)
    out += fmt::format("  {:<14}{:>6} objects {:>10} weights {:>12}\n", total.format, total.objects,
                       human_count(total.weights), human_bytes(total.bytes));
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

// Strings that an artifact could not hold, or that name no file.
void check_texts(const Flags& flags) {
  if (flags.output.empty()) throw Error(Code::kUsage, "--output is empty, expected a file name");
  if (frontend::tokenizer::valid_utf8_prefix(flags.name) != flags.name.size())
    throw Error(Code::kUsage, "--name is {}, expected UTF-8", quote(flags.name));
}

int run(const Flags& flags, const CommonFlags& common) {
  check_texts(flags);
  prepare::BuildOptions options{.recipe = flags.recipe,
                                .components = parse_list("--components", flags.components),
                                .name = flags.name,
                                .threads = thread_count(flags.threads),
                                .force = flags.force,
                                .dry_run = flags.dry_run,
                                .progress = common.progress,
                                .check_stop = check_interrupted};
  if (!flags.encoder.empty()) options.encoder = prepare::encoder_from_name(flags.encoder);
  options.calibration = flags.calibration;
  if (!flags.max_file_bytes.empty())
    options.max_file_bytes = parse_size("--max-file-bytes", flags.max_file_bytes);
  if (!flags.artifact_id.empty()) options.artifact_id = artifact::id_from_hex(flags.artifact_id);
  check_interrupted();
  try {
    const auto report = prepare::build_artifact(flags.source, flags.output, options);
    print_result(common, report_json(report),
                 common.quiet ? "" : report_text(report, flags.dry_run));
  } catch (Error& error) {
    if (error.code() == Code::kExists && !flags.force)
      error.set_hint("choose another --output, or add --force to replace it");
    throw;
  }
  return 0;
}

}  // namespace

std::function<int()> declare_build(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  std::string recipes;
  for (const std::string& name : prepare::recipe_names())
    recipes += (recipes.empty() ? "" : ", ") + name;
  app.add_option("SOURCE", flags->source, "checkpoint folder, .safetensors or .gguf file")
      ->required();
  app.add_option("--output", flags->output, "artifact to write")
      ->type_name("FILE.ninfer")
      ->required();
  app.add_option("--recipe", flags->recipe, "format recipe: " + recipes + " (direct = bf16)")
      ->type_name("NAME");
  app.add_option("--encoder", flags->encoder, "absmax, or search for better scales (the recipe's)")
      ->type_name("NAME");
  app.add_option("--calibration", flags->calibration,
                 "weigh errors by what `ignition calibrate` wrote; implies --encoder search")
      ->type_name("FILE");
  app.add_option("--components", flags->components, "components to build (text)")
      ->type_name("LIST");
  app.add_option("--name", flags->name, "public name of the model (the source's)")
      ->type_name("TEXT");
  app.add_option("--max-file-bytes", flags->max_file_bytes, "split into files of at most this size")
      ->type_name("SIZE");
  app.add_option("--artifact-id", flags->artifact_id, "32 hex digits (random)")->type_name("HEX");
  app.add_option("--threads", flags->threads, "workers (cores of this process)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_flag("--force", flags->force, "replace an existing artifact");
  app.add_flag("--dry-run", flags->dry_run, "plan and report, write nothing");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
