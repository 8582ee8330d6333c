// Test support: the tensors of a golden safetensors file, read plainly.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/json/json.h"

namespace flare::codec {

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto* begin = reinterpret_cast<const std::byte*>(all.data());
    const auto length = load_le<uint64_t>(begin);
    header_ = parse_json(all.substr(8, length), path.string());
    data_.assign(begin + 8 + length, begin + all.size());
  }
  std::vector<std::byte> bytes(const std::string& name) const {
    const Json::Array& ends = header_.at(name).at("data_offsets").as_array();
    const auto at = [&](size_t i) { return static_cast<ptrdiff_t>(ends[i].as_u64("offset")); };
    return {data_.begin() + at(0), data_.begin() + at(1)};
  }
  std::vector<float> floats(const std::string& name) const {
    const std::vector<std::byte> raw = bytes(name);
    std::vector<float> values(raw.size() / sizeof(float));
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }

 private:
  Json header_;
  std::vector<std::byte> data_;
};

}  // namespace flare::codec
