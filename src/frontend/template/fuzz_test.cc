// Random templates against jinja2: the same text, or an error on both sides.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

#include "base/case_sample_fixture.h"
#include "frontend/template/template.h"

namespace flare::frontend {
namespace {

std::string run(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  std::array<char, 1 << 16> buffer;
  size_t n = 0;
  while ((n = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0) out.append(buffer.data(), n);
  return out;
}

// Numbers beyond 128 bits and complex ones are errors here and results there.
bool is_out_of_scope(const std::string& message) {
  return message.find("integer overflow") != std::string::npos ||
         message.find("complex numbers") != std::string::npos;
}

// Compares one line of the oracle; counts those with a text.
void check(const Json& entry, const Json& variables, size_t* n_texts) {
  const std::string& source = entry.at("source").as_string();
  const Json* want = entry.find("text");
  *n_texts += want != nullptr;
  try {
    const std::string got = Template::parse(source, "fuzz").render(variables, {}, 0).text();
    if (!want) {
      ADD_FAILURE() << source << "\n got  " << got << "\n want " << entry.at("error").as_string();
    } else {
      EXPECT_EQ(got, want->as_string()) << source;
    }
  } catch (const Error& error) {
    if (want && !is_out_of_scope(error.message())) {
      ADD_FAILURE() << source << "\n got  " << error.message() << "\n want " << want->as_string();
    }
  }
}

// 34 × 6,000 programs, of which a run meets the same 600; FLARE_TEST_FULL runs them all. The oracle
// leaves out what no chat template does: attributes of classes, the text of bound methods, slices
// of numbers that jinja2 works out while it compiles.
TEST(TemplateFuzz, RandomTemplatesRenderAsInJinja2) {
  constexpr int kSeeds = 34 * 10, kPrograms = 600, kFirst = 3000;
  if (run("/usr/bin/python3 -c 'import jinja2; print(1)' 2>/dev/null").empty()) {
    GTEST_SKIP() << "/usr/bin/python3 with jinja2 is absent";
  }
  constexpr uint64_t kSample = 1;
  SampledCases cases(kSeeds, TestMatrix{TestMatrix::get().full, kSample});
  for (int seed = kFirst; seed < kFirst + kSeeds; ++seed) {
    if (!cases.next()) continue;
    const std::string text =
        run(fmt::format("/usr/bin/python3 -W ignore {}/tools/jinja_oracle.py fuzz {} {}",
                        FLARE_SOURCE_DIR, seed, kPrograms));
    Json variables;
    size_t n_texts = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      const Json entry = parse_json(std::string_view(text).substr(begin, end - begin), "oracle",
                                    {.max_depth = 256});
      begin = end + 1;
      if (const Json* v = entry.find("variables")) {
        variables = *v;
      } else {
        check(entry, variables, &n_texts);
      }
    }
    EXPECT_GT(n_texts, 200u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace flare::frontend
