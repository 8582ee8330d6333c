// See doctor_checks.h.
#include "flare/doctor_checks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/error.h"
#include "flare/model_loading.h"
#include "prepare/parameter_source.h"
#include "server/access/key_ring.h"
#include "server/http/http.h"
#include "server/http/tls.h"

namespace flare::app {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

constexpr double kGiB = 1 << 30;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding check_cpu() {
  const auto isa = machine_isa();
  if (!isa)
    return {State::kProblem, "cpu", cpu_model_name() + ": below x86-64-v2",
            "flare needs SSE4.2 and POPCNT: use another machine"};
  const std::string fact = fmt::format("{}: level {}", cpu_model_name(), isa_name(*isa));
  if (*isa < Isa::kV3)
    return {State::kWarning, "cpu", fact + ", without AVX2",
            "kernels for AVX2 and AVX-512 are several times faster"};
  return {State::kOk, "cpu", fact, ""};
}

Finding check_cores() {
  const size_t cores = own_cores().size(), usable = usable_cores().size();
  std::string fact = fmt::format("{} of {} hardware threads: {} physical cores", usable,
                                 std::thread::hardware_concurrency(), cores);
  if (usable == cores) return {State::kOk, "cores", fact, ""};
  return {State::kWarning, "cores", fact + fmt::format(", {} within the CPU quota", usable),
          "raise the quota of the container (cpu.max) to use them all"};
}

Finding check_nodes() {
  size_t nodes = 0;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", failure)) {
    const std::string name = entry.path().filename();
    nodes += name.starts_with("node") && name.find_first_of("0123456789") == 4;
  }
  if (nodes <= 1) return {State::kOk, "numa", "one memory node", ""};
  return {State::kWarning, "numa", fmt::format("{} memory nodes", nodes),
          "bind the server to one of them, with numactl or AllowedCPUs="};
}

std::vector<Finding> check_groups() {
  const CgroupLimits limits = cgroup_limits();
  std::string fact = limits.cpus ? fmt::format("{:.2f} CPUs", *limits.cpus) : "no CPU quota";
  fact += limits.memory_left
              ? fmt::format(", {:.1f} GiB of memory left", double(*limits.memory_left) / kGiB)
              : ", no memory limit";
  if (limits.cpus && *limits.cpus < 1)
    return {{State::kWarning, "cgroup", fact, "less than one CPU: raise cpu.max"}};
  return {{State::kOk, "cgroup", fact, ""}};
}

Finding check_memory() {
  const uint64_t available = available_memory_bytes();
  const std::string fact =
      fmt::format("{:.1f} GiB available of {:.1f} GiB", double(available) / kGiB,
                  double(total_memory_bytes()) / kGiB);
  if (available < (uint64_t{512} << 20))
    return {State::kProblem, "memory", fact, "free some: even small models need half a GiB"};
  return {State::kOk, "memory", fact, ""};
}

// "always [madvise] never": the chosen word.
Finding check_huge_pages() {
  const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t begin = modes.find('['), end = modes.find(']');
  if (begin == std::string::npos || end == std::string::npos)
    return {State::kOk, "huge pages", "this kernel does not tell", ""};
  const std::string mode = modes.substr(begin + 1, end - begin - 1);
  if (mode == "never")
    return {State::kWarning, "huge pages", "transparent ones are off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
  return {State::kOk, "huge pages", "transparent ones: " + mode, ""};
}

std::string amount(rlim_t value, double unit, std::string_view name) {
  return value == RLIM_INFINITY ? "unlimited" : fmt::format("{:.0f}{}", double(value) / unit, name);
}

std::vector<Finding> check_limits() {
  rlimit locked{}, files{};
  ::getrlimit(RLIMIT_MEMLOCK, &locked);
  ::getrlimit(RLIMIT_NOFILE, &files);
  constexpr rlim_t kFiles = 1024 + 256;
  std::vector<Finding> out = {
      {State::kOk, "lock limit", amount(locked.rlim_cur, 1024, " KiB may be locked"), ""}};
  const std::string fact = fmt::format("{} allowed, at most {}", amount(files.rlim_cur, 1, ""),
                                       amount(files.rlim_max, 1, ""));
  if (files.rlim_max < kFiles)
    out.push_back({State::kWarning, "open files", fact,
                   "1024 connections want 1280: raise it (ulimit -Hn, LimitNOFILE=)"});
  else
    out.push_back({State::kOk, "open files", fact, ""});
  return out;
}

Finding check_model(const std::string& argument) try {
  const fs::path model = model_path(argument);
  prepare::open_source(model, "", 1);
  uint64_t bytes = 0;
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) {
    for (const auto& entry : fs::directory_iterator(model, ignored))
      if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  } else {
    bytes = fs::file_size(model, ignored);
  }
  const std::string fact =
      fmt::format("{}: readable, {:.2f} GiB", model.string(), double(bytes) / kGiB);
  if (bytes > available_memory_bytes())
    return {State::kWarning, "model", fact + ", more than the available memory",
            "free memory, or choose a smaller number format (--recipe q4)"};
  return {State::kOk, "model", fact, ""};
} catch (const Error& error) {
  return {State::kProblem, "model", error.message(),
          error.hint().empty() ? "check the path and the files of the model" : error.hint()};
}

// Nobody is listening yet, so that the port can be taken for a moment.
Finding check_port(const DoctorSubject& subject) try {
  server::http::Options options;
  options.host = subject.host;
  options.port = subject.port;
  const server::http::Server server(
      options, [](const auto&, const auto& exchange) { exchange->respond(503, "", ""); });
  return {State::kOk, "port", fmt::format("{}:{} is free", subject.host, subject.port), ""};
} catch (const Error& error) {
  return {State::kProblem, "port", error.message(),
          error.hint().empty() ? "choose another --host" : error.hint()};
}

Finding check_keys(const DoctorSubject& subject) try {
  server::http::Options options;
  options.host = subject.host;
  if (!subject.api_key_file.empty())
    return {State::kOk, "keys",
            fmt::format("{}: {} keys", subject.api_key_file,
                        server::KeyRing::read(subject.api_key_file).size()),
            ""};
  if (server::http::is_local_only(options))
    return {State::kOk, "keys", "none, and none are needed on this machine alone", ""};
  return {State::kProblem, "keys",
          fmt::format("none, but {} can be reached from elsewhere", subject.host),
          "give --api-key-file PATH"};
} catch (const Error& error) {
  return {State::kProblem, "keys", error.message(),
          error.hint().empty() ? "correct the key file" : error.hint()};
}

Finding check_certificate(const DoctorSubject& subject) try {
  server::http::TlsContext::load(subject.tls_certificate, subject.tls_key);
  return {State::kOk, "certificate", subject.tls_certificate + " and its key", ""};
} catch (const Error& error) {
  return {State::kProblem, "certificate", error.message(), "give --tls-cert and --tls-key"};
}

}  // namespace

Finding check_configuration(const std::function<std::string()>& load) try {
  const std::string path = load();
  return {State::kOk, "configuration", path.empty() ? "no file, none is needed" : path, ""};
} catch (const Error& error) {
  return {State::kProblem, "configuration", error.message(),
          error.hint().empty() ? "correct the file" : error.hint()};
}

std::vector<Finding> check_machine() {
  std::vector<Finding> out = {check_cpu(), check_cores(), check_nodes()};
  for (Finding& finding : check_groups()) out.push_back(std::move(finding));
  out.push_back(check_memory());
  out.push_back(check_huge_pages());
  for (Finding& finding : check_limits()) out.push_back(std::move(finding));
  return out;
}

std::vector<Finding> check_server(const DoctorSubject& subject) {
  std::vector<Finding> out = {check_model(subject.model), check_port(subject), check_keys(subject)};
  if (!subject.tls_certificate.empty() || !subject.tls_key.empty())
    out.push_back(check_certificate(subject));
  return out;
}

}  // namespace flare::app
