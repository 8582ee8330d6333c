// Reading one GGUF file: header, metadata, tensor table, and the map of its data section.
#include "checkpoint/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"

namespace flare::checkpoint {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kOldest = 2, kNewest = 3;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr uint32_t kMaxRank = 4;
// Smallest entries: a key of one byte with a one-byte value; a tensor of rank 1.
constexpr uint64_t kLeastEntry = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensor = 8 + 1 + 4 + 8 + 4 + 8;

constexpr GgmlType kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},     {142, "PQ2_0", 128, 34},
};

struct KindRow {
  GgufKind kind;
  std::string_view name;
  uint64_t bytes;  // 0: not of one size
};
// In the order of GgufKind.
constexpr std::array kKinds = {
    KindRow{GgufKind::kU8, "u8", 1},         KindRow{GgufKind::kI8, "i8", 1},
    KindRow{GgufKind::kU16, "u16", 2},       KindRow{GgufKind::kI16, "i16", 2},
    KindRow{GgufKind::kU32, "u32", 4},       KindRow{GgufKind::kI32, "i32", 4},
    KindRow{GgufKind::kF32, "f32", 4},       KindRow{GgufKind::kBool, "bool", 1},
    KindRow{GgufKind::kString, "string", 0}, KindRow{GgufKind::kArray, "array", 0},
    KindRow{GgufKind::kU64, "u64", 8},       KindRow{GgufKind::kI64, "i64", 8},
    KindRow{GgufKind::kF64, "f64", 8},
};

uint64_t kind_bytes(GgufKind kind) { return kKinds.at(static_cast<size_t>(kind)).bytes; }

// One number or truth value at `p`, as the widest kinds; nullopt if it is of another sort.
std::optional<int64_t> integer_at(GgufKind kind, const std::byte* p) {
  switch (kind) {
    case GgufKind::kU8:
      return load_le<uint8_t>(p);
    case GgufKind::kI8:
      return load_le<int8_t>(p);
    case GgufKind::kU16:
      return load_le<uint16_t>(p);
    case GgufKind::kI16:
      return load_le<int16_t>(p);
    case GgufKind::kU32:
      return load_le<uint32_t>(p);
    case GgufKind::kI32:
      return load_le<int32_t>(p);
    case GgufKind::kI64:
    case GgufKind::kU64:
      return load_le<int64_t>(p);
    default:
      return std::nullopt;
  }
}

// A u64 above 2^63 counts as none: nothing that is counted here is that large.
std::optional<uint64_t> count_at(GgufKind kind, const std::byte* p) {
  const auto value = integer_at(kind, p);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> number_at(GgufKind kind, const std::byte* p) {
  if (kind == GgufKind::kF32) return load_le<float>(p);
  if (kind == GgufKind::kF64) return load_le<double>(p);
  if (kind == GgufKind::kU64) return static_cast<double>(load_le<uint64_t>(p));
  const auto value = integer_at(kind, p);
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  for (const GgmlType& row : kTypes)
    if (row.id == id) return &row;
  return nullptr;
}

std::string_view gguf_kind_name(GgufKind kind) { return kKinds.at(static_cast<size_t>(kind)).name; }

void GgufValue::wrong(std::string_view expected) const {
  std::string found(gguf_kind_name(kind_));
  if (kind_ == GgufKind::kArray)
    found = fmt::format("an array of {} {}", count_, gguf_kind_name(element_));
  else if (kind_ == GgufKind::kString)
    found = quote(as_string());
  else if (const auto number = number_at(kind_, bytes_.data()))
    found = fmt::format("{} ({})", *number, gguf_kind_name(kind_));
  throw Error(Code::kDirectory, "{} is {}, {} expected", where_, found, expected);
}

void GgufValue::expect_array(bool right, std::string_view expected) const {
  if (!is_array() || (!right && count_ != 0)) wrong(expected);
}

uint64_t GgufValue::as_u64() const {
  const auto value = is_array() ? std::nullopt : count_at(kind_, bytes_.data());
  if (!value) wrong("an integer that is not negative");
  return *value;
}

double GgufValue::as_double() const {
  const auto value = is_array() ? std::nullopt : number_at(kind_, bytes_.data());
  if (!value) wrong("a number");
  return *value;
}

bool GgufValue::as_bool() const {
  if (kind_ != GgufKind::kBool) wrong("true or false");
  return bytes_[0] != std::byte{0};
}

std::string_view GgufValue::as_string() const {
  if (kind_ != GgufKind::kString) wrong("a string");
  return as_text(bytes_);
}

std::vector<uint64_t> GgufValue::u64s() const {
  constexpr std::string_view expected = "an array of integers that are not negative";
  expect_array(integer_at(element_, bytes_.data()).has_value(), expected);
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < count_; ++i) {
    const auto value = count_at(element_, bytes_.data() + i * kind_bytes(element_));
    if (!value) wrong(expected);
    out.push_back(*value);
  }
  return out;
}

std::vector<double> GgufValue::doubles() const {
  expect_array(number_at(element_, bytes_.data()).has_value(), "an array of numbers");
  std::vector<double> out;
  for (uint64_t i = 0; i < count_; ++i)
    out.push_back(*number_at(element_, bytes_.data() + i * kind_bytes(element_)));
  return out;
}

std::vector<bool> GgufValue::bools() const {
  expect_array(element_ == GgufKind::kBool, "an array of truth values");
  std::vector<bool> out;
  for (const std::byte b : bytes_) out.push_back(b != std::byte{0});
  return out;
}

std::vector<std::string_view> GgufValue::strings() const {
  expect_array(element_ == GgufKind::kString, "an array of strings");
  std::vector<std::string_view> out;
  out.reserve(count_);  // at most an eighth of the array's bytes
  Bytes rest = bytes_;
  for (uint64_t i = 0; i < count_; ++i) {
    const auto length = load_le<uint64_t>(rest.data());
    out.push_back(as_text(rest.subspan(8, length)));
    rest = rest.subspan(8 + length);
  }
  return out;
}

// Walks the header once, front to back.
class GgufFile::Reader {
 public:
  explicit Reader(GgufFile& out)
      : out_(out), name_(out.path().string()), bytes_(out.file_.bytes()) {}

  void read() {
    read_frame();
    for (uint64_t i = 0; i < n_keys_; ++i) read_entry();
    index_keys();
    const uint64_t alignment = read_alignment();
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < n_tensors_; ++i) offsets.push_back(read_tensor(alignment));
    check_names();
    place(offsets, alignment);
  }

 private:
  Bytes take(uint64_t n, std::string_view what) {
    if (n > bytes_.size() - at_)
      throw Error(Code::kFraming, "{}: {} of {} bytes at offset {} leaves the file of {} bytes",
                  name_, what, n, at_, bytes_.size());
    const Bytes out = bytes_.subspan(at_, n);
    at_ += n;
    return out;
  }
  template <typename T>
  T number(std::string_view what) {
    return load_le<T>(take(sizeof(T), what).data());
  }
  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(fmt::format("length of {}", what));
    return as_text(take(length, what));
  }

  void read_frame() {
    const std::string_view magic = as_text(take(kMagic.size(), "magic"));
    if (magic != kMagic)
      throw Error(Code::kFraming, "{}: magic {}, \"GGUF\" expected", name_, quote(magic));
    out_.version_ = number<uint32_t>("version");
    const uint32_t swapped = __builtin_bswap32(out_.version_);
    if (out_.version_ > kNewest && swapped <= kNewest)
      throw Error(Code::kSupport, "{}: a big-endian GGUF file, little-endian expected", name_);
    if (out_.version_ < kOldest || out_.version_ > kNewest)
      throw Error(Code::kSupport, "{}: GGUF version {}, {} or {} expected", name_, out_.version_,
                  kOldest, kNewest);
    n_tensors_ = number<uint64_t>("tensor count");
    n_keys_ = number<uint64_t>("key count");
    check_count("keys", n_keys_, kLeastEntry);
    check_count("tensors", n_tensors_, kLeastTensor);
  }

  void check_count(std::string_view what, uint64_t count, uint64_t least) const {
    const uint64_t rest = bytes_.size() - at_;
    if (count > rest / least)
      throw Error(Code::kFraming, "{}: {} {}, at most {} expected in the {} bytes that follow",
                  name_, count, what, rest / least, rest);
  }

  GgufKind read_kind(std::string_view key, std::string_view what) {
    const auto id = number<uint32_t>(what);
    if (id >= kKinds.size())
      throw Error(Code::kDirectory, "{}: key {}: {} {}, 0..{} expected", name_, quote(key), what,
                  id, kKinds.size() - 1);
    return static_cast<GgufKind>(id);
  }

  void read_entry() {
    Entry entry{};
    entry.key = text("a key");
    if (entry.key.empty())
      throw Error(Code::kDirectory, "{}: an empty key before offset {}, a name expected", name_,
                  at_);
    entry.kind = read_kind(entry.key, "value type");
    const std::string what = fmt::format("the value of key {}", quote(entry.key));
    entry.count = 1;
    if (entry.kind == GgufKind::kString) {
      entry.bytes = as_bytes(text(what));
    } else if (entry.kind == GgufKind::kArray) {
      read_array(entry, what);
    } else {
      entry.bytes = take(kind_bytes(entry.kind), what);
      check_bools(entry, entry.kind);
    }
    out_.entries_.push_back(entry);
  }

  void read_array(Entry& entry, const std::string& what) {
    entry.element = read_kind(entry.key, "element type");
    entry.count = number<uint64_t>("array length");
    if (entry.element == GgufKind::kArray)
      throw Error(Code::kSupport, "{}: key {}: an array of arrays, elements of one kind expected",
                  name_, quote(entry.key));
    if (entry.element != GgufKind::kString) {
      const uint64_t size = kind_bytes(entry.element);
      entry.bytes = take(checked_mul(entry.count, size, name_ + ": " + what), what);
      check_bools(entry, entry.element);
      return;
    }
    const uint64_t begin = at_;
    if (entry.count > (bytes_.size() - at_) / 8)
      throw Error(Code::kFraming, "{}: key {}: {} strings, but {} bytes follow", name_,
                  quote(entry.key), entry.count, bytes_.size() - at_);
    for (uint64_t i = 0; i < entry.count; ++i) text(what);
    entry.bytes = bytes_.subspan(begin, at_ - begin);
  }

  void check_bools(const Entry& entry, GgufKind kind) const {
    if (kind != GgufKind::kBool) return;
    for (const std::byte b : entry.bytes)
      if (b > std::byte{1})
        throw Error(Code::kDirectory, "{}: key {}: truth value {}, 0 or 1 expected", name_,
                    quote(entry.key), std::to_integer<int>(b));
  }

  void index_keys() {
    const auto& entries = out_.entries_;
    auto& order = out_.by_name_;
    order.resize(entries.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return entries[a].key < entries[b].key; });
    for (size_t i = 1; i < order.size(); ++i)
      if (entries[order[i]].key == entries[order[i - 1]].key)
        throw Error(Code::kDirectory, "{}: key {} is there twice, once expected", name_,
                    quote(entries[order[i]].key));
  }

  uint64_t read_alignment() const {
    const auto value = out_.find(kAlignmentKey);
    if (!value) return kDefaultAlignment;
    const uint64_t alignment = value->as_u64();
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
      throw Error(Code::kDirectory, "{} is {}, a power of two up to {} expected", value->where(),
                  alignment, kMaxAlignment);
    return alignment;
  }

  // Returns where the data begin, counted from the data section.
  uint64_t read_tensor(uint64_t alignment) {
    GgufTensor tensor;
    tensor.name = text("a tensor's name");
    if (tensor.name.empty())
      throw Error(Code::kDirectory, "{}: a tensor without a name before offset {}, text expected",
                  name_, at_);
    const std::string where = fmt::format("{}: tensor {}", name_, quote(tensor.name));
    const auto rank = number<uint32_t>("rank of " + where);
    if (rank == 0 || rank > kMaxRank)
      throw Error(Code::kDirectory, "{}: {} dimensions, 1..{} expected", where, rank, kMaxRank);
    for (uint32_t i = 0; i < rank; ++i) {
      const auto dimension = number<uint64_t>("shape of " + where);
      if (dimension == 0)
        throw Error(Code::kDirectory, "{}: dimension {} is 0, at least 1 expected", where, i);
      tensor.shape.insert(tensor.shape.begin(), dimension);
    }
    const auto id = number<uint32_t>("type of " + where);
    tensor.type = find_ggml_type(id);
    if (tensor.type == nullptr)
      throw Error(Code::kSupport, "{}: type {}, a known ggml type such as 0 (F32) expected", where,
                  id);
    if (tensor.shape.back() % tensor.type->values != 0)
      throw Error(Code::kDirectory, "{}: rows of {} values of {}, a multiple of {} expected", where,
                  tensor.shape.back(), tensor.type->name, tensor.type->values);
    const auto offset = number<uint64_t>("offset of " + where);
    if (offset % alignment != 0)
      throw Error(Code::kRange, "{}: begins at {}, a multiple of the alignment {} expected", where,
                  offset, alignment);
    out_.tensors_.push_back(std::move(tensor));
    return offset;
  }

  uint64_t tensor_bytes(const GgufTensor& tensor) const {
    const std::string where = fmt::format("{}: tensor {}: size", name_, quote(tensor.name));
    uint64_t values = 1;
    for (const uint64_t dimension : tensor.shape) values = checked_mul(values, dimension, where);
    return checked_mul(values / tensor.type->values, tensor.type->bytes, where);
  }

  // Gives each tensor its bytes; tensors may not share any.
  void place(const std::vector<uint64_t>& offsets, uint64_t alignment) {
    if (offsets.empty()) return;
    std::vector<uint32_t> order(offsets.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
    const uint64_t begin = std::min<uint64_t>(checked_align_up(at_, alignment), bytes_.size());
    const Bytes data = bytes_.subspan(begin);
    std::vector<GgufTensor> sorted;
    sorted.reserve(order.size());
    uint64_t next = 0;
    for (const uint32_t i : order) {
      GgufTensor& tensor = out_.tensors_[i];
      const std::string where = fmt::format("{}: tensor {}", name_, quote(tensor.name));
      if (offsets[i] < next)
        throw Error(Code::kRange, "{}: begins at {} and overlaps tensor {}, {} or more expected",
                    where, offsets[i], quote(sorted.back().name), next);
      const uint64_t size = tensor_bytes(tensor);
      next = checked_add(offsets[i], size, where);
      if (next > data.size())
        throw Error(Code::kRange, "{}: ends at {}, the data section has {} bytes", where, next,
                    data.size());
      tensor.bytes = data.subspan(offsets[i], size);
      sorted.push_back(std::move(tensor));
    }
    out_.tensors_ = std::move(sorted);
  }

  void check_names() const {
    std::vector<std::string_view> names;
    for (const GgufTensor& tensor : out_.tensors_) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      throw Error(Code::kDirectory, "{}: tensor {} is there twice, once expected", name_,
                  quote(*twice));
  }

  GgufFile& out_;
  std::string name_;
  Bytes bytes_;
  uint64_t at_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
};

bool is_gguf(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return true;
  const File file = File::open(path);
  std::array<std::byte, kMagic.size()> head{};
  if (file.size() < head.size()) return false;
  file.read_at(0, head);
  return as_text(head) == kMagic;
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile file(MappedFile::open(path));
  Reader(file).read();
  return file;
}

GgufValue GgufFile::value(const Entry& entry) const {
  return {fmt::format("{}: key {}", path().string(), quote(entry.key)), entry.kind, entry.element,
          entry.count, entry.bytes};
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> out;
  for (const Entry& entry : entries_) out.push_back(entry.key);
  return out;
}

std::optional<GgufValue> GgufFile::find(std::string_view key) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), key,
      [&](uint32_t i, std::string_view wanted) { return entries_[i].key < wanted; });
  if (at == by_name_.end() || entries_[*at].key != key) return std::nullopt;
  return value(entries_[*at]);
}

GgufValue GgufFile::at(std::string_view key) const {
  const auto found = find(key);
  if (!found) throw Error(Code::kDirectory, "{}: key {} is missing", path().string(), quote(key));
  return *found;
}

void GgufFile::release_metadata() const {
  const Bytes bytes = file_.bytes();
  const std::byte* end =
      tensors_.empty() ? bytes.data() + bytes.size() : tensors_.front().bytes.data();
  file_.release(0, static_cast<uint64_t>(end - bytes.data()));
}

}  // namespace flare::checkpoint
