// A constraint that begins where the reasoning block of an answer ends.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/output/format.h"
#include "frontend/tokenizer/tokenizer.h"
#include "server/service/grammar_constraint.h"

namespace flare::server {

// Everything is legal until the block closes (serving.md S7.6); what stands behind it, newlines at
// its start aside, is the answer's. Confined to the engine thread.
class AfterReasoning : public runtime::Constraint {
 public:
  enum class Start : uint8_t {
    kInside,   // the prompt ends inside the block
    kMayOpen,  // the model may open one with its first token
  };
  // The tokenizer outlives the constraint; `format` is static and has a closing text.
  AfterReasoning(const frontend::Tokenizer& tokenizer, const frontend::ReasoningFormat& format,
                 Start start, std::unique_ptr<GrammarConstraint> answer);

  bool fill_mask(std::span<uint32_t> mask) override;
  void advance(int32_t token) override;
  void rollback(int n) override;

 private:
  enum class Phase : uint8_t { kBefore, kInside, kBehind };
  struct Step {
    int32_t token;
    Phase before;
    bool in_answer;  // the answer's constraint took it or a part of it
  };
  // The phase behind `token`; `answer_text` becomes what stands behind the closing text.
  Phase inside(int32_t token, std::string* answer_text) const;

  const frontend::Tokenizer& tokenizer_;
  const std::string_view close_;
  int32_t open_id_ = -1;  // the token that opens a block; -1: none
  Phase phase_;
  std::vector<Step> steps_;
  const std::unique_ptr<GrammarConstraint> answer_;
};

}  // namespace flare::server
