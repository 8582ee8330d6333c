// Lines are whole and none is lost in silence, whoever writes and whatever the disk does.
#include "server/observe/request_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/test_support.h"

namespace flare::server::observe {
namespace {

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(parse_json(line, "line"));
  return lines;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RequestLog, LinesOfManyThreadsStayWholeWhileTheFileIsOpenedAgain) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "log";
  constexpr int kThreads = 4, kLines = 300;
  {
    RequestLog log(path);
    std::vector<std::jthread> writers;
    for (int t = 0; t < kThreads; ++t)
      writers.emplace_back([&log, t] {
        for (int i = 0; i < kLines; ++i) {
          RequestRecord record;
          record.id = fmt::format("\"\n{}:{}", t, i);
          log.request_done(record);
        }
      });
    for (int i = 0; i < 20; ++i) {
      std::error_code ignored;
      std::filesystem::rename(path, folder.path() / fmt::format("log.{}", i), ignored);
      log.reopen();
    }
  }
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    for (const Json& line : lines_of(text_of(entry.path()))) {
      EXPECT_EQ(line.at("v").as_u64(), 1u);
      EXPECT_TRUE(line.at("id").as_string().starts_with("\"\n"));
      ++n;
    }
  }
  EXPECT_EQ(n, size_t{kThreads} * kLines);
}

// A pipe that nobody empties is a disk that hangs.
TEST(RequestLog, DropsAndSaysSoRatherThanWait) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  std::string text;
  uint64_t dropped = 0;
  constexpr uint64_t kLines = 3000;  // more than a batch that is being written and a full queue
  std::jthread draining;
  {
    RequestLog log(path);
    const std::string filler(3000, 'x');
    for (uint64_t i = 0; i < kLines; ++i)
      log.write("throughput", Json::object({{"filler", filler}}));
    dropped = log.dropped();
    ::fcntl(reader, F_SETFL, 0);
    draining = std::jthread([&text, reader] {
      char buffer[65536];
      for (ssize_t n; (n = ::read(reader, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    });
  }
  draining.join();
  ::close(reader);
  EXPECT_GT(dropped, 0u);
  uint64_t written = 0, said = 0;
  for (const Json& line : lines_of(text)) {
    if (line.at("event").as_string() == "lines_dropped")
      said += line.at("count").as_u64();
    else
      ++written;
  }
  EXPECT_EQ(said, dropped);
  EXPECT_EQ(written + dropped, kLines);
}

TEST(RequestLog, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(RequestLog("/no/such/folder/log"), Error);
}

}  // namespace
}  // namespace flare::server::observe
