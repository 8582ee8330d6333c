// Checkpoint folders: single files, shards behind an index, and every way they can disagree.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/hash/sha256.h"
#include "base/test_support.h"
#include "checkpoint/safetensors.h"

namespace flare::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";

// A file of one-byte tensors; each holds the first letter of its name.
void write_shard(const fs::path& path, const std::vector<std::string>& names) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names)
    tensors.push_back({name, DType::kU8, {1}, as_bytes(name).subspan(0, 1)});
  write_safetensors(path, tensors, {});
}

// {"weight_map": {"a": "1.safetensors", …}} of pairs.
std::string index_text(const std::vector<std::pair<std::string, std::string>>& map) {
  Json weights = Json::object();
  for (const auto& [tensor, shard] : map) weights.set(tensor, shard);
  return Json::object({{"metadata", Json::object({{"total_size", 4}})}, {"weight_map", weights}})
      .to_text();
}

Error refusal_of(const fs::path& path) {
  try {
    Checkpoint::open(path);
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::kInternal, "{} was accepted", path.string());
}

void expect_error(const Error& error, Code code, const std::vector<std::string>& parts) {
  EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
  for (const std::string& part : parts)
    EXPECT_NE(error.message().find(part), std::string::npos)
        << error.message() << " lacks " << part;
}

TEST(Checkpoint, ReadsAFolderWithOneFile) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"hidden_size": 8})");
  folder.write("tokenizer.json", "tokens");
  write_shard(folder.path() / "model.safetensors", {"z", "b", "m"});
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(checkpoint.folder(), folder.path());
  EXPECT_EQ(checkpoint.config().at("hidden_size").as_u64(), 8u);
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(checkpoint.tensors()[0].name, "b");
  EXPECT_EQ(checkpoint.tensors()[2].name, "z");
  EXPECT_EQ(as_text(checkpoint.find("m")->bytes), "m");
  EXPECT_EQ(checkpoint.find("n"), nullptr);
  EXPECT_EQ(checkpoint.find(""), nullptr);
  EXPECT_EQ(checkpoint.asset("tokenizer.json"), "tokens");
  EXPECT_EQ(checkpoint.asset("vocab.json"), std::nullopt);
}

TEST(Checkpoint, ReadsOneFileByItsPath) {
  const TemporaryFolder folder;
  write_shard(folder.path() / "other.safetensors", {"a"});
  folder.write("model.txt", "x");
  const Checkpoint checkpoint = Checkpoint::open(folder.path() / "other.safetensors");
  EXPECT_EQ(checkpoint.folder(), folder.path());
  EXPECT_TRUE(checkpoint.config().is_null());
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  expect_error(refusal_of(folder.path() / "model.txt"), Code::kInvalid, {"*.safetensors"});
}

TEST(Checkpoint, ReadsShardsBehindAnIndex) {
  const TemporaryFolder folder;
  write_shard(folder.path() / "m-2.safetensors", {"d", "a"});
  write_shard(folder.path() / "m-1.safetensors", {"c", "b"});
  folder.write(kIndex, index_text({{"a", "m-2.safetensors"},
                                   {"b", "m-1.safetensors"},
                                   {"c", "m-1.safetensors"},
                                   {"d", "m-2.safetensors"}}));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  ASSERT_EQ(checkpoint.files().size(), 2u);
  ASSERT_EQ(checkpoint.tensors().size(), 4u);
  for (const Tensor& tensor : checkpoint.tensors()) {
    EXPECT_EQ(as_text(tensor.bytes), tensor.name);
    const bool second = tensor.name == "a" || tensor.name == "d";
    EXPECT_EQ(checkpoint.files()[tensor.file].path().filename(),
              second ? "m-2.safetensors" : "m-1.safetensors");
    checkpoint.release(tensor);
    EXPECT_EQ(as_text(tensor.bytes), tensor.name) << "released pages are read again";
  }
}

// Count and digest by another reader: json and hashlib of Python over the same file.
TEST(Checkpoint, ReadsTheBundledModelByteForByte) {
  const Checkpoint checkpoint = Checkpoint::open(FLARE_SOURCE_DIR "/models/nano");
  EXPECT_EQ(checkpoint.tensors().size(), 95u);
  EXPECT_EQ(checkpoint.files().at(0).metadata().at(0),
            (std::pair<std::string, std::string>("format", "pt")));
  Sha256 digest;
  for (const Tensor& tensor : checkpoint.tensors()) {
    digest.update(as_bytes(tensor.name + std::string(1, '\0')));
    digest.update(tensor.bytes);
  }
  EXPECT_EQ(to_hex(digest.finish()),
            "c3797ea2344b775d849b0c2d7fb6cd43eb07d29062c929e039470ac4af1a4b5a");
  const Tensor* embedding = checkpoint.find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dtype, DType::kBf16);
  EXPECT_EQ(embedding->shape, (std::vector<uint64_t>{2048, 256}));
}

TEST(Checkpoint, SaysWhatItLookedFor) {
  const TemporaryFolder folder;
  expect_error(refusal_of(folder.path()), Code::kNotFound,
               {folder.path().string(), "model.safetensors", kIndex});
  expect_error(refusal_of(folder.path() / "absent"), Code::kNotFound, {"absent"});
}

TEST(Checkpoint, RefusesShardNamesThatLeaveTheFolder) {
  for (const char* shard : {"../m.safetensors", "/etc/passwd", "sub/m.safetensors", "..", ".", "",
                            "sub\\m.safetensors", "a..b", "m\x01.safetensors"}) {
    const TemporaryFolder folder;
    folder.write(kIndex, index_text({{"a", shard}}));
    expect_error(refusal_of(folder.path()), Code::kDirectory, {kIndex, "a", "sibling"});
  }
}

TEST(Checkpoint, RefusesAnIndexThatIsNoIndex) {
  for (const char* text :
       {"[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":"s","a":"s"}})", R"({"weight_map":{"a":"s"})", ""}) {
    const TemporaryFolder folder;
    folder.write(kIndex, text);
    expect_error(refusal_of(folder.path()), Code::kDirectory, {kIndex});
  }
}

TEST(Checkpoint, NamesAMissingShard) {
  const TemporaryFolder folder;
  write_shard(folder.path() / "m-1.safetensors", {"a"});
  folder.write(kIndex, index_text({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}}));
  expect_error(refusal_of(folder.path()), Code::kFileset, {kIndex, "m-2.safetensors", "b"});
}

// Download caches keep shards elsewhere, behind links.
TEST(Checkpoint, FollowsLinksOfShardsToFilesAlone) {
  const TemporaryFolder folder, blobs;
  write_shard(blobs / "f00d", {"a"});
  folder.write(kIndex, index_text({{"a", "m-1.safetensors"}}));
  const fs::path shard = folder / "m-1.safetensors";
  fs::create_symlink(blobs / "f00d", shard);
  EXPECT_NE(Checkpoint::open(folder.path()).find("a"), nullptr);
  for (const fs::path& target : {blobs / "absent", blobs.path(), fs::path("/dev/zero"), shard}) {
    fs::remove(shard);
    fs::create_symlink(target, shard);
    expect_error(refusal_of(folder.path()), Code::kFileset, {kIndex, "m-1.safetensors", "a"});
  }
  fs::remove(shard);
  ASSERT_EQ(::mkfifo(shard.c_str(), 0600), 0);
  expect_error(refusal_of(folder.path()), Code::kFileset, {kIndex, "m-1.safetensors", "a"});
  // The same in the place of the only file, of the index and of the config.
  for (const char* name : {"model.safetensors", "config.json", kIndex}) {
    const TemporaryFolder other;
    if (std::string_view(name) == "config.json") write_shard(other / "model.safetensors", {"a"});
    fs::create_symlink(other / name, other / name);
    expect_error(refusal_of(other.path()), Code::kNotFound, {name, "a link to nothing"});
    fs::remove(other / name);
    ASSERT_EQ(::mkfifo((other / name).c_str(), 0600), 0);
    expect_error(refusal_of(other.path()), Code::kNotFound, {name, "no regular file"});
  }
}

TEST(Checkpoint, NamesATensorThatItsShardLacks) {
  const TemporaryFolder folder;
  write_shard(folder.path() / "m-1.safetensors", {"a"});
  write_shard(folder.path() / "m-2.safetensors", {"b"});
  folder.write(
      kIndex,
      index_text({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}, {"c", "m-2.safetensors"}}));
  expect_error(refusal_of(folder.path()), Code::kReference, {"c", "m-2.safetensors"});
  folder.write(kIndex, index_text({{"a", "m-2.safetensors"}, {"b", "m-1.safetensors"}}));
  expect_error(refusal_of(folder.path()), Code::kReference,
               {"a", "m-2.safetensors", "but in m-1.safetensors"});
}

TEST(Checkpoint, RefusesATensorInTwoShards) {
  const TemporaryFolder folder;
  write_shard(folder.path() / "m-1.safetensors", {"a", "b"});
  write_shard(folder.path() / "m-2.safetensors", {"b", "c"});
  folder.write(
      kIndex,
      index_text({{"a", "m-1.safetensors"}, {"b", "m-1.safetensors"}, {"c", "m-2.safetensors"}}));
  expect_error(refusal_of(folder.path()), Code::kDirectory,
               {"b", "m-1.safetensors", "m-2.safetensors"});
}

TEST(Checkpoint, ADamagedShardOrConfigIsNamed) {
  const TemporaryFolder folder;
  folder.write("m-1.safetensors", "short");
  folder.write(kIndex, index_text({{"a", "m-1.safetensors"}}));
  expect_error(refusal_of(folder.path()), Code::kFraming, {"m-1.safetensors", "5 bytes"});
  write_shard(folder.path() / "model.safetensors", {"a"});
  folder.write("config.json", "{");
  expect_error(refusal_of(folder.path()), Code::kDirectory, {"config.json"});
  folder.write("config.json", "null");
  expect_error(refusal_of(folder.path()), Code::kDirectory, {"config.json", "object"});
}

TEST(Checkpoint, WhatStandsInTheNameOfAFileIsNotTakenForAbsent) {
  const TemporaryFolder folder;
  write_shard(folder.path() / "model.safetensors", {"a"});
  std::filesystem::create_symlink("/nonexistent", folder.path() / "tokenizer.json");
  std::filesystem::create_directory(folder.path() / "chat_template.jinja");
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  for (const char* name : {"tokenizer.json", "chat_template.jinja"}) {
    try {
      checkpoint.asset(name);
      ADD_FAILURE() << name << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kNotFound);
      EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    }
  }
  EXPECT_EQ(checkpoint.asset("generation_config.json"), std::nullopt);
}

}  // namespace
}  // namespace flare::checkpoint
