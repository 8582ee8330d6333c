// `ignition verify`: everything about an artifact that can be checked without running it.
#include <CLI/CLI.hpp>
#include <memory>

#include "artifact/reader.h"
#include "ignition/commands.h"

namespace flare::app {
namespace {

struct Flags {
  std::string file;
  bool quick = false;
  int threads = 0;
};

constexpr const char* kFooter = R"(
Examples:
  ignition verify nano.ninfer
  ignition verify nano.ninfer --quick
  ignition verify nano.ninfer --json

Exit codes: 0 valid, 2 usage, 3 file missing, 4 invalid)";

int run(const Flags& flags, const CommonFlags& common) {
  const auto reader = artifact::Reader::open(flags.file);
  const artifact::Directory& directory = reader.directory();
  uint64_t bytes = 0;
  for (const artifact::Object& object : directory.objects) bytes += object.bytes;
  {
    Progress progress("verify", bytes, "B", flags.quick ? ProgressMode::kNone : common.progress);
    artifact::verify(flags.file, thread_count(flags.threads), flags.quick, [&](uint64_t n) {
      check_interrupted();
      progress.advance(n);
    });
  }
  const Json result = Json::object({{"file", flags.file},
                                    {"artifact_id", reader.id_hex()},
                                    {"quick", flags.quick},
                                    {"files", directory.files.size()},
                                    {"objects", directory.objects.size()},
                                    {"bytes", bytes}});
  print_result(common, result,
               fmt::format("{}: valid, {} objects in {} file{}, {}{}\n", flags.file,
                           directory.objects.size(), directory.files.size(),
                           directory.files.size() == 1 ? "" : "s", human_bytes(bytes),
                           flags.quick ? " (payload not read)" : ""));
  return 0;
}

}  // namespace

std::function<int()> declare_verify(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->file, "artifact (.ninfer)")->required();
  app.add_flag("--quick", flags->quick, "structure only, skip payload bytes");
  app.add_option("--threads", flags->threads, "workers (cores of this process)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
