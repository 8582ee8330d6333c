// One state machine over bytes: text, reasoning, regions of calls, message headers.
#include "frontend/output/parser.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"
#include "frontend/output/call_writer.h"
#include "frontend/output/json_stream.h"
#include "frontend/output/region_reader.h"

namespace flare::frontend {

using namespace output;  // NOLINT: the parts of this parser

namespace {

using Kind = OutputEvent::Kind;

constexpr size_t kMaxHeader = 4096;
constexpr size_t kLongestMarker = 256;

// A marker and what it does.
struct Mark {
  enum class Action : uint8_t {
    kOpenReasoning,
    kCloseReasoning,
    kOpenRegion,
    kStrayCloser,  // belongs to a call that has ended
    kSilent,
    kStartMessage,
    kEndMessage,
    kOpenBody,
  } action = Action::kSilent;
  const Spelling* spelling = nullptr;
  std::string text;
};

// A scanner of marks. The texts stay where they are.
class Marks {
 public:
  void add(Mark::Action action, std::string text, const Spelling* spelling = nullptr) {
    if (!text.empty())
      marks_.push_back(std::make_unique<Mark>(Mark{action, spelling, std::move(text)}));
  }
  void build() {
    std::vector<std::string_view> literals;
    for (const auto& mark : marks_) literals.push_back(mark->text);
    scanner_ = Scanner(std::move(literals));
  }
  // The mark that `byte` completes.
  const Mark* push(char byte, std::string* free) {
    const int index = scanner_.push(byte, free);
    return index < 0 ? nullptr : marks_[static_cast<size_t>(index)].get();
  }
  const std::string& held() const { return scanner_.held(); }
  std::string take_held() { return scanner_.take_held(); }

 private:
  std::vector<std::unique_ptr<Mark>> marks_;
  Scanner scanner_;
};

std::string_view trimmed_right(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \n\r\t") + 1);
}

const Format& none() { return *find_format("none"); }
const ReasoningFormat& no_reasoning() { return *find_reasoning_format("none"); }

}  // namespace

struct OutputParser::Impl {
  explicit Impl(const OutputParserSettings& settings);

  void push_byte(char byte);
  void finish(OutputEnd end);

  // Construction.
  void build_marks();
  void build_known();
  void start(std::string_view tail, bool continues_reasoning);
  void start_in_message(std::string_view tail);

  // Text.
  void text_byte(char byte);
  void free_text(std::string_view text);
  void content(std::string_view text);
  void act(const Mark& mark);
  bool holds_space() const;
  void open_reasoning();

  // Regions of calls.
  void open_region(const Spelling& spelling, bool bare, std::string_view marker);
  void region_byte(char byte);

  // Reasoning.
  void reasoning_byte(char byte);
  void scan_reasoning(char byte);
  void reasoning(std::string_view text);
  void close_reasoning();
  void open_candidate(const Mark& mark);
  void drop_candidate();
  void finish_reasoning(OutputEnd end);

  // Messages.
  void header_byte(char byte);
  bool header_is_possible() const;
  void begin_header(bool certain);
  void begin_body(std::string_view header);
  void finish_header();

  enum class Mode : uint8_t { kText, kReasoning, kRegion, kHeader };
  const Format& format;
  const ReasoningFormat& reasons;
  const Channels* channels;
  const bool has_tools;
  const Spelling* bare = nullptr;
  std::vector<std::string_view> known;  // texts of the format that may be special tokens

  Mode mode = Mode::kText;
  std::vector<OutputEvent>* events = nullptr;
  CallWriter writer;
  Marks text_marks, reasoning_marks, header_marks;
  Utf8Stream utf8_content, utf8_reasoning;

  std::string space;  // of the text, until what follows is known
  bool content_started = false;
  bool after_call = false;       // only white space since a call
  bool strips_newlines = false;  // behind a reasoning block
  bool takes_regions = true;     // messages to the user hold none

  std::unique_ptr<RegionReader> region;
  std::string raw;  // undecided bytes of the region, the white space before it too

  bool leading_newline = false;  // one newline behind the opening marker is markup
  bool leading_return = false;
  bool reasoning_started = false;
  // Calls within an open block, which count only if nothing follows (S5.8).
  struct Candidate {
    explicit Candidate(const ToolSet* tools) : writer(tools) { writer.send_to(&events); }
    CallWriter writer;
    std::vector<OutputEvent> events;
    std::unique_ptr<RegionReader> reader;  // null between regions
    std::string raw;
    size_t owed = 0;  // bytes of the last region that the scanner holds yet
    uint64_t tokens_before = 0;
  };
  std::unique_ptr<Candidate> candidate;
  const ToolSet* tools;

  std::string header;
  size_t header_begin = 0;      // what stands before was written by the prompt
  bool header_certain = false;  // a start marker came before

  uint64_t reasoning_tokens = 0;
  uint64_t bytes_read = 0;
  // Where the last tokens began, and how many reasoning tokens came before each.
  std::deque<std::pair<uint64_t, uint64_t>> token_starts;
};

OutputParser::Impl::Impl(const OutputParserSettings& settings)
    : format(settings.format ? *settings.format : none()),
      reasons(settings.reasoning ? *settings.reasoning : no_reasoning()),
      channels(format.channels ? format.channels : reasons.channels),
      has_tools(settings.tools && !settings.tools->empty()),
      writer(settings.tools),
      tools(settings.tools) {
  build_marks();
  build_known();
  start(settings.prompt_tail, settings.continues_reasoning);
}

void OutputParser::Impl::build_marks() {
  using Action = Mark::Action;
  for (const auto& list : {format.silent, reasons.silent})
    for (const std::string_view text : list) text_marks.add(Action::kSilent, std::string(text));
  text_marks.add(Action::kOpenReasoning, std::string(reasons.open));
  text_marks.add(Action::kCloseReasoning, std::string(reasons.close));
  const std::string close(reasons.close);
  if (!close.empty())
    for (const char* before : {"", "\n", "\r\n"})
      reasoning_marks.add(Action::kCloseReasoning, before + close);
  reasoning_marks.add(Action::kOpenReasoning, std::string(reasons.open));
  for (const Spelling& spelling : format.spellings) {
    if (!has_tools) break;
    if (spelling.bare_object) bare = &spelling;
    text_marks.add(Action::kOpenRegion, std::string(spelling.open), &spelling);
    if (!channels) reasoning_marks.add(Action::kOpenRegion, std::string(spelling.open), &spelling);
    for (const std::string_view closer :
         {spelling.close, spelling.call_close, spelling.parameter.close})
      text_marks.add(Action::kStrayCloser, std::string(closer));
  }
  if (channels) {
    for (Marks* marks : {&text_marks, &reasoning_marks, &header_marks}) {
      marks->add(Action::kStartMessage, std::string(channels->start));
      for (const std::string_view end : channels->ends)
        marks->add(Action::kEndMessage, std::string(end));
    }
    header_marks.add(Action::kOpenBody, std::string(channels->body_open));
  }
  for (Marks* marks : {&text_marks, &reasoning_marks, &header_marks}) marks->build();
}

void OutputParser::Impl::build_known() {
  const auto add = [this](std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts)
      if (!text.empty()) known.push_back(text);
  };
  add({reasons.open, reasons.close});
  for (const auto& list : {format.silent, reasons.silent})
    known.insert(known.end(), list.begin(), list.end());
  for (const Spelling& s : format.spellings)
    add({s.open, s.close, s.call_open, s.call_open_end, s.call_close, s.parameter.open,
         s.parameter.open_end, s.parameter.value_open, s.parameter.close, s.json_open, s.json_close,
         s.element_mark, s.quote});
  if (!channels) return;
  add({channels->start, channels->body_open});
  for (const auto& list : {channels->ends, channels->header_starts})
    known.insert(known.end(), list.begin(), list.end());
}

// Where the answer begins is read off what the prompt ends with.
void OutputParser::Impl::start(std::string_view tail, bool continues_reasoning) {
  if (channels) return start_in_message(tail);
  if (continues_reasoning && !reasons.close.empty()) {
    mode = Mode::kReasoning;
    reasoning_started = true;
    return;
  }
  if (reasons.open.empty()) return;
  const std::string_view end = trimmed_right(tail);
  if (end.ends_with(reasons.open)) {
    mode = Mode::kReasoning;
    leading_newline = tail.find('\n', end.size()) == std::string_view::npos;
  }
  strips_newlines = tail.ends_with(reasons.close);
}

void OutputParser::Impl::start_in_message(std::string_view tail) {
  mode = Mode::kHeader;
  const size_t at = tail.rfind(channels->start);
  if (at == std::string_view::npos) return;
  tail.remove_prefix(at + channels->start.size());
  const size_t body = tail.find(channels->body_open);
  if (body != std::string_view::npos) return begin_body(tail.substr(0, body));
  header = tail;
  header_begin = header.size();
  header_certain = tail.empty();
}

void OutputParser::Impl::push_byte(char byte) {
  switch (mode) {
    case Mode::kText:
      return text_byte(byte);
    case Mode::kReasoning:
      return reasoning_byte(byte);
    case Mode::kRegion:
      return region_byte(byte);
    case Mode::kHeader:
      return header_byte(byte);
  }
}

void OutputParser::Impl::text_byte(char byte) {
  std::string free;
  const Mark* mark = text_marks.push(byte, &free);
  free_text(free);
  if (!mark) return;
  if (mode == Mode::kRegion)  // a bare object has begun before the marker
    for (const char c : mark->text) push_byte(c);
  else
    act(*mark);
}

void OutputParser::Impl::free_text(std::string_view text) {
  for (const char c : text) {
    if (mode != Mode::kText) {  // a bare object has begun
      push_byte(c);
      continue;
    }
    if (strips_newlines && (c == '\n' || c == '\r')) continue;
    strips_newlines = false;
    if (c == '{' && bare && !content_started && takes_regions)
      open_region(*bare, true, {});
    else
      content(std::string_view(&c, 1));
    if (mode == Mode::kRegion) region_byte(c);
  }
}

// White space before a call, at the start before reasoning, and behind the last call is markup.
bool OutputParser::Impl::holds_space() const {
  return has_tools || (!content_started && !reasons.open.empty());
}

void OutputParser::Impl::content(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_space(c) && holds_space()) {
      space += c;
      continue;
    }
    if (!space.empty()) out += std::exchange(space, {});
    out += c;
    content_started = true;
    after_call = false;
  }
  std::string valid;
  utf8_content.push(out, &valid);
  append_text(Kind::kContent, -1, valid, events);
}

void OutputParser::Impl::act(const Mark& mark) {
  switch (mark.action) {
    case Mark::Action::kOpenReasoning:
      return open_reasoning();
    case Mark::Action::kOpenRegion:
      if (!takes_regions) return content(mark.text);
      return open_region(*mark.spelling, false, mark.text);
    case Mark::Action::kStrayCloser:
      if (after_call)
        space.clear();
      else
        content(mark.text);
      return;
    case Mark::Action::kStartMessage:
    case Mark::Action::kEndMessage:
      return begin_header(mark.action == Mark::Action::kStartMessage);
    case Mark::Action::kSilent:
    case Mark::Action::kCloseReasoning:
    case Mark::Action::kOpenBody:
      strips_newlines = false;
      return;
  }
}

void OutputParser::Impl::open_reasoning() {
  if (content_started && !after_call) {
    std::string valid;
    utf8_content.push(std::exchange(space, {}), &valid);
    append_text(Kind::kContent, -1, valid, events);
  }
  space.clear();
  mode = Mode::kReasoning;
  leading_newline = true;
  leading_return = false;
  reasoning_started = false;
}

void OutputParser::Impl::open_region(const Spelling& spelling, bool is_bare,
                                     std::string_view marker) {
  raw = std::exchange(space, {}) + std::string(marker);
  strips_newlines = false;
  region = std::make_unique<RegionReader>(spelling, is_bare, &writer);
  mode = Mode::kRegion;
}

void OutputParser::Impl::region_byte(char byte) {
  const Taken taken = region->push(byte);
  if (taken.taken) {
    raw += byte;
    if (taken.fate == Fate::kMarkup) raw.clear();
    if (taken.fate == Fate::kMarkup) after_call = true;
    if (taken.fate == Fate::kText) content(std::exchange(raw, {}));
    if (!taken.over) return;
    region.reset();
    mode = Mode::kText;
    return;
  }
  after_call = region->after_call();
  region.reset();
  mode = Mode::kText;
  const size_t kept = raw.size() - std::min(taken.rewind, raw.size());
  const std::string again = raw.substr(kept) + byte;
  raw.resize(kept);
  // Not through free_text: what was no region does not open one again.
  if (!raw.empty() && !is_blank(raw)) content_started = true;
  content(std::exchange(raw, {}));
  for (const char c : again) push_byte(c);
}

void OutputParser::Impl::reasoning(std::string_view text) {
  if (text.empty()) return;
  reasoning_started = true;
  std::string valid;
  utf8_reasoning.push(text, &valid);
  append_text(Kind::kReasoning, -1, valid, events);
}

void OutputParser::Impl::reasoning_byte(char byte) {
  if (leading_newline) {
    if (byte == '\r' && !leading_return) {
      leading_return = true;
      return;
    }
    leading_newline = false;
    const bool after_return = std::exchange(leading_return, false);
    if (byte == '\n') return;
    if (after_return) scan_reasoning('\r');
  }
  scan_reasoning(byte);
}

void OutputParser::Impl::scan_reasoning(char byte) {
  const bool in_region = candidate && candidate->reader;
  if (in_region) {
    const Taken taken = candidate->reader->push(byte);
    if (!taken.taken || taken.fate == Fate::kText || !candidate->reader->sound())
      drop_candidate();
    else if (taken.over)
      candidate->reader.reset();
  }
  std::string free;
  const Mark* mark = reasoning_marks.push(byte, &free);
  if (candidate && in_region && !candidate->reader) candidate->owed = reasoning_marks.held().size();
  if (candidate && !in_region) {  // between regions only white space may stand
    const size_t owed = std::min(candidate->owed, free.size());
    candidate->owed -= owed;
    if (!is_blank(std::string_view(free).substr(owed))) drop_candidate();
  }
  if (candidate)
    candidate->raw += free;
  else
    reasoning(free);
  if (!mark) return;
  switch (mark->action) {
    case Mark::Action::kOpenRegion:
      return open_candidate(*mark);
    case Mark::Action::kCloseReasoning:
      return close_reasoning();
    case Mark::Action::kOpenReasoning:  // again, at the start of the block
      if (candidate) drop_candidate();
      if (reasoning_started)
        reasoning(mark->text);
      else
        leading_newline = true;
      return;
    default:
      close_reasoning();
      return begin_header(mark->action == Mark::Action::kStartMessage);
  }
}

void OutputParser::Impl::close_reasoning() {
  if (candidate) drop_candidate();
  std::string valid;
  utf8_reasoning.finish(&valid);
  append_text(Kind::kReasoning, -1, valid, events);
  mode = Mode::kText;
  strips_newlines = true;
}

void OutputParser::Impl::open_candidate(const Mark& mark) {
  if (!candidate) {
    candidate = std::make_unique<Candidate>(tools);
    const uint64_t begin = bytes_read - mark.text.size();
    for (const auto& [start, tokens] : token_starts)
      if (start <= begin) candidate->tokens_before = tokens;
  }
  candidate->raw += mark.text;
  if (!candidate->reader)
    candidate->reader = std::make_unique<RegionReader>(*mark.spelling, false, &candidate->writer);
}

// They were reasoning after all.
void OutputParser::Impl::drop_candidate() {
  const std::string text = std::exchange(candidate->raw, {});
  candidate.reset();
  reasoning(text);
}

void OutputParser::Impl::finish_reasoning(OutputEnd end) {
  const std::string held = reasoning_marks.take_held();
  if (end == OutputEnd::kNatural && candidate && is_blank(held) &&
      candidate->writer.n_complete() > 0 && !candidate->writer.open() &&
      (!candidate->reader || candidate->reader->after_call())) {
    reasoning_tokens = std::min(reasoning_tokens, candidate->tokens_before);
    writer.adopt(candidate->events);
    candidate.reset();
  } else {
    if (candidate) drop_candidate();
    if (leading_return) reasoning("\r");
    reasoning(held);
  }
  std::string valid;
  utf8_reasoning.finish(&valid);
  append_text(Kind::kReasoning, -1, valid, events);
}

void OutputParser::Impl::begin_header(bool certain) {
  content_started = content_started || !space.empty();
  if (!after_call) {
    std::string valid;
    utf8_content.push(std::exchange(space, {}), &valid);
    append_text(Kind::kContent, -1, valid, events);
  }
  space.clear();
  mode = Mode::kHeader;
  header.clear();
  header_begin = 0;
  header_certain = certain;
}

void OutputParser::Impl::header_byte(char byte) {
  const Mark* mark = header_marks.push(byte, &header);
  if (mark && mark->action == Mark::Action::kOpenBody) return begin_body(std::exchange(header, {}));
  if (mark) return begin_header(mark->action == Mark::Action::kStartMessage);
  if (header.size() <= kMaxHeader && (header_certain || header_is_possible())) return;
  // A message without a header.
  begin_body({});
  const std::string text =
      std::exchange(header, {}).substr(header_begin) + header_marks.take_held();
  for (const char c : text) push_byte(c);
}

// Whether what came may begin a header.
bool OutputParser::Impl::header_is_possible() const {
  std::string_view text = std::string_view(header).substr(header_begin);
  text.remove_prefix(std::min(text.find_first_not_of(" \n\r\t"), text.size()));
  return std::ranges::any_of(channels->header_starts, [text](std::string_view first) {
    return first.starts_with(text) || text.starts_with(first);
  });
}

void OutputParser::Impl::begin_body(std::string_view head) {
  const Route route = channels->route(head);
  takes_regions = false;
  mode = Mode::kText;
  strips_newlines = false;
  switch (route.kind) {
    case Route::Kind::kReasoning:
      mode = Mode::kReasoning;
      leading_newline = false;
      reasoning_started = true;
      return;
    case Route::Kind::kContent:
      return;
    case Route::Kind::kCall:
      takes_regions = true;
      if (route.tool.empty() || format.spellings.empty()) return;
      raw.clear();
      region = std::make_unique<RegionReader>(format.spellings[0], route.tool, &writer);
      mode = Mode::kRegion;
  }
}

void OutputParser::Impl::finish_header() {
  const std::string text = header.substr(header_begin) + header_marks.take_held();
  const size_t begin = std::min(text.find_first_not_of(" \n\r\t"), text.size());
  const bool is_header =
      header_certain || std::ranges::any_of(channels->header_starts, [&](std::string_view first) {
        return text.compare(begin, first.size(), first) == 0;
      });
  if (!is_header && !is_blank(text)) content(text);
}

void OutputParser::Impl::finish(OutputEnd end) {
  if (mode == Mode::kHeader) finish_header();
  if (mode == Mode::kReasoning) finish_reasoning(end);
  if (mode == Mode::kText) free_text(text_marks.take_held());
  if (mode == Mode::kRegion) {
    std::string left_over;
    region->finish(end, &left_over);
    if (region->after_call()) raw.clear();  // white space or an unfinished closer
    content(std::exchange(raw, {}));
    content(left_over);
  }
  std::string valid;
  if (!after_call) utf8_content.push(std::exchange(space, {}), &valid);
  utf8_content.finish(&valid);
  append_text(Kind::kContent, -1, valid, events);
}

OutputParser::OutputParser(const OutputParserSettings& settings)
    : impl_(std::make_unique<Impl>(settings)) {}
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser::~OutputParser() = default;

void OutputParser::push(std::string_view bytes, bool special, std::vector<OutputEvent>* events) {
  Impl& impl = *impl_;
  impl.token_starts.emplace_back(impl.bytes_read, impl.reasoning_tokens);
  while (impl.token_starts.size() > 1 &&
         impl.token_starts[1].first + kLongestMarker <= impl.bytes_read)
    impl.token_starts.pop_front();
  if (in_reasoning()) ++impl.reasoning_tokens;
  if (special && std::ranges::none_of(impl.known, [bytes](std::string_view text) {
        return text.find(bytes) != std::string_view::npos;
      }))
    return;
  impl.events = events;
  impl.writer.send_to(events);
  for (const char byte : bytes) {
    ++impl.bytes_read;
    impl.push_byte(byte);
  }
}

void OutputParser::finish(OutputEnd end, std::vector<OutputEvent>* events) {
  impl_->events = events;
  impl_->writer.send_to(events);
  impl_->finish(end);
}

bool OutputParser::in_reasoning() const { return impl_->mode == Impl::Mode::kReasoning; }
uint64_t OutputParser::reasoning_tokens() const { return impl_->reasoning_tokens; }
bool OutputParser::has_complete_call() const { return impl_->writer.n_complete() > 0; }

void append_event(const OutputEvent& event, Output* output) {
  const auto call = static_cast<size_t>(event.call);
  switch (event.kind) {
    case Kind::kReasoning:
      output->reasoning += event.text;
      break;
    case Kind::kContent:
      output->content += event.text;
      break;
    case Kind::kCallStart:
      FLARE_ASSERT(call == output->calls.size());
      output->calls.push_back({.name = event.text, .arguments = {}, .complete = false});
      break;
    case Kind::kArguments:
      output->calls.at(call).arguments += event.text;
      break;
    case Kind::kCallEnd:
      output->calls.at(call).complete = event.complete;
      break;
  }
}

std::string complete_members(std::string_view partial_arguments) {
  JsonStream json;
  std::string text, complete = "{";
  for (const char c : partial_arguments) {
    const JsonStream::Step step = json.push(c, &text);
    if (step == JsonStream::Step::kBad) break;
    if (json.done()) return text;
    // A number is complete only when something follows it.
    if (json.depth() == 1 && json.after_value()) complete = text;
  }
  const size_t end = complete.find_last_not_of(" \n\r\t");
  return complete.substr(0, end + 1) + "}";
}

}  // namespace flare::frontend
