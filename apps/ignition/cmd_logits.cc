// `ignition logits MODEL`: runs token ids and writes what the graphs computed.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/file_stamps.h"
#include "checkpoint/safetensors.h"
#include "common/command_line.h"
#include "common/kv_dtype.h"
#include "ignition/commands.h"
#include "ignition/run_flags.h"
#include "prepare/prepare.h"
#include "runtime/forward.h"

namespace flare::app {
namespace {

struct Flags {
  std::string model, tokens, output, recipe, isa;
  std::string kv_dtype = "bf16";
  uint32_t chunk = 512;
  int threads = 0;
  bool hidden = false, exact = false, force = false;
};

constexpr const char* kFooter = R"(
Examples:
  ignition logits models/nano --tokens 1,298,204 --output logits.safetensors
  ignition logits nano.ninfer --tokens ids.txt --output taps.safetensors --hidden --exact

The file holds input_ids, and logits [tokens, vocabulary] in fp32.

Exit codes: 0 done, 2 usage, 3 model missing, 4 model invalid, 8 output exists)";

Bytes bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

int run(const Flags& flags, const CommonFlags& common) {
  const std::vector<int32_t> tokens = parse_ids("--tokens", flags.tokens);
  OutputSet(flags.force).create(flags.output);  // refused before the work, made after it
  const int threads = thread_count(flags.threads);
  prepare::PrepareOptions options;
  options.exact = flags.exact;
  options.kv_dtype = kv_dtype(flags.kv_dtype);
  options.taps = flags.hidden;
  options.all_logits = true;
  options.max_concurrency = 1;
  options.prefill_chunk = flags.chunk;
  auto source = prepare::open_source(flags.model, flags.recipe, threads);
  const FileStamps stamps(source->files());
  const package::PreparedModel model = prepare::prepare(std::move(source), options);
  runtime::StepRunner runner(model, {{threads, isa_level(flags.isa)}, {}, /*all_logits=*/true});
  const runtime::ForwardResult result =
      runtime::forward(runner, model, tokens, options.prefill_chunk);

  using checkpoint::DType;
  std::vector<checkpoint::NamedTensor> tensors;
  tensors.push_back({"input_ids", DType::kI32, {tokens.size()}, bytes_of(tokens)});
  tensors.push_back(
      {"logits", DType::kF32, {tokens.size(), model.vocab_size}, bytes_of(result.logits)});
  for (size_t k = 0; k < result.taps.size(); ++k)
    tensors.push_back({result.tap_names[k],
                       DType::kF32,
                       {tokens.size(), result.taps[k].size() / tokens.size()},
                       bytes_of(result.taps[k])});
  stamps.check();
  checkpoint::write_safetensors(flags.output, tensors, {}, flags.force);
  print_result(common, Json::object({{"output", flags.output}, {"tokens", tokens.size()}}),
               fmt::format("{}: logits of {} tokens\n", flags.output, tokens.size()));
  return 0;
}

}  // namespace

std::function<int()> declare_logits(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("MODEL", flags->model, "artifact or checkpoint")->required();
  app.add_option("--tokens", flags->tokens, "token ids, or a file of them")
      ->type_name("LIST|FILE")
      ->required();
  app.add_option("--output", flags->output, "safetensors file to write")
      ->type_name("FILE")
      ->required();
  app.add_flag("--hidden", flags->hidden, "write hidden.K and hidden.final too");
  app.add_option("--chunk", flags->chunk, "prompt rows per step (512)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  app.add_flag("--exact", flags->exact, "f32 reference arithmetic, f32 keys and values")
      ->excludes(add_kv_dtype_flag(app, &flags->kv_dtype));
  add_run_flags(app, *flags);
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
