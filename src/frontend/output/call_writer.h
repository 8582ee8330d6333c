// Turns what readers of calls find into events.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/output/parser.h"
#include "frontend/output/scanner.h"

namespace flare::frontend::output {

// Appends text to the last event if it continues it, else as a new one.
void append_text(OutputEvent::Kind kind, int call, std::string_view text,
                 std::vector<OutputEvent>* events);

// What a byte of a region of calls turned out to be.
enum class Fate : uint8_t {
  kHeld,    // undecided
  kMarkup,  // it and everything held belong to calls
  kText,    // it and everything held are plain text
};
struct Taken {
  bool taken = true;  // else the byte is not part of the region, which is over
  bool over = false;
  Fate fate = Fate::kHeld;
  size_t rewind = 0;  // !taken: so many of the held bytes before it may begin a marker
};

// The calls of one answer, in order. Confined to the parser; `events` is where they go.
class CallWriter {
 public:
  explicit CallWriter(const ToolSet* tools) : tools_(tools) {}
  void send_to(std::vector<OutputEvent>* events) { events_ = events; }

  const Tool* find(std::string_view name) const { return tools_ ? tools_->find(name) : nullptr; }
  // Begins the next call; one that is open must have ended.
  void start(const Tool& tool);
  // A piece of the JSON text of the open call's arguments; without an open call nothing happens.
  void arguments(std::string_view json);
  void end(bool complete);
  bool open() const { return open_; }
  int n_complete() const { return n_complete_; }
  // Takes over the events of calls that another writer recorded.
  void adopt(const std::vector<OutputEvent>& recorded);

 private:
  const ToolSet* tools_;
  std::vector<OutputEvent>* events_ = nullptr;
  bool open_ = false;
  int n_started_ = 0;
  int n_complete_ = 0;
  Utf8Stream utf8_;
};

}  // namespace flare::frontend::output
