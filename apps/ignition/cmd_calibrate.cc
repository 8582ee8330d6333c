// `ignition calibrate MODEL`: second moments of what every projection reads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/file.h"
#include "base/file_stamps.h"
#include "common/command_line.h"
#include "ignition/commands.h"
#include "ignition/run_flags.h"
#include "ignition/text_input.h"
#include "prepare/prepare.h"
#include "prepare/recipe/calibration.h"
#include "runtime/forward.h"

namespace flare::app {
namespace {

// Rows a step: every projection's input is kept for all of them.
constexpr uint32_t kChunk = 128;
// Tokens of one sequence; a longer document is read in pieces of this size.
constexpr uint32_t kContext = 4096;

struct Flags {
  std::string model, text, corpus, output, recipe, isa;
  uint64_t limit = 0;
  int threads = 0;
  bool special = false;
};

constexpr const char* kFooter = R"(
The file is documented in docs/calibration.md.

Examples:
  ignition calibrate models/nano --text talk.txt --special --output nano.calibration
  ignition calibrate ~/models/large --corpus texts.json --limit 100000 --output large.calibration

Exit codes: 0 done, 2 usage, 3 model or text missing, 4 model invalid, 8 output exists)";

// Sums of squares by column, of every tap.
class Moments {
 public:
  explicit Moments(runtime::StepRunner& runner)
      : runner_(runner), sums_(runner.tap_names().size()) {}

  void add(size_t n_rows) {
    n_rows_ += n_rows;
    for (size_t k = 0; k < sums_.size(); ++k) {
      const std::span<const float> rows = runner_.tap(k);
      const size_t cols = rows.size() / n_rows;
      sums_[k].resize(cols);
      for (size_t i = 0; i < rows.size(); ++i)
        sums_[k][i % cols] += static_cast<double>(rows[i]) * static_cast<double>(rows[i]);
    }
  }

  prepare::Calibration result() const {
    prepare::Calibration out;
    out.tokens = n_rows_;
    for (size_t k = 0; k < sums_.size(); ++k) {
      std::vector<float>& mean = out.moments[runner_.tap_names()[k]];
      for (const double sum : sums_[k])
        mean.push_back(static_cast<float>(sum / static_cast<double>(n_rows_)));
    }
    return out;
  }

 private:
  runtime::StepRunner& runner_;
  uint64_t n_rows_ = 0;
  std::vector<std::vector<double>> sums_;
};

int run(const Flags& flags, const CommonFlags& common) {
  OutputSet(false).create(flags.output);  // refused before the work, made after it
  const int threads = thread_count(flags.threads);
  auto source = prepare::open_source(flags.model, flags.recipe, threads);
  const FileStamps stamps(source->files());
  std::vector<Document> documents = read_documents(
      prepare::make_frontend_block(*source), flags.model, flags.text, flags.corpus, flags.special);
  limit_tokens(documents, flags.limit);
  prepare::PrepareOptions options;
  options.kv_dtype = graph::DType::kBf16;
  options.input_taps = true;
  options.max_concurrency = 1;
  options.prefill_chunk = kChunk;
  const package::PreparedModel model = prepare::prepare(std::move(source), options);
  check_ids(documents, model.vocab_size);
  runtime::StepRunner runner(model, {{threads, isa_level(flags.isa)}, {}});
  Moments moments(runner);
  const size_t context = std::min(kContext, runner.memory_plan().max_context);
  for (const Document& document : documents)
    for (size_t at = 0; at < document.ids.size(); at += context) {
      const std::span<const int32_t> ids(document.ids);
      runtime::observe(runner, model, ids.subspan(at, std::min(context, ids.size() - at)), kChunk,
                       [&](size_t n) {
                         check_interrupted();
                         moments.add(n);
                       });
    }
  prepare::Calibration calibration = moments.result();
  if (calibration.tokens == 0)
    throw Error(Code::kInvalid, "{}: no token in the text, at least one expected",
                flags.text.empty() ? flags.corpus : flags.text);
  calibration.model = model.name;
  calibration.text_sha256 = digest_of_file(flags.text.empty() ? flags.corpus : flags.text);
  stamps.check();
  prepare::write_calibration(flags.output, calibration);
  print_result(common,
               Json::object({{"output", flags.output},
                             {"tokens", calibration.tokens},
                             {"inputs", calibration.moments.size()}}),
               fmt::format("{}: {} inputs over {} tokens\n", flags.output,
                           calibration.moments.size(), calibration.tokens));
  return 0;
}

}  // namespace

std::function<int()> declare_calibrate(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("MODEL", flags->model, "artifact or checkpoint")->required();
  app.add_option("--text", flags->text, "text to read")->type_name("FILE");
  app.add_option("--corpus", flags->corpus, "JSON list of texts, or of lists of token ids")
      ->type_name("FILE.json");
  app.add_flag("--special", flags->special, "markers such as <|im_end|> match in the text");
  app.add_option("--output", flags->output, "calibration to write")->type_name("FILE")->required();
  app.add_option("--limit", flags->limit, "tokens to read at most (all)")
      ->check(check_integer<uint64_t>)
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX).description(""))
      ->type_name("N");
  add_run_flags(app, *flags);
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
