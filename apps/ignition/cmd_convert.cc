// `ignition convert`: artifacts of version 1 and 2 become version 3.
#include <CLI/CLI.hpp>
#include <memory>

#include "artifact/reader.h"
#include "ignition/commands.h"
#include "prepare/convert/legacy.h"

namespace flare::app {
namespace {

struct Flags {
  std::string file, output, max_file_bytes, artifact_id;
  std::vector<std::string> sources;
};

constexpr const char* kFooter = R"(
Examples:
  ignition convert old.ninfer --output new.ninfer
  ignition convert old.ninfer --output new.ninfer --source ~/models/large
  ignition convert old.ninfer --output new.ninfer --source ~/models/large \
    --source dflash2=~/models/drafter

Old files hold no config: those of published models are known, others come from a checkpoint's
folder or config.json.

Exit codes: 0 done, 2 usage, 3 file or folder missing, 4 old file invalid, 8 output exists)";

// PATH gives the model's config, dflash=PATH and dflash2=PATH those of drafters.
std::vector<std::pair<std::string, std::filesystem::path>> parse_configs(
    const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::filesystem::path>> out;
  for (const std::string& text : texts) {
    std::pair<std::string, std::filesystem::path> one("", text);
    for (const char* draft : {"dflash", "dflash2"})
      if (const std::string prefix = std::string(draft) + "="; text.starts_with(prefix))
        one = {draft, text.substr(prefix.size())};
    for (const auto& [name, path] : out)
      if (name == one.first)
        throw Error(Code::kUsage, "--source is given twice for {}",
                    name.empty() ? "the model" : name);
    out.push_back(std::move(one));
  }
  return out;
}

int run(const Flags& flags, const CommonFlags& common) {
  prepare::LegacyOptions options{.configs = parse_configs(flags.sources)};
  if (!flags.max_file_bytes.empty())
    options.write.max_file_bytes = parse_size("--max-file-bytes", flags.max_file_bytes);
  if (!flags.artifact_id.empty()) options.write.id = artifact::id_from_hex(flags.artifact_id);
  check_interrupted();
  prepare::LegacyReport report;
  {
    std::error_code ignored;
    const auto bytes = std::filesystem::file_size(flags.file, ignored);
    Progress progress("convert", ignored ? 0 : bytes, "B", common.progress);
    report = prepare::convert_legacy(flags.file, flags.output, options, [&](uint64_t n) {
      check_interrupted();
      progress.advance(n);
    });
  }
  const auto written = artifact::Reader::open(flags.output);
  Json::Array files, components;
  std::string text = fmt::format("{}: version {}, {} objects, {} parameters, {}\n", report.model_id,
                                 report.version, report.objects, report.parameters,
                                 human_bytes(report.payload_bytes));
  for (const std::string& id : report.components) components.emplace_back(id);
  for (size_t i = 0; i < written.directory().files.size(); ++i) {
    files.emplace_back(written.file_path(i).string());
    text += written.file_path(i).string() + "\n";
  }
  print_result(common,
               Json::object({{"version", report.version},
                             {"model_id", report.model_id},
                             {"weights_id", report.weights_id},
                             {"artifact_id", written.id_hex()},
                             {"components", std::move(components)},
                             {"objects", report.objects},
                             {"parameters", report.parameters},
                             {"payload_bytes", report.payload_bytes},
                             {"files", std::move(files)}}),
               common.quiet ? "" : text);
  return 0;
}

}  // namespace

std::function<int()> declare_convert(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("OLD", flags->file, "artifact of version 1 or 2 (.ninfer)")->required();
  app.add_option("--output", flags->output, "artifact to write")
      ->type_name("FILE.ninfer")
      ->required();
  app.add_option("--source", flags->sources, "config of the model, or dflash=PATH, dflash2=PATH")
      ->type_name("PATH")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--max-file-bytes", flags->max_file_bytes, "at most this many bytes a file")
      ->type_name("SIZE");
  app.add_option("--artifact-id", flags->artifact_id, "32 hex digits (random)")->type_name("HEX");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
