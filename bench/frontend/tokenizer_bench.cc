// How fast a tokenizer loads, encodes and decodes: one thread, its CPU time, the best of several
// rounds. bench/frontend/tokenizer_peers.py runs it beside the reference library.
//
//   bench_tokenizer TOKENIZER.json... -- TEXT...      one JSON line for each tokenizer and text
//
// A text is a file; of a .jsonl file it is the member "text" of all lines. "cold" is the first
// encoding after loading, on which nothing is known yet.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json/json.h"
#include "base/processor_time.h"
#include "frontend/tokenizer/tokenizer.h"

namespace {

using namespace flare;

double seconds() { return thread_processor_ms() * 1e-3; }

template <typename F>
double time_of(F&& f) {
  const double begin = seconds();
  f();
  return seconds() - begin;
}

template <typename F>
double best_of(int rounds, F&& f) {
  double best = time_of(f);
  for (int i = 1; i < rounds; ++i) best = std::min(best, time_of(f));
  return best;
}

std::vector<std::string> texts_of(const std::filesystem::path& path) {
  std::string text = read_text_file(path);
  if (path.extension() != ".jsonl") return {text};
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) {
      const Json line = parse_json(text.substr(at, end - at), path.string());
      out.push_back(line.at("text").as_string());
    }
    at = end + 1;
  }
  return out;
}

void measure(const std::filesystem::path& path, const std::vector<std::filesystem::path>& texts) {
  constexpr int kRounds = 7;
  const std::string file = read_text_file(path);
  const auto load = [&] { return frontend::Tokenizer::from_json(file, path.string()); };
  const double load_s = best_of(kRounds, load);
  for (const auto& text_path : texts) {
    const std::vector<std::string> list = texts_of(text_path);
    size_t bytes = 0;
    for (const std::string& text : list) bytes += text.size();
    frontend::Tokenizer tokenizer = load();
    std::vector<std::vector<int32_t>> ids(list.size());
    const auto encode = [&] {
      for (size_t i = 0; i < list.size(); ++i) ids[i] = tokenizer.encode(list[i], {});
    };
    double cold = time_of(encode);
    for (int i = 1; i < kRounds; ++i) {
      tokenizer = load();
      cold = std::min(cold, time_of(encode));
    }
    const double warm = best_of(kRounds, encode);
    size_t tokens = 0, decoded = 0;
    const double decode = best_of(kRounds, [&] {
      tokens = decoded = 0;
      for (const auto& part : ids) {
        tokens += part.size();
        decoded += tokenizer.decode(part, false).size();
      }
    });
    const double mb = static_cast<double>(bytes) / 1e6;
    fmt::print("{}\n", Json::object({{"tokenizer", path.stem().string()},
                                     {"text", text_path.filename().string()},
                                     {"bytes", bytes},
                                     {"tokens", tokens},
                                     {"load_ms", load_s * 1e3},
                                     {"cold_mb_s", mb / cold},
                                     {"encode_mb_s", mb / warm},
                                     {"decode_mb_s", static_cast<double>(decoded) / 1e6 / decode}})
                           .to_text());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> tokenizers, texts;
  bool behind = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--")
      behind = true;
    else
      (behind ? texts : tokenizers).emplace_back(argv[i]);
  }
  if (tokenizers.empty() || texts.empty()) {
    fmt::print(stderr, "usage: bench_tokenizer TOKENIZER.json... -- TEXT...\n");
    return 2;
  }
  try {
    for (const auto& path : tokenizers) measure(path, texts);
  } catch (const flare::Error& error) {
    fmt::print(stderr, "{}\n", error.message());
    return flare::exit_code(error.code());
  }
  return 0;
}
