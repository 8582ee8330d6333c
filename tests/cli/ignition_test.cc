// ignition as a user meets it: build, inspect, verify, reshard, and its answers to bad input.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/file.h"
#include "base/json/json.h"
#include "base/test_support.h"

namespace flare {
namespace {

namespace fs = std::filesystem;

const fs::path kProgram = fs::path(FLARE_BINARY_DIR) / "bin/ignition";
const fs::path kNano = fs::path(FLARE_SOURCE_DIR) / "models/nano";
const fs::path kShared = fs::path(FLARE_SOURCE_DIR) / "../shared/data";

struct Outcome {
  int exit_code;
  std::string out, err;
};

class Ignition : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "out"); }

  // Words are quoted for the shell; none of ours holds a quote.
  Outcome run(const std::vector<std::string>& words) {
    std::string command = "'" + kProgram.string() + "'";
    for (const std::string& word : words) command += " '" + word + "'";
    const fs::path err = folder_ / "stderr";
    command += " 2>'" + err.string() + "'";
    FILE* pipe = ::popen(command.c_str(), "r");
    Outcome outcome{};
    char buffer[4096];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      outcome.out.append(buffer, n);
    const int status = ::pclose(pipe);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.err = read_text_file(err);
    return outcome;
  }

  std::string out(const char* name) const { return (folder_ / "out" / name).string(); }
  bool out_is_empty() const { return fs::is_empty(folder_ / "out"); }

  // One line "error: …" with these words, a line "hint: …", this exit code, no file left.
  void expect_refused(const std::vector<std::string>& words, int exit_code,
                      const std::vector<std::string>& in_message) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("error: ")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
    EXPECT_NE(outcome.err.find("\nhint: "), std::string::npos) << outcome.err;
    for (const std::string& word : in_message)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
    EXPECT_TRUE(out_is_empty());
  }

  // A copy of nano whose config.json has `from` replaced.
  fs::path nano_with_config(const std::string& from, const std::string& to) {
    const fs::path copy = folder_ / "nano_copy";
    fs::create_directories(copy);
    fs::copy_file(kNano / "model.safetensors", copy / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    std::string config = read_text_file(kNano / "config.json");
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    std::ofstream(copy / "config.json") << config;
    return copy;
  }

  // The file that `ignition logits` writes for a few tokens.
  std::string logits_of(const std::string& artifact) {
    const std::string file = artifact + ".safetensors";
    const Outcome outcome = run({"logits", artifact, "--tokens", "1,2,3,200,7", "--output", file});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return read_text_file(file);
  }

  void build_inspect_verify_reshard(const std::string& source, const std::string& recipe) {
    const std::string made = out("made.ninfer"), parts = out("parts.ninfer");
    const Outcome built = run({"build", source, "--output", made, "--recipe", recipe});
    ASSERT_EQ(built.exit_code, 0) << built.err;
    EXPECT_NE(built.out.find("bits per weight"), std::string::npos) << built.out;
    EXPECT_EQ(run({"verify", made}).exit_code, 0);
    const Outcome inspected = run({"inspect", made, "--json", "--objects"});
    ASSERT_EQ(inspected.exit_code, 0) << inspected.err;
    const Json document = parse_json(inspected.out, "inspect");
    EXPECT_TRUE(document.at("ok").as_bool());
    EXPECT_FALSE(document.at("result").at("objects").as_array().empty());
    const Outcome split = run({"reshard", made, "--output", parts, "--max-file-bytes", "1M"});
    ASSERT_EQ(split.exit_code, 0) << split.err;
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      const bool is_part = entry.path().filename().string().starts_with("parts");
      EXPECT_TRUE(!is_part || entry.file_size() <= 1u << 20) << entry.path();
    }
    EXPECT_EQ(run({"verify", parts}).exit_code, 0);
    EXPECT_EQ(logits_of(made), logits_of(parts));
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) fs::remove(entry.path());
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Ignition, TakesNanoThroughEveryCommand) {
  for (const char* recipe : {"bf16", "keep", "q8", "q4"})
    build_inspect_verify_reshard(kNano.string(), recipe);
}

TEST_F(Ignition, TakesEveryGoldenCheckpointThroughEveryCommand) {
  if (!fs::exists(kShared)) GTEST_SKIP() << "no " << kShared << ": shared data is absent";
  for (const char* name :
       {"goldens/models/llama2", "goldens/models/llama3", "goldens/models/mistral",
        "goldens/models/qwen2", "goldens/models/qwen3", "goldens/models/qwen3_tied_yarn",
        "goldens/models/qwen3_5", "goldens/models/qwen3_5_vision", "models/stories260k/hf-f32"}) {
    SCOPED_TRACE(name);
    build_inspect_verify_reshard((kShared / name).string(), "keep");
    build_inspect_verify_reshard((kShared / name).string(), "q4");
  }
}

TEST_F(Ignition, TakesGgufFilesAsItTakesCheckpoints) {
  const fs::path folder = kShared / "goldens/gguf";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const std::string file = (folder / "qwen3_wide-q4_k.gguf").string();
  const std::string built = out("wide.ninfer");
  EXPECT_EQ(run({"build", file, "--output", built, "--recipe", "keep"}).exit_code, 0);
  EXPECT_EQ(run({"verify", built}).exit_code, 0);
  const Outcome artifact = run({"inspect", built});
  EXPECT_NE(artifact.out.find("gguf_q4_k"), std::string::npos) << artifact.out;
  const Outcome gguf = run({"inspect", file, "--json", "--objects"});
  ASSERT_EQ(gguf.exit_code, 0) << gguf.err;
  const Json result = parse_json(gguf.out, "inspect").at("result");
  EXPECT_EQ(result.at("kind").as_string(), "gguf");
  EXPECT_EQ(result.at("metadata").at("general.architecture").as_string(), "qwen3");
  EXPECT_EQ(result.at("objects").as_array().size(), result.at("tensors").as_u64());
  fs::remove(built);
  const std::string hostile =
      (fs::path(FLARE_SOURCE_DIR) / "tests/data/malformed/gguf_dup_key.gguf").string();
  expect_refused({"inspect", hostile}, 4, {"gguf_dup_key.gguf", "general.architecture", "twice"});
  expect_refused({"build", hostile, "--output", out("x.ninfer")}, 4, {"gguf_dup_key.gguf"});
}

TEST_F(Ignition, RefusesToReplaceWithoutForce) {
  const std::string nano = kNano.string(), made = out("made.ninfer");
  ASSERT_EQ(run({"build", nano, "--output", made}).exit_code, 0);
  const std::string before = read_text_file(made);
  const Outcome refused = run({"build", nano, "--output", made, "--recipe", "q4"});
  EXPECT_EQ(refused.exit_code, 8);
  EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
  EXPECT_TRUE(read_text_file(made) == before);
  EXPECT_EQ(run({"build", nano, "--output", made, "--recipe", "q4", "--force"}).exit_code, 0);
  EXPECT_FALSE(read_text_file(made) == before);
  EXPECT_EQ(run({"verify", made, "--quick"}).exit_code, 0);
}

TEST_F(Ignition, ReportsAFlippedCodeByName) {
  const std::string made = out("made.ninfer");
  ASSERT_EQ(run({"build", kNano.string(), "--output", made, "--recipe", "q8"}).exit_code, 0);
  const Outcome inspected = run({"inspect", made, "--json", "--objects"});
  const Json document = parse_json(inspected.out, "inspect");
  const Json* object = nullptr;
  for (const Json& one : document.at("result").at("objects").as_array())
    if (const Json* format = one.find("format"); format && format->as_string() == "q8_g32_fp16")
      object = &one;
  ASSERT_NE(object, nullptr);
  const uint64_t payload =
      fs::file_size(made) -
      document.at("result").at("files").as_array()[0].at("payload_bytes").as_u64();
  {
    std::fstream file(made, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(payload + object->at("offset").as_u64()));
    file.write("\x80", 1);  // the one code that q8 does not have
  }
  const Outcome refused = run({"verify", made});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_NE(refused.err.find(object->at("id").as_string()), std::string::npos) << refused.err;
  EXPECT_EQ(run({"verify", made, "--quick"}).exit_code, 0);
}

TEST_F(Ignition, RefusesBadCheckpointsInOneLine) {
  const auto build = [&](const fs::path& source) {
    return std::vector<std::string>{"build", source.string(), "--output", out("x.ninfer")};
  };
  expect_refused(build(folder_ / "none"), 3, {"none"});
  expect_refused(build(nano_with_config("Qwen3_5ForCausalLM", "FooForCausalLM")), 4,
                 {"FooForCausalLM", "Qwen3_5ForCausalLM"});
  expect_refused(build(nano_with_config("\"hidden_act\"", "\"logit_scale\": 2.0, \"hidden_act\"")),
                 4, {"logit_scale", "2.0"});
  expect_refused(
      build(nano_with_config("\"intermediate_size\": 512", "\"intermediate_size\": 500")), 4,
      {"mlp.gate_proj.weight", "[512, 256]", "[500, 256]"});
  expect_refused(build(nano_with_config("\"vocab_size\": 2048", "\"vocab_size\": \"many\"")), 4,
                 {"vocab_size", "many"});
  expect_refused(build(nano_with_config("{", "[")), 4, {"config.json"});
  const fs::path truncated = nano_with_config("silu", "silu");
  fs::resize_file(truncated / "model.safetensors", 1 << 20);
  expect_refused(build(truncated), 4, {"model.safetensors"});
  fs::resize_file(truncated / "model.safetensors", 100);
  expect_refused(build(truncated), 4, {"model.safetensors"});
  fs::remove(truncated / "model.safetensors");
  expect_refused(build(truncated), 3, {"model.safetensors"});
}

TEST_F(Ignition, RefusesBadDestinationsAndValues) {
  const std::string nano = kNano.string();
  expect_refused({"build", nano, "--output", out("no/such/folder.ninfer")}, 3, {"no/such"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--recipe", "q7"}, 2,
                 {"q7", "bf16, keep, q8, q6, q5, q4"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--max-file-bytes", "0"}, 2,
                 {"--max-file-bytes"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--max-file-bytes", "8Q"}, 2, {"8Q"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--max-file-bytes", "4K"}, 2,
                 {"max_file_bytes"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--max-file-bytes", "16777216T"}, 2,
                 {"--max-file-bytes", "2^64"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--name", "\xff"}, 2, {"--name"});
  expect_refused({"build", nano, "--output", ""}, 2, {"--output"});
  expect_refused({"build", nano}, 2, {"--output", "missing"});
  expect_refused({"build", nano, "--output", "--force"}, 2, {"--output", "'--force'", "value"});
  expect_refused({"build", nano, "--output", "-q"}, 2, {"--output", "'-q'", "value"});
  // Where nothing is encoded, an encoder means nothing.
  for (const char* encoder : {"search", "absmax"})
    expect_refused(
        {"build", nano, "--output", out("x.ninfer"), "--recipe", "keep", "--encoder", encoder}, 2,
        {"--encoder", "recipe keep"});
  // Files are called as they like, names in an artifact are UTF-8.
  expect_refused({"build", nano, "--output", out("\xff.ninfer"), "--max-file-bytes", "4M"}, 2,
                 {"\\xff.ninfer", "UTF-8"});
  for (const char* flag : {"--threads=0", "--threads=-1", "--chunk=0", "--chunk=5000"})
    expect_refused({"logits", nano, "--tokens", "1", "--output", out("x"), flag}, 2,
                   {"not in range"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--artifact-id", "12"}, 2, {"12"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--components", "text,dflash"}, 4,
                 {"dflash", "text"});
  expect_refused({"build", nano, "--output", out("x.ninfer"), "--threads", "0"}, 2, {"threads"});
  expect_refused({"verify", out("none.ninfer")}, 3, {"none.ninfer"});
  expect_refused({"verify", (kNano / "config.json").string()}, 4, {"config.json"});
}

TEST_F(Ignition, BenchMeasuresEveryCellAndWritesWhatItPrints) {
  const std::string file = out("rounds.json");
  const Outcome outcome =
      run({"bench", kNano.string(), "--batches", "1-2", "--contexts", "130,16", "--repetitions",
           "3", "--warmup", "1", "--width", "2", "--threads", "2", "--output", file, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json result = parse_json(outcome.out, "bench").at("result");
  EXPECT_EQ(result, parse_json(read_text_file(file), file));
  EXPECT_EQ(result.at("width").as_u64(), 2u);
  const Json::Array& cells = result.at("cells").as_array();
  ASSERT_EQ(cells.size(), 4u);
  double sum = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    EXPECT_EQ(cells[i].at("context").as_u64(), i < 2 ? 16u : 130u);
    EXPECT_EQ(cells[i].at("batch").as_u64(), i % 2 + 1);
    const double median = cells[i].at("median_s").as_double();
    EXPECT_GT(cells[i].at("least_s").as_double(), 0);
    EXPECT_LE(cells[i].at("least_s").as_double(), cells[i].at("quartile1_s").as_double());
    EXPECT_LE(cells[i].at("quartile1_s").as_double(), median);
    EXPECT_LE(median, cells[i].at("quartile3_s").as_double());
    EXPECT_LE(cells[i].at("quartile3_s").as_double(), cells[i].at("most_s").as_double());
    EXPECT_GT(cells[i].at("roof_share").as_double(), 0);
    sum += median;
  }
  EXPECT_NEAR(result.at("score_s").as_double(), sum / 4, 1e-9);
  // Every matrix is read once whatever the batch; keys, values and states are each sequence's own.
  EXPECT_EQ(cells[0].at("weight_bytes"), cells[3].at("weight_bytes"));
  EXPECT_EQ(2 * cells[2].at("state_bytes").as_double(), cells[3].at("state_bytes").as_double());
  EXPECT_EQ(2 * cells[2].at("operations").as_double(), cells[3].at("operations").as_double());
  const Json::Array& prefill = result.at("prefill").as_array();
  ASSERT_EQ(prefill.size(), 2u);
  EXPECT_GT(prefill[1].at("tokens_per_s").as_double(), 0);
  for (const char* peak : {"read_bytes_per_s", "int8_ops_per_s", "bf16_ops_per_s"})
    EXPECT_GT(result.at("peaks").at(peak).as_double(), 1e6) << peak;
}

TEST_F(Ignition, BenchPrintsATable) {
  const Outcome outcome = run({"bench", kNano.string(), "--batches", "1", "--contexts", "8",
                               "--repetitions", "1", "--warmup", "0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word : {"peaks: read", "prefill", "round", "% of roof", "score"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in " << outcome.out;
}

TEST_F(Ignition, BenchTellsWhatEachLaunchOfARoundTakes) {
  const std::string file = out("launches.json");
  const Outcome outcome = run({"bench", kNano.string(), "--batches", "2", "--contexts", "16",
                               "--repetitions", "3", "--launches", "--output", file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("launches of a round of 2 behind 16 tokens"), std::string::npos);
  const Json result = parse_json(read_text_file(file), file);
  const Json& cell = result.at("cells").as_array().at(0);
  double bytes = 0, operations = 0, seconds = 0;
  std::set<std::string> names;
  for (const Json& launch : cell.at("launches").as_array()) {
    EXPECT_TRUE(names.insert(launch.at("name").as_string()).second) << "one row a name";
    EXPECT_GE(launch.at("count").as_u64(), 1u);
    EXPECT_GT(launch.at("seconds").as_double(), 0);
    bytes += launch.at("bytes").as_double();
    operations += launch.at("operations").as_double();
    seconds += launch.at("seconds").as_double();
  }
  EXPECT_TRUE(names.contains("linear:output_head")) << outcome.out;
  EXPECT_TRUE(names.contains("linear:mlp/down")) << outcome.out;
  EXPECT_EQ(bytes, cell.at("weight_bytes").as_double() + cell.at("state_bytes").as_double());
  EXPECT_EQ(operations, cell.at("operations").as_double());
  EXPECT_GT(seconds, 0);
}

TEST_F(Ignition, BenchRefusesBadCellsBeforeItMeasures) {
  const std::string nano = kNano.string();
  const auto refused = [&](std::vector<std::string> flags, int exit_code,
                           const std::vector<std::string>& in_message) {
    flags.insert(flags.begin(), {"bench", nano});
    expect_refused(flags, exit_code, in_message);
  };
  for (const char* list : {"0", "x", "1,1", "1-3,2", "4-2", "1,,2", "", "2000", "-1", "1-"})
    refused({std::string("--batches=") + list}, 2, {"--batches"});
  refused({"--contexts", "1-2000"}, 2, {"--contexts"});
  // The model has 4,096 positions; a round needs one more row than the context.
  refused({"--contexts", "4096"}, 2, {"--contexts", "4096"});
  for (const char* flag : {"--width=0", "--repetitions=0", "--warmup=-1"})
    refused({flag}, 2, {"not in range"});
  for (const char* flag : {"--seed=-1", "--seed=18446744073709551616", "--seed=x"})
    refused({flag}, 2, {"--seed", "not in range 0 to 18446744073709551615"});
  for (const char* flag : {"--width=4294967297", "--repetitions=99999999999999999999"})
    refused({flag}, 2, {"not in range 1 to "});
  refused({"--isa", "v9"}, 2, {"v9"});
  refused({"--kv-dtype", "f64"}, 2, {"f64"});
  expect_refused({"bench", out("none")}, 3, {"none"});
  std::ofstream(folder_ / "there.json") << "kept";
  refused({"--output", (folder_ / "there.json").string()}, 8, {"there.json"});
  EXPECT_EQ(read_text_file(folder_ / "there.json"), "kept");
}

TEST_F(Ignition, TakesTheLevelFromTheEnvironmentUnlessAFlagNamesOne) {
  const std::vector<std::string> bench = {
      "bench",  kNano.string(),    "--batches=1", "--contexts=16",
      "--json", "--repetitions=1", "--threads",   "1"};
  std::vector<std::string> with_flag = bench;
  with_flag.insert(with_flag.end(), {"--isa", "v2"});
  const auto level = [&](const std::vector<std::string>& words) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return parse_json(outcome.out, "bench").at("result").at("isa").as_string();
  };
  ::setenv("FLARE_ISA", "v2", 1);
  EXPECT_EQ(level(bench), "v2");
  ::setenv("FLARE_ISA", "v9", 1);
  expect_refused({"bench", kNano.string(), "--isa", "v2"}, 2, {"FLARE_ISA", "v9"});
  expect_refused({"inspect", kNano.string()}, 2, {"FLARE_ISA", "v9"});
  ::setenv("FLARE_ISA", std::string(isa_name(*machine_isa())).c_str(), 1);
  EXPECT_EQ(level(with_flag), "v2");
  ::unsetenv("FLARE_ISA");
}

TEST_F(Ignition, LeavesNothingBehindAFileSizeLimit) {
  const std::string command = "ulimit -f 1000; exec '" + kProgram.string() + "' build '" +
                              kNano.string() + "' --output '" + out("x.ninfer") + "' -q 2>'" +
                              (folder_ / "limit").string() + "'";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_TRUE(read_text_file(folder_ / "limit").starts_with("error: "));
  EXPECT_TRUE(out_is_empty());
}

TEST_F(Ignition, NamesTheClosestCommandAndFlag) {
  expect_refused({"biuld", "x"}, 2, {"biuld", "did you mean 'build'?"});
  expect_refused({"build", "x", "--recpie", "q4"}, 2, {"--recpie", "did you mean '--recipe'?"});
  expect_refused({"--jsn", "build"}, 2, {"--jsn", "did you mean '--json'?"});
  expect_refused({"inspect", "x", "-z"}, 2, {"-z"});
  expect_refused({}, 2, {"no command", "build"});
  expect_refused({"build"}, 2, {"SOURCE"});
}

TEST_F(Ignition, TakesFlagsBeforeAndAfterArguments) {
  const std::string nano = kNano.string();
  const Outcome before = run({"--json", "build", "--dry-run", "--recipe=q4", nano});
  const Outcome after =
      run({"build", nano, "--output", out("x.ninfer"), "--recipe", "q4", "--dry-run", "--json"});
  EXPECT_EQ(before.exit_code, 0) << before.err;
  EXPECT_EQ(before.out, after.out);
  EXPECT_EQ(before.err, "");
  EXPECT_EQ(parse_json(after.out, "build").at("result").at("recipe").as_string(), "q4");
  EXPECT_TRUE(out_is_empty());
}

TEST_F(Ignition, GivesErrorsAsOneJsonDocument) {
  const Outcome refused = run({"inspect", out("none.ninfer"), "--json"});
  EXPECT_EQ(refused.exit_code, 3);
  const Json document = parse_json(refused.out, "inspect");
  EXPECT_FALSE(document.at("ok").as_bool());
  EXPECT_EQ(document.at("error").at("code").as_string(), "not_found");
  EXPECT_FALSE(document.at("error").at("message").as_string().empty());
  EXPECT_FALSE(document.at("error").at("hint").as_string().empty());
}

TEST_F(Ignition, PrintsHelpAndVersionToStandardOutput) {
  const Outcome help = run({"build", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* word : {"--recipe", "--max-file-bytes", "Examples", "Exit codes", "--json"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word << " in " << help.out;
  EXPECT_EQ(run({"--help"}).exit_code, 0);
  EXPECT_NE(run({"--version"}).out.find("ISA"), std::string::npos);
}

}  // namespace
}  // namespace flare
