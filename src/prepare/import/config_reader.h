// Reading of a checkpoint's config.json with every key accounted for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace flare::prepare {

// One object of a config. Each accessor marks its key as read; a null value counts as absent.
// finish() refuses keys that nobody read, because an unknown key may change the mathematics.
// Errors name file, key, value and expectation: kBinding for wrong types and values and unknown
// keys, kSupport for known features that no model here has.
class ConfigReader {
 public:
  // `where` names file (and member) for messages. `config` must outlive the reader.
  ConfigReader(const Json& config, std::string where);

  const std::string& where() const { return where_; }
  const Json* take(std::string_view key);
  uint64_t count(std::string_view key);  // required, positive
  uint64_t count_or(std::string_view key, uint64_t absent);
  double positive_real(std::string_view key);
  double positive_real_or(std::string_view key, double absent);
  bool flag_or(std::string_view key, bool absent);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  std::optional<std::vector<uint64_t>> counts(std::string_view key);
  // Absent, or one of `allowed`; kSupport otherwise.
  void expect(std::string_view key, std::initializer_list<Json> allowed);
  void ignore(std::span<const std::string_view> keys);
  void finish();

 private:
  [[noreturn]] void wrong(std::string_view key, const Json& value, std::string_view expected) const;
  void mark(std::string_view key);
  uint64_t as_count(std::string_view key, const Json& value) const;
  double as_positive(std::string_view key, const Json& value) const;

  const Json& config_;
  std::string where_;
  std::vector<bool> read_;
};

// `layer_types`: full_attention or `other` for each of so many layers. Where the config lists none,
// every `interval`-th is full. Errors: kBinding for another count, kSupport for another type.
std::vector<std::string> read_layer_types(ConfigReader& config, uint64_t layers,
                                          std::string_view other, uint64_t interval);

// Keys of transformers' base configuration and generation defaults: no effect on the mathematics.
std::span<const std::string_view> neutral_keys();

// A real rounded to binary32, the precision that artifacts keep (§14.5), so that a model reads the
// same numbers from a folder and from an artifact.
double config_real(double value);

}  // namespace flare::prepare
