// The checks of `flare doctor`: each looks at one thing and says what it found.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace flare::app {

struct Finding {
  enum class State { kOk, kWarning, kProblem };
  State state = State::kOk;
  std::string what;    // "memory"
  std::string fact;    // one line
  std::string remedy;  // what to do; empty where nothing is to be done
};

struct DoctorSubject {
  std::string model;  // the MODEL argument
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string api_key_file, tls_certificate, tls_key;  // empty: none
};

// `load` reads the configuration and returns its path, or nothing where there is none.
Finding check_configuration(const std::function<std::string()>& load);
// CPU level and cores, control groups, memory, huge pages, lock limit, open files.
std::vector<Finding> check_machine();
// Files and the port that a server would use. The model's memory is judged by its size on disk.
std::vector<Finding> check_server(const DoctorSubject& subject);

}  // namespace flare::app
