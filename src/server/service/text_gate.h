// The output gate of text: decodes tokens as they come and cuts at stop strings.
#pragma once

#include <string>
#include <vector>

#include "frontend/tokenizer/tokenizer.h"
#include "runtime/seams.h"
#include "server/service/stop_strings.h"

namespace flare::server {

// Text goes out once: what may still become a stop string, or an unfinished character, is held
// back. Confined to the engine thread.
class TextGate : public runtime::OutputGate {
 public:
  TextGate(const frontend::Tokenizer& tokenizer, std::vector<std::string> stop);

  Verdict preview(std::span<const int32_t> offered) override;
  void commit(int kept) override;

  // Text released since the last call.
  std::string take();
  // The rest, when the answer ended without a stop string.
  std::string finish();
  // The stop string that ended the answer; empty if none did.
  const std::string& matched() const { return stop_.matched(); }

 private:
  frontend::StreamDecoder decoder_;
  StopStrings stop_;
  std::string released_;  // waiting for take()
};

}  // namespace flare::server
