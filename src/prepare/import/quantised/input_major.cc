// GPTQ and AWQ: integers packed with the input dimension first, and their configs.
#include "base/error.h"
#include "prepare/import/config_reader.h"
#include "prepare/import/quantised/integer_storage.h"
#include "prepare/import/quantised/methods.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using checkpoint::Tensor;

struct InputMajor {
  std::string where;  // file and member of the config, for messages
  std::string label;  // for reports
  bool awq = false;
  int bits = 4;
  uint64_t group_size = 0;   // 0: all input columns
  uint32_t raise_zeros = 0;  // GPTQ v1 stores zero points less one
  bool needs_index = false;  // g_idx must be there
};

class InputMajorScheme final : public Scheme {
 public:
  explicit InputMajorScheme(InputMajor method) : method_(std::move(method)) {}

  bool stores(const TensorPool& tensors, std::string_view module) const override {
    return tensors.find_stored(name(module, ".qweight")) != nullptr;
  }

  std::shared_ptr<const EncodedSource> open(TensorPool& tensors, std::string_view module,
                                            const codec::Shape& shape) const override {
    const uint64_t out = shape[0], in = shape[1], per = 32 / static_cast<uint64_t>(method_.bits);
    const uint64_t groups = integer_groups(in, method_.group_size);
    check_multiple(module, "rows", out, per, "fields of a word");
    if (!method_.awq) check_multiple(module, "columns", in, per, "fields of a word");
    if (method_.awq && method_.group_size != 0)
      check_multiple(module, "columns", in, method_.group_size, "group_size");
    IntegerParts parts{
        .bits = method_.bits,
        .layout = method_.awq ? IntegerLayout::kAwq : IntegerLayout::kInputMajor,
        .scales_by_group = true,
        .zero_layout = method_.awq ? IntegerLayout::kAwq : IntegerLayout::kInputMajor,
        .raise_zeros = method_.raise_zeros,
        .group_size = method_.group_size};
    const codec::Shape words =
        method_.awq ? codec::Shape{in, out / per} : codec::Shape{in / per, out};
    parts.codes = &tensors.take_stored(name(module, ".qweight"), {DType::kI32}, {words});
    parts.zeros =
        &tensors.take_stored(name(module, ".qzeros"), {DType::kI32}, {{groups, out / per}});
    parts.scales = &tensors.take_stored(name(module, ".scales"),
                                        {DType::kF16, DType::kBf16, DType::kF32}, {{groups, out}});
    EncodedFacts facts{.name = name(module, ".weight"),
                       .scheme = method_.label,
                       .geometry = {out, in},
                       .tensors = {parts.codes, parts.scales, parts.zeros}};
    const std::string index = name(module, ".g_idx");
    if (!method_.awq && (method_.needs_index || tensors.find_stored(index) != nullptr)) {
      const Tensor& tensor = tensors.take_stored(index, {DType::kI32}, {{in}});
      parts.group_of = read_group_index(tensors, tensor, method_.group_size, groups);
      facts.tensors.push_back(&tensor);
    }
    parts.codes_place = tensors.place(*parts.codes);
    parts.scales_place = tensors.place(*parts.scales);
    return make_integer_source(std::move(facts), std::move(parts));
  }

 private:
  static std::string name(std::string_view module, std::string_view end) {
    return fmt::format("{}{}", module, end);
  }
  void check_multiple(std::string_view module, std::string_view what, uint64_t n, uint64_t of,
                      std::string_view reason) const {
    if (n % of != 0)
      throw Error(Code::kBinding,
                  "{}: weight '{}.weight' has {} {}, a multiple of {} ({}) expected", method_.where,
                  module, n, what, of, reason);
  }
  InputMajor method_;
};

// Which modules have quantised weights, their tensors tell, not the lists of the config.
class InputMajorQuantisation final : public Quantisation {
 public:
  explicit InputMajorQuantisation(InputMajor method) : scheme_(std::move(method)) {}

  const Scheme* scheme_of(std::string_view, bool linear) const override {
    return linear ? &scheme_ : nullptr;
  }
  bool codes_decide() const override { return true; }
  std::vector<Unused> unused() const override {
    // The packers of GPTQ give every layer a bias, also in models that have none.
    return {{".bias", "biases of layers that have none"}};
  }

 private:
  InputMajorScheme scheme_;
};

// −1 stands for one group of all input columns.
uint64_t read_group_size(ConfigReader& config) {
  const Json* size = config.take("group_size");
  if (size != nullptr && size->is_integer() && size->to_text() == "-1") return 0;
  return config.count("group_size");
}

int read_bits(ConfigReader& config, std::string_view method, uint64_t other) {
  const uint64_t bits = config.count("bits");
  if (bits != 4 && bits != other)
    throw Error(Code::kSupport, "{}: 'bits' is {}, only {} are supported for {}", config.where(),
                bits, other == 8 ? "4 and 8" : "4", method);
  return static_cast<int>(bits);
}

std::string label_of(const InputMajor& method, std::string_view name) {
  return fmt::format(
      "{} {} bits {}", name, method.bits,
      method.group_size == 0 ? "per channel" : fmt::format("g{}", method.group_size));
}

// Settings of the search for the numbers, and of programs that run them.
constexpr std::string_view kGptqSettings[] = {"quant_method",
                                              "lm_head",
                                              "modules_to_not_convert",
                                              "method",
                                              "damp_percent",
                                              "damp_auto_increment",
                                              "static_groups",
                                              "true_sequential",
                                              "sym",
                                              "meta",
                                              "model_name_or_path",
                                              "model_file_base_name",
                                              "tokenizer",
                                              "dataset",
                                              "batch_size",
                                              "backend",
                                              "block_name_to_quantize",
                                              "module_name_preceding_first_block",
                                              "modules_in_block_to_quantize",
                                              "cache_block_outputs",
                                              "cache_examples_on_gpu",
                                              "pad_token_id",
                                              "max_input_length",
                                              "model_seqlen",
                                              "use_cuda_fp16",
                                              "use_exllama",
                                              "disable_exllama",
                                              "exllama_config",
                                              "quantizer",
                                              "offload_to_disk",
                                              "offload_to_disk_path",
                                              "act_group_aware",
                                              "hyb_act",
                                              "v2",
                                              "mse",
                                              "gptaq",
                                              "gptaq_alpha",
                                              "mock_quantization",
                                              "hessian",
                                              "failsafe"};
constexpr std::string_view kAwqSettings[] = {
    "quant_method",     "lm_head",         "modules_to_not_convert", "backend",  "do_fuse",
    "fuse_max_seq_len", "modules_to_fuse", "exllama_config",         "desc_act", "sym"};

}  // namespace

std::unique_ptr<Quantisation> read_gptq(const Json& json, const std::string& where) {
  ConfigReader config(json, where);
  InputMajor method{.where = where};
  method.bits = read_bits(config, "gptq", 8);
  method.group_size = read_group_size(config);
  method.needs_index = config.flag_or("desc_act", false);
  config.expect("pack_dtype", {"int32"});
  config.expect("is_marlin_format", {false});
  config.expect("dynamic", {Json::object({})});
  // Newer writers call it `format`.
  for (const char* key : {"checkpoint_format", "format"}) config.expect(key, {"gptq", "gptq_v2"});
  const auto format = config.text("checkpoint_format");
  const bool second = (format ? *format : config.text("format").value_or("gptq")) == "gptq_v2";
  if (!second) method.raise_zeros = method.bits == 4 ? 0x11111111u : 0x01010101u;
  method.label = label_of(method, second ? "GPTQ v2" : "GPTQ");
  config.ignore(kGptqSettings);
  config.finish();
  return std::make_unique<InputMajorQuantisation>(std::move(method));
}

std::unique_ptr<Quantisation> read_awq(const Json& json, const std::string& where) {
  ConfigReader config(json, where);
  InputMajor method{.where = where, .awq = true};
  method.bits = read_bits(config, "awq", 4);
  method.group_size = read_group_size(config);
  config.expect("zero_point", {true});
  for (const char* key : {"version", "format"}) config.expect(key, {"gemm", "GEMM"});
  method.label = label_of(method, "AWQ");
  config.ignore(kAwqSettings);
  config.finish();
  return std::make_unique<InputMajorQuantisation>(std::move(method));
}

}  // namespace flare::prepare
