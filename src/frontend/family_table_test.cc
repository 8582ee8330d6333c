// The table of docs/text.md against the tests that it names and the detector.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "frontend/output/format.h"
#include "frontend/template/traits.h"

namespace flare::frontend {
namespace {

const std::filesystem::path kRoot = FLARE_SOURCE_DIR;

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(by, at), text.size());
    std::string part = text.substr(at, end - at);
    while (part.starts_with(' ')) part.erase(0, 1);
    while (part.ends_with(' ')) part.pop_back();
    out.push_back(std::move(part));
    at = end + by.size();
  }
  return out;
}

// The names behind `mark` in brackets: "… (T: a, b)".
std::vector<std::string> names(const std::string& cell, const std::string& mark) {
  const size_t begin = cell.find("(" + mark + ": ");
  if (begin == std::string::npos) return {};
  const size_t from = begin + mark.size() + 3, end = cell.find_first_of(")", from);
  std::vector<std::string> out;
  for (const std::string& name : split(cell.substr(from, end - from), ","))
    out.push_back(name.substr(0, name.find(' ')));
  return out;
}

// The format in back quotes, or "" for none.
std::string format_of(const std::string& cell) {
  const size_t begin = cell.find('`');
  if (begin == std::string::npos) return "";
  return cell.substr(begin + 1, cell.find('`', begin + 1) - begin - 1);
}

TemplateTraits traits_of(const std::filesystem::path& path) {
  const std::string source = read_text_file(path);
  const Template parsed = Template::parse(source, path.filename().string());
  return detect_traits({source, &parsed}, {}, "<s>", "</s>");
}

TEST(FamilyTable, NamesWhatTestsProve) {
  const std::filesystem::path templates = kRoot / "../shared/data/templates";
  const std::string families =
      read_text_file(kRoot / "src/frontend/tokenizer/tokenizer_families_test.cc");
  const std::string vocabularies =
      read_text_file(kRoot / "src/prepare/import/gguf_vocabulary_test.cc");
  std::ifstream page(kRoot / "docs/text.md");
  int n_rows = 0, n_templates = 0;
  for (std::string line; std::getline(page, line);) {
    const std::vector<std::string> cells = split(line, "|");
    if (cells.size() != 7 || cells[1] == "family" || cells[1].starts_with("-")) continue;
    SCOPED_TRACE(line);
    ++n_rows;
    const std::string reasoning = format_of(cells[4]), tools = format_of(cells[5]);
    EXPECT_TRUE(reasoning.empty() || find_reasoning_format(reasoning) != nullptr);
    EXPECT_TRUE(tools.empty() || find_format(tools) != nullptr);
    for (const std::string& name : names(cells[2], "T"))
      EXPECT_NE(families.find('"' + name + '"'), std::string::npos) << name;
    for (const std::string& name : names(cells[2], "V"))
      EXPECT_NE(vocabularies.find('"' + name + '"'), std::string::npos) << name;
    if (!std::filesystem::exists(templates)) continue;
    bool reasons = reasoning.empty();
    for (const std::string& name : names(cells[3], "G")) {
      int n_found = 0;
      for (const auto& entry : std::filesystem::directory_iterator(templates)) {
        const std::string file = entry.path().stem().string();
        if (!file.ends_with(name) && file.find(name + "-") == std::string::npos) continue;
        if (file.find("__") != std::string::npos) continue;  // another collection's version
        ++n_found;
        ++n_templates;
        const TemplateTraits traits = traits_of(entry.path());
        EXPECT_EQ(traits.tool_format, tools) << file;
        EXPECT_TRUE(traits.reasoning_format.empty() || traits.reasoning_format == reasoning)
            << file << ": " << traits.reasoning_format;
        reasons |= traits.reasoning_format == reasoning;
      }
      EXPECT_EQ(n_found, 1) << name;
    }
    EXPECT_TRUE(reasons || names(cells[3], "G").empty());
  }
  EXPECT_EQ(n_rows, 17);
  EXPECT_EQ(n_templates, std::filesystem::exists(templates) ? 19 : 0);
}

}  // namespace
}  // namespace flare::frontend
