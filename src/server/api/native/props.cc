// The model's frontend block and capacities as JSON.
#include "server/api/native/props.h"

#include "base/error.h"
#include "base/version.h"

namespace flare::server {
namespace {

using frontend::ReasoningPrompt;

// Shortest decimal that reads back as the same float: 0.7, not 0.699999988079071.
Json number(float value) { return parse_json(fmt::format("{}", value), "a number"); }

Json list_of(const auto& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(item);
  return list;
}

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

Json defaults_json(const package::SamplingDefaults& s, uint32_t max_context) {
  return Json::object(
      {{"n_ctx", max_context},
       {"params", Json::object({{"temperature", number(s.temperature)},
                                {"top_k", s.top_k},
                                {"top_p", number(s.top_p)},
                                {"min_p", number(s.min_p)},
                                {"repetition_penalty", number(s.repetition_penalty)},
                                {"presence_penalty", number(s.presence_penalty)},
                                {"frequency_penalty", number(s.frequency_penalty)},
                                {"max_tokens", Json()},
                                {"seed", Json()}})}});
}

// `default` says what happens without a word in the request; null: the model decides.
Json reasoning_json(const package::FrontendBlock& frontend) {
  if (frontend.reasoning_format.empty()) return Json();
  const frontend::ReasoningTraits& r = frontend.reasoning;
  Json usual;
  if (!r.switch_name.empty()) {
    usual = Json(r.default_on);
  } else if (r.prompt != ReasoningPrompt::kSilent) {
    usual = Json(r.prompt == ReasoningPrompt::kOpens);
  }
  return Json::object({{"format", frontend.reasoning_format},
                       {"switchable", !r.switch_name.empty()},
                       {"default", std::move(usual)},
                       {"levels", list_of(r.levels)}});
}

Json specials_json(const package::FrontendBlock& frontend) {
  return Json::object({{"bos", frontend.bos_token},
                       {"eos", frontend.eos_token},
                       {"stop_ids", list_of(frontend.stop_ids)}});
}

}  // namespace

Json props_json(Service& service, std::span<const std::string> names) {
  const package::PreparedModel& model = service.engine().model();
  const package::FrontendBlock& frontend = model.frontend;
  const runtime::EngineStats stats = service.engine().stats();
  const uint32_t slots = service.engine().memory_plan().max_concurrency;
  return Json::object(
      {{"default_generation_settings", defaults_json(frontend.sampling, service.max_context())},
       {"total_slots", slots},
       {"slots",
        Json::object({{"total", slots}, {"running", stats.running}, {"waiting", stats.waiting}})},
       {"model", names.front()},
       {"models", list_of(names)},
       {"n_vocab", service.vocab_size()},
       {"chat_template", text_or_null(frontend.chat_template)},
       {"chat_template_tool_use", text_or_null(frontend.tool_template)},
       {"bos_token", frontend.bos_token},
       {"eos_token", frontend.eos_token},
       {"special_tokens", specials_json(frontend)},
       {"modalities", Json::object({{"vision", false}, {"audio", false}})},
       {"reasoning", reasoning_json(frontend)},
       {"tool_format", frontend.tool_format.empty() ? Json() : Json(frontend.tool_format)},
       {"build_info", fmt::format("flare {}", kVersion)}});
}

}  // namespace flare::server
