// GGUF files put together value by value, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/gguf.h"

namespace flare::checkpoint::test {

// The bytes of numbers and texts one after the other.
class GgufBytes {
 public:
  template <typename T>
  GgufBytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& text(std::string_view s) {
    number<uint64_t>(s.size());
    text_.append(s);
    return *this;
  }
  GgufBytes& raw(std::string_view s) {
    text_.append(s);
    return *this;
  }
  GgufBytes& kind(GgufKind kind) { return number(static_cast<uint32_t>(kind)); }
  GgufBytes& align(size_t to) {
    text_.resize((text_.size() + to - 1) / to * to);
    return *this;
  }
  const std::string& all() const { return text_; }

 private:
  std::string text_;
};

// A file of version 3. Keys and tensors keep the order in which they were set.
class GgufBuilder {
 public:
  GgufBuilder& u32(const std::string& key, uint32_t value) {
    return set(key, GgufBytes().kind(GgufKind::kU32).number(value).all());
  }
  GgufBuilder& f32(const std::string& key, float value) {
    return set(key, GgufBytes().kind(GgufKind::kF32).number(value).all());
  }
  GgufBuilder& text(const std::string& key, std::string_view value) {
    return set(key, GgufBytes().kind(GgufKind::kString).text(value).all());
  }
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& values) {
    GgufBytes bytes = array(GgufKind::kString, values.size());
    for (const std::string& value : values) bytes.text(value);
    return set(key, bytes.all());
  }
  GgufBuilder& u32s(const std::string& key, const std::vector<uint32_t>& values) {
    GgufBytes bytes = array(GgufKind::kU32, values.size());
    for (const uint32_t value : values) bytes.number(value);
    return set(key, bytes.all());
  }
  GgufBuilder& flags(const std::string& key, const std::vector<bool>& values) {
    GgufBytes bytes = array(GgufKind::kBool, values.size());
    for (const bool value : values) bytes.number<uint8_t>(value ? 1 : 0);
    return set(key, bytes.all());
  }
  // `shape` as GgufTensor has it, slowest dimension first.
  GgufBuilder& tensor(const std::string& name, std::vector<uint64_t> shape, uint32_t type,
                      std::string data) {
    remove_tensor(name);
    tensors_.push_back({name, std::move(shape), type, std::move(data)});
    return *this;
  }
  GgufBuilder& remove_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
    return *this;
  }
  GgufBuilder& remove(const std::string& key) {
    std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
    return *this;
  }

  // Keys that begin with `prefix` begin with `with` instead.
  GgufBuilder& rename(const std::string& prefix, const std::string& with) {
    for (auto& [key, bytes] : keys_)
      if (key.starts_with(prefix)) key = with + key.substr(prefix.size());
    return *this;
  }

  // Bytes before the data section.
  std::string header() const {
    GgufBytes out;
    out.raw("GGUF").number<uint32_t>(3).number<uint64_t>(tensors_.size());
    out.number<uint64_t>(keys_.size());
    for (const auto& [key, bytes] : keys_) out.text(key).raw(bytes);
    uint64_t offset = 0;
    for (const Tensor& t : tensors_) {
      out.text(t.name).number(static_cast<uint32_t>(t.shape.size()));
      for (size_t i = t.shape.size(); i-- > 0;) out.number(t.shape[i]);
      out.number(t.type).number(offset);
      offset += (t.data.size() + 31) / 32 * 32;
    }
    return out.align(32).all();
  }
  std::string bytes() const {
    GgufBytes out;
    out.raw(header());
    for (const Tensor& t : tensors_) out.raw(t.data).align(32);
    return out.all();
  }

 private:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type;
    std::string data;
  };
  static GgufBytes array(GgufKind element, uint64_t count) {
    return GgufBytes().kind(GgufKind::kArray).kind(element).number(count);
  }
  GgufBuilder& set(const std::string& key, std::string bytes) {
    remove(key);
    keys_.emplace_back(key, std::move(bytes));
    return *this;
  }
  std::vector<std::pair<std::string, std::string>> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace flare::checkpoint::test
