// The image helper: the same pictures and faults as in process, workers that cannot do anything
// else, and their deaths.
#include "server/service/image_helper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/test_support.h"

namespace flare::server {
namespace {

namespace fs = std::filesystem;
using media::Image;
using media::ImageError;

fs::path corpus() { return fs::path(FLARE_SOURCE_DIR) / "fuzz/corpus/image"; }

// Size and pixels, or code and message.
template <typename Decode>
std::string outcome(Decode&& decode) {
  try {
    const Image image = decode();
    return fmt::format("{} × {}: {}", image.width, image.height,
                       std::string(image.rgb.begin(), image.rgb.end()));
  } catch (const ImageError& error) {
    return fmt::format("{}: {}", error.wire_code(), error.message());
  }
}

// A JPEG of 6000 × 6000 whose 20 scans hold nothing; decoding takes a large part of a second.
std::string slow_picture() {
  std::string out("\xff\xd8\xff\xdb\0\x43\0", 7);
  out += std::string(64, '\1') + std::string("\xff\xca\0\x11\x08\x17\x70\x17\x70", 9);
  out += std::string("\3\1\x11\0\2\x11\0\3\x11\0", 10);
  out += std::string("\xff\xda\0\x0c\3\1\0\2\0\3\0\0\0\0\0", 15);
  for (int i = 1; i < 20; ++i) out += std::string("\xff\xda\0\x08\1\1\0\1\x3f\0\0\0", 12);
  return out + "\xff\xd9";
}

// The first child of a process, if it has one.
std::optional<pid_t> child_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", process, process));
  pid_t child;
  return file >> child ? std::optional(child) : std::nullopt;
}
// The worker of the only helper, once it is there.
pid_t wait_for_worker() {
  const pid_t helper = child_of(::getpid()).value();
  while (true) {
    if (const auto worker = child_of(helper)) return *worker;
    std::this_thread::yield();
  }
}
std::string status_of(pid_t process, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return line.substr(name.size() + 2);
  return "";
}

// Whether a worker may open nothing any more, which is behind its start of the clock.
bool is_limited(pid_t worker) {
  std::ifstream file(fmt::format("/proc/{}/limits", worker));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Max open files")) return std::stoull(line.substr(14)) == 0;
  return false;
}

int64_t n_open(pid_t process) {
  return std::distance(fs::directory_iterator(fmt::format("/proc/{}/fd", process)), {});
}

TEST(ImageHelper, GivesThePicturesAndFaultsOfTheDecoder) {
  const ImageHelper helper;
  int n_files = 0;
  for (const auto& entry : fs::directory_iterator(corpus())) {
    const std::string file = read_text_file(entry.path());
    EXPECT_EQ(outcome([&] { return helper.decode(as_bytes(file)); }),
              outcome([&] { return media::decode_image(as_bytes(file)); }))
        << entry.path();
    ++n_files;
  }
  EXPECT_GT(n_files, 40);
  const std::string file = read_text_file(corpus() / "1x4000.png");
  EXPECT_EQ(outcome([&] { return helper.decode(as_bytes(file), {.max_aspect_ratio = 200}); }),
            "image_too_large: image: 1 × 4000 pixels, aspect ratio 4000.0, expected at most 200");
  EXPECT_TRUE(outcome([&] {
                return helper.decode(as_bytes(file), {.max_bytes = 9});
              }).starts_with("image_too_large"));
}

TEST(ImageHelper, ServesManyThreads) {
  const ImageHelper helper;
  const std::string file = read_text_file(corpus() / "baseline.jpg");
  const std::string want = outcome([&] { return media::decode_image(as_bytes(file)); });
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 10; ++n)
        EXPECT_EQ(outcome([&] { return helper.decode(as_bytes(file)); }), want);
    });
}

TEST(ImageHelper, WorkersAreConfinedAndTheirDeathIsAFaultOfThatImageAlone) {
  const ImageHelper helper;
  if (!child_of(::getpid())) GTEST_SKIP() << "the system does not list children of processes";
  const std::string slow = slow_picture();
  auto answer = std::async(std::launch::async,
                           [&] { return outcome([&] { return helper.decode(as_bytes(slow)); }); });
  const pid_t worker = wait_for_worker();
  if (helper.unconfined_because().empty()) {
    while (status_of(worker, "Seccomp") == "0") std::this_thread::yield();
    EXPECT_EQ(status_of(worker, "Seccomp"), "2");  // a filter
  }
  while (n_open(worker) != 1) std::this_thread::yield();  // its socket
  ::kill(worker, SIGKILL);
  EXPECT_EQ(answer.get(),
            "invalid_image: image: its decoding was ended by the system, expected a picture that "
            "decodes within bounds");
  const std::string file = read_text_file(corpus() / "baseline.jpg");
  EXPECT_TRUE(outcome([&] { return helper.decode(as_bytes(file)); }).starts_with("256 × 192"));
}

TEST(ImageHelper, AWorkerThatTakesTooLongIsEndedByTheClock) {
  const ImageHelper helper(1, 1);
  if (!child_of(::getpid())) GTEST_SKIP() << "the system does not list children of processes";
  const std::string slow = slow_picture();
  auto answer = std::async(std::launch::async,
                           [&] { return outcome([&] { return helper.decode(as_bytes(slow)); }); });
  const pid_t worker = wait_for_worker();
  while (!is_limited(worker)) ASSERT_EQ(::kill(worker, 0), 0) << "it ended before its time";
  ::kill(worker, SIGSTOP);  // as if it hung: uses no CPU time from here on
  EXPECT_TRUE(answer.get().starts_with("invalid_image"));
  constexpr uint64_t kAlarm = uint64_t{1} << (SIGALRM - 1);
  while ((std::stoull(status_of(worker, "ShdPnd"), nullptr, 16) & kAlarm) == 0)
    std::this_thread::yield();  // the clock's signal waits for the stop's end
  ::kill(worker, SIGCONT);
  while (::kill(worker, 0) == 0) std::this_thread::yield();
}

TEST(ImageHelper, NoMoreWorkersThanAllowed) {
  const ImageHelper helper(1);
  if (!child_of(::getpid())) GTEST_SKIP() << "the system does not list children of processes";
  const std::string slow = slow_picture(), file = read_text_file(corpus() / "baseline.jpg");
  const auto decode = [&](const std::string& one) {
    return std::async(std::launch::async,
                      [&] { return outcome([&] { return helper.decode(as_bytes(one)); }); });
  };
  auto first = decode(slow);
  const pid_t worker = wait_for_worker();
  ::kill(worker, SIGSTOP);
  auto second = decode(file);
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  ::kill(worker, SIGKILL);
  EXPECT_TRUE(first.get().starts_with("invalid_image"));
  EXPECT_TRUE(second.get().starts_with("256 × 192"));
}

// The system has no more processes: not the image's fault.
TEST(ImageHelper, AWorkerThatCannotBeMadeIsAnErrorOfTheServer) {
  const std::string file = read_text_file(corpus() / "baseline.jpg");
  EXPECT_EXIT(
      {
        if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(0);  // root has no such limit
        const ImageHelper helper;
        const rlimit none = {};
        const auto process = child_of(::getpid());
        if (!process || ::prlimit(*process, RLIMIT_NPROC, &none, nullptr) != 0) ::_exit(0);
        const Error error = error_of([&] { helper.decode(as_bytes(file)); });
        ::_exit(error.code() == Code::kInternal &&
                        error.message().find("no process") != std::string::npos
                    ? 0
                    : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(ImageHelper, ALostHelperIsAnError) {
  const ImageHelper helper;
  const auto process = child_of(::getpid());
  if (!process) GTEST_SKIP() << "the system does not list children of processes";
  ::kill(*process, SIGKILL);
  while (status_of(*process, "State").starts_with("Z") == false) std::this_thread::yield();
  EXPECT_EQ(code_of([&] { helper.decode(as_bytes(slow_picture())); }), Code::kInternal);
}

}  // namespace
}  // namespace flare::server
