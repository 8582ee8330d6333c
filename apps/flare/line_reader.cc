// libedit behind a small interface; the prompt and the echo go to stderr.
#include "flare/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>

#include "flare/answer.h"

namespace flare::app {
namespace {

constexpr int kHistoryLines = 1000;

// libedit retries an interrupted read; this one reports it as the end of input.
int read_character(EditLine*, wchar_t* out) {
  std::mbstate_t state{};
  while (true) {
    char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) {
      if (pending_interrupt()) return 0;
      continue;  // SIGWINCH and the like
    }
    if (n <= 0) return 0;
    const size_t used = std::mbrtowc(out, &byte, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // more bytes to come
    if (used == static_cast<size_t>(-1)) *out = L'?';
    return 1;
  }
}

const char* first_prompt(EditLine*) { return "> "; }
const char* next_prompt(EditLine*) { return ". "; }

void choose_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineReader::Impl {
  EditLine* edit = nullptr;
  History* history = nullptr;

  std::optional<std::string> line(bool first, bool* interrupted);
};

LineReader::LineReader() : impl_(std::make_unique<Impl>()) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) return;
  choose_utf8_locale();
  impl_->edit = el_init("flare", stdin, stderr, stderr);
  if (!impl_->edit) return;
  impl_->history = history_init();
  HistEvent event;
  history(impl_->history, &event, H_SETSIZE, kHistoryLines);
  history(impl_->history, &event, H_SETUNIQUE, 1);
  el_set(impl_->edit, EL_HIST, history, impl_->history);
  el_set(impl_->edit, EL_EDITOR, "emacs");
  el_set(impl_->edit, EL_GETCFN, read_character);
}

LineReader::~LineReader() {
  if (impl_->edit) el_end(impl_->edit);
  if (impl_->history) history_end(impl_->history);
}

bool LineReader::is_terminal() const { return impl_->edit != nullptr; }

std::optional<std::string> LineReader::Impl::line(bool first, bool* interrupted) {
  std::string text;
  if (edit) {
    el_set(edit, EL_PROMPT, first ? first_prompt : next_prompt);
    int n = 0;
    const char* got = el_gets(edit, &n);
    if (take_interrupt()) {
      *interrupted = true;
      return std::nullopt;
    }
    if (!got || n <= 0) return std::nullopt;
    text.assign(got, static_cast<size_t>(n));
  } else if (!std::getline(std::cin, text)) {
    *interrupted = take_interrupt();
    return std::nullopt;
  }
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

std::optional<std::string> LineReader::read(bool* interrupted) {
  std::string whole;
  bool first = true;
  while (true) {
    auto line = impl_->line(first, interrupted);
    if (!line) return std::nullopt;
    first = false;
    const bool goes_on = line->ends_with('\\');
    if (goes_on) line->back() = '\n';
    whole += *line;
    if (goes_on) continue;
    if (impl_->history && !whole.empty()) {
      HistEvent event;
      ::history(impl_->history, &event, H_ENTER, whole.c_str());
    }
    return whole;
  }
}

}  // namespace flare::app
