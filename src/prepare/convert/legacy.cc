// The old directory, its names in the registry's words, and the copy.
#include "prepare/convert/legacy.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "artifact/checks.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_stamps.h"
#include "codec/format.h"
#include "prepare/convert/legacy_config.h"
#include "prepare/convert/registry.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kOldHeaderBytes = 16;
constexpr uint64_t kMaxDirectoryBytes = 256u << 20;
constexpr uint64_t kChunkBytes = 8u << 20;
constexpr std::string_view kMagic("NINFER\0", 7);

struct Renamed {
  std::string_view old_name, name;
  uint64_t since;  // version
};
constexpr Renamed kFormats[] = {
    {"BF16", "bf16", 1},
    {"FP32", "fp32", 1},
    {"I32", "int32", 1},
    {"Q4G64_F16S", "q4_g64_fp16", 1},
    {"Q5G64_F16S", "q5_g64_fp16", 1},
    {"Q6G64_F16S", "q6_g64_fp16", 1},
    {"W8G32_F16S", "q8_g32_fp16", 1},
    {"NVFP4", "nvfp4", 2},
    {"FP8_E4M3FN_ROW_BF16S", "fp8_e4m3fn_row_bf16", 2},
};
constexpr Renamed kLayouts[] = {
    {"contiguous-le-v1", "contiguous_le_v1", 1},
    {"row-split-k128-v1", "row_split_k128_v1", 1},
    {"blockscale-k16-m128x4-v1", "block_scale_k16_m128x4_v1", 2},
    {"row-scale-v1", "row_scale_v1", 2},
};
constexpr std::string_view kVisionRoles[] = {"preprocessor_config.json",
                                             "video_preprocessor_config.json"};
// Number of objects of published files (§17).
struct KnownFile {
  std::string_view model_id, weights_id;
  uint64_t objects;
};
constexpr KnownFile kKnownFiles[] = {
    {"qwen3.6-27b", "groupwise-int", 1124},
    {"qwen3.6-27b", "nvfp4", 1307},
    {"qwen3.8-27b", "", 1124},
    {"qwen3.8-27b", "", 1190},
    {"qwen3.6-35b-a3b", "groupwise-int", 940},
};

struct OldFile {
  uint64_t version = 0;
  std::string model_id, weights_id;
  uint64_t payload_start = 0, payload_bytes = 0;
  std::vector<artifact::Object> objects;  // formats and layouts under their new names
};

// The members of an old record, which are these and no others.
template <size_t N>
std::array<const Json*, N> exact_members(const Json& value, const std::string& where,
                                         const std::string_view (&names)[N]) {
  std::array<const Json*, N> out{};
  for (const auto& [key, member] : value.as_object(where)) {
    const auto at = std::ranges::find(names, key);
    if (at == std::end(names))
      throw Error(Code::kDirectory, "{}: unknown member {}", where, quote(key));
    out[static_cast<size_t>(at - std::begin(names))] = &member;
  }
  for (size_t i = 0; i < N; ++i)
    if (out[i] == nullptr)
      throw Error(Code::kDirectory, "{}: member '{}' missing", where, names[i]);
  return out;
}

template <size_t N>
std::string renamed(const Renamed (&table)[N], const std::string& old_name, uint64_t version,
                    const std::string& where) {
  for (const Renamed& row : table)
    if (row.old_name == old_name && row.since <= version) return std::string(row.name);
  throw Error(Code::kEncoding, "{}: {} is no name of version {}", where, quote(old_name), version);
}

artifact::Object read_record(const Json& value, uint64_t version, const std::string& where) {
  artifact::Object object;
  const std::string kind = value.at("kind", where).as_string(where);
  if (kind == "resource") {
    object.kind = artifact::Object::Kind::kResource;
    const auto [k, name, encoding, offset, bytes] =
        exact_members(value, where, {"kind", "name", "encoding", "offset", "bytes"});
    if (encoding->as_string(where) != "raw-bytes-v1")
      throw Error(Code::kEncoding, "{}: encoding is {}, raw-bytes-v1 expected", where,
                  quote(encoding->as_string()));
    object.id = name->as_string(where);
    object.encoding = "raw_bytes_v1";
    object.offset = offset->as_u64(where);
    object.bytes = bytes->as_u64(where);
    return object;
  }
  if (kind != "tensor")
    throw Error(Code::kDirectory, "{}: kind is {}, tensor or resource expected", where,
                quote(kind));
  const auto [k, name, shape, format, layout, offset, bytes] =
      exact_members(value, where, {"kind", "name", "shape", "format", "layout", "offset", "bytes"});
  object.id = name->as_string(where);
  for (const Json& dimension : shape->as_array(where))
    object.shape.push_back(dimension.as_u64(where));
  object.format = renamed(kFormats, format->as_string(where), version, where);
  object.layout = renamed(kLayouts, layout->as_string(where), version, where);
  object.offset = offset->as_u64(where);
  object.bytes = bytes->as_u64(where);
  const codec::Format* known = codec::find_format(object.format, object.layout);
  const uint64_t expected = codec::encoded_bytes(*known, object.layout, object.shape, 1);
  if (object.bytes != expected)
    throw Error(Code::kEncoding, "{}: {} bytes, {} expected for format and shape", where,
                object.bytes, expected);
  return object;
}

// Why a file is not converted.
Error not_old(const File& file) {
  std::array<std::byte, 8> word{};
  file.read_at(0, std::span(word).first(std::min<uint64_t>(word.size(), file.size())));
  const std::string name = file.path().string();
  if (file.size() < kOldHeaderBytes)
    return {Code::kFraming, "{}: {} bytes long, an artifact of version 1 or 2 expected", name,
            file.size()};
  if (!as_text(word).starts_with(kMagic))
    return {Code::kFraming, "{}: begins with {}, an artifact of version 1 or 2 expected", name,
            quote(as_text(word))};
  Error error(Code::kSupport, "{}: an artifact of version {}, 1 or 2 expected", name,
              std::to_integer<int>(word[7]));
  return error.set_hint("other versions are not converted; `ignition inspect` shows version 3");
}

OldFile read_old(const File& file) {
  const std::string name = file.path().string();
  OldFile old;
  old.version = legacy_version(file.path());
  if (old.version == 0) throw not_old(file);
  std::array<std::byte, 8> word;
  file.read_at(8, word);
  const uint64_t json_bytes = load_le<uint64_t>(word.data());
  if (json_bytes == 0 || json_bytes > file.size() - kOldHeaderBytes ||
      json_bytes > kMaxDirectoryBytes)
    throw Error(Code::kFraming, "{}: json_bytes {}, between 1 and {} expected", name, json_bytes,
                std::min(file.size() - kOldHeaderBytes, kMaxDirectoryBytes));
  old.payload_start =
      checked_align_up(kOldHeaderBytes + json_bytes, artifact::kFileAlignment, name);
  if (old.payload_start >= file.size())
    throw Error(Code::kFraming, "{}: {} bytes long, a payload from {} on expected", name,
                file.size(), old.payload_start);
  old.payload_bytes = file.size() - old.payload_start;
  std::string text(json_bytes, '\0');
  file.read_at(kOldHeaderBytes, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  const std::string where = name + ": directory";
  const Json root = parse_large_json(text, where);
  const Json* objects = nullptr;
  if (old.version == 1) {
    const auto [model_id, list] = exact_members(root, where, {"model_id", "objects"});
    old.model_id = model_id->as_string(where);
    objects = list;
  } else {
    const auto [identity, list] = exact_members(root, where, {"identity", "objects"});
    const auto [model_id, weights_id] =
        exact_members(*identity, where + ": identity", {"model_id", "weights_id"});
    old.model_id = model_id->as_string(where);
    old.weights_id = weights_id->as_string(where);
    objects = list;
  }
  for (const Json& value : objects->as_array(where))
    old.objects.push_back(
        read_record(value, old.version, fmt::format("{}: objects[{}]", name, old.objects.size())));
  // What the old directory says wrong is told of the old file.
  artifact::Directory ranges;
  ranges.objects = old.objects;
  ranges.files = {{.path = "", .payload_bytes = old.payload_bytes}};
  artifact::check_objects(ranges, name);
  return old;
}

// A parameter and the elements of the old object that are its own.
struct Share {
  std::string parameter;
  uint64_t begin, end;
};

// Widths that fused objects are cut by.
class Widths {
 public:
  explicit Widths(const std::map<std::string, Json>& configs) : configs_(configs) {}

  // Rows of a member of a fused object in this component.
  uint64_t rows(const std::string& component, std::string_view member) const {
    // A draft layer of mtp has the text model's widths.
    const bool own = component == "vision" || component.starts_with("dflash");
    const Json& c = configs_.at(own ? component : "text");
    const auto n = [&](const char* key) { return c.at(key, component + " config").as_u64(); };
    if (component == "vision") return n("hidden_size");
    if (member == "query" || member == "gate")
      return checked_mul(n("num_attention_heads"), n("head_dim"), "rows");
    if (member == "key" || member == "value")
      return checked_mul(n("num_key_value_heads"), n("head_dim"), "rows");
    throw Error(Code::kInternal, "no width for {}", member);
  }
  uint64_t linear_rows(std::string_view member) const {
    const Json& c = configs_.at("text");
    const auto n = [&](const char* key) { return c.at(key, "text config").as_u64(); };
    if (member == "query" || member == "key")
      return checked_mul(n("linear_num_key_heads"), n("linear_key_head_dim"), "rows");
    if (member == "value" || member == "z")
      return checked_mul(n("linear_num_value_heads"), n("linear_value_head_dim"), "rows");
    return n("linear_num_value_heads");  // a and b
  }
  uint64_t text(const char* key) const {
    return configs_.at("text").at(key, "text config").as_u64();
  }
  uint64_t of(const std::string& component, const char* key) const {
    return configs_.at(component).at(key, component + " config").as_u64();
  }

 private:
  const std::map<std::string, Json>& configs_;
};

// Old names to parameters. `layer` is the folder "text/layers/3/".
class Names {
 public:
  explicit Names(const Widths& widths) : widths_(widths) {}

  // The parameters of an old tensor, in the order of its elements.
  std::vector<Share> shares(const artifact::Object& object) const {
    const uint64_t elements = codec::element_count(object.shape);
    const std::string name = current(object.id);
    std::vector<Cut> cuts = cut(name);
    if (cuts.empty()) return {{name, 0, elements}};
    const uint64_t cols = object.shape.size() < 2 ? 1 : object.shape.back();
    std::vector<Share> out;
    uint64_t at = 0;
    for (const Cut& one : cuts) {
      const uint64_t n = checked_mul(one.rows, cols, "rows of " + object.id);
      if (n > elements - at)
        throw Error(Code::kBinding, "object {}: {} elements, its parameters have more",
                    quote(object.id), elements);
      for (const std::string& parameter : one.parameters) out.push_back({parameter, at, at + n});
      at += n;
    }
    if (at != elements)
      throw Error(Code::kBinding, "object {}: {} elements, its parameters have {}",
                  quote(object.id), elements, at);
    return out;
  }

 private:
  struct Cut {
    uint64_t rows;
    std::vector<std::string> parameters;  // the same rows under several names
  };

  static std::string replaced(std::string name, std::string_view from, std::string_view to) {
    if (name.starts_with(from)) name.replace(0, from.size(), to);
    return name;
  }

  static std::string current(const std::string& old_name) {
    if (old_name == "text/draft_head") return "proposal/head";
    if (old_name == "text/draft_head_token_ids") return "proposal/token_ids";
    std::string name = replaced(old_name, "mtp/layer/", "mtp/layers/0/");
    // vision norms: "norm1/weight" is "norm1_weight" now.
    if (name.starts_with("vision/"))
      for (std::string_view norm : {"/norm1/", "/norm2/", "/norm/"})
        if (const size_t at = name.find(norm); at != name.npos) name[at + norm.size() - 1] = '_';
    return name;
  }

  std::vector<Cut> cut(const std::string& name) const {
    const std::string component = name.substr(0, name.find('/'));
    const size_t layers = name.find("/layers/");
    const size_t end = layers == name.npos ? name.npos : name.find('/', layers + 8);
    if (end == name.npos) return {};
    const std::string layer = name.substr(0, end + 1), rest = name.substr(end + 1);
    if (rest.starts_with("attention/")) return attention(component, layer, rest.substr(10));
    if (rest.starts_with("gdn/")) return linear(layer, rest.substr(4));
    if (rest == "mlp/gate_up") {
      const uint64_t n = component.starts_with("dflash")
                             ? widths_.of(component, "intermediate_size")
                             : widths_.text("intermediate_size");
      return {{n, {layer + "mlp/gate"}}, {n, {layer + "mlp/up"}}};
    }
    if (rest.starts_with("moe/")) return mixture(layer + "moe/", rest.substr(4));
    return {};
  }

  std::vector<Cut> attention(const std::string& component, const std::string& layer,
                             const std::string& rest) const {
    const std::string folder = layer + "attention/";
    const bool is_draft = component.starts_with("dflash");
    const auto cuts = [&](std::initializer_list<const char*> members, const char* suffix = "") {
      std::vector<Cut> out;
      for (const char* member : members) {
        Cut one{widths_.rows(component, member), {folder + member + suffix}};
        if (is_draft && std::string_view(member) != "query")
          one.parameters.push_back(folder + "context_" + member);
        out.push_back(std::move(one));
      }
      return out;
    };
    if (rest == "query_key") return cuts({"query", "key"});
    if (rest == "gate_value") return cuts({"gate", "value"});
    if (rest == "query_key_gate_value") return cuts({"query", "key", "gate", "value"});
    if (rest == "query_key_value" || rest == "qkv") return cuts({"query", "key", "value"});
    if (rest == "qkv_bias") return cuts({"query", "key", "value"}, "_bias");
    return {};
  }

  std::vector<Cut> linear(const std::string& layer, const std::string& rest) const {
    const auto cuts = [&](std::initializer_list<const char*> members) {
      std::vector<Cut> out;
      for (const char* member : members)
        out.push_back({widths_.linear_rows(member), {layer + "gdn/" + member}});
      return out;
    };
    if (rest == "query_key") return cuts({"query", "key"});
    if (rest == "value_z") return cuts({"value", "z"});
    if (rest == "query_key_value_z") return cuts({"query", "key", "value", "z"});
    if (rest == "a_b_projection") return cuts({"a_projection", "b_projection"});
    return {};
  }

  std::vector<Cut> mixture(const std::string& moe, const std::string& rest) const {
    const auto experts = [&](std::initializer_list<const char*> members, uint64_t rows) {
      std::vector<Cut> out;
      for (uint64_t e = 0; e < widths_.text("num_experts"); ++e)
        for (const char* member : members)
          out.push_back({rows, {fmt::format("{}experts/{}/{}", moe, e, member)}});
      return out;
    };
    if (rest == "router_shared_gate")
      return {{widths_.text("num_experts"), {moe + "router"}}, {1, {moe + "shared_score"}}};
    if (rest == "routed_gate_up")
      return experts({"gate", "up"}, widths_.text("moe_intermediate_size"));
    if (rest == "routed_down") return experts({"down"}, widths_.text("hidden_size"));
    if (rest == "shared_gate_up") {
      const uint64_t n = widths_.text("shared_expert_intermediate_size");
      return {{n, {moe + "shared/gate"}}, {n, {moe + "shared/up"}}};
    }
    if (rest == "shared_down") return {{widths_.text("hidden_size"), {moe + "shared/down"}}};
    return {};
  }

  const Widths& widths_;
};

constexpr std::string_view kDivisorSuffix = "/input_scale_divisor";

// Parameters that an activation divisor serves: "G/OP/input_scale_divisor".
std::vector<std::string> served(const std::string& old_name) {
  const std::string path = old_name.substr(0, old_name.size() - kDivisorSuffix.size());
  const std::string group = path.substr(0, path.rfind('/') + 1), op = path.substr(group.size());
  std::vector<std::string> out;
  const auto add = [&](std::initializer_list<const char*> members) {
    for (const char* member : members) out.push_back(group + member);
  };
  if (op == "input_projection" && group.ends_with("gdn/"))
    add({"query", "key", "value", "z"});
  else if (op == "input_projection")
    add({"query", "key", "gate", "value"});
  else if (op == "output_projection")
    add({"output"});
  else if (op == "gate_up_projection")
    add({"gate", "up"});
  else if (op == "down_projection")
    add({"down"});
  else
    throw Error(Code::kReference, "object {}: {} is no projection with an input divisor",
                quote(old_name), quote(op));
  return out;
}

class Converter {
 public:
  Converter(OldFile old, const std::string& file, const LegacyOptions& options)
      : old_(std::move(old)), file_(file), options_(options) {}

  artifact::Directory directory() {
    find_components();
    read_configs();
    const Widths widths(configs_);
    const Names names(widths);
    directory_.objects = old_.objects;
    for (const artifact::Object& object : old_.objects) {
      if (object.kind == artifact::Object::Kind::kResource)
        add_resource(object);
      else if (object.id.ends_with(kDivisorSuffix))
        for (const std::string& parameter : served(object.id)) divisors_[parameter] = object.id;
      else
        bind(object, names.shares(object));
    }
    if (is_tied_ && bindings_.contains("text/token_embedding"))
      bindings_.emplace("text/output_head", bindings_.at("text/token_embedding"));
    std::vector<std::string> order;
    for (const auto& [name, binding] : bindings_) order.push_back(name);
    std::ranges::sort(order, registry_before);
    for (const std::string& name : order) {
      directory_.bindings.emplace_back(name, bindings_.at(name));
      add_uses(name);
    }
    add_components();
    directory_.metadata = Json::object({{"name", old_.model_id}});
    Json from = Json::object({{"version", old_.version}, {"model_id", old_.model_id}});
    if (old_.version > 1) from.set("weights_id", old_.weights_id);
    directory_.provenance = Json::object({{"upgraded_from", std::move(from)}});
    directory_.index();
    return std::move(directory_);
  }

  const std::vector<std::string>& components() const { return components_; }

 private:
  void find_components() {
    std::set<std::string> found;
    for (const artifact::Object& object : old_.objects)
      if (object.kind == artifact::Object::Kind::kTensor)
        found.insert(object.id.substr(0, object.id.find('/')));
    for (const char* id : {"text", "vision", "mtp", "dflash", "dflash2"})
      if (found.erase(id) > 0) components_.emplace_back(id);
    if (!found.empty())
      throw Error(Code::kComponent, "{}: objects of {}, expected those of a known component", file_,
                  quote(*found.begin()));
    if (components_.empty() || components_.front() != "text")
      throw Error(Code::kComponent, "{}: no object of component text", file_);
    is_tied_ = std::ranges::find(old_.objects, "text/output_head", &artifact::Object::id) ==
               old_.objects.end();
  }

  bool has(std::string_view component) const {
    return std::ranges::find(components_, component) != components_.end();
  }

  // A config that the user names, as JSON with its path.
  std::optional<std::pair<Json, std::string>> given(std::string_view name) const {
    for (const auto& [which, path] : options_.configs) {
      if (which != name) continue;
      std::error_code ignored;
      const fs::path file = fs::is_directory(path, ignored) ? path / "config.json" : path;
      return std::pair(parse_json(read_text_file(file), file.string()), file.string());
    }
    return std::nullopt;
  }

  void check_known() const {
    bool same_model = false;
    for (const KnownFile& row : kKnownFiles) {
      if (row.model_id != old_.model_id ||
          (!row.weights_id.empty() && old_.version > 1 && row.weights_id != old_.weights_id))
        continue;
      same_model = true;
      if (row.objects == old_.objects.size()) return;
    }
    throw Error(Code::kUsage, "{}: {} with {} objects is {}, so its config must be given", file_,
                quote(old_.model_id), old_.objects.size(),
                same_model ? "not one of the published files" : "no known model")
        .set_hint("add --source CHECKPOINT, the folder of the model's config.json");
  }

  void read_configs() {
    auto model = given("");
    if (!model) {
      check_known();
      model.emplace(*known_config(old_.model_id), "config of " + old_.model_id);
    }
    const auto& [json, where] = *model;
    configs_["text"] = text_config(json, is_tied_, has("mtp"), where);
    if (has("vision")) configs_["vision"] = vision_config(json, where);
    if (has("mtp")) configs_["mtp"] = mtp_config(configs_["text"]);
    for (const char* draft : {"dflash", "dflash2"}) {
      if (!has(draft)) continue;
      const auto config = given(draft);
      if (!config)
        throw Error(Code::kUsage, "{}: component {} is in the file, its config must be given",
                    file_, draft)
            .set_hint(fmt::format("add --source {}=DRAFTER, the folder of its config.json", draft));
      configs_[draft] =
          draft_config(config->first, std::string_view(draft) == "dflash2", config->second);
    }
  }

  void add_resource(const artifact::Object& object) {
    constexpr std::string_view kFrontend = "frontend/";
    if (!object.id.starts_with(kFrontend)) return;
    const std::string role = object.id.substr(kFrontend.size());
    const bool is_vision = std::ranges::find(kVisionRoles, role) != std::end(kVisionRoles);
    // A missing component is not invented; the bytes stay.
    if (is_vision && !has("vision")) return;
    resources_[is_vision ? "vision" : "text"].emplace_back(role, object.id);
  }

  void bind(const artifact::Object& object, const std::vector<Share>& shares) {
    const uint64_t elements = codec::element_count(object.shape);
    for (const Share& share : shares) {
      artifact::Binding binding;
      if (share.begin == 0 && share.end == elements && shares.size() == 1)
        binding.object = object.id;
      else
        binding.parts = {{object.id, share.begin, share.end}};
      if (!bindings_.emplace(share.parameter, std::move(binding)).second)
        throw Error(Code::kDirectory, "{}: two objects hold parameter '{}'", file_,
                    share.parameter);
      formats_[share.parameter] = object.format;
      if (share.parameter == "proposal/head") proposal_rows_ = object.shape.front();
    }
  }

  void add_uses(const std::string& name) {
    const std::string& format =
        formats_.contains(name) ? formats_.at(name) : formats_.at("text/token_embedding");
    const bool is_nvfp4 = format == "nvfp4";
    const char* policy = is_nvfp4 ? "AllowA4" : format.starts_with("fp8") ? "AllowA8" : "A16Only";
    for (const std::string& input : registry_inputs(name, components_)) {
      artifact::Use use{.parameter = name, .input = input, .activation_policy = policy};
      const auto divisor = divisors_.find(name);
      if (divisor != divisors_.end())
        use.auxiliaries.emplace_back("activation_input_divisor",
                                     artifact::Binding{.object = divisor->second});
      else if (is_nvfp4)
        throw Error(Code::kBinding, "{}: parameter '{}' is nvfp4 without an input_scale_divisor",
                    file_, name);
      directory_.uses.push_back(std::move(use));
    }
  }

  void add_components() {
    for (const std::string& id : components_) {
      artifact::Component record{.config = configs_.at(id), .target = id == "text" ? "" : "text"};
      record.resources = resources_[id];
      if (id == "text" && proposal_rows_ != 0)
        record.proposal = {.domain = "indexed", .rows = proposal_rows_};
      directory_.components.emplace_back(id, std::move(record));
    }
  }

  const OldFile old_;
  const std::string file_;
  const LegacyOptions& options_;
  artifact::Directory directory_;
  std::vector<std::string> components_;
  std::map<std::string, Json> configs_;
  std::map<std::string, artifact::Binding> bindings_;
  std::map<std::string, std::string> formats_;   // of parameters
  std::map<std::string, std::string> divisors_;  // parameter → object
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> resources_;
  uint64_t proposal_rows_ = 0;
  bool is_tied_ = false;
};

}  // namespace

uint64_t legacy_version(const fs::path& path) {
  const File file = File::open(path);
  if (file.size() < kOldHeaderBytes) return 0;
  std::array<std::byte, 8> magic;
  file.read_at(0, magic);
  if (!as_text(magic).starts_with(kMagic)) return 0;
  const auto version = std::to_integer<uint64_t>(magic[7]);
  return version <= 2 ? version : 0;
}

LegacyReport convert_legacy(const fs::path& source, const fs::path& target,
                            const LegacyOptions& options,
                            const std::function<void(uint64_t)>& on_progress) {
  const File file = File::open(source);
  FileStamps stamps;
  stamps.add(source);
  const OldFile old = read_old(file);
  Converter converter(old, source.string(), options);
  artifact::Directory directory = converter.directory();
  LegacyReport report{.version = old.version,
                      .model_id = old.model_id,
                      .weights_id = old.weights_id,
                      .components = converter.components(),
                      .objects = directory.objects.size(),
                      .parameters = directory.bindings.size(),
                      .payload_bytes = old.payload_bytes};
  // Gaps and what no object names stay what they are.
  auto writer = artifact::Writer::whole_payload(target, std::move(directory), old.payload_bytes,
                                                options.write);
  std::vector<std::byte> buffer;
  for (uint64_t at = 0; at < old.payload_bytes; at += buffer.size()) {
    buffer.resize(std::min(kChunkBytes, old.payload_bytes - at));
    file.read_at(old.payload_start + at, buffer);
    writer.write(at, buffer);
    if (on_progress) on_progress(buffer.size());
  }
  stamps.check();
  writer.finish();
  return report;
}

}  // namespace flare::prepare
