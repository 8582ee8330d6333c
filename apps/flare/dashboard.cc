// ncurses draws; what must work in a signal handler is prepared as bytes beforehand.
#include "flare/dashboard.h"

#include <langinfo.h>
#include <ncurses.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "common/process.h"

namespace flare::app {
namespace {

using server::observe::DashboardRow;
using server::observe::Tone;

constexpr auto kRedraw = std::chrono::milliseconds(250);
constexpr size_t kMostKeptBytes = size_t{4} << 20;
constexpr int kFatalSignals[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL};

// What gives the terminal back, for those who cannot call ncurses. Written before `taken` is set.
struct Restoration {
  std::array<char, 256> bytes{};
  size_t n_bytes = 0;
  termios modes{};
  bool has_modes = false;
};
Restoration restoration;
std::atomic<bool> taken{false};
std::atomic<Dashboard*> current{nullptr};

void prepare_restoration() {
  restoration.has_modes = ::tcgetattr(STDERR_FILENO, &restoration.modes) == 0;
  restoration.n_bytes = 0;
  for (const char* name : {"sgr0", "cnorm", "rmcup"}) {
    const char* text = ::tigetstr(name);
    if (text == nullptr || text == reinterpret_cast<const char*>(-1)) continue;
    const size_t n = std::strlen(text);
    if (restoration.n_bytes + n > restoration.bytes.size()) continue;
    std::memcpy(restoration.bytes.data() + restoration.n_bytes, text, n);
    restoration.n_bytes += n;
  }
}

void on_fatal_signal(int signal) {
  Dashboard::restore_terminal();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

attr_t attribute_of(Tone tone) {
  switch (tone) {
    case Tone::kTitle:
      return A_REVERSE;
    case Tone::kHeading:
      return A_BOLD;
    case Tone::kAlarm:
      return A_BOLD | A_REVERSE;
    case Tone::kPlain:
      return A_NORMAL;
  }
  return A_NORMAL;
}

}  // namespace

bool can_draw_dashboard() {
  const char* term = std::getenv("TERM");
  if (term == nullptr || *term == '\0' || std::string_view(term) == "dumb") return false;
  if (::isatty(STDERR_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0) return false;
  if (::tcgetpgrp(STDERR_FILENO) != ::getpgrp()) return false;
  std::setlocale(LC_CTYPE, "");
  return true;
}

Dashboard::Dashboard(Setup setup) : setup_(std::move(setup)) {
  unicode_ = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  const termios before = [] {
    termios modes{};
    ::tcgetattr(STDERR_FILENO, &modes);
    return modes;
  }();
  std::signal(SIGTSTP, SIG_IGN);  // ncurses' own handler would draw from any thread
  if (::newterm(nullptr, stderr, stdin) == nullptr) {
    std::signal(SIGTSTP, SIG_DFL);
    throw Error(Code::kInternal, "TERM={}: the terminal is unknown",
                quote(std::getenv("TERM") ? std::getenv("TERM") : ""));
  }
  prepare_restoration();
  restoration.modes = before;
  restoration.has_modes = true;
  taken = true;
  current = this;
  set_sudden_exit_action(&Dashboard::restore_terminal);
  for (const int signal : kFatalSignals) std::signal(signal, on_fatal_signal);
  ::cbreak();
  ::noecho();
  ::curs_set(0);
  set_log_sink([this](LogLevel, std::string_view line) { keep(line); });
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    give_back();
    throw;
  }
}

Dashboard::~Dashboard() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_one();
  thread_.join();
  give_back();
}

void Dashboard::give_back() {
  set_log_sink({});
  current = nullptr;
  if (taken.exchange(false)) {
    ::endwin();
    ::tcflush(STDIN_FILENO, TCIFLUSH);  // what was typed at the dashboard is for nobody
  }
  set_sudden_exit_action(nullptr);
  for (const int signal : kFatalSignals) std::signal(signal, SIG_DFL);
  std::signal(SIGTSTP, SIG_DFL);
  print_kept();
}

void Dashboard::restore_terminal() noexcept {
  if (!taken.exchange(false)) return;
  [[maybe_unused]] const ssize_t n =
      ::write(STDERR_FILENO, restoration.bytes.data(), restoration.n_bytes);
  if (restoration.has_modes) ::tcsetattr(STDERR_FILENO, TCSANOW, &restoration.modes);
}

void Dashboard::leave_at_once() {
  Dashboard* self = current.load();
  if (self == nullptr) return;
  // A draw that hangs in a stopped terminal must not keep the process.
  const std::unique_lock drawing(self->drawing_, std::chrono::milliseconds(200));
  restore_terminal();
  self->print_kept();
}

void Dashboard::keep(std::string_view line) {
  const std::lock_guard lock(mutex_);
  kept_.emplace_back(line);
  kept_bytes_ += line.size();
  while (kept_bytes_ > kMostKeptBytes) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
    ++n_forgotten_;
  }
}

void Dashboard::print_kept() {
  const std::lock_guard lock(mutex_);
  std::string text;
  if (n_forgotten_ > 0)
    text = fmt::format("({} earlier lines of the log are gone)\n", n_forgotten_);
  for (const std::string& line : kept_) text += line;
  kept_.clear();
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

void Dashboard::run() {
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    draw();
    lock.lock();
  } while (!changed_.wait_for(lock, kRedraw, [this] { return quit_; }));
}

void Dashboard::draw() {
  server::observe::DashboardState state;
  state.overview = setup_.read();
  if (const auto& engine = state.overview.numbers.engine)
    rates_.add(state.overview.now, engine->prompt_tokens, engine->generated_tokens);
  state.source = setup_.source;
  state.address = setup_.address;
  state.prefill_rates = rates_.prefill();
  state.decode_rates = rates_.decode();
  state.unicode = unicode_;
  {
    const std::lock_guard lock(mutex_);
    constexpr size_t kShown = 60;
    const size_t n = std::min(kShown, kept_.size());
    for (auto it = kept_.end() - static_cast<ptrdiff_t>(n); it != kept_.end(); ++it)
      state.messages.push_back(it->substr(0, it->find('\n')));
  }
  const std::lock_guard drawing(drawing_);
  if (!taken) return;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0 &&
      (size.ws_row != LINES || size.ws_col != COLS))
    ::resizeterm(size.ws_row, size.ws_col);
  const std::vector<DashboardRow> rows = server::observe::dashboard_rows(state, COLS, LINES);
  for (size_t y = 0; y < rows.size(); ++y) {
    ::move(static_cast<int>(y), 0);
    ::attrset(static_cast<int>(attribute_of(rows[y].tone)));
    ::addstr(rows[y].text.c_str());
    ::attrset(A_NORMAL);
    if (std::cmp_less(server::observe::cells(rows[y].text), COLS)) ::clrtoeol();
  }
  ::refresh();
}

}  // namespace flare::app
