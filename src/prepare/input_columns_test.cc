// Auxiliary input_columns (spec/artifact.md §10.3) from the importer's order of columns to the
// artifact and the graph, and what breaks its contract.
#include <gtest/gtest.h>

#include <functional>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "base/file.h"
#include "base/hash/sha256.h"
#include "base/test_support.h"
#include "graph/graph.h"
#include "prepare/artifact_source.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/gguf.h"
#include "prepare/import/gguf_model_fixture.h"
#include "prepare/lower/fuse.h"
#include "prepare/model/model.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

using namespace test;
namespace fs = std::filesystem;

const std::string kOutput = "text/layers/0/gdn/output", kInput = "text/layers/0/gdn/gated_output";

// Where grouped head `head` is stored, in columns of the parameter.
uint64_t stored_column(uint64_t column) {
  return tiled(column / kWideDv) * kWideDv + column % kWideDv;
}

// The vector of spec/artifact.md §18.11, at the size of a 27B model.
TEST(InputColumns, AreTheSpecifiedVectorForFortyEightHeads) {
  GgufConfig config;
  config.nk = 16;
  config.nv = 48;
  config.dk = config.dv = 128;
  checkpoint::Tensor tensor;
  tensor.name = "blk.0.ssm_out.weight";
  tensor.dtype = checkpoint::DType::kQ4K;
  tensor.shape = {1, 6144};
  ImportedModel model;
  ImportedParameter& parameter = model.components.emplace_back().parameters.emplace_back();
  parameter.name = kOutput;
  parameter.shape = tensor.shape;
  parameter.pieces = {{&tensor, 0, 1}};
  parameter.kind = ParameterKind::kProjection;
  parameter.inputs = {kInput};
  restore_gguf_orders(config, "file", model);
  const auto columns = input_columns(parameter, codec::format(codec::FormatId::kGgufQ4K));
  ASSERT_EQ(columns.size(), 6144u);
  EXPECT_EQ(columns[0], 0);
  EXPECT_EQ(columns[128], 384);
  EXPECT_EQ(columns[2048], 128);
  EXPECT_EQ(columns[6143], 6143);
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(columns))).substr(0, 16), "1c3c6784c6d05c97");
  // Heads of 256 move whole; so do numbers that are encoded anew.
  EXPECT_TRUE(input_columns(parameter, codec::format(codec::FormatId::kQ4G64)).empty());
  config.nv = 24;
  config.nk = 8;
  config.dv = 256;
  parameter.columns.clear();
  restore_gguf_orders(config, "file", model);
  EXPECT_FALSE(parameter.columns.empty());
  EXPECT_TRUE(input_columns(parameter, codec::format(codec::FormatId::kGgufQ4K)).empty());
}

// A file with wide blocks and its artifact by recipe keep.
class Files {
 public:
  Files() : gguf_(folder_.write("wide.gguf", wide_qwen35().bytes())) {
    build_artifact(gguf_, artifact(), {.recipe = "keep"});
  }
  const fs::path& gguf() const { return gguf_; }
  fs::path artifact() const { return folder_ / "wide.ninfer"; }

  // The artifact with a changed directory; `columns` are the words of auxiliary/000000.
  fs::path changed(const std::function<void(artifact::Directory&)>& change,
                   const std::vector<int32_t>& columns) const {
    artifact::Reader reader = artifact::Reader::open(artifact());
    artifact::Directory directory = reader.directory();
    change(directory);
    directory.files.clear();
    artifact::place_objects(directory);
    const fs::path target = folder_ / "changed.ninfer";
    artifact::Writer writer(target, directory, {.force = true});
    for (const artifact::Object& object : writer.directory().objects) {
      Bytes bytes;
      if (object.id == "auxiliary/000000")
        bytes = std::as_bytes(std::span(columns));
      else
        bytes = reader.mapped(object.id);
      writer.write(object.offset, bytes);
    }
    writer.finish();
    return target;
  }

 private:
  TemporaryFolder folder_;
  fs::path gguf_;
};

std::vector<int32_t> wide_columns() {
  std::vector<int32_t> columns(kWideValues);
  for (uint64_t c = 0; c < kWideValues; ++c) columns[stored_column(c)] = static_cast<int32_t>(c);
  return columns;
}

TEST(InputColumns, ComeWithBlocksThatStayInPlace) {
  const Files files;
  CheckpointSource source(files.gguf(), "", 1);
  EXPECT_EQ(source.input_columns(kOutput, kInput), wide_columns());
  EXPECT_TRUE(source.input_columns("text/layers/0/mlp/down", "text/layers/0/mlp/product").empty());
  EXPECT_EQ(code_of([&] { source.input_columns(kOutput, "text/layers/0/mixer_input"); }),
            Code::kBinding);
  const codec::Matrix matrix = source.matrix(kOutput, {8, kWideValues});
  ASSERT_EQ(matrix.segments.size(), 1u);
  EXPECT_EQ(matrix.segments[0].format, codec::FormatId::kGgufQ4K);
  const std::string words = wide_output_blocks();
  EXPECT_EQ(std::memcmp(matrix.segments[0].object, words.data(), words.size()), 0);
}

TEST(InputColumns, AreNotNeededWhereNumbersAreEncodedAnew) {
  const Files files;
  for (const char* recipe : {"bf16", "q8", "q4"}) {
    CheckpointSource source(files.gguf(), recipe, 1);
    EXPECT_TRUE(source.input_columns(kOutput, kInput).empty()) << recipe;
    const auto values = source.values(kOutput, 8 * kWideValues);
    for (uint64_t row = 0; row < 8; ++row)
      for (uint64_t c = 0; c < kWideValues; ++c) {
        const double exact = static_cast<double>((row + 1) * (stored_column(c) / 16));
        // A q4 code is off by half a scale, a fourteenth of the largest value of its group.
        const double bound = recipe == std::string("bf16") ? 0 : (row + 1) * 15.0 / 13;
        ASSERT_NEAR(values[row * kWideValues + c], exact, bound)
            << recipe << " " << row << " " << c;
      }
  }
}

TEST(InputColumns, AreOneObjectOfAnArtifactForAllLayers) {
  const Files files;
  const artifact::Reader reader = artifact::Reader::open(files.artifact());
  const artifact::Directory& directory = reader.directory();
  const artifact::Object* object = directory.find_object("auxiliary/000000");
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object, &directory.objects.back());
  EXPECT_EQ(object->format, "int32");
  EXPECT_EQ(object->layout, "contiguous_le_v1");
  EXPECT_EQ(object->shape, codec::Shape{kWideValues});
  EXPECT_EQ(directory.find_object("auxiliary/000001"), nullptr);
  size_t n = 0;
  for (const artifact::Use& use : directory.uses) {
    if (use.auxiliaries.empty()) continue;
    ++n;
    EXPECT_TRUE(use.parameter.ends_with("gdn/output")) << use.parameter;
    ASSERT_EQ(use.auxiliaries.size(), 1u);
    EXPECT_EQ(use.auxiliaries[0].first, "input_columns");
    EXPECT_EQ(use.auxiliaries[0].second.object, object->id);
  }
  EXPECT_EQ(n, 2u);
  EXPECT_NO_THROW(artifact::verify(files.artifact(), 1, false, {}));
  ArtifactSource source(files.artifact());
  for (const char* layer : {"0", "1"})
    EXPECT_EQ(source.input_columns(fmt::format("text/layers/{}/gdn/output", layer),
                                   fmt::format("text/layers/{}/gdn/gated_output", layer)),
              wide_columns());
  // Recipes that encode anew have none.
  const fs::path q4 = files.artifact().parent_path() / "q4.ninfer";
  build_artifact(files.gguf(), q4, {.recipe = "q4"});
  for (const artifact::Use& use : artifact::Reader::open(q4).directory().uses)
    EXPECT_TRUE(use.auxiliaries.empty());
}

TEST(InputColumns, MayLieInPartsOfLargerVectors) {
  const Files files;
  std::vector<int32_t> words = wide_columns();
  words.insert(words.begin(), 3, -1);
  std::rotate(words.begin() + 3, words.begin() + 103, words.end());
  const auto change = [&](artifact::Directory& d) {
    d.objects.back().shape = {words.size()};
    d.objects.back().bytes = words.size() * sizeof(int32_t);
    const std::string& id = d.objects.back().id;
    for (artifact::Use& use : d.uses)
      for (auto& [role, binding] : use.auxiliaries)
        binding = {.parts = {{id, words.size() - 100, words.size()}, {id, 3, words.size() - 100}}};
  };
  ArtifactSource source(files.changed(change, words));
  EXPECT_EQ(source.input_columns(kOutput, kInput), wide_columns());
}

graph::Graph graph_of(ParameterSource& source, bool exact) {
  ModelOptions options;
  options.exact = exact;
  TextModel model = build_text_model(source, options);
  return fuse(std::move(model.step.graph), model.step.weights, model.step.constants);
}

// Both layers gather by the same constant, and no linear takes the gated norm before it in.
TEST(InputColumns, StandBetweenTheGatedNormAndItsLinear) {
  const Files files;
  for (const fs::path& path : {files.gguf(), files.artifact()})
    for (const bool exact : {false, true}) {
      const auto source = open_source(path, "", 1);
      const graph::Graph graph = graph_of(*source, exact);
      int n = 0;
      for (size_t i = 1; i < graph.nodes.size(); ++i) {
        if (graph.nodes[i].op != graph::Op::kGatherColumns) continue;
        ++n;
        const graph::Node& norm = graph.nodes[i - 1];
        const graph::Node& linear = graph.nodes[i + 1];
        EXPECT_EQ(norm.op, graph::Op::kGatedNorm);
        EXPECT_EQ(graph.nodes[i].operands[0].value.id, norm.operands.back().value.id);
        EXPECT_EQ(linear.op, graph::Op::kLinear);
        EXPECT_EQ(linear.operands[0].value.id, graph.nodes[i].operands[2].value.id);
        EXPECT_EQ(linear.immediates[1].i, 0);
        const int32_t constant = graph.nodes[i].operands[1].index;
        EXPECT_EQ(graph.constant_names.at(constant), "text/input_columns");
        EXPECT_EQ(graph.constant_dtypes.at(constant), graph::DType::kI32);
      }
      EXPECT_EQ(n, 2);
      EXPECT_EQ(std::ranges::count(graph.constant_dtypes, graph::DType::kI32), 1);
    }
  // Without the auxiliary the norm joins its linear as before.
  const auto source = open_source(files.gguf(), "bf16", 1);
  for (const graph::Node& node : graph_of(*source, false).nodes) {
    EXPECT_NE(node.op, graph::Op::kGatherColumns);
    EXPECT_NE(node.op, graph::Op::kGatedNorm);
  }
}

void expect_refused(const fs::path& file, const std::vector<std::string>& parts) {
  for (const bool exact : {false, true}) {
    const Error error = error_of([&] {
      ArtifactSource source(file);
      graph_of(source, exact);
    });
    EXPECT_EQ(code_name(error.code()), code_name(Code::kBinding)) << error.message();
    for (const std::string& part : parts)
      EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
  }
}

artifact::Use& use_of(artifact::Directory& directory, const std::string& parameter) {
  return *std::ranges::find(directory.uses, parameter, &artifact::Use::parameter);
}

TEST(InputColumnsRefused, WhatIsNoPermutation) {
  const Files files;
  const auto same = [](artifact::Directory&) {};
  auto columns = wide_columns();
  EXPECT_EQ(ArtifactSource(files.changed(same, columns)).input_columns(kOutput, kInput), columns);
  for (const int32_t wrong : {-1, 256, INT32_MIN, INT32_MAX, columns[8]}) {
    columns = wide_columns();
    columns[9] = wrong;
    expect_refused(
        files.changed(same, columns),
        {"input_columns", kOutput, kInput, fmt::format("column 9 is {}", wrong), "0 … 255 once"});
  }
}

TEST(InputColumnsRefused, AnotherShapeOrFormat) {
  const Files files;
  const auto object = [](artifact::Directory& d) -> artifact::Object& { return d.objects.back(); };
  const auto refused = [&](const std::function<void(artifact::Directory&)>& change, size_t words,
                           const std::string& what) {
    std::vector<int32_t> columns = wide_columns();
    columns.resize(words);
    expect_refused(files.changed(change, columns), {"input_columns", kOutput, what});
  };
  refused([&](auto& d) { object(d).format = "fp32"; }, 256, "of fp32");
  refused([&](auto& d) { object(d).shape = {2, 128}; }, 256, "int32 of shape [256] expected");
  refused(
      [&](auto& d) {
        object(d).shape = {257};
        object(d).bytes = 4 * 257;
      },
      257, "int32 of shape [256] expected");
  refused(
      [&](auto& d) {
        object(d).shape = {255};
        object(d).bytes = 4 * 255;
      },
      255, "255 elements, int32 of shape [256] expected");
}

TEST(InputColumnsRefused, OtherRolesAndMatricesInOrder) {
  const Files files;
  const std::string down = "text/layers/1/mlp/down";
  const auto refused = [&](const std::function<void(artifact::Directory&)>& change,
                           const std::vector<std::string>& parts) {
    expect_refused(files.changed(change, wide_columns()), parts);
  };
  const artifact::Binding columns{.object = "auxiliary/000000"};
  refused([](auto& d) { use_of(d, kOutput).auxiliaries[0].first = "hadamard_signs"; },
          {kOutput, "'hadamard_signs'", "not supported there"});
  refused([&](auto& d) { use_of(d, kOutput).auxiliaries.emplace_back("hadamard_signs", columns); },
          {kOutput, "'hadamard_signs'", "not supported there"});
  // Matrices of plain words have their columns in order.
  refused([&](auto& d) { use_of(d, down).auxiliaries.emplace_back("input_columns", columns); },
          {down, "fp32, a quantised format expected"});
}

}  // namespace
}  // namespace flare::prepare
