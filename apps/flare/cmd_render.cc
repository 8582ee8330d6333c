// `flare render MODEL`: the prompt that a conversation becomes.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "flare/commands.h"
#include "flare/frontend_loading.h"
#include "flare/inputs.h"
#include "server/api/ids_json.h"
#include "server/api/reasoning_fields.h"
#include "server/api/tool_fields.h"

namespace flare::app {
namespace {

struct RenderFlags {
  std::string model;
  FrontendFlags frontend;
  std::optional<std::string> messages, tools, jsonl;
};

void check_tools(const Json& tools) {
  for (size_t i = 0; i < tools.as_array().size(); ++i)
    server::check_chat_tool(tools.as_array()[i], fmt::format("tools[{}]", i));
}

// The list of tools in the file of --tools, null without it.
Json read_tools(const std::optional<std::string>& path) {
  if (!path) return {};
  const std::string where = input_name(*path);
  Json tools = parse_json(read_input(*path), where);
  tools.as_array(where);
  try {
    check_tools(tools);
  } catch (const server::ApiError& error) {
    throw Error(Code::kInvalid, "{}: {}", where, error.message);
  }
  return tools;
}

// The prompt that a server makes of `document`: messages, or an object as a chat request has it.
// `place` stands before what is wrong with it.
frontend::MarkedText prompt_of(const LoadedFrontend& loaded, const Json& document,
                               const Json& tools, std::string_view place) {
  const Json request_of_messages = Json::object({{"messages", document}});
  const server::Fields fields(document.is_object() ? document : request_of_messages);
  const Json* messages = fields.find("messages");
  frontend::PromptRequest request;
  request.now_unix = std::time(nullptr);
  try {
    if (const Json* given = fields.array("tools", 0, server::kMaxTools)) {
      check_tools(*given);
      request.tools = *given;
    }
    if (!tools.is_null()) request.tools = tools;
    if (const Json* given = fields.object("chat_template_kwargs")) request.template_kwargs = *given;
    server::set_reasoning_variables(loaded.block.reasoning, loaded.source,
                                    server::read_reasoning_wish(fields), &request.template_kwargs);
    request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    request.messages =
        frontend::normalise_messages(messages ? *messages : Json(), loaded.block.rules);
    if (fields.boolean("continue_final_message").value_or(true))
      request.continuation = frontend::continuation_of(request.messages, loaded.block.rules);
    return frontend::render_prompt(loaded.templates(), request);
  } catch (const frontend::MessageError& error) {
    throw Error(Code::kInvalid, "{}{}", place, error.message);
  } catch (const server::ApiError& error) {
    throw Error(Code::kInvalid, "{}{}", place, error.message);
  }
}

int run(const RenderFlags& flags, const CommonFlags& common) {
  if (flags.messages.has_value() == flags.jsonl.has_value())
    throw Error(Code::kUsage, "exactly one of --messages and --jsonl expected");
  if (flags.tools == "-" && (flags.messages == "-" || flags.jsonl == "-"))
    throw Error(Code::kUsage, "--tools and the conversation are both -, one at most expected");
  const LoadedFrontend loaded = load_frontend(flags.model, flags.frontend);
  const Json tools = read_tools(flags.tools);
  if (flags.jsonl) {
    for_each_line(*flags.jsonl, [&](const std::string& line) {
      const Json document = parse_json(line, "conversation");
      fmt::print("{}\n", quote_json(prompt_of(loaded, document, tools, "").text()));
    });
    return 0;
  }
  const std::string where = input_name(*flags.messages);
  const Json document = parse_json(read_input(*flags.messages), where);
  const frontend::MarkedText prompt = prompt_of(loaded, document, tools, where + ": ");
  if (!common.json) {
    std::fwrite(prompt.text().data(), 1, prompt.size(), stdout);
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("\n");  // a pipe gets the prompt alone
    return 0;
  }
  Json result = Json::object({{"prompt", prompt.text()}});
  if (loaded.tokenizer_) result.set("ids", server::ids_json(loaded.tokenizer_->encode(prompt)));
  print_result(common, result, {});
  return 0;
}

}  // namespace

std::function<int()> declare_render(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<RenderFlags>();
  add_text_model(app, &flags->model);
  const auto source = [&](const char* name, auto& value, const char* text, const char* type) {
    app.add_option(name, value, text)->type_name(type)->group("Conversation");
  };
  source("--messages", flags->messages, "messages, or a chat request; - for stdin", "FILE");
  source("--tools", flags->tools, "tools, as a chat request has them", "FILE");
  source("--jsonl", flags->jsonl, "many: messages or a request a line in, a JSON string a line out",
         "FILE|-");
  add_frontend_flags(app, &flags->frontend);
  app.footer(
      "Examples:\n"
      "  flare render models/nano --messages chat.json\n"
      "  flare render models/nano --messages chat.json --tools tools.json --json\n"
      "  flare render folder --chat-template other.jinja --jsonl chats.jsonl > prompts.jsonl");
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
