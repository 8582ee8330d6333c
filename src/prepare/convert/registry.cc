// The tables of §15.3 to §15.6, a row per parameter in registry order.
#include "prepare/convert/registry.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <tuple>

namespace flare::prepare {
namespace {

// `name` is what follows the component, or in layers the layer; `#` stands for a number. `input` is
// relative to the same place, to the parameter's folder with a leading `./`, or whole with a
// leading `/`; empty: none.
struct Row {
  std::string_view name, input;
};

constexpr Row kText[] = {
    {"token_embedding", ""}, {"output_head", "final_hidden"}, {"final_norm", ""}};
constexpr Row kMtp[] = {{"input_projection", "stem_input"},
                        {"embedding_norm", ""},
                        {"hidden_norm", ""},
                        {"final_norm", ""}};
constexpr Row kBlock[] = {
    {"input_norm", ""},
    {"attention/query", "mixer_input"},
    {"attention/gate", "mixer_input"},
    {"attention/key", "mixer_input"},
    {"attention/value", "mixer_input"},
    {"attention/query_norm", ""},
    {"attention/key_norm", ""},
    {"attention/output", "attention/gated_output"},
    {"gdn/a_log", ""},
    {"gdn/dt_bias", ""},
    {"gdn/convolution", ""},
    {"gdn/a_projection", "mixer_input"},
    {"gdn/b_projection", "mixer_input"},
    {"gdn/query", "mixer_input"},
    {"gdn/key", "mixer_input"},
    {"gdn/value", "mixer_input"},
    {"gdn/z", "mixer_input"},
    {"gdn/norm", ""},
    {"gdn/output", "gdn/gated_output"},
    {"post_attention_norm", ""},
    {"mlp/gate", "ffn_input"},
    {"mlp/up", "ffn_input"},
    {"mlp/down", "mlp/product"},
    {"moe/router", "ffn_input"},
    {"moe/shared_score", "ffn_input"},
    {"moe/experts/#/gate", "ffn_input"},
    {"moe/experts/#/up", "ffn_input"},
    {"moe/experts/#/down", "./product"},
    {"moe/shared/gate", "ffn_input"},
    {"moe/shared/up", "ffn_input"},
    {"moe/shared/down", "moe/shared/product"},
};
constexpr Row kVision[] = {
    {"patch_embedding", "patch_input"}, {"patch_embedding_bias", ""}, {"position_embedding", ""}};
constexpr Row kVisionBlock[] = {
    {"norm1_weight", ""},
    {"norm1_bias", ""},
    {"norm2_weight", ""},
    {"norm2_bias", ""},
    {"attention/query", "attention_input"},
    {"attention/query_bias", ""},
    {"attention/key", "attention_input"},
    {"attention/key_bias", ""},
    {"attention/value", "attention_input"},
    {"attention/value_bias", ""},
    {"attention/output", "attention_output"},
    {"attention/output_bias", ""},
    {"mlp/fc1", "mlp_input"},
    {"mlp/fc1_bias", ""},
    {"mlp/fc2", "mlp_activation"},
    {"mlp/fc2_bias", ""},
};
constexpr Row kVisionEnd[] = {{"merger/norm_weight", ""},          {"merger/norm_bias", ""},
                              {"merger/fc1", "merger/input"},      {"merger/fc1_bias", ""},
                              {"merger/fc2", "merger/activation"}, {"merger/fc2_bias", ""}};
constexpr Row kDraft[] = {
    {"feature_projection", "target_features"}, {"context_norm", ""}, {"final_norm", ""}};
constexpr Row kDraftBlock[] = {
    {"input_norm", ""},
    {"attention/query", "query_projection_input"},
    {"attention/key", "query_projection_input"},
    {"attention/context_key", "/context_input"},
    {"attention/value", "query_projection_input"},
    {"attention/context_value", "/context_input"},
    {"attention/query_norm", ""},
    {"attention/key_norm", ""},
    {"attention/output", "attention_output"},
    {"post_attention_norm", ""},
    {"mlp/gate", "mlp_input"},
    {"mlp/up", "mlp_input"},
    {"mlp/down", "mlp_product"},
    {"attention_conv/base_kernel", ""},
    {"attention_conv/kernel_projection", "attention_conv_input"},
    {"mlp_conv/base_kernel", ""},
    {"mlp_conv/kernel_projection", "mlp_conv_input"},
};
constexpr Row kDraftEnd[] = {{"candidate_selector/hidden_projection", "final_hidden"},
                             {"candidate_selector/predecessor_codebook", ""},
                             {"candidate_selector/successor_codebook", ""}};
constexpr Row kProposal[] = {{"head", ""}, {"token_ids", ""}};

struct ComponentRows {
  std::string_view id;
  std::span<const Row> before, block, behind;
};
constexpr ComponentRows kComponents[] = {
    {"text", kText, kBlock, {}},
    {"mtp", kMtp, kBlock, {}},
    {"vision", kVision, kVisionBlock, kVisionEnd},
    {"dflash", kDraft, kDraftBlock, kDraftEnd},
    {"dflash2", kDraft, kDraftBlock, kDraftEnd},
    {"proposal", kProposal, {}, {}},
};
constexpr std::string_view kDrafters[] = {"mtp", "dflash", "dflash2"};

// Takes a number without sign from the front of `text`.
bool take_number(std::string_view& text, uint64_t& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

struct Found {
  size_t component = std::size(kComponents);  // index; none: unknown
  int section = 0;                            // before, in, behind the layers
  uint64_t layer = 0, expert = 0;
  size_t row = 0;
  std::string_view place;  // "text/" or "text/layers/3/"
  const Row* entry = nullptr;
};

// `#` of the pattern takes a number of the name.
bool matches(std::string_view pattern, std::string_view name, uint64_t& number) {
  const size_t hash = pattern.find('#');
  if (hash == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, hash))) return false;
  name.remove_prefix(hash);
  return take_number(name, number) && name == pattern.substr(hash + 1);
}

bool find_in(std::span<const Row> rows, std::string_view name, Found& found) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (matches(rows[i].name, name, found.expert)) {
      found.row = i;
      found.entry = &rows[i];
      return true;
    }
  return false;
}

Found find(std::string_view name) {
  Found found;
  for (size_t c = 0; c < std::size(kComponents); ++c) {
    const ComponentRows& component = kComponents[c];
    if (!name.starts_with(component.id) || name.substr(component.id.size(), 1) != "/") continue;
    const size_t start = component.id.size() + 1;
    std::string_view rest = name.substr(start);
    found.place = name.substr(0, start);
    constexpr std::string_view kLayers = "layers/";
    bool known = false;
    if (rest.starts_with(kLayers)) {
      rest.remove_prefix(kLayers.size());
      if (!take_number(rest, found.layer) || !rest.starts_with('/')) return {};
      rest.remove_prefix(1);
      found.place = name.substr(0, name.size() - rest.size());
      found.section = 1;
      known = find_in(component.block, rest, found);
    } else if (find_in(component.before, rest, found)) {
      known = true;
    } else {
      found.section = 2;
      known = find_in(component.behind, rest, found);
    }
    if (!known) return {};
    found.component = c;
    return found;
  }
  return {};
}

}  // namespace

std::vector<std::string> registry_inputs(const std::string& parameter,
                                         const std::vector<std::string>& components) {
  const Found found = find(parameter);
  if (found.entry == nullptr) return {};
  std::vector<std::string> inputs;
  const std::string_view input = found.entry->input;
  const std::string component(kComponents[found.component].id);
  if (input.starts_with("./"))
    inputs.push_back(parameter.substr(0, parameter.rfind('/') + 1) + std::string(input.substr(2)));
  else if (input.starts_with('/'))
    inputs.push_back(component + std::string(input));
  else if (!input.empty())
    inputs.push_back(std::string(found.place) + std::string(input));
  // The vocabulary serves every drafter that is there.
  if (parameter == "text/output_head" || parameter == "proposal/head")
    for (std::string_view drafter : kDrafters)
      if (std::ranges::find(components, drafter) != components.end())
        inputs.push_back(std::string(drafter) + "/final_hidden");
  return inputs;
}

bool registry_before(const std::string& a, const std::string& b) {
  const Found x = find(a), y = find(b);
  const auto key = [](const Found& found) {
    // Experts one after the other, each with all of its parts.
    const bool is_expert =
        found.entry != nullptr && found.entry->name.find('#') != std::string::npos;
    const size_t first =
        is_expert
            ? static_cast<size_t>(
                  std::ranges::find(kBlock, std::string_view("moe/experts/#/gate"), &Row::name) -
                  std::begin(kBlock))
            : found.row;
    return std::tuple(found.component, found.section, found.layer, first, found.expert, found.row);
  };
  if (x.entry == nullptr && y.entry == nullptr) return a < b;
  return key(x) < key(y);
}

}  // namespace flare::prepare
