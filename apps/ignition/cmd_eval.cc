// `ignition eval perplexity MODEL`: how well a model foretells texts, window by window.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/file_stamps.h"
#include "common/command_line.h"
#include "common/kv_dtype.h"
#include "ignition/commands.h"
#include "ignition/run_flags.h"
#include "ignition/text_input.h"
#include "prepare/prepare.h"
#include "runtime/forward.h"

namespace flare::app {
namespace {

struct Flags {
  std::string what, model, text, corpus, output, recipe, isa;
  std::string kv_dtype = "bf16";
  uint32_t context = 4096, stride = 2048;
  uint64_t tail = 0, limit = 0;
  int threads = 0;
  bool special = false, exact = false;
};

constexpr const char* kFooter = R"(
A window reads --context tokens; the next one begins --stride tokens later and scores only tokens
that none has scored. With --tail a window scores its last N tokens at most. DIR receives
windows.jsonl, a record a window, and summary.json.

Examples:
  ignition eval perplexity models/nano --text talk.txt --special --output build/eval
  ignition eval perplexity nano.ninfer --corpus talks.json --special --output build/eval-q4
  ignition eval perplexity ~/models/large --text book.txt --context 2048 --limit 20000 --output out

Exit codes: 0 done, 2 usage, 3 model or text missing, 4 model invalid, 8 output exists)";

// Tokens [begin, end) of a document, of which [first, end) are scored.
struct Window {
  size_t begin = 0, end = 0, first = 0;
};

// A token without history before it is never scored.
std::vector<Window> windows_of(size_t n_tokens, size_t context, size_t stride, size_t tail) {
  std::vector<Window> windows;
  size_t scored = 1;
  for (size_t begin = 0; scored < n_tokens; begin += stride) {
    Window w{begin, std::min(n_tokens, begin + context), std::max(scored, begin + 1)};
    scored = w.end;
    if (tail > 0 && w.end - w.first > tail) w.first = w.end - tail;
    windows.push_back(w);
  }
  return windows;
}

struct Totals {
  double loss = 0;  // Σ −log p
  uint64_t tokens = 0;
  uint64_t windows = 0;
  double mean() const { return loss / static_cast<double>(tokens); }
};

// Rows whose logits stand in memory together.
uint32_t chunk_for(uint64_t vocab) {
  constexpr uint64_t kMostLogits = 16u << 20;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(kMostLogits / std::max<uint64_t>(1, vocab), 16, 512));
}

// Vocabulary before preparation: rows of the head.
uint64_t vocabulary_of(prepare::ParameterSource& source) {
  const Json* size = source.config("text").find("vocab_size");
  return size != nullptr && size->is_integer() ? size->as_u64("vocab_size") : 1 << 18;
}

std::string score_documents(const Flags& flags, const std::vector<Document>& documents,
                            const package::PreparedModel& model, Totals& totals) {
  const int threads = thread_count(flags.threads);
  runtime::StepRunner runner(model, {{threads, isa_level(flags.isa)}, {}, /*all_logits=*/true});
  const size_t context = std::min(flags.context, runner.memory_plan().max_context);
  std::string records;
  for (const Document& document : documents) {
    for (const Window& w : windows_of(document.ids.size(), context, flags.stride, flags.tail)) {
      check_interrupted();
      const auto ids = std::span(document.ids).subspan(w.begin, w.end - w.begin);
      const std::vector<double> losses =
          runtime::score(runner, model, ids, w.first - w.begin, model.capacity.prefill_chunk);
      double sum = 0;
      for (const double loss : losses) sum += loss;
      totals.loss += sum;
      totals.tokens += losses.size();
      ++totals.windows;
      records += Json::object({{"document", document.name},
                               {"begin", w.begin},
                               {"end", w.end},
                               {"scored", losses.size()},
                               {"loss", sum / static_cast<double>(losses.size())}})
                     .to_text() +
                 "\n";
    }
  }
  return records;
}

// The folder is there with both files or not at all.
void write_results(const std::filesystem::path& folder, const std::string& records,
                   const Json& summary) {
  std::error_code error;
  if (!std::filesystem::create_directory(folder, error))
    throw Error(Code::kWrite, "{}: cannot be created: {}", folder.string(), error.message());
  try {
    OutputSet files;
    files.append(files.create(folder / "windows.jsonl"), as_bytes(records));
    files.append(files.create(folder / "summary.json"), as_bytes(summary.to_text() + "\n"));
    files.publish();
  } catch (const Error&) {
    std::filesystem::remove(folder, error);
    throw;
  }
}

int run(const Flags& flags, const CommonFlags& common) {
  if (flags.stride > flags.context)
    throw Error(Code::kUsage, "--stride {}: at most --context {} expected", flags.stride,
                flags.context);
  std::error_code ignored;
  const std::filesystem::path folder = flags.output;
  if (std::filesystem::exists(std::filesystem::symlink_status(folder, ignored)))
    throw Error(Code::kExists, "{}: exists already, expected a new folder", flags.output);
  if (folder.has_parent_path() && !std::filesystem::is_directory(folder.parent_path(), ignored))
    throw Error(Code::kNotFound, "{}: folder {} does not exist", flags.output,
                folder.parent_path().string());
  const int threads = thread_count(flags.threads);
  auto source = prepare::open_source(flags.model, flags.recipe, threads);
  const FileStamps stamps(source->files());
  std::vector<Document> documents = read_documents(
      prepare::make_frontend_block(*source), flags.model, flags.text, flags.corpus, flags.special);
  limit_tokens(documents, flags.limit);
  prepare::PrepareOptions options;
  options.exact = flags.exact;
  options.kv_dtype = kv_dtype(flags.kv_dtype);
  options.all_logits = true;
  options.max_concurrency = 1;
  options.prefill_chunk = chunk_for(vocabulary_of(*source));
  const package::PreparedModel model = prepare::prepare(std::move(source), options);
  check_ids(documents, model.vocab_size);
  Totals totals;
  const std::string records = score_documents(flags, documents, model, totals);
  if (totals.tokens == 0)
    throw Error(Code::kInvalid, "{}: no token with a history, at least two tokens expected",
                flags.text.empty() ? flags.corpus : flags.text);
  const Json summary =
      Json::object({{"model", model.name},
                    {"text", flags.text.empty() ? flags.corpus : flags.text},
                    {"text_sha256", digest_of_file(flags.text.empty() ? flags.corpus : flags.text)},
                    {"context", flags.context},
                    {"stride", flags.stride},
                    {"tail", flags.tail},
                    {"kv_dtype", flags.exact ? "fp32" : flags.kv_dtype},
                    {"windows", totals.windows},
                    {"tokens", totals.tokens},
                    {"loss", totals.mean()},
                    {"perplexity", std::exp(totals.mean())}});
  stamps.check();
  write_results(flags.output, records, summary);
  print_result(
      common, summary,
      fmt::format("{}: perplexity {:.4f}, loss {:.5f} over {} tokens in {} windows\n", model.name,
                  std::exp(totals.mean()), totals.mean(), totals.tokens, totals.windows));
  return 0;
}

}  // namespace

std::function<int()> declare_eval(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("WHAT", flags->what, "perplexity: token-weighted loss on texts")
      ->required()
      ->check(CLI::IsMember({"perplexity"}).description(""));
  app.add_option("MODEL", flags->model, "artifact or checkpoint")->required();
  app.add_option("--text", flags->text, "text to score")->type_name("FILE");
  app.add_option("--corpus", flags->corpus,
                 "JSON list of texts, or of lists of token ids, each scored by itself")
      ->type_name("FILE.json");
  app.add_flag("--special", flags->special, "markers such as <|im_end|> match in the text");
  app.add_option("--context", flags->context, "tokens of a window (4096)")
      ->check(CLI::Range(2, 1 << 24).description(""))
      ->type_name("N");
  app.add_option("--stride", flags->stride, "tokens between windows (2048)")
      ->check(CLI::Range(1, 1 << 24).description(""))
      ->type_name("N");
  app.add_option("--tail", flags->tail, "tokens that a window scores at most (all new)")
      ->check(check_integer<uint64_t>)
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX).description(""))
      ->type_name("N");
  app.add_option("--limit", flags->limit, "tokens to read at most (all)")
      ->check(check_integer<uint64_t>)
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX).description(""))
      ->type_name("N");
  app.add_option("--output", flags->output, "folder to write")->type_name("DIR")->required();
  app.add_flag("--exact", flags->exact, "f32 reference arithmetic, f32 keys and values")
      ->excludes(add_kv_dtype_flag(app, &flags->kv_dtype));
  add_run_flags(app, *flags);
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
