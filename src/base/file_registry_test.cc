// What signal handlers ask: paths of mappings by address, temporaries that are to go.
#include "base/file_registry.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/file.h"
#include "base/test_support.h"

namespace flare {
namespace {

std::string path_at(const void* address) {
  const char* path = path_of_mapping_at(address);
  return path == nullptr ? "none" : path;
}

TEST(FileRegistry, AMappedFileIsKnownByItsBytesWhileItLives) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a", std::string(10000, 'a')), b = folder.write("b", "bb");
  std::optional<MappedFile> first = MappedFile::open(a);
  const Bytes bytes = first->bytes();
  MappedFile second = MappedFile::open(b);
  EXPECT_EQ(path_at(bytes.data()), a);
  EXPECT_EQ(path_at(bytes.data() + 9999), a);
  EXPECT_EQ(path_at(second.bytes().data() + 1), b);
  EXPECT_EQ(path_at(second.bytes().data() + 2), "none");
  EXPECT_EQ(path_at(nullptr), "none");
  EXPECT_EQ(path_at(&bytes), "none");
  {
    const MappedFile moved = std::move(*first);
    first.reset();
    EXPECT_EQ(path_at(bytes.data()), a);
  }
  EXPECT_EQ(path_at(bytes.data()), "none");
}

TEST(FileRegistry, PathsAreShownInOneLineAndFullTablesAreNoError) {
  const std::string bytes(5000, 'x');
  const Bytes all = as_bytes(bytes);
  for (size_t i = 0; i < all.size(); ++i) note_mapping(all.subspan(i, 1), "a\nb");
  EXPECT_EQ(path_at(bytes.data()), "a b");
  EXPECT_EQ(path_at(bytes.data() + 4999), "none");
  forget_mappings(all);
  EXPECT_EQ(path_at(bytes.data()), "none");
  note_mapping(all, std::string(100000, 'p'));
  EXPECT_EQ(path_at(bytes.data()), "none");
  note_mapping(all, "again");
  EXPECT_EQ(path_at(bytes.data() + 4999), "again");
  forget_mappings(all);
}

TEST(FileRegistry, TemporariesOfOutputsGoAndNothingElse) {
  const TemporaryFolder folder;
  OutputSet published;
  published.create(folder / "kept");
  published.publish();
  OutputSet begun;
  begun.create(folder / "begun");
  EXPECT_EQ(folder.names().size(), 2u);
  unlink_temporaries();
  EXPECT_EQ(folder.names(), std::vector<std::string>{"kept"});
}

}  // namespace
}  // namespace flare
