// The arithmetic of the memory plan.
#include "runtime/memory_plan.h"

#include <algorithm>

#include "base/checked.h"
#include "base/progress.h"

namespace flare::runtime {
namespace {

// package.md §11.5: A = ⌈T/20⌉ + 2G on CPUs, margin M = 64M.
uint64_t budget_bytes(const MemoryWishes& wishes, uint64_t total, uint64_t available) {
  const uint64_t allowance = (total + 19) / 20 + (uint64_t{2} << 30);
  constexpr uint64_t kMargin = uint64_t{64} << 20;
  // On small machines the allowance must not eat everything: half of what is free stays usable.
  const uint64_t usable = std::max(
      available > allowance + kMargin ? available - allowance - kMargin : 0, available / 2);
  if (!wishes.limit) return usable;
  const MemoryLimit& limit = *wishes.limit;
  if (limit.kind == MemoryLimit::Kind::kReserve) return usable - std::min(limit.bytes, usable);
  const bool is_share = limit.kind == MemoryLimit::Kind::kShare;
  return std::min(
      is_share ? static_cast<uint64_t>(limit.share * static_cast<double>(total)) : limit.bytes,
      usable);
}

// What stays resident beside the model: code and libraries, and a tokenizer with its text. The
// figures lie between the differences of peaks with and without (151,936 tokens of Qwen3 in 11.4 MB
// of text: 29.4 MiB; as many of a GGUF file in 3.7 MB: 13.4 to 18 MiB).
uint64_t program_bytes(const package::PreparedModel& model, bool serves) {
  constexpr uint64_t kCode = uint64_t{9} << 20;
  // The code of a server, 15 MiB with its libraries, the heaps of its threads, and requests on
  // their way, 8 to 13 MiB after 5,000 to 53,000 mixed requests of 16 clients to nano: the most,
  // since a limit is one.
  constexpr uint64_t kServing = uint64_t{19} << 20;
  // The vocabulary in the orders that masks of constraints are computed in, made with the first
  // request that has one: 252 bytes a token of Qwen3 (38 MB), 256 of Gemma 3, 214 of gpt-oss.
  constexpr uint64_t kMasksPerToken = 250;
  constexpr uint64_t kPerTextByte = 2, kPerToken = 60;
  const uint64_t code = kCode + (serves ? kServing : 0);
  const auto& text = model.frontend.tokenizer_json ? model.frontend.tokenizer_json
                                                   : model.frontend.sentencepiece_model;
  if (!text) return code;
  const uint64_t per_token = kPerToken + (serves ? kMasksPerToken : 0);
  return code + kPerTextByte * text->size() + per_token * model.vocab_size;
}

uint64_t io_bytes(const package::PreparedModel& model) {
  const package::Capacity& c = model.capacity;
  uint64_t logits_rows = 0;
  for (const package::CatalogEntry& e : model.ranks[0].catalog)
    logits_rows = std::max<uint64_t>(logits_rows, static_cast<uint64_t>(e.plan.capacity.logits));
  return checked_add(checked_mul(logits_rows, uint64_t{model.vocab_size} * sizeof(float), "logits"),
                     uint64_t{c.max_rows} * 64);
}

// What does not depend on how much is asked for at once.
MemoryPlan fixed_plan(const package::PreparedModel& model, uint64_t scratch_bytes,
                      const MemoryWishes& wishes) {
  const package::Rank& rank = model.ranks[0];
  MemoryPlan plan;
  plan.program = program_bytes(model, wishes.serves);
  plan.weights = rank.weight_bytes;
  plan.scratch = scratch_bytes;
  plan.io = io_bytes(model);
  if (wishes.disk_tier) plan.io += std::max(rank.row.bytes, rank.page.bytes);
  plan.row_bytes = rank.row.bytes;
  plan.page_bytes = rank.page.bytes;
  plan.page_tokens = rank.page.tokens;
  if (!rank.page.regions.empty()) plan.kv_dtype = rank.page.regions[0].dtype;
  plan.max_context = model.capacity.max_context;
  plan.max_concurrency = model.capacity.max_concurrency;
  return plan;
}

// What the budget leaves beside the rows of so many sequences.
int64_t rest_for(const MemoryPlan& plan, uint32_t sequences) {
  return static_cast<int64_t>(plan.budget) -
         static_cast<int64_t>(plan.program + plan.weights + plan.scratch + plan.io +
                              (uint64_t{sequences} + 1) * plan.row_bytes);
}

// Lowers the concurrency, unless it was asked for, until a context fits beside it. Returns what is
// left for snapshots and pages.
uint64_t choose_concurrency(const MemoryWishes& wishes, MemoryPlan* plan) {
  const auto context = static_cast<int64_t>(plan->page_bytes * plan->pages_for(plan->max_context));
  while (plan->max_concurrency > 1 && !wishes.concurrency_given &&
         rest_for(*plan, plan->max_concurrency) < context)
    plan->max_concurrency /= 2;
  const auto page = static_cast<int64_t>(plan->page_bytes);
  const int64_t rest = rest_for(*plan, plan->max_concurrency), alone = rest_for(*plan, 1);
  if (rest >= page) return static_cast<uint64_t>(rest);
  if (plan->max_concurrency > 1 && alone >= page) {
    const uint64_t more = static_cast<uint64_t>(alone - page) / plan->row_bytes;
    throw Error(Code::kDoesNotFit, "--max-concurrency {}: does not fit the memory, {} does",
                plan->max_concurrency, 1 + more);
  }
  throw Error(
      Code::kDoesNotFit,
      "memory: program {}, weights {}, scratch {}, step buffers {} and {} rows of {} need {} "
      "more than the {} that may be used",
      human_bytes(plan->program), human_bytes(plan->weights), human_bytes(plan->scratch),
      human_bytes(plan->io), plan->max_concurrency + 1, human_bytes(plan->row_bytes),
      human_bytes(static_cast<uint64_t>(page - rest)), human_bytes(plan->budget))
      .set_hint("a higher limit, fewer requests at once, or a smaller model or recipe");
}

uint64_t most_pages(const PageLimit& limit, const MemoryPlan& plan) {
  const uint64_t context = plan.pages_for(plan.max_context);
  switch (limit.kind) {
    case PageLimit::Kind::kConcurrency:
      return context * plan.max_concurrency;
    case PageLimit::Kind::kContext:
      return context;
    case PageLimit::Kind::kMemory:
      return UINT32_MAX;
    case PageLimit::Kind::kBytes:
      return limit.bytes / plan.page_bytes;
  }
  return context;
}

// Snapshots may take an eighth of what rows leave, which is a page at least, and leave that page;
// pages have the rest.
void choose_pages(const MemoryWishes& wishes, uint64_t left, MemoryPlan* plan) {
  if (plan->row_bytes > 0 && wishes.snapshots > 0) {
    const uint64_t room = std::min(left / 8, left - plan->page_bytes);
    plan->snapshots =
        static_cast<uint32_t>(std::min<uint64_t>(wishes.snapshots, room / plan->row_bytes));
    left -= plan->snapshots * plan->row_bytes;
  }
  if (plan->page_bytes == 0) return;
  const uint64_t fit = std::min<uint64_t>(left / plan->page_bytes, UINT32_MAX);
  plan->pages = static_cast<uint32_t>(std::min(fit, most_pages(wishes.pages, *plan)));
  if (plan->pages == 0 && wishes.pages.kind == PageLimit::Kind::kBytes)
    throw Error(Code::kDoesNotFit, "--kv-cache-limit: {} hold no page of {}, one at least expected",
                human_bytes(wishes.pages.bytes), human_bytes(plan->page_bytes))
        .set_hint("a larger --kv-cache-limit");
  const uint64_t largest = uint64_t{plan->pages} * plan->page_tokens;
  if (plan->pages >= plan->pages_for(plan->max_context)) return;
  if (wishes.context_given)
    throw Error(Code::kDoesNotFit, "--max-context {}: does not fit the memory, {} does",
                plan->max_context, largest)
        .set_hint("lower --max-context or choose a smaller recipe");
  plan->note = fmt::format("context lowered from {} to {} tokens to fit the memory",
                           plan->max_context, largest);
  plan->max_context = static_cast<uint32_t>(largest);
}

}  // namespace

MemoryPlan plan_memory(const package::PreparedModel& model, uint64_t scratch_bytes,
                       const MemoryWishes& wishes, uint64_t total_memory, uint64_t available) {
  MemoryPlan plan = fixed_plan(model, scratch_bytes, wishes);
  plan.budget = budget_bytes(wishes, total_memory, available);
  choose_pages(wishes, choose_concurrency(wishes, &plan), &plan);
  if (plan.max_concurrency < model.capacity.max_concurrency)
    plan.note += fmt::format("{}concurrency lowered from {} to {} to fit the memory",
                             plan.note.empty() ? "" : "; ", model.capacity.max_concurrency,
                             plan.max_concurrency);
  plan.rows = plan.max_concurrency + 1;
  return plan;
}

std::string memory_plan_text(const MemoryPlan& plan) {
  std::string text = fmt::format(
      "memory: program {} · weights {} · scratch {} · step buffers {} · {} rows and {} snapshots × "
      "{} · {} pages × {} ({}) = {} of {}",
      human_bytes(plan.program), human_bytes(plan.weights), human_bytes(plan.scratch),
      human_bytes(plan.io), plan.rows, plan.snapshots, human_bytes(plan.row_bytes), plan.pages,
      human_bytes(plan.page_bytes), graph::dtype_name(plan.kv_dtype), human_bytes(plan.total()),
      human_bytes(plan.budget));
  text += fmt::format("\nserves up to {} requests at once, {} tokens each", plan.max_concurrency,
                      plan.max_context);
  const uint64_t in_all = uint64_t{plan.pages} * plan.page_tokens;
  if (plan.page_bytes > 0 && in_all < uint64_t{plan.max_context} * plan.max_concurrency)
    text += fmt::format(", {} in all", in_all);
  if (!plan.note.empty()) text += "\nnote: " + plan.note;
  return text;
}

}  // namespace flare::runtime
