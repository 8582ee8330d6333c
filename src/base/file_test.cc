// Promises of file.h: exact reads, mappings, and output that appears whole or not at all.
#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/test_support.h"

namespace flare {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  fs::path write(std::string_view name, std::string_view text) const {
    return temporary_.write(name, text);
  }
  static std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names() const { return temporary_.names(); }
  using Names = std::vector<std::string>;
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(FileTest, ReadsExactlyTheBytesAskedFor) {
  const File file = File::open(write("a", "0123456789"));
  EXPECT_EQ(file.size(), 10u);
  std::string out(4, '?');
  file.read_at(3, {reinterpret_cast<std::byte*>(out.data()), out.size()});
  EXPECT_EQ(out, "3456");
  file.read_at(10, {});
}

TEST_F(FileTest, ReadPastTheEndIsAReadErrorWithTheName) {
  const File file = File::open(write("short.bin", "0123456789"));
  std::byte out[4];
  EXPECT_EQ(code_of([&] { file.read_at(7, out); }), Code::kRead);
  EXPECT_EQ(code_of([&] { file.read_at(11, out); }), Code::kRead);
  EXPECT_EQ(code_of([&] { file.read_at(~uint64_t{0} - 1, out); }), Code::kRead);
  try {
    file.read_at(8, out);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("short.bin"), std::string::npos) << e.message();
  }
}

TEST_F(FileTest, RefusedMappingsAreLackOfRoomOrAReadError) {
  EXPECT_EQ(mapping_error("weights.bin", 7, ENOMEM).code(), Code::kDoesNotFit);
  EXPECT_EQ(mapping_error("weights.bin", 7, ENODEV).code(), Code::kRead);
  // More than the address space that is left to this process.
  const fs::path path = write("hole", "");
  constexpr rlim_t kTerabyte = rlim_t{1} << 40;
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(kTerabyte)), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit narrow{kTerabyte, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &narrow), 0);
  const Code code = code_of([&] { MappedFile::open(path); });
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(code, Code::kDoesNotFit);
}

TEST_F(FileTest, FileThatShrinksAfterOpeningIsAReadError) {
  const fs::path path = write("a", "0123456789");
  const File file = File::open(path);
  fs::resize_file(path, 2);
  std::byte out[4];
  EXPECT_EQ(code_of([&] { file.read_at(0, out); }), Code::kRead);
}

TEST_F(FileTest, WhatIsNoReadableFileIsNotFound) {
  EXPECT_EQ(code_of([&] { File::open(folder_ / "absent"); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { File::open(folder_); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile::open(folder_ / "absent"); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile::open(folder_); }), Code::kNotFound);
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { File::open(pipe); }), Code::kNotFound);  // and does not wait for a writer
}

TEST_F(FileTest, MovedFilesKeepTheirDescriptorAndMapping) {
  File a = File::open(write("a", "aaaa"));
  File b = File::open(write("b", "bb"));
  a = std::move(b);
  EXPECT_EQ(a.size(), 2u);
  EXPECT_EQ(a.path().filename(), "b");
  std::byte out[2];
  a.read_at(0, out);
  EXPECT_EQ(as_text(out), "bb");
  MappedFile m = MappedFile::open(write("m", "mapped"));
  const MappedFile n = std::move(m);
  EXPECT_EQ(as_text(n.bytes()), "mapped");
}

TEST_F(FileTest, MappingShowsTheFileAndSurvivesRelease) {
  const std::string text(3 * 4096 + 5, 'x');
  const MappedFile file = MappedFile::open(write("a", text));
  EXPECT_EQ(as_text(file.bytes()), text);
  file.release(0, text.size());
  file.release(1, 4096);
  EXPECT_EQ(as_text(file.bytes()), text);
  EXPECT_TRUE(MappedFile::open(write("empty", "")).bytes().empty());
}

TEST_F(FileTest, B019_ACopyInMemoryHasTheBytesAndOutlivesTheFile) {
  std::string text;
  for (int64_t i = 0; text.size() < (17u << 20); ++i) text += std::to_string(i * 7919);
  const auto path = write("large", text);
  const File file = File::open(path);
  EXPECT_FALSE(FilePages::of(file).is_copy());
  const FilePages copy = FilePages::copy_of(file);
  ASSERT_TRUE(copy.is_copy());
  std::filesystem::resize_file(path, 3);
  std::string read(text.size(), '\0');
  ASSERT_EQ(::pread(copy.fd(), read.data(), read.size(), 0), static_cast<ssize_t>(read.size()));
  EXPECT_EQ(read, text);
  // What is gone is an error that names the file, and no signal.
  try {
    FilePages::copy_of(file);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kRead);
    EXPECT_NE(e.message().find(path.string() + ": ends at 3"), std::string::npos) << e.message();
  }
}

TEST_F(FileTest, B019_WhatCannotBeMappedIsRead) {
  // Files of sysfs say that they have a page, hold less, and cannot be mapped.
  const std::filesystem::path path = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) GTEST_SKIP() << path << " is not there";
  EXPECT_TRUE(FilePages::of(File::open(write("none", ""))).fd() >= 0);
  EXPECT_EQ(code_of([&] { MappedFile::open(path); }), Code::kRead);
}

TEST_F(FileTest, TextFilesHaveALimit) {
  const fs::path path = write("a", "0123456789");
  EXPECT_EQ(read_text_file(path), "0123456789");
  EXPECT_EQ(read_text_file(path, 10), "0123456789");
  EXPECT_EQ(code_of([&] { read_text_file(path, 9); }), Code::kInvalid);
  EXPECT_EQ(read_text_file(write("empty", "")), "");
}

TEST_F(FileTest, OutputIsInvisibleUntilPublished) {
  OutputSet set;
  const size_t part = set.create(folder_ / "part");
  const size_t entry = set.create(folder_ / "entry");
  set.append(part, as_bytes("hello "));
  set.append(part, as_bytes("world"));
  set.write_at(part, 0, as_bytes("H"));
  set.write_at(entry, 2, as_bytes("xy"));
  set.resize(entry, 6);
  EXPECT_FALSE(fs::exists(folder_ / "part"));
  for (const std::string& name : names()) {
    EXPECT_EQ(name.front(), '.') << name;
    EXPECT_TRUE(name.ends_with(".tmp")) << name;
  }
  set.publish();
  EXPECT_EQ(names(), (Names{"entry", "part"}));
  EXPECT_EQ(contents(folder_ / "part"), "Hello world");
  EXPECT_EQ(contents(folder_ / "entry"), std::string("\0\0xy\0\0", 6));
}

TEST_F(FileTest, OutputThatIsNotPublishedLeavesNothing) {
  {
    OutputSet set;
    set.append(set.create(folder_ / "a"), as_bytes("a"));
    set.append(set.create(folder_ / "b"), as_bytes("b"));
  }
  EXPECT_EQ(names(), Names{});
}

TEST_F(FileTest, ExistingTargetsAreRefusedAtCreation) {
  write("a", "old");
  fs::create_symlink("nowhere", folder_ / "dangling");
  OutputSet set;
  EXPECT_EQ(code_of([&] { set.create(folder_ / "a"); }), Code::kExists);
  EXPECT_EQ(code_of([&] { set.create(folder_ / "dangling"); }), Code::kExists);
  EXPECT_EQ(contents(folder_ / "a"), "old");
}

TEST_F(FileTest, TargetThatAppearsMeanwhileIsKeptAndTheWholeSetWithdrawn) {
  {
    OutputSet set;
    set.append(set.create(folder_ / "part"), as_bytes("new"));
    set.append(set.create(folder_ / "entry"), as_bytes("new"));
    write("entry", "somebody else's");
    EXPECT_EQ(code_of([&] { set.publish(); }), Code::kExists);
  }
  EXPECT_EQ(names(), Names{"entry"});
  EXPECT_EQ(contents(folder_ / "entry"), "somebody else's");
}

TEST_F(FileTest, ForceReplacesAndRemovesOldParts) {
  write("entry", "old");
  write("part.1", "old");
  write("part.2", "old");
  OutputSet set(true);
  set.append(set.create(folder_ / "part.1"), as_bytes("new"));
  set.append(set.create(folder_ / "entry"), as_bytes("new"));
  EXPECT_EQ(contents(folder_ / "entry"), "old");
  set.publish({}, {folder_ / "part.2"});
  EXPECT_EQ(names(), (Names{"entry", "part.1"}));
  EXPECT_EQ(contents(folder_ / "entry"), "new");
  EXPECT_EQ(contents(folder_ / "part.1"), "new");
}

TEST_F(FileTest, ForceReplacesNothingButFiles) {
  write("file", "old");
  fs::create_symlink("file", folder_ / "link");
  fs::create_directory(folder_ / "folder");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "folder", "pipe"}) {
    OutputSet set(true);
    try {
      set.create(folder_ / name);
      ADD_FAILURE() << name << " would be replaced";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kExists) << name;
    }
  }
  EXPECT_EQ(names(), (Names{"file", "folder", "link", "pipe"}));
}

TEST_F(FileTest, ForceKeepsOldFilesWhenTheRunEndsEarly) {
  write("entry", "old");
  {
    OutputSet set(true);
    set.append(set.create(folder_ / "entry"), as_bytes("half"));
  }
  EXPECT_EQ(names(), Names{"entry"});
  EXPECT_EQ(contents(folder_ / "entry"), "old");
}

TEST_F(FileTest, PublicationFollowsTheGivenOrder) {
  // What comes last in the order cannot get its name; what comes before it has got it by then.
  OutputSet set;
  const size_t a = set.create(folder_ / "a");
  const size_t b = set.create(folder_ / "b");
  write("a", "in the way");
  EXPECT_EQ(code_of([&] { set.publish({b, a}); }), Code::kExists);
  EXPECT_TRUE(fs::exists(folder_ / "b"));
}

TEST_F(FileTest, MissingFolderIsNotFound) {
  OutputSet set;
  EXPECT_EQ(code_of([&] { set.create(folder_ / "absent" / "a"); }), Code::kNotFound);
}

TEST_F(FileTest, TextFileIsWrittenWhole) {
  write_text_file(folder_ / "a", "text");
  EXPECT_EQ(contents(folder_ / "a"), "text");
  EXPECT_EQ(code_of([&] { write_text_file(folder_ / "a", "other"); }), Code::kExists);
  EXPECT_EQ(contents(folder_ / "a"), "text");
  write_text_file(folder_ / "a", "other", true);
  EXPECT_EQ(contents(folder_ / "a"), "other");
  EXPECT_EQ(names(), Names{"a"});
}

}  // namespace
}  // namespace flare
