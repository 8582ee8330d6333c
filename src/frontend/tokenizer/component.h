// Reading the components of tokenizer.json: typed members whose errors say where they stand.
#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"

namespace flare::frontend::tokenizer {

// One JSON object of the file and its path, such as "tokenizer.json: pre_tokenizer". A view.
// Every error is kInvalid: "path: member, value, expectation".
class Component {
 public:
  // Fails unless `json` is an object.
  Component(const Json& json, std::string path);

  const std::string& path() const { return path_; }
  const Json& json() const { return *json_; }
  // The member "type".
  const std::string& type() const { return text("type"); }
  // The member, or nullptr if it is missing or null.
  const Json* find(std::string_view name) const;
  const Json& at(std::string_view name) const;
  Component object(std::string_view name) const { return {at(name), path_of(name)}; }
  const Json::Array& array(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  std::string text_or(std::string_view name, std::string fallback) const;
  bool flag(std::string_view name) const;
  bool flag_or(std::string_view name, bool fallback) const;
  // An integer within [0, limit).
  uint32_t number(std::string_view name, uint32_t limit) const;
  // Exactly one character.
  char32_t character(std::string_view name) const;

  std::string path_of(std::string_view name) const;
  std::string path_of(std::string_view name, size_t index) const;
  // "path: type 'X' is not supported".
  [[noreturn]] void refuse_type() const;

 private:
  const Json* json_;
  std::string path_;
};

// Bound on every id of a tokenizer: the largest vocabularies have about 2^18 tokens.
inline constexpr uint32_t kMaxIds = 1u << 24;

// `json` as an id.
uint32_t id_of(const Json& json, std::string_view path);

}  // namespace flare::frontend::tokenizer
