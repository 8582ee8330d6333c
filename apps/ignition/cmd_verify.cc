// `ignition verify`: everything about an artifact that can be checked without running it, and with
// --deep its numbers against those of its source.
#include <CLI/CLI.hpp>
#include <memory>

#include "artifact/reader.h"
#include "checkpoint/safetensors.h"
#include "ignition/commands.h"
#include "prepare/recipe/verify_deep.h"

namespace flare::app {
namespace {

struct Flags {
  std::string file, source;
  bool quick = false, deep = false;
  int threads = 0;
};

constexpr const char* kFooter = R"(
Examples:
  ignition verify nano.ninfer
  ignition verify nano.ninfer --quick
  ignition verify nano.ninfer --json
  ignition verify nano.ninfer --deep --source models/nano

Exit codes: 0 valid, 2 usage, 3 file missing, 4 invalid, or a number beyond its bound)";

// Numbers against the source's: the table by format for people, the members of the result.
std::string deep(const Flags& flags, const CommonFlags& common, Json& result) {
  prepare::DeepReport report;
  {
    // A tied head is compared with the source as often as it is named.
    uint64_t weights = 0;
    const auto reader = artifact::Reader::open(flags.file);
    for (const auto& [name, binding] : reader.directory().bindings) {
      for (const artifact::Part& part : binding.parts) weights += part.end - part.begin;
      if (binding.parts.empty())
        weights += codec::element_count(reader.directory().find_object(binding.object)->shape);
    }
    Progress progress("compare", weights, "weights", common.progress);
    report = prepare::verify_deep(flags.file, flags.source, thread_count(flags.threads),
                                  [&](uint64_t n) {
                                    check_interrupted();
                                    progress.advance(n);
                                  });
  }
  Json::Array totals;
  std::string text = fmt::format("  {} parameters as in {}, within the bounds of their formats\n",
                                 report.parameters, flags.source);
  for (const prepare::DeepTotal& total : report.totals) {
    totals.push_back(Json::object({{"format", total.format},
                                   {"how", total.how},
                                   {"parameters", total.parameters},
                                   {"weights", total.weights},
                                   {"worst", total.worst},
                                   {"relative", total.relative}}));
    text += fmt::format(
        "  {:<22}{:<9}{:>6} parameters {:>10} weights, error {:.4f}, {:.0f} % of the "
        "bound at most\n",
        total.format, total.how, total.parameters, human_count(total.weights), total.relative,
        100 * total.worst);
  }
  result.set("source", flags.source);
  result.set("compared", std::move(totals));
  return text;
}

int run(const Flags& flags, const CommonFlags& common) {
  if (flags.deep != !flags.source.empty() || (flags.deep && flags.quick))
    throw Error(Code::kUsage, "--deep compares with --source SOURCE, and not with --quick");
  const auto reader = artifact::Reader::open(flags.file);
  if (flags.deep) checkpoint::Checkpoint::open(flags.source);  // refused before the long work
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
  Json result = Json::object({{"file", flags.file},
                              {"artifact_id", reader.id_hex()},
                              {"quick", flags.quick},
                              {"files", directory.files.size()},
                              {"objects", directory.objects.size()},
                              {"bytes", bytes}});
  std::string text = fmt::format("{}: valid, {} objects in {} file{}, {}{}\n", flags.file,
                                 directory.objects.size(), directory.files.size(),
                                 directory.files.size() == 1 ? "" : "s", human_bytes(bytes),
                                 flags.quick ? " (payload not read)" : "");
  if (flags.deep) text += deep(flags, common, result);
  print_result(common, result, text);
  return 0;
}

}  // namespace

std::function<int()> declare_verify(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->file, "artifact (.ninfer)")->required();
  app.add_flag("--quick", flags->quick, "structure only, skip payload bytes");
  app.add_flag("--deep", flags->deep, "decode everything and compare with --source");
  app.add_option("--source", flags->source, "checkpoint or GGUF file it was built from")
      ->type_name("SOURCE");
  app.add_option("--threads", flags->threads, "workers (cores of this process)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
