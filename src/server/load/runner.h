// Sends a load to a server and keeps what every request showed: closed loop or open loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/http/client.h"
#include "server/load/record.h"
#include "server/load/workload.h"

namespace flare::server::load {

// The server as it was found.
struct Target {
  std::string model;
  bool chat = true;          // else text completions: raw prompts, no roles
  http::Headers headers;     // keys
  uint32_t max_context = 0;  // 0: it does not say
  bool ignore_eos = true;    // answers have their full length; false where it is refused
  TokenScale scale;
  int timeout_s = 300;  // of one request
};

// One row of the report.
struct Point {
  Scenario scenario = Scenario::kUniform;
  uint32_t prompt_tokens = 512;  // of the first question
  uint32_t output_tokens = 128;
  uint32_t concurrency = 1;  // closed loop: sessions at once, each begins when one has ended
  double rate = 0;           // open loop: sessions begin so many times a second, at random
  uint32_t sessions = 1;     // of a repetition
  uint32_t turns = 1;        // of a session
  uint32_t repetitions = 1;
  uint64_t seed = 1;

  // Tokens of the longest conversation, its last answer included.
  uint64_t longest() const;
};

struct PointResult {
  Point point;
  std::vector<Record> records;
  std::vector<double> wall_s;  // of each repetition
  bool interrupted = false;
};

class Runner {
 public:
  explicit Runner(http::Client& client) : client_(client) {}

  // Asks for the model, unless target->model is given, and finds how the server counts words.
  // Errors: kNetwork (it cannot be reached, or refuses the first question; its own words).
  void discover(Target* target);
  // `told` runs after each request.
  PointResult run(const Target& target, const Point& point,
                  const std::function<void(const Record&)>& told);

 private:
  struct Repetition;
  Record ask(const Target& target, const Json& messages, uint32_t max_tokens);
  Json get(const Target& target, const std::string& path);
  void calibrate(Target* target);
  uint64_t count(Target* target, uint32_t words);
  http::Client& client_;
};

}  // namespace flare::server::load
