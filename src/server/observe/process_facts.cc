// /proc/self, read anew for every scrape.
#include "server/observe/process_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace flare::server::observe {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Seconds since 1970 at which the machine started; 0 where it is not said.
double boot_unix_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("btime ")) return std::strtod(line.c_str() + 6, nullptr);
  return 0;
}

}  // namespace

ProcessFacts read_process_facts() {
  ProcessFacts facts;
  const std::string stat = text_of("/proc/self/stat");
  // The name of the program, in parentheses, may hold anything; fields count from behind it.
  const size_t name_end = stat.rfind(')');
  if (name_end != std::string::npos) {
    std::istringstream fields(stat.substr(name_end + 1));
    std::string field;
    const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    for (int number = 3; fields >> field; ++number) {  // numbers as in proc(5)
      const double value = std::strtod(field.c_str(), nullptr);
      if (number == 14 || number == 15) facts.cpu_seconds += value / ticks;
      if (number == 20) facts.threads = static_cast<uint64_t>(value);
      if (number == 22) facts.start_unix_seconds = boot_unix_seconds() + value / ticks;
      if (number == 23) facts.virtual_bytes = static_cast<uint64_t>(value);
      if (number == 24)
        facts.resident_bytes =
            static_cast<uint64_t>(value) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    }
  }
  std::error_code ec;
  for (std::filesystem::directory_iterator it("/proc/self/fd", ec), end; !ec && it != end;
       it.increment(ec))
    ++facts.open_fds;
  if (facts.open_fds > 0) --facts.open_fds;  // the one that looked
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.max_fds = limit.rlim_cur;
  return facts;
}

}  // namespace flare::server::observe
