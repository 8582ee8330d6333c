// A process whose mapped files shrink under it, and other bus errors.
#include "common/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "base/test_support.h"

namespace flare {
namespace {

// Reads the last byte of a mapped file after it became empty, with an output begun.
void read_what_is_gone(const TemporaryFolder& folder) {
  app::prepare_process();
  OutputSet output;
  output.create(folder / "output");
  const MappedFile file = MappedFile::open(folder / "weights.bin");
  if (::truncate(file.path().c_str(), 0) != 0) ::_exit(99);
  const volatile std::byte last = file.bytes().back();
  ::_exit(static_cast<int>(last));
}

TEST(ProcessDeathTest, NamesTheMappedFileThatShrankAndLeavesNoTemporary) {
  const TemporaryFolder folder;
  folder.write("weights.bin", std::string(10000, 'w'));
  EXPECT_EXIT(read_what_is_gone(folder), testing::ExitedWithCode(4),
              "^error: .*/weights.bin: its bytes are gone .* expected\nhint: .*\n$");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"weights.bin"});
}

TEST(ProcessDeathTest, OtherBusErrorsKeepTheirDefaultAction) {
  const auto raise_it = [] {
    app::prepare_process();
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_it(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace flare
