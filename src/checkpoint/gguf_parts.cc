// Finding and checking the parts of a split GGUF model.
#include "checkpoint/gguf_parts.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace flare::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 5;

// NAME-00002-of-00005.gguf.
struct PartName {
  std::string model;
  uint64_t number = 0;  // from 1
  uint64_t count = 0;
};

std::optional<uint64_t> five_digits(std::string_view text) {
  uint64_t n = 0;
  if (text.size() != kDigits) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    n = 10 * n + static_cast<uint64_t>(c - '0');
  }
  return n;
}

std::optional<PartName> part_name(const fs::path& path) {
  constexpr std::string_view of = "-of-";
  constexpr size_t tail = 1 + kDigits + of.size() + kDigits;
  if (path.extension() != ".gguf") return std::nullopt;
  const std::string stem = path.stem().string();
  if (stem.size() <= tail) return std::nullopt;
  const std::string_view end = std::string_view(stem).substr(stem.size() - tail);
  if (end[0] != '-' || end.substr(1 + kDigits, of.size()) != of) return std::nullopt;
  const auto number = five_digits(end.substr(1, kDigits));
  const auto count = five_digits(end.substr(1 + kDigits + of.size()));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return PartName{stem.substr(0, stem.size() - tail), *number, *count};
}

fs::path path_of(const fs::path& folder, const PartName& name, uint64_t number) {
  return folder / fmt::format("{}-{:05}-of-{:05}.gguf", name.model, number, name.count);
}

// The keys of part `number` say what its name says.
void check_part(const GgufFile& file, const PartName& name, uint64_t number) {
  const GgufValue count = file.at("split.count");
  if (count.as_u64() != name.count)
    throw Error(Code::kFileset, "{} is {}, {} expected as in the file's name", count.where(),
                count.as_u64(), name.count);
  const GgufValue place = file.at("split.no");
  if (place.as_u64() != number - 1)
    throw Error(Code::kFileset, "{} is {}, {} expected in part {} of {}", place.where(),
                place.as_u64(), number - 1, number, name.count);
}

// Each says how many tensors all of them hold.
void check_tensors(const std::vector<GgufFile>& parts) {
  uint64_t n = 0;
  std::vector<std::pair<std::string_view, size_t>> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    n += parts[i].tensors().size();
    for (const GgufTensor& tensor : parts[i].tensors()) names.emplace_back(tensor.name, i);
  }
  for (const GgufFile& part : parts)
    if (const auto told = part.find("split.tensors.count"); told && told->as_u64() != n)
      throw Error(Code::kFileset, "{} is {}, but the {} parts have {} tensors", told->where(),
                  told->as_u64(), parts.size(), n);
  std::ranges::sort(names);
  const auto twice =
      std::ranges::adjacent_find(names, {}, &std::pair<std::string_view, size_t>::first);
  if (twice != names.end())
    throw Error(Code::kDirectory, "{}: tensor {} is also in {}, one part expected",
                parts[std::next(twice)->second].path().string(), quote(twice->first),
                parts[twice->second].path().filename().string());
}

}  // namespace

std::string gguf_model_name(const fs::path& path) {
  const auto name = part_name(path);
  return name ? name->model : path.stem().string();
}

std::vector<GgufFile> open_gguf_parts(const fs::path& path) {
  std::vector<GgufFile> parts;
  parts.push_back(GgufFile::open(path));
  const auto told = parts.front().find("split.count");
  const uint64_t count = told ? told->as_u64() : 1;
  if (count <= 1) return parts;
  const auto name = part_name(path);
  if (!name)
    throw Error(Code::kFileset,
                "{}: one part of {} by its key 'split.count', the name "
                "NAME-00001-of-{:05}.gguf expected, by which the others are found",
                path.string(), count, count);
  check_part(parts.front(), *name, name->number);
  // All of them first: mapping hundreds of gigabytes to find the last one missing helps nobody.
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (uint64_t number = 1; number <= name->count; ++number)
    if (std::error_code ignored; !fs::is_regular_file(path_of(folder, *name, number), ignored))
      throw Error(Code::kFileset, "{}: part {} of {}, {}, is missing", path.string(), number,
                  name->count, quote(path_of(folder, *name, number).filename().string()));
  parts.clear();
  for (uint64_t number = 1; number <= name->count; ++number) {
    parts.push_back(GgufFile::open(path_of(folder, *name, number)));
    check_part(parts.back(), *name, number);
  }
  check_tensors(parts);
  return parts;
}

}  // namespace flare::checkpoint
