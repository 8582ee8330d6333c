// Split GGUF models: found from any part, refused with the part that is missing or foreign.
#include "checkpoint/gguf_parts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/test_support.h"
#include "checkpoint/gguf_fixture.h"
#include "checkpoint/safetensors.h"

namespace flare::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::GgufBuilder;
using test::GgufBytes;

// Part `number` of `count`, with the metadata in the first; tensor `name` holds `value`.
GgufBuilder part(uint32_t number, uint32_t count, const std::string& name, float value,
                 uint32_t n_tensors) {
  GgufBuilder b;
  b.u32("split.no", number - 1).u32("split.count", count).u32("split.tensors.count", n_tensors);
  if (number == 1) b.text("general.architecture", "llama");
  if (!name.empty()) b.tensor(name, {1}, 0, GgufBytes().number(value).all());
  return b;
}

std::string name_of(uint32_t number, uint32_t count) {
  return fmt::format("big-{:05}-of-{:05}.gguf", number, count);
}

class GgufParts : public testing::Test {
 protected:
  // As llama-gguf-split writes them with --no-tensor-first-split: three parts, two tensors.
  void SetUp() override {
    write(1, part(1, 3, "", 0, 2));
    write(2, part(2, 3, "b", 20, 2));
    write(3, part(3, 3, "a", 30, 2));
  }
  void write(uint32_t number, const GgufBuilder& b) {
    folder_.write(name_of(number, 3), b.bytes());
  }
  fs::path at(uint32_t number) const { return folder_.path() / name_of(number, 3); }
  void expect_refused(Code code, const std::vector<std::string>& parts, uint32_t from = 1) const {
    try {
      open_gguf_parts(at(from));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
      for (const std::string& text : parts)
        EXPECT_NE(error.message().find(text), std::string::npos)
            << text << " in " << error.message();
    }
  }
  TemporaryFolder folder_;
};

TEST_F(GgufParts, AreOneModelWhicheverIsNamed) {
  for (const uint32_t number : {1u, 2u, 3u}) {
    const auto checkpoint = Checkpoint::open(at(number));
    ASSERT_EQ(checkpoint.gguf_parts().size(), 3u);
    EXPECT_EQ(checkpoint.gguf()->at("general.architecture").as_string(), "llama");
    ASSERT_EQ(checkpoint.tensors().size(), 2u);
    const Tensor& a = checkpoint.tensors()[0];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(load_le<float>(a.bytes.data()), 30);
    EXPECT_EQ(checkpoint.mapping(a).path(), at(3));
    const Tensor& b = *checkpoint.find("b");
    EXPECT_EQ(load_le<float>(b.bytes.data()), 20);
    EXPECT_EQ(checkpoint.mapping(b).path(), at(2));
  }
  EXPECT_EQ(gguf_model_name(at(2)), "big");
  EXPECT_EQ(gguf_model_name("x/big-2-of-3.gguf"), "big-2-of-3");
}

TEST_F(GgufParts, AMissingOneIsNamed) {
  fs::remove(at(2));
  for (const uint32_t from : {1u, 3u})
    expect_refused(Code::kFileset, {"part 2 of 3", "'big-00002-of-00003.gguf'", "missing"}, from);
}

// Download caches keep files elsewhere, behind links.
TEST_F(GgufParts, LinksAreFollowedToFilesAlone) {
  const TemporaryFolder blobs;
  fs::rename(at(2), blobs / "f00d");
  fs::create_symlink(blobs / "f00d", at(2));
  EXPECT_EQ(open_gguf_parts(at(1)).size(), 3u);
  for (const fs::path& target : {blobs / "absent", blobs.path(), fs::path("/dev/zero"), at(2)}) {
    fs::remove(at(2));
    fs::create_symlink(target, at(2));
    expect_refused(Code::kFileset, {"part 2 of 3", name_of(2, 3), "missing"});
  }
  // A link to another part holds that one's keys.
  fs::remove(at(2));
  fs::create_symlink(at(3), at(2));
  expect_refused(Code::kFileset, {name_of(2, 3), "'split.no' is 2", "1 expected"});
  fs::remove(at(2));
  ASSERT_EQ(::mkfifo(at(2).c_str(), 0600), 0);
  expect_refused(Code::kFileset, {"part 2 of 3", name_of(2, 3), "missing"});
}

// No key says where a part lies; counts are those of the name, whatever a file claims.
TEST_F(GgufParts, HostileCountsAndNamesAreRefused) {
  for (const uint32_t count : {0xffffffffu, 100000u, 2u}) {
    write(1, part(1, count, "", 0, 2));
    expect_refused(Code::kFileset, {name_of(1, 3), "'split.count'", "3 expected"});
  }
  write(1, part(1, 3, "", 0, 0xffffffff));
  expect_refused(Code::kFileset, {"'split.tensors.count' is 4294967295", "have 2 tensors"});
  for (const char* name : {"big-00000-of-00003.gguf", "big-00004-of-00003.gguf",
                           "-00001-of-00003.gguf", "big-1-of-3.gguf"}) {
    const fs::path other = folder_.write(name, part(1, 3, "", 0, 2).bytes());
    const Error error = error_of([&] { open_gguf_parts(other); });
    EXPECT_EQ(code_name(error.code()), code_name(Code::kFileset)) << name;
    EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
  }
}

TEST_F(GgufParts, OneInAnothersPlaceIsRefused) {
  write(2, part(3, 3, "b", 20, 2));
  expect_refused(Code::kFileset, {name_of(2, 3), "'split.no' is 2", "1 expected", "part 2 of 3"});
  write(2, part(2, 4, "b", 20, 2));
  expect_refused(Code::kFileset, {name_of(2, 3), "'split.count' is 4", "3 expected"});
  write(2, part(2, 3, "b", 20, 2).remove("split.count"));
  expect_refused(Code::kDirectory, {name_of(2, 3), "'split.count' is missing"});
}

TEST_F(GgufParts, HoldEveryTensorOnce) {
  write(3, part(3, 3, "b", 30, 2));
  expect_refused(Code::kDirectory, {name_of(3, 3), "'b'", name_of(2, 3)});
  write(3, part(3, 3, "", 0, 2));
  expect_refused(Code::kFileset, {"'split.tensors.count' is 2", "the 3 parts have 1 tensors"});
}

TEST_F(GgufParts, AreFoundByTheirNamesAlone) {
  const fs::path other = folder_.path() / "renamed.gguf";
  fs::copy(at(1), other);
  try {
    open_gguf_parts(other);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kFileset);
    EXPECT_NE(error.message().find("NAME-00001-of-00003.gguf"), std::string::npos)
        << error.message();
  }
  // A whole model may be called so, and one part is all of it.
  folder_.write(name_of(1, 2), GgufBuilder().text("k", "v").bytes());
  EXPECT_EQ(open_gguf_parts(folder_.path() / name_of(1, 2)).size(), 1u);
  folder_.write(name_of(1, 1), part(1, 1, "a", 1, 1).bytes());
  EXPECT_EQ(open_gguf_parts(folder_.path() / name_of(1, 1)).size(), 1u);
}

}  // namespace
}  // namespace flare::checkpoint
