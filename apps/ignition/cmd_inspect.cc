// `ignition inspect`: what an artifact or a checkpoint holds, for people and as JSON.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "artifact/reader.h"
#include "base/checked.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/safetensors.h"
#include "ignition/commands.h"
#include "prepare/prepare.h"

namespace flare::app {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string file, graph;
  bool objects = false, bindings = false, uses = false;
};

constexpr const char* kFooter = R"(
Examples:
  ignition inspect nano.ninfer
  ignition inspect nano.ninfer --objects
  ignition inspect models/nano --json
  ignition inspect model.gguf --objects

Exit codes: 0 done, 2 usage, 3 file missing, 4 file invalid)";

struct Total {
  uint64_t objects = 0, weights = 0, bytes = 0;
};
using Totals = std::map<std::string, Total>;  // by format

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string out;
  for (uint64_t n : shape) out += fmt::format("{}{}", out.empty() ? "" : ", ", n);
  return fmt::format("[{}]", out);
}

double bits(uint64_t bytes, uint64_t weights) {
  return weights == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
}

Json totals_json(const Totals& totals) {
  Json::Array out;
  for (const auto& [format, total] : totals)
    out.push_back(Json::object({{"format", format},
                                {"objects", total.objects},
                                {"weights", total.weights},
                                {"bytes", total.bytes}}));
  return out;
}

std::string totals_text(const Totals& totals) {
  Total all;
  std::string out;
  for (const auto& [format, total] : totals) {
    out += fmt::format("  {:<14}{:>6} tensors {:>10} weights {:>12}\n", format, total.objects,
                       human_count(total.weights), human_bytes(total.bytes));
    all.weights += total.weights;
    all.bytes += total.bytes;
  }
  return fmt::format("weights     {}, {}, {:.2f} bits per weight\n", human_count(all.weights),
                     human_bytes(all.bytes), bits(all.bytes, all.weights)) +
         out;
}

// "4 full_attention, 2 linear_attention".
std::string layer_summary(const Json& types) {
  std::map<std::string, int> counts;
  for (const Json& type : types.as_array())
    if (type.is_string()) ++counts[type.as_string()];
  std::string out;
  for (const auto& [type, n] : counts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, type);
  return out;
}

// Whatever of the usual members a config has, in words.
std::string config_summary(const Json& config) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  if (const Json* list = config.find("architectures"); list != nullptr && list->is_array() &&
                                                       !list->as_array().empty() &&
                                                       list->as_array()[0].is_string())
    add(list->as_array()[0].as_string());
  const struct {
    const char *key, *words;
  } members[] = {{"num_hidden_layers", "{} layers"},
                 {"hidden_size", "hidden {}"},
                 {"intermediate_size", "feed-forward {}"},
                 {"num_attention_heads", "{} heads"},
                 {"num_key_value_heads", "{} key/value heads"},
                 {"head_dim", "head width {}"},
                 {"vocab_size", "vocabulary {}"},
                 {"max_position_embeddings", "context {}"}};
  for (const auto& [key, words] : members)
    if (const Json* value = config.find(key); value != nullptr && value->is_integer())
      add(fmt::format(fmt::runtime(words), value->to_text()));
  if (const Json* types = config.find("layer_types"); types != nullptr && types->is_array())
    add("layers: " + layer_summary(*types));
  return out;
}

Json binding_json(const artifact::Binding& binding) {
  if (binding.parts.empty()) return Json::object({{"object", binding.object}});
  Json::Array parts;
  for (const artifact::Part& part : binding.parts)
    parts.push_back(
        Json::object({{"object", part.object}, {"range", Json::array({part.begin, part.end})}}));
  return Json::object({{"parts", parts}});
}

std::string binding_text(const artifact::Binding& binding) {
  if (binding.parts.empty()) return binding.object;
  std::string out;
  for (const artifact::Part& part : binding.parts)
    out += fmt::format("{}{}[{},{})", out.empty() ? "" : " + ", part.object, part.begin, part.end);
  return out;
}

// An artifact: its directory put into words.
class ArtifactView {
 public:
  ArtifactView(const artifact::Reader& reader, const Flags& flags)
      : reader_(reader), directory_(reader.directory()), flags_(flags) {
    for (const artifact::Object& object : directory_.objects) {
      if (object.kind != artifact::Object::Kind::kTensor) continue;
      Total& total = totals_[object.format];
      ++total.objects;
      total.weights = checked_add(total.weights, codec::element_count(object.shape));
      total.bytes = checked_add(total.bytes, object.bytes);
    }
  }

  Json json() const {
    Json out = Json::object({{"kind", "artifact"},
                             {"version", 3},
                             {"file", reader_.path().string()},
                             {"artifact_id", reader_.id_hex()},
                             {"metadata", directory_.metadata},
                             {"provenance", directory_.provenance}});
    Json components = Json::object();
    for (const auto& [id, component] : directory_.components) {
      Json::Array roles;
      for (const auto& [role, object] : component.resources) roles.emplace_back(role);
      components.set(id, Json::object({{"config", component.config}, {"resources", roles}}));
    }
    out.set("components", components);
    out.set("formats", totals_json(totals_));
    out.set("parameters", directory_.bindings.size());
    Json::Array files;
    for (size_t i = 0; i < directory_.files.size(); ++i)
      files.push_back(Json::object({{"file", reader_.file_path(i).string()},
                                    {"payload_bytes", directory_.files[i].payload_bytes},
                                    {"present", fs::exists(reader_.file_path(i))}}));
    out.set("files", files);
    if (flags_.objects) out.set("objects", objects_json());
    if (flags_.bindings) out.set("bindings", bindings_json());
    if (flags_.uses) out.set("uses", uses_json());
    return out;
  }

  std::string text() const {
    std::string out =
        fmt::format("{}  artifact version 3, id {}\n", reader_.path().string(), reader_.id_hex());
    if (const Json* name = directory_.metadata.find("name"); name != nullptr && name->is_string())
      out += fmt::format("name        {}\n", name->as_string());
    for (const auto& [id, component] : directory_.components) {
      out += fmt::format("component   {}: {}\n", id, config_summary(component.config));
      for (const auto& [role, object_id] : component.resources)
        out += fmt::format("  resource  {:<24}{:>12}\n", role,
                           human_bytes(directory_.find_object(object_id)->bytes));
    }
    out += fmt::format("parameters  {}, {} uses\n", directory_.bindings.size(),
                       directory_.uses.size());
    out += totals_text(totals_);
    if (const Json* recipe = directory_.provenance.find("recipe");
        recipe != nullptr && recipe->is_string())
      out += fmt::format("recipe      {}\n", recipe->as_string());
    out += fmt::format("files       {}, payload {}\n", directory_.files.size(),
                       human_bytes(directory_.payload_bytes()));
    for (size_t i = 0; i < directory_.files.size(); ++i)
      out += fmt::format("  {:<40}{:>12}{}\n", reader_.file_path(i).filename().string(),
                         human_bytes(directory_.files[i].payload_bytes),
                         fs::exists(reader_.file_path(i)) ? "" : "  missing");
    return out + details_text();
  }

 private:
  std::string details_text() const {
    std::string out;
    if (flags_.objects) out += "\nobjects\n";
    if (flags_.objects)
      for (const artifact::Object& object : directory_.objects)
        out += fmt::format("  {:<38} {:<16} {:<18} at {:>12} {:>12} bytes\n", object.id,
                           object.format.empty() ? object.encoding : object.format,
                           object.format.empty() ? "" : shape_text(object.shape), object.offset,
                           object.bytes);
    if (flags_.bindings) out += "\nbindings\n";
    if (flags_.bindings)
      for (const auto& [name, binding] : directory_.bindings)
        out += fmt::format("  {:<44} {}\n", name, binding_text(binding));
    if (flags_.uses) out += "\nuses\n";
    if (flags_.uses)
      for (const artifact::Use& use : directory_.uses) {
        out += fmt::format("  {:<44} {:<44} {}", use.parameter, use.input, use.activation_policy);
        for (const auto& [role, binding] : use.auxiliaries)
          out += fmt::format(" {} {}", role, binding_text(binding));
        out += '\n';
      }
    return out;
  }

  Json objects_json() const {
    Json::Array out;
    for (const artifact::Object& object : directory_.objects) {
      Json item = Json::object({{"id", object.id}});
      if (object.kind == artifact::Object::Kind::kTensor) {
        Json::Array shape;
        for (uint64_t n : object.shape) shape.emplace_back(n);
        item.set("shape", shape);
        item.set("format", object.format);
        item.set("layout", object.layout);
      } else {
        item.set("encoding", object.encoding);
      }
      item.set("offset", object.offset);
      item.set("bytes", object.bytes);
      out.push_back(std::move(item));
    }
    return out;
  }

  Json bindings_json() const {
    Json out = Json::object();
    Json::Object& members = out.mutable_object();
    for (const auto& [name, binding] : directory_.bindings)
      members.emplace_back(name, binding_json(binding));
    return out;
  }

  Json uses_json() const {
    Json::Array out;
    for (const artifact::Use& use : directory_.uses) {
      Json item = Json::object({{"parameter", use.parameter},
                                {"input", use.input},
                                {"activation_policy", use.activation_policy}});
      if (!use.auxiliaries.empty()) {
        Json auxiliaries = Json::object();
        for (const auto& [role, binding] : use.auxiliaries)
          auxiliaries.set(role, binding_json(binding));
        item.set("auxiliaries", auxiliaries);
      }
      out.push_back(std::move(item));
    }
    return out;
  }

  const artifact::Reader& reader_;
  const artifact::Directory& directory_;
  const Flags& flags_;
  Totals totals_;
};

// A checkpoint: files, tensors by type, config.
class CheckpointView {
 public:
  CheckpointView(const checkpoint::Checkpoint& checkpoint, const Flags& flags)
      : checkpoint_(checkpoint), flags_(flags) {
    for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
      Total& total = totals_[std::string(checkpoint::dtype_name(tensor.dtype))];
      ++total.objects;
      total.weights = checked_add(total.weights, codec::element_count(tensor.shape));
      total.bytes += tensor.bytes.size();
    }
  }

  Json json() const {
    Json::Array files;
    for (const checkpoint::SafetensorsFile& file : checkpoint_.files())
      files.push_back(
          Json::object({{"file", file.path().string()}, {"bytes", file.mapping().bytes().size()}}));
    Json out = Json::object({{"kind", "checkpoint"},
                             {"folder", checkpoint_.folder().string()},
                             {"config", checkpoint_.config()},
                             {"tensors", checkpoint_.tensors().size()},
                             {"formats", totals_json(totals_)},
                             {"files", files}});
    if (!flags_.objects) return out;
    Json::Array objects;
    for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
      Json::Array shape;
      for (uint64_t n : tensor.shape) shape.emplace_back(n);
      objects.push_back(Json::object({{"id", tensor.name},
                                      {"shape", shape},
                                      {"format", checkpoint::dtype_name(tensor.dtype)},
                                      {"bytes", tensor.bytes.size()}}));
    }
    out.set("objects", objects);
    return out;
  }

  std::string text() const {
    std::string out = fmt::format("{}  safetensors checkpoint\n", flags_.file);
    const Json& config = checkpoint_.config();
    const Json* nested = config.find("text_config");
    out += fmt::format("model       {}\n",
                       config.is_null() ? "no config.json" : config_summary(config));
    if (nested != nullptr && nested->is_object())
      out += fmt::format("  text      {}\n", config_summary(*nested));
    out += totals_text(totals_);
    out += fmt::format("files       {}\n", checkpoint_.files().size());
    for (const checkpoint::SafetensorsFile& file : checkpoint_.files())
      out += fmt::format("  {:<40}{:>12}\n", file.path().filename().string(),
                         human_bytes(file.mapping().bytes().size()));
    if (!flags_.objects) return out;
    out += "\ntensors\n";
    for (const checkpoint::Tensor& tensor : checkpoint_.tensors())
      out += fmt::format("  {:<60} {:<8} {:<18} {:>12} bytes\n", tensor.name,
                         checkpoint::dtype_name(tensor.dtype), shape_text(tensor.shape),
                         tensor.bytes.size());
    return out;
  }

 private:
  const checkpoint::Checkpoint& checkpoint_;
  const Flags& flags_;
  Totals totals_;
};

// A GGUF file or the parts of a model: architecture, tensors by type, metadata.
class GgufView {
 public:
  GgufView(const std::vector<checkpoint::GgufFile>& parts, const Flags& flags)
      : parts_(parts), file_(parts.front()), flags_(flags) {
    for (const checkpoint::GgufFile& part : parts_) bytes_ += part.mapping().bytes().size();
    for_each_tensor([this](const checkpoint::GgufTensor& tensor) {
      Total& total = totals_[std::string(tensor.type->name)];
      ++total.objects;
      ++n_tensors_;
      total.weights = checked_add(total.weights, codec::element_count(tensor.shape));
      total.bytes += tensor.bytes.size();
    });
  }

  Json json() const {
    Json metadata = Json::object();
    for (const std::string_view key : file_.keys()) metadata.set(key, shown(key));
    Json out = Json::object({{"kind", "gguf"},
                             {"file", file_.path().string()},
                             {"version", file_.version()},
                             {"bytes", bytes_},
                             {"metadata", std::move(metadata)},
                             {"tensors", n_tensors_},
                             {"formats", totals_json(totals_)}});
    if (parts_.size() > 1) out.set("parts", parts_.size());
    if (!flags_.objects) return out;
    Json::Array objects;
    for_each_tensor([&objects](const checkpoint::GgufTensor& tensor) {
      Json::Array shape;
      for (uint64_t n : tensor.shape) shape.emplace_back(n);
      objects.push_back(Json::object({{"id", tensor.name},
                                      {"shape", shape},
                                      {"format", tensor.type->name},
                                      {"bytes", tensor.bytes.size()}}));
    });
    out.set("objects", objects);
    return out;
  }

  std::string text() const {
    std::string out = fmt::format(
        "{}  GGUF version {}, {}{}\n", file_.path().string(), file_.version(), human_bytes(bytes_),
        parts_.size() == 1 ? "" : fmt::format(" in {} parts", parts_.size()));
    out += totals_text(totals_) + "metadata\n";
    for (const std::string_view key : file_.keys()) {
      const Json value = shown(key);
      out += fmt::format("  {:<44} {}\n", plain(key),
                         value.is_string() ? value.as_string() : value.to_text());
    }
    if (!flags_.objects) return out;
    out += "\ntensors\n";
    for_each_tensor([&out](const checkpoint::GgufTensor& tensor) {
      out += fmt::format("  {:<60} {:<8} {:<18} {:>12} bytes\n", plain(tensor.name),
                         tensor.type->name, shape_text(tensor.shape), tensor.bytes.size());
    });
    return out;
  }

 private:
  template <typename Body>
  void for_each_tensor(const Body& body) const {
    for (const checkpoint::GgufFile& part : parts_)
      for (const checkpoint::GgufTensor& tensor : part.tensors()) body(tensor);
  }
  // Foreign text on one line, shortened.
  static std::string plain(std::string_view text) {
    const std::string quoted = quote(text);
    return quoted.substr(1, quoted.size() - 2);
  }

  // A number, truth value or text; of a list, what it is a list of.
  Json shown(std::string_view key) const {
    using checkpoint::GgufKind;
    const checkpoint::GgufValue value = file_.at(key);
    if (value.is_array())
      return fmt::format("{} × {}", value.size(), gguf_kind_name(value.element_kind()));
    if (value.kind() == GgufKind::kString) return plain(value.as_string());
    if (value.kind() == GgufKind::kBool) return value.as_bool();
    const double number = value.as_double();
    const bool real = value.kind() == GgufKind::kF32 || value.kind() == GgufKind::kF64;
    constexpr double kMostExact = 9e15;
    if (real || number < 0 || number > kMostExact) return number;
    return value.as_u64();
  }

  const std::vector<checkpoint::GgufFile>& parts_;
  const checkpoint::GgufFile& file_;  // the one with the metadata
  const Flags& flags_;
  Totals totals_;
  uint64_t bytes_ = 0, n_tensors_ = 0;
};

int run(const Flags& flags, const CommonFlags& common) {
  const fs::path path = flags.file;
  std::error_code error;
  if (!flags.graph.empty()) {
    const auto source = prepare::open_source(path, "", thread_count(0));
    const std::string text = prepare::graph_and_plan_text(*source, flags.graph);
    print_result(common, Json::object({{"graph", text}}), text);
    return 0;
  }
  if (fs::is_directory(path, error) || path.extension() == ".safetensors") {
    if (flags.bindings || flags.uses)
      throw Error(Code::kUsage, "{}: a checkpoint has no bindings or uses, expected --objects only",
                  flags.file);
    const auto checkpoint = checkpoint::Checkpoint::open(path);
    const CheckpointView view(checkpoint, flags);
    print_result(common, view.json(), view.text());
    return 0;
  }
  if (fs::exists(path, error) && checkpoint::is_gguf(path)) {
    if (flags.bindings || flags.uses)
      throw Error(Code::kUsage, "{}: a GGUF file has no bindings or uses, expected --objects only",
                  flags.file);
    const auto parts = checkpoint::open_gguf_parts(path);
    const GgufView view(parts, flags);
    print_result(common, view.json(), view.text());
    return 0;
  }
  const auto reader = artifact::Reader::open(path);
  const ArtifactView view(reader, flags);
  print_result(common, view.json(), view.text());
  return 0;
}

}  // namespace

std::function<int()> declare_inspect(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->file, "artifact, checkpoint folder, .safetensors or .gguf file")
      ->required();
  app.add_flag("--objects", flags->objects, "list every stored tensor and resource");
  app.add_flag("--bindings", flags->bindings, "list every parameter and where it lies");
  app.add_flag("--uses", flags->uses, "list every use and its activation policy");
  app.add_option("--graph", flags->graph, "print the graph and the plan of a role: text.step")
      ->type_name("ROLE");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
