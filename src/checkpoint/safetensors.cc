// Reading one safetensors file: frame, header, dtypes, and the map of its data section.
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/error.h"

namespace flare::checkpoint {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
// From here on the parser made for megabytes is the faster one.
constexpr uint64_t kLargeHeaderBytes = 1 << 20;
constexpr std::string_view kMetadata = "__metadata__";

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int bits;
};
// In the order of DType.
constexpr std::array kDTypes = {
    DTypeRow{DType::kBool, "BOOL", 8},      DTypeRow{DType::kU8, "U8", 8},
    DTypeRow{DType::kI8, "I8", 8},          DTypeRow{DType::kF8E4M3, "F8_E4M3", 8},
    DTypeRow{DType::kF8E5M2, "F8_E5M2", 8}, DTypeRow{DType::kF8E8M0, "F8_E8M0", 8},
    DTypeRow{DType::kI16, "I16", 16},       DTypeRow{DType::kU16, "U16", 16},
    DTypeRow{DType::kF16, "F16", 16},       DTypeRow{DType::kBf16, "BF16", 16},
    DTypeRow{DType::kI32, "I32", 32},       DTypeRow{DType::kU32, "U32", 32},
    DTypeRow{DType::kF32, "F32", 32},       DTypeRow{DType::kI64, "I64", 64},
    DTypeRow{DType::kU64, "U64", 64},       DTypeRow{DType::kF64, "F64", 64},
    DTypeRow{DType::kC64, "C64", 64},       DTypeRow{DType::kF4, "F4", 4},
    DTypeRow{DType::kF6E2M3, "F6_E2M3", 6}, DTypeRow{DType::kF6E3M2, "F6_E3M2", 6},
    DTypeRow{DType::kQ4_0, "Q4_0", 0},      DTypeRow{DType::kQ8_0, "Q8_0", 0},
    DTypeRow{DType::kQ4K, "Q4_K", 0},       DTypeRow{DType::kQ6K, "Q6_K", 0},
    DTypeRow{DType::kQ4_1, "Q4_1", 0},      DTypeRow{DType::kQ5_0, "Q5_0", 0},
    DTypeRow{DType::kQ5_1, "Q5_1", 0},      DTypeRow{DType::kQ2_0, "Q2_0", 0},
    DTypeRow{DType::kQ2K, "Q2_K", 0},       DTypeRow{DType::kQ3K, "Q3_K", 0},
    DTypeRow{DType::kQ5K, "Q5_K", 0},       DTypeRow{DType::kIq4Nl, "IQ4_NL", 0},
    DTypeRow{DType::kIq4Xs, "IQ4_XS", 0},   DTypeRow{DType::kMxfp4, "MXFP4", 0},
    DTypeRow{DType::kNvfp4, "NVFP4", 0},    DTypeRow{DType::kPq2_0, "PQ2_0", 0},
    DTypeRow{DType::kTq1_0, "TQ1_0", 0},    DTypeRow{DType::kTq2_0, "TQ2_0", 0},
    DTypeRow{DType::kQ1_0, "Q1_0", 0},      DTypeRow{DType::kIq2Xxs, "IQ2_XXS", 0},
    DTypeRow{DType::kIq2Xs, "IQ2_XS", 0},   DTypeRow{DType::kIq2S, "IQ2_S", 0},
    DTypeRow{DType::kIq3Xxs, "IQ3_XXS", 0}, DTypeRow{DType::kIq3S, "IQ3_S", 0},
    DTypeRow{DType::kIq1S, "IQ1_S", 0},     DTypeRow{DType::kIq1M, "IQ1_M", 0},
};

const DTypeRow& dtype_row(DType dtype) {
  const DTypeRow& row = kDTypes.at(static_cast<size_t>(dtype));
  FLARE_ASSERT(row.dtype == dtype);
  return row;
}

DType parse_dtype(const std::string& name, const std::string& where) {
  for (const DTypeRow& row : kDTypes)
    if (row.name == name && row.bits != 0) return row.dtype;
  throw Error(Code::kDirectory, "{}: dtype {}, a safetensors dtype such as BF16 expected", where,
              quote(name));
}

// Bytes of a tensor; `where` names file and tensor.
uint64_t tensor_bytes(DType dtype, const std::vector<uint64_t>& shape, const std::string& where) {
  uint64_t bits = static_cast<uint64_t>(dtype_bits(dtype));
  for (const uint64_t dimension : shape) bits = checked_mul(bits, dimension, where + ": shape");
  if (bits % 8 != 0)
    throw Error(Code::kRange, "{}: shape: {} bits of {}, whole bytes expected", where, bits,
                dtype_name(dtype));
  return bits / 8;
}

// A tensor and where its header says its bytes are, before that is checked against the others.
struct Entry {
  Tensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

Entry parse_entry(const std::string& name, const Json& json, const std::string& path) {
  const std::string where = path + ": tensor " + quote(name);
  if (name.empty())
    throw Error(Code::kDirectory, "{}: a tensor without a name, text expected", path);
  json.as_object(where);
  Entry entry;
  entry.tensor.name = name;
  entry.tensor.dtype = parse_dtype(json.at("dtype", where).as_string(where + ": dtype"), where);
  for (const Json& dimension : json.at("shape", where).as_array(where + ": shape"))
    entry.tensor.shape.push_back(dimension.as_u64(where + ": shape"));
  const Json::Array& offsets = json.at("data_offsets", where).as_array(where + ": data_offsets");
  if (offsets.size() != 2)
    throw Error(Code::kDirectory, "{}: data_offsets: {} numbers, 2 expected", where,
                offsets.size());
  entry.begin = offsets[0].as_u64(where + ": data_offsets");
  entry.end = offsets[1].as_u64(where + ": data_offsets");
  if (entry.begin > entry.end)
    throw Error(Code::kRange, "{}: data_offsets: [{}, {}], an end at or after the begin expected",
                where, entry.begin, entry.end);
  const uint64_t expected = tensor_bytes(entry.tensor.dtype, entry.tensor.shape, where);
  if (entry.end - entry.begin != expected)
    throw Error(Code::kRange, "{}: data_offsets: [{}, {}] are {} bytes, {} expected for its shape",
                where, entry.begin, entry.end, entry.end - entry.begin, expected);
  return entry;
}

// Entries in order of offset must fill `data` exactly; gives each its bytes.
std::vector<Tensor> place(std::vector<Entry> entries, Bytes data, const std::string& path) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::vector<Tensor> tensors;
  tensors.reserve(entries.size());
  uint64_t next = 0;
  for (Entry& entry : entries) {
    const std::string_view name = entry.tensor.name;
    if (entry.begin < next)
      throw Error(Code::kRange, "{}: tensor {}: begins at {} and overlaps tensor {}, {} expected",
                  path, quote(name), entry.begin, quote(tensors.back().name), next);
    if (entry.begin > next)
      throw Error(Code::kRange, "{}: tensor {}: begins at {} after a hole, {} expected", path,
                  quote(name), entry.begin, next);
    if (entry.end > data.size())
      throw Error(Code::kRange, "{}: tensor {}: ends at {}, the data section has {} bytes", path,
                  quote(name), entry.end, data.size());
    next = entry.end;
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    tensors.push_back(std::move(entry.tensor));
  }
  if (next != data.size())
    throw Error(Code::kRange, "{}: tensors end at {}, the data section has {} bytes", path, next,
                data.size());
  return tensors;
}

std::string_view header_text(Bytes file, const std::string& path) {
  if (file.size() < kLengthBytes)
    throw Error(Code::kFraming, "{}: {} bytes, at least {} expected for the header length", path,
                file.size(), kLengthBytes);
  const auto length = load_le<uint64_t>(file.data());
  if (length > kMaxHeaderBytes)
    throw Error(Code::kFraming, "{}: header length {}, at most {} expected", path, length,
                kMaxHeaderBytes);
  if (length > file.size() - kLengthBytes)
    throw Error(Code::kFraming, "{}: header length {}, but {} bytes follow it", path, length,
                file.size() - kLengthBytes);
  const std::string_view text = as_text(file.subspan(kLengthBytes, length));
  if (text.empty() || text.front() != '{')
    throw Error(Code::kDirectory, "{}: header begins with {}, '{{' expected", path,
                quote(text.substr(0, 1)));
  return text;
}

}  // namespace

bool is_block(DType dtype) { return dtype_row(dtype).bits == 0; }

std::optional<DType> block_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (row.name == name && row.bits == 0) return row.dtype;
  return std::nullopt;
}

std::string_view dtype_name(DType dtype) { return dtype_row(dtype).name; }
int dtype_bits(DType dtype) { return dtype_row(dtype).bits; }

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(MappedFile::open(path));
  const Bytes bytes = file.file_.bytes();
  const std::string name = path.string();
  const std::string_view text = header_text(bytes, name);
  const std::string where = name + ": header";
  const Json header =
      text.size() < kLargeHeaderBytes ? parse_json(text, where) : parse_large_json(text, where);
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.as_object(where)) {
    if (key != kMetadata) {
      entries.push_back(parse_entry(key, value, name));
      continue;
    }
    for (const auto& [field, content] : value.as_object(name + ": __metadata__"))
      file.metadata_.emplace_back(field,
                                  content.as_string(name + ": __metadata__: " + quote(field)));
  }
  file.tensors_ = place(std::move(entries), bytes.subspan(kLengthBytes + text.size()), name);
  return file;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata,
                       bool force) {
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object fields;
    for (const auto& [key, value] : metadata) fields.emplace_back(key, Json(value));
    header.emplace_back(kMetadata, Json(std::move(fields)));
  }
  uint64_t next = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::string where = path.string() + ": tensor " + quote(tensor.name);
    const uint64_t expected = tensor_bytes(tensor.dtype, tensor.shape, where);
    if (tensor.bytes.size() != expected)
      throw Error(Code::kRange, "{}: {} bytes, {} expected for its shape", where,
                  tensor.bytes.size(), expected);
    if (tensor.name.empty() || tensor.name == kMetadata)
      throw Error(Code::kDirectory, "{}: this name cannot be written", where);
    const uint64_t end = checked_add(next, expected, where);
    Json::Array shape;
    for (const uint64_t dimension : tensor.shape) shape.emplace_back(dimension);
    header.emplace_back(tensor.name, Json::object({{"dtype", dtype_name(tensor.dtype)},
                                                   {"shape", Json(std::move(shape))},
                                                   {"data_offsets", Json::array({next, end})}}));
    next = end;
  }
  std::string text = Json(std::move(header)).to_text();
  text.resize(checked_align_up(text.size(), 8), ' ');  // data begins aligned for every dtype
  if (text.size() > kMaxHeaderBytes)
    throw Error(Code::kWrite, "{}: header of {} bytes, at most {} expected", path.string(),
                text.size(), kMaxHeaderBytes);
  parse_large_json(text, path.string());  // refuses names twice and text that is not UTF-8

  OutputSet output(force);
  const size_t file = output.create(path);
  std::array<std::byte, kLengthBytes> length;
  store_le(length.data(), static_cast<uint64_t>(text.size()));
  output.append(file, length);
  output.append(file, as_bytes(text));
  for (const NamedTensor& tensor : tensors) output.append(file, tensor.bytes);
  output.publish();
}

}  // namespace flare::checkpoint
