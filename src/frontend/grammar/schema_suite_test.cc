// Schemas against two independent judges: the JSON Schema test suite and real-world schemas with
// valid and invalid instances. Byte by byte, in three layouts.
#include <map>
#include <set>

#include "base/case_sample_fixture.h"
#include "frontend/grammar/grammar_fixture.h"

namespace flare::frontend::grammar {
namespace {

using namespace test;

struct Counts {
  int enforced = 0, relaxed = 0, refused = 0, unsatisfiable = 0, instances = 0, excused = 0;
};

// Where the label contradicts what spec/serving.md asks for.
const std::map<std::string, std::string>& excuses() {
  static const std::map<std::string, std::string> reasons = {
      {"invalid email string is only an annotation by default", "S7.3 enforces format"},
      {"invalid ipv4 string is only an annotation by default", "S7.3 enforces format"},
      {"invalid ipv6 string is only an annotation by default", "S7.3 enforces format"},
      {"invalid hostname string is only an annotation by default", "S7.3 enforces format"},
      {"invalid date string is only an annotation by default", "S7.3 enforces format"},
      {"invalid date-time string is only an annotation by default", "S7.3 enforces format"},
      {"invalid time string is only an annotation by default", "S7.3 enforces format"},
      {"invalid uuid string is only an annotation by default", "S7.3 enforces format"},
      {"invalid duration string is only an annotation by default", "S7.3 enforces format"},
      {"no validation: invalid number, but it still validates", "S7.3 ignores $schema"},
      {"ref valid, maxItems ignored", "S7.3: $ref with siblings"},
      {"an invalid JSON document", "S7.3 ignores content*"},
      {"an invalid base64 string (% is not a valid character)", "S7.3 ignores content*"},
      {"a validly-encoded invalid JSON document", "S7.3 ignores content*"},
      {"an invalid base64 string that is valid JSON", "S7.3 ignores content*"},
  };
  return reasons;
}

// IDNA's rules of what a punycode label may decode to are not enforced: its letters, digits and
// hyphens are.
bool is_punycode(const std::string& group) { return group.find("(punycode)") != std::string::npos; }

void check_group(const std::string& name, const Json& schema, const Json& tests, Counts& counts) {
  std::shared_ptr<CompiledGrammar> compiled;
  try {
    compiled = compile_for_bytes(json_schema_grammar(schema));
  } catch (const ConstraintError& e) {
    if (e.wire_code() == kUnsupportedJsonSchema) {
      // The pointer leads to the offender, the text names it.
      EXPECT_NE(std::string(e.what()).find(quote(e.pointer())), std::string::npos) << name;
      ++counts.refused;
      return;
    }
    ASSERT_EQ(e.wire_code(), kUnsatisfiableJsonSchema) << name << ": " << e.what();
    ++counts.unsatisfiable;
  }
  const bool relaxed = compiled && !compiled->relaxed().empty();
  if (compiled) ++(relaxed ? counts.relaxed : counts.enforced);
  for (const Json& test : tests.as_array()) {
    const bool valid = test.at("valid").as_bool();
    const Json* description = test.find("description");
    const std::string label = description ? description->as_string() : "";
    for (const Layout layout : {Layout::kCompact, Layout::kSpaced, Layout::kIndented}) {
      const std::string text = json_text(test.at("data"), layout);
      const bool taken = compiled && accepts(compiled, text);
      ++counts.instances;
      if (taken == valid || (relaxed && taken)) continue;
      if (excuses().contains(label) || (taken && is_punycode(name))) {
        ++counts.excused;
        continue;
      }
      ADD_FAILURE() << name << ": " << label << ": " << (valid ? "valid " : "invalid ")
                    << text.substr(0, 300);
      break;
    }
  }
}

void check_folder(const std::string& draft) {
  const std::filesystem::path folder = shared_data() / "jsonschema/test-suite" / draft;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Counts counts;
  for (const std::filesystem::path& file : files) {
    const Json groups = parse_json(read_text_file(file), file.string());
    for (const Json& group : groups.as_array())
      check_group(file.stem().string() + ": " + group.at("description").as_string(),
                  group.at("schema"), group.at("tests"), counts);
  }
  EXPECT_GT(counts.enforced, 200);
  fmt::print("{}: {} enforced, {} relaxed, {} refused, {} unsatisfiable; {} texts, {} excused\n",
             draft, counts.enforced, counts.relaxed, counts.refused, counts.unsatisfiable,
             counts.instances, counts.excused);
}

TEST(JsonSchemaSuite, EveryEnforcedKeywordAgreesWithDraft202012) { check_folder("draft2020-12"); }
TEST(JsonSchemaSuite, EveryEnforcedKeywordAgreesWithDraft7) { check_folder("draft7"); }

TEST(JsonSchemaSuite, RealSchemasTakeTheirValidInstancesAndNoOthers) {
  const std::filesystem::path path = shared_data() / "jsonschema/bench.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  // Labels that their own schema contradicts, or the spec.
  const std::set<std::string> contradicted = {
      "Github_medium---o14421",  // draft 4 lets $ref hide its siblings; S7.3 applies them
      "Github_easy---o24544",    // the object is open, so an extra member is valid
  };
  const std::string text = read_text_file(path);
  Counts counts;
  SampledCases cases(3);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty() || !cases.next()) continue;
    const Json record = parse_large_json(line, path.string(), {.max_depth = 400});
    const std::string& name = record.at("name").as_string();
    if (!contradicted.contains(name))
      check_group(name, record.at("schema"), record.at("tests"), counts);
  }
  fmt::print("bench.jsonl: {} enforced, {} relaxed, {} refused; {} texts\n", counts.enforced,
             counts.relaxed, counts.refused, counts.instances);
}

}  // namespace
}  // namespace flare::frontend::grammar
