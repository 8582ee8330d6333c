// What constrained decoding costs on real schemas: compiling, and the mask of every token of their
// valid instances, with the tokenizer of a real model.
//
// usage: bench_mask TOKENIZER_JSON BENCH_JSONL [--limit N] [--per-schema]
//
// Prints one JSON line. Every token of every valid instance must be allowed by its mask; a token
// that is not is counted as wrong. Masks are timed as they come, caches empty at the first of each
// schema, with one thread, in CPU time.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json/json.h"
#include "frontend/grammar/compiled_grammar.h"
#include "frontend/grammar/decimal.h"
#include "frontend/tokenizer/tokenizer.h"

namespace {

using namespace flare;
using namespace flare::frontend;

// CPU time of this thread: what others on the machine do is no part of it.
using Clock = std::chrono::steady_clock;
Clock::time_point now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Clock::time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(now() - start).count();
}

std::shared_ptr<const grammar::Vocabulary> vocabulary_of(const Tokenizer& tokenizer) {
  std::vector<grammar::Token> tokens;
  for (int32_t id = 0; id < tokenizer.id_limit(); ++id) {
    grammar::Token token{tokenizer.token_bytes(id), grammar::Token::Kind::kText};
    if (tokenizer.is_special(id)) token.kind = grammar::Token::Kind::kMarker;
    if (token.bytes == "<|im_end|>" || token.bytes == "<end_of_turn>" ||
        token.bytes == "<|eot_id|>")
      token.kind = grammar::Token::Kind::kEnd;
    tokens.push_back(std::move(token));
  }
  return std::make_shared<grammar::Vocabulary>(std::move(tokens));
}

// The spelling that json.dumps has by default, but numbers without exponents.
void write(const Json& json, std::string& out) {
  if (json.is_number()) {
    const auto decimal = grammar::Decimal::of(json);
    out += decimal ? decimal->text() : json.to_text();
  } else if (json.is_array() || json.is_object()) {
    const bool object = json.is_object();
    out += object ? '{' : '[';
    bool first = true;
    const auto separate = [&] {
      if (!first) out += ", ";
      first = false;
    };
    if (object) {
      for (const auto& [name, value] : json.as_object()) {
        separate();
        out += quote_json(name) + ": ";
        write(value, out);
      }
    } else {
      for (const Json& value : json.as_array()) {
        separate();
        write(value, out);
      }
    }
    out += object ? '}' : ']';
  } else {
    out += json.to_text();
  }
}

struct Series {
  std::vector<double> values;
  double quantile(double q) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1,
                           static_cast<size_t>(q * static_cast<double>(values.size())))];
  }
  Json summary() {
    double sum = 0;
    for (const double v : values) sum += v;
    return Json::object({{"n", values.size()},
                         {"mean", values.empty() ? 0.0 : sum / static_cast<double>(values.size())},
                         {"p50", quantile(0.5)},
                         {"p90", quantile(0.9)},
                         {"p95", quantile(0.95)},
                         {"p99", quantile(0.99)},
                         {"p999", quantile(0.999)},
                         {"max", quantile(1)}});
  }
};

struct Totals {
  Series mask_us, advance_us, compile_us;
  int64_t n_schemas = 0, n_refused = 0, n_wrong = 0;
};

void run_schema(const Json& record, const Tokenizer& tokenizer,
                const std::shared_ptr<const grammar::Vocabulary>& vocabulary, bool per_schema,
                Totals& totals) {
  std::shared_ptr<grammar::CompiledGrammar> compiled;
  const auto start = now();
  try {
    compiled = grammar::compile(grammar::json_schema_grammar(record.at("schema")), vocabulary);
  } catch (const grammar::ConstraintError&) {
    ++totals.n_refused;
    return;
  }
  totals.compile_us.values.push_back(us_since(start));
  ++totals.n_schemas;
  std::vector<uint32_t> mask(vocabulary->mask_words());
  double worst = 0;
  for (const Json& test : record.at("tests").as_array()) {
    if (!test.at("valid").as_bool()) continue;
    std::string text;
    write(test.at("data"), text);
    grammar::Matcher matcher(compiled);
    for (const int32_t id : tokenizer.encode(text, {false, false})) {
      const auto fill = now();
      std::memset(mask.data(), 0, mask.size() * sizeof(uint32_t));
      matcher.fill_mask(mask);
      totals.mask_us.values.push_back(us_since(fill));
      worst = std::max(worst, totals.mask_us.values.back());
      const bool allowed = mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1;
      const auto step = now();
      const bool taken = matcher.advance(id);
      totals.advance_us.values.push_back(us_since(step));
      if (!allowed || !taken) {
        ++totals.n_wrong;
        if (per_schema)
          fmt::print("wrong {}: token {} {}\n", record.at("name").as_string(), id,
                     quote(tokenizer.token_bytes(id)));
        break;
      }
    }
  }
  if (per_schema && worst > 200)
    fmt::print("{:8.0f} us  {}\n", worst, record.at("name").as_string());
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print("usage: bench_mask TOKENIZER_JSON BENCH_JSONL [--limit N] [--per-schema]\n");
    return 2;
  }
  int64_t limit = INT64_MAX;
  bool per_schema = false;
  for (int i = 3; i < argc; ++i) {
    if (std::strcmp(argv[i], "--limit") == 0 && i + 1 < argc) limit = std::stoll(argv[++i]);
    if (std::strcmp(argv[i], "--per-schema") == 0) per_schema = true;
  }
  const Tokenizer tokenizer = Tokenizer::from_json(read_text_file(argv[1]), argv[1]);
  const auto start = now();
  const auto vocabulary = vocabulary_of(tokenizer);
  const double vocabulary_ms = us_since(start) / 1000;
  Totals totals;
  const std::string text = read_text_file(argv[2]);
  for (size_t at = 0; at < text.size() && totals.n_schemas + totals.n_refused < limit;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at)
      run_schema(parse_large_json(text.substr(at, end - at), argv[2], {.max_depth = 400}),
                 tokenizer, vocabulary, per_schema, totals);
    at = end + 1;
  }
  const Json result = Json::object({{"engine", "flare"},
                                    {"vocabulary", vocabulary->size()},
                                    {"vocabulary_ms", vocabulary_ms},
                                    {"schemas", totals.n_schemas},
                                    {"refused", totals.n_refused},
                                    {"wrong", totals.n_wrong},
                                    {"mask_us", totals.mask_us.summary()},
                                    {"advance_us", totals.advance_us.summary()},
                                    {"compile_us", totals.compile_us.summary()}});
  fmt::print("{}\n", result.to_text());
  return totals.n_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_mask: {}\n", e.what());
    return 1;
  }
}
