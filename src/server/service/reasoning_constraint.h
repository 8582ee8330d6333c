// What is legal inside the reasoning block of an answer, and where the answer's constraint begins.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/output/format.h"
#include "frontend/tokenizer/tokenizer.h"
#include "server/service/grammar_constraint.h"

namespace flare::server {

// Everything is legal until the block closes (serving.md S7.6) or its budget is used, which closes
// it (S5.4); what stands behind it, newlines at its start aside, is the answer's. Confined to the
// engine thread.
class ReasoningConstraint : public runtime::Constraint {
 public:
  enum class Start : uint8_t {
    kInside,   // the prompt ends inside the block
    kMayOpen,  // the model may open one with its first token
  };
  // Behind `tokens` tokens inside the block only `closing` is legal, token by token. It contains
  // the closing text of the format.
  struct Budget {
    uint32_t tokens = 0;
    std::vector<int32_t> closing;
  };
  // The tokenizer outlives the constraint; `format` is static and has a closing text. `answer`
  // null: everything is legal behind the block.
  ReasoningConstraint(const frontend::Tokenizer& tokenizer, const frontend::ReasoningFormat& format,
                      Start start, std::unique_ptr<GrammarConstraint> answer,
                      std::optional<Budget> budget = std::nullopt);

  bool fill_mask(std::span<uint32_t> mask) override;
  void advance(int32_t token) override;
  void rollback(int n) override;

 private:
  enum class Phase : uint8_t { kBefore, kInside, kClosing, kBehind };
  // Before a token.
  struct Step {
    int32_t token;
    Phase phase;
    uint32_t n_inside;  // tokens inside the block
    uint32_t n_closed;  // of the closing ones
    bool in_answer;     // the answer's constraint took the token or a part of it
  };
  void advance_inside(int32_t token, Step* step);
  void advance_closing(int32_t token);
  void check_budget();
  // Whether the block closes with `token`; `answer_text` becomes what stands behind that.
  bool closes(int32_t token, std::string* answer_text) const;

  const frontend::Tokenizer& tokenizer_;
  const std::string_view close_;
  int32_t open_id_ = -1;  // the token that opens a block; -1: none
  Phase phase_;
  uint32_t n_inside_ = 0, n_closed_ = 0;
  std::vector<Step> steps_;
  const std::unique_ptr<GrammarConstraint> answer_;
  const std::optional<Budget> budget_;
};

}  // namespace flare::server
