// Random templates against jinja2: the same text, or an error on both sides.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

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

class TemplateFuzz : public testing::TestWithParam<int> {};

TEST_P(TemplateFuzz, RandomTemplatesRenderAsInJinja2) {
  if (run("/usr/bin/python3 -c 'import jinja2; print(1)' 2>/dev/null").empty()) {
    GTEST_SKIP() << "/usr/bin/python3 with jinja2 is absent";
  }
  const std::string text =
      run(fmt::format("/usr/bin/python3 -W ignore {}/tools/jinja_oracle.py fuzz {} 200",
                      FLARE_SOURCE_DIR, GetParam()));
  size_t begin = 0, n = 0;
  Json variables;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const Json entry = parse_json(std::string_view(text).substr(begin, end - begin), "oracle");
    begin = end + 1;
    if (const Json* v = entry.find("variables")) {
      variables = *v;
      continue;
    }
    ++n;
    const std::string& source = entry.at("source").as_string();
    const Json* want = entry.find("text");
    try {
      const std::string got = Template::parse(source, "fuzz").render(variables, {}, 0).text();
      if (!want) {
        ADD_FAILURE() << source << "\n got  " << got << "\n want " << entry.at("error").as_string();
      } else {
        EXPECT_EQ(got, want->as_string()) << source;
      }
    } catch (const Error& error) {
      if (want) {
        ADD_FAILURE() << source << "\n got  " << error.message() << "\n want " << want->as_string();
      }
    }
  }
  EXPECT_GT(n, 150u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TemplateFuzz, testing::Values(1, 2));

}  // namespace
}  // namespace flare::frontend
