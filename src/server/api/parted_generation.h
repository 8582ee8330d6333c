// An answer of one choice as a row of parts, for protocols that show it so.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/generation.h"

namespace flare::server {

// Finds the parts in the deltas. Hooks as those of Generation, whole or streamed: a part begins,
// grows, ends, and then the next begins; all have ended before on_complete().
class PartedGeneration : public Generation {
 protected:
  struct Part {
    enum class Kind : uint8_t { kReasoning, kText, kCall } kind = Kind::kText;
    std::string name;       // of the tool
    std::string text;       // so far; of a call the JSON text of its arguments
    bool complete = false;  // of a call: `text` is one JSON object
  };

  using Generation::Generation;

  // Before the first part; what is known of the prompt is in `usage`.
  virtual void on_start(const runtime::Usage& usage) { static_cast<void>(usage); }
  virtual void on_part(size_t index) = 0;
  // `piece` is the new end of the part's text.
  virtual void on_piece(size_t index, std::string_view piece) = 0;
  virtual void on_part_end(size_t index) = 0;

  // Where an error ends the answer: the part that is open, if any, ends incomplete.
  void end_parts() { end(); }

  const std::vector<Part>& parts() const { return parts_; }
  // Records of tokens of the text part, if log-probabilities are asked for, since the last call.
  std::vector<runtime::TokenLogprobs> take_logprobs() { return std::exchange(logprobs_, {}); }

 private:
  void on_event(size_t choice, const TextEvent& event) final;
  void place(const frontend::OutputEvent& delta);
  void begin(Part part);
  void grow(std::string_view piece);
  void end();

  std::vector<Part> parts_;
  std::vector<runtime::TokenLogprobs> logprobs_;
  bool started_ = false;
  bool within_ = false;  // the last part has not ended
};

}  // namespace flare::server
