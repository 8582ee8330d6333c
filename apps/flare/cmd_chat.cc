// `flare chat MODEL`: a conversation in the terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/file.h"
#include "flare/answer.h"
#include "flare/commands.h"
#include "flare/line_reader.h"
#include "flare/model_loading.h"
#include "flare/sampling_flags.h"

namespace flare::app {
namespace {

constexpr std::string_view kHelp =
    "/help           this list\n"
    "/reset          forget the conversation, keep the system text\n"
    "/system TEXT    set the system text (empty: none) and start again\n"
    "/save FILE      write the conversation as JSON\n"
    "/stats          figures of the last answer\n"
    "/quit           leave (also Ctrl-D)\n"
    "A line that ends with \\ goes on. Ctrl-C stops an answer; at the prompt it leaves.\n";

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
};

// The conversation and the loop around it. Confined to the main thread.
class ChatSession {
 public:
  ChatSession(const ChatFlags& flags, server::Service& service)
      : flags_(flags), service_(service), system_(flags.system), terminal_(::isatty(1) != 0) {}

  // Exit code.
  int run();

 private:
  enum class Turn { kGoOn, kLeave };
  bool command(const std::string& line);  // false: leave
  Turn answer(const std::string& text);
  server::Conversation conversation() const;
  void save(const std::string& path) const;

  const ChatFlags& flags_;
  server::Service& service_;
  std::string system_;
  Json::Array turns_;
  std::optional<server::TextEvent> last_;
  const bool terminal_;
};

int ChatSession::run() {
  catch_interrupts();
  LineReader reader;
  if (reader.is_terminal())
    fmt::print(stderr, "{} · context {} tokens · /help lists the commands\n", service_.model_name(),
               service_.max_context());
  while (true) {
    bool interrupted = false;
    const auto line = reader.read(&interrupted);
    if (!line) {
      if (reader.is_terminal()) fmt::print(stderr, "\n");
      return interrupted ? 130 : 0;
    }
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    if (line->front() == '/') {
      if (!command(*line)) return 0;
    } else if (answer(*line) == Turn::kLeave) {
      return 130;
    }
  }
}

bool ChatSession::command(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, space);
  std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  rest.erase(0, rest.find_first_not_of(" \t"));
  if (name == "/quit" || name == "/exit") return false;
  if (name == "/help") {
    fmt::print(stderr, "{}", kHelp);
  } else if (name == "/reset") {
    turns_.clear();
    fmt::print(stderr, "the conversation begins anew\n");
  } else if (name == "/system") {
    system_ = rest;
    turns_.clear();
    fmt::print(stderr, "{}; the conversation begins anew\n",
               rest.empty() ? "no system text" : "system text set");
  } else if (name == "/save") {
    save(rest);
  } else if (name == "/stats") {
    if (last_) {
      fmt::print(stderr, "{}\ncontext {} of {} tokens\n", timing_line(*last_),
                 last_->usage.prompt_tokens + last_->usage.generated_tokens,
                 service_.max_context());
    } else {
      fmt::print(stderr, "no answer yet\n");
    }
  } else {
    const std::string near =
        closest_match(name, {"/help", "/reset", "/system", "/save", "/stats", "/quit"});
    fmt::print(stderr, "unknown command {}; {}\n", quote(name),
               near.empty() ? "/help lists them" : fmt::format("did you mean {}?", near));
  }
  return true;
}

server::Conversation ChatSession::conversation() const {
  server::Conversation conversation;
  if (!system_.empty())
    conversation.messages.push_back(Json::object({{"role", "system"}, {"content", system_}}));
  for (const Json& turn : turns_) conversation.messages.push_back(turn);
  return conversation;
}

void ChatSession::save(const std::string& path) const {
  if (path.empty()) {
    fmt::print(stderr, "/save needs a file name\n");
    return;
  }
  try {
    const Json document = Json::object({{"messages", conversation().messages}});
    write_text_file(path, document.to_pretty_text() + "\n");
    fmt::print(stderr, "saved to {}\n", path);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.message());
  }
}

ChatSession::Turn ChatSession::answer(const std::string& text) {
  turns_.push_back(Json::object({{"role", "user"}, {"content", text}}));
  AnswerQueue queue;
  runtime::Ticket ticket;
  try {
    const server::Conversation asked = conversation();
    const frontend::MarkedText rendered = service_.render(asked);
    std::vector<int32_t> prompt = service_.encode_prompt(rendered);
    server::GenerateSettings settings = settings_of(flags_.sampling, service_);
    settings.frontiers = service_.prompt_frontiers(asked, prompt);
    settings.form = service_.answer_form(asked, rendered);
    service_.generate(
        std::move(prompt), std::move(settings),
        [&queue](const server::TextEvent& event) { queue.push(event); }, &ticket);
  } catch (const Error& error) {
    turns_.pop_back();
    fmt::print(stderr, "error: {}\nhint: /reset begins a new conversation\n", error.message());
    return Turn::kGoOn;
  }
  frontend::Output output;
  AnswerPrinter printer(true);
  int interrupts = 0;
  std::optional<server::TextEvent> last;
  while (!last) {
    auto event = queue.next();
    if (!event) {
      ++interrupts;
      ticket.cancel();
      continue;
    }
    for (const frontend::OutputEvent& delta : event->deltas) append_event(delta, &output);
    printer.print(*event);
    if (event->finished) last = std::move(event);
  }
  fmt::print("\n");
  std::fflush(stdout);
  check_finished(*last);
  if (last->finished == runtime::FinishReason::kCancelled) fmt::print(stderr, "(stopped)\n");
  if (last->finished == runtime::FinishReason::kContext)
    fmt::print(stderr, "(the context is full; /reset begins a new conversation)\n");
  Json turn = Json::object({{"role", "assistant"}, {"content", output.content}});
  if (!output.reasoning.empty()) turn.set("reasoning_content", output.reasoning);
  turns_.push_back(std::move(turn));
  last_ = std::move(last);
  if (terminal_) fmt::print(stderr, "\n");
  return interrupts > 1 ? Turn::kLeave : Turn::kGoOn;
}

int run(ChatFlags& flags) {
  flags.model.max_concurrency = 1;
  const auto engine = load_model(flags.model, {.max_pending = 1, .pending_timeout_s = 0}, false);
  server::Service service(*engine);
  settings_of(flags.sampling, service);  // wrong values end the program, not the first turn
  if (!service.has_template() || !service.has_tokenizer())
    throw Error(Code::kInvalid, "{}: has no {}, so it cannot chat", service.model_name(),
                service.has_template() ? "tokenizer" : "chat template")
        .set_hint("flare generate takes raw prompts and token ids");
  return ChatSession(flags, service).run();
}

}  // namespace

std::function<int()> declare_chat(CLI::App& app, const CommonFlags&) {
  auto flags = std::make_shared<ChatFlags>();
  add_model_flags(app, &flags->model);
  add_sampling_flags(app, &flags->sampling);
  app.add_option("--system", flags->system, "system text of the conversation")
      ->type_name("TEXT")
      ->group("Sampling");
  app.footer(
      "Examples:\n"
      "  flare chat\n"
      "  flare chat model.ninfer --system 'Answer in one word.' --temperature 0\n"
      "  printf 'Hello!\\n' | flare chat");
  return [flags] { return run(*flags); };
}

}  // namespace flare::app
