// `ignition reshard`: the same artifact in files of another size.
#include <CLI/CLI.hpp>
#include <memory>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "ignition/commands.h"

namespace flare::app {
namespace {

struct Flags {
  std::string file, output, max_file_bytes, artifact_id;
};

constexpr const char* kFooter = R"(
Examples:
  ignition reshard nano.ninfer --output parts/nano.ninfer --max-file-bytes 1M
  ignition reshard big.ninfer --output split/big.ninfer --max-file-bytes 4G
  ignition reshard split/big.ninfer --output whole.ninfer

Exit codes: 0 done, 2 usage, 3 file or folder missing, 4 artifact invalid, 8 output exists)";

int run(const Flags& flags, const CommonFlags& common) {
  artifact::WriteOptions options;
  if (!flags.max_file_bytes.empty())
    options.max_file_bytes = parse_size("--max-file-bytes", flags.max_file_bytes);
  if (!flags.artifact_id.empty()) options.id = artifact::id_from_hex(flags.artifact_id);
  const uint64_t bytes = artifact::Reader::open(flags.file).directory().payload_bytes();
  check_interrupted();
  {
    Progress progress("reshard", bytes, "B", common.progress);
    artifact::reshard(flags.file, flags.output, options, [&](uint64_t n) {
      check_interrupted();
      progress.advance(n);
    });
  }
  const auto written = artifact::Reader::open(flags.output);
  Json::Array files;
  std::string text;
  for (size_t i = 0; i < written.directory().files.size(); ++i) {
    files.emplace_back(written.file_path(i).string());
    text += written.file_path(i).string() + "\n";
  }
  print_result(
      common,
      Json::object({{"artifact_id", written.id_hex()}, {"files", files}, {"payload_bytes", bytes}}),
      common.quiet ? "" : text);
  return 0;
}

}  // namespace

std::function<int()> declare_reshard(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->file, "artifact (.ninfer)")->required();
  app.add_option("--output", flags->output, "artifact to write")
      ->type_name("FILE.ninfer")
      ->required();
  app.add_option("--max-file-bytes", flags->max_file_bytes, "at most this many bytes a file")
      ->type_name("SIZE");
  app.add_option("--artifact-id", flags->artifact_id, "32 hex digits (random)")->type_name("HEX");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
