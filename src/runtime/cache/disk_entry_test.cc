// Headers say what they should, and no changed byte passes.
#include "runtime/cache/disk_entry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace flare::runtime {
namespace {

const std::vector<int32_t> kTail = {7, -1, 200'000};

EntryFacts facts(const EntryKey& parent) {
  EntryKey identity;
  identity.fill(std::byte{0xab});
  return {EntryKind::kRow, identity, parent, kTail, 12345};
}

TEST(DiskEntry, NoChangedByteOfAHeaderPasses) {
  const EntryFacts wanted = facts(root_key({}, "salt"));
  Hash128 hash, read;
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<std::byte>(i * 7 + 1);
  std::vector<std::byte> header = entry_header(wanted, hash);
  ASSERT_EQ(header.size(), 4096u);
  EXPECT_EQ(entry_problem(header, wanted, &read), "");
  EXPECT_EQ(read, hash);
  for (size_t i = 0; i < header.size(); ++i)
    for (const std::byte change : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      header[i] ^= change;
      EXPECT_NE(entry_problem(header, wanted, &read), "") << "byte " << i;
      header[i] ^= change;
    }
}

TEST(DiskEntry, AHeaderOfSomethingElseIsToldApart) {
  const EntryFacts wanted = facts(root_key({}, "salt"));
  const std::vector<std::byte> header = entry_header(wanted, {});
  Hash128 hash;
  const auto refused = [&](auto change) {
    EntryFacts other = wanted;
    change(other);
    return !entry_problem(header, other, &hash).empty();
  };
  const std::vector<int32_t> tokens = {7, -1, 200'001}, more = {7, -1, 200'000, 5};
  EXPECT_TRUE(refused([](EntryFacts& f) { f.kind = EntryKind::kPage; }));
  EXPECT_TRUE(refused([](EntryFacts& f) { f.identity[31] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](EntryFacts& f) { f.parent[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](EntryFacts& f) { ++f.payload_bytes; }));
  EXPECT_TRUE(refused([&](EntryFacts& f) { f.tokens = tokens; }));
  EXPECT_TRUE(refused([&](EntryFacts& f) { f.tokens = more; }));
  EXPECT_TRUE(refused([&](EntryFacts& f) { f.tokens = std::span(kTail).first(2); }));
  EXPECT_FALSE(refused([](EntryFacts&) {}));
  for (size_t n = 0; n < header.size(); ++n)
    EXPECT_NE(entry_problem(Bytes(header).first(n), wanted, &hash), "") << n;
}

TEST(DiskEntry, KeysDifferByEverythingThatCountsAndNamesAreTheirs) {
  EntryKey identity{}, other{};
  other[5] = std::byte{1};
  std::set<EntryKey> keys = {root_key(identity, ""), root_key(identity, "a"), root_key(other, "")};
  const EntryKey root = root_key(identity, "");
  keys.insert(
      {page_key(root, kTail), row_key(root, kTail), page_key(page_key(root, kTail), kTail)});
  EXPECT_EQ(keys.size(), 6u);

  const std::string page = page_name(page_key(root, kTail)), row = row_name(root, kTail);
  for (const std::string& name : {page, row, row_name(root, {})}) {
    EXPECT_TRUE(is_entry_name(name)) << name;
    EXPECT_FALSE(is_temporary_name(name));
    EXPECT_TRUE(is_temporary_name(temporary_name(name)));
    EXPECT_FALSE(is_entry_name(temporary_name(name)));
    EXPECT_EQ(name.find('/'), std::string::npos);
  }
  EXPECT_TRUE(row.starts_with(row_prefix(root)));
  EXPECT_EQ(tail_tokens_of(row), 3);
  EXPECT_EQ(tail_tokens_of(row_name(root, {})), 0);
  EXPECT_EQ(tail_tokens_of(page), -1);
}

TEST(DiskEntry, OtherFilesAreNoEntries) {
  const std::string page = page_name({}), row = row_name({}, kTail);
  const std::string digits = page.substr(0, 32);
  for (const std::string& name : {std::string(),
                                  std::string("lock"),
                                  std::string("."),
                                  std::string(".."),
                                  std::string(".page"),
                                  std::string(".tmp"),
                                  std::string("..tmp"),
                                  page + "x",
                                  "x" + page,
                                  page.substr(1),
                                  row.substr(1),
                                  row + ".row",
                                  digits + "..0123456789abcdef.row",
                                  digits + ".1.0123456789abcde.row",
                                  digits + ".-1.0123456789abcdef.row",
                                  digits + ".01.0123456789abcdef.row",
                                  digits + ".99999999999.0123456789abcdef.row",
                                  digits + ".1x.0123456789abcdef.row",
                                  digits + ".1.0123456789ABCDEF.row",
                                  digits + ".1.1.0123456789abcdef.row",
                                  std::string("notes.page"),
                                  std::string("a.row")}) {
    EXPECT_FALSE(is_entry_name(name)) << name;
    EXPECT_FALSE(is_temporary_name(name)) << name;
    EXPECT_EQ(tail_tokens_of(name), -1) << name;
  }
}

}  // namespace
}  // namespace flare::runtime
