// Merging: by scanning for short pieces, with a heap over a linked list for long ones.
#include "frontend/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

// Up to this many symbols the quadratic scan is faster than the heap.
constexpr size_t kShort = 64;

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
size_t pair_slot(uint64_t pair, size_t mask) {
  const uint64_t h = pair * 0x9E3779B97F4A7C15u;
  return (h ^ h >> 32) & mask;
}

}  // namespace

Bpe::Bpe(const Component& component)
    : vocabulary_(component.at("vocab"), component.path_of("vocab")),
      prefix_(component.text_or("continuing_subword_prefix", "")),
      suffix_(component.text_or("end_of_word_suffix", "")),
      fuse_unk_(component.flag_or("fuse_unk", false)),
      byte_fallback_(component.flag_or("byte_fallback", false)),
      ignore_merges_(component.flag_or("ignore_merges", false)) {
  if (component.find("unk_token") != nullptr) unk_token_ = component.text("unk_token");
  read_merges(component);
  for (int c = 0; c < 128; ++c) {
    const char text = static_cast<char>(c);
    ascii_[c] = vocabulary_.find({&text, 1});
  }
  for (int b = 0; b < 256; ++b) byte_tokens_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
  find_joints();
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(vocabulary_.id_limit());
}

void Bpe::read_merges(const Component& component) {
  const Json::Array& list = component.array("merges");
  if (list.size() > kMaxIds)
    throw Error(Code::kInvalid, "{}: {} entries, at most {} expected", component.path_of("merges"),
                list.size(), kMaxIds);
  merges_.resize(std::bit_ceil(list.size() * 2 + 2));
  const std::string where = component.path_of("merges");
  uint32_t rank = 0;
  int32_t id = Vocabulary::kNone - 1;  // of the last merge: ids mostly follow the merges' order
  for (const Json& item : list) {
    if (item.is_string()) {
      const std::string_view text = item.as_string();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos)
        throw Error(Code::kInvalid, "{}: {} found, two parts and one space expected", where,
                    quote(text));
      id = add_merge(text.substr(0, space), text.substr(space + 1), rank++, id + 1, where);
    } else if (item.is_array() && item.as_array().size() == 2 && item.as_array()[0].is_string() &&
               item.as_array()[1].is_string()) {
      id = add_merge(item.as_array()[0].as_string(), item.as_array()[1].as_string(), rank++, id + 1,
                     where);
    } else {
      throw Error(Code::kInvalid, "{}[{}]: neither a string nor two strings", where, rank);
    }
  }
}

int32_t Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank, int32_t guess,
                       std::string_view where) {
  const auto id = [&](std::string_view spelling, int32_t likely) {
    const int32_t found = vocabulary_.find_near(spelling, likely);
    if (found == Vocabulary::kNone)
      throw Error(Code::kInvalid, "{}[{}]: token {} is not in the vocabulary", where, rank,
                  quote(spelling));
    return found;
  };
  if (right.size() < prefix_.size())
    throw Error(Code::kInvalid, "{}[{}]: {} found, a token behind prefix {} expected", where, rank,
                quote(right), quote(prefix_));
  std::string joined(left);
  joined += right.substr(prefix_.size());
  const uint64_t pair = pair_of(id(left, Vocabulary::kNone), id(right, Vocabulary::kNone));
  const size_t mask = merges_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) slot = (slot + 1) & mask;
  merges_[slot] = {pair, rank, id(joined, guess)};  // the last of equal merges counts
  return merges_[slot].id;
}

const Bpe::Merge& Bpe::merge_of(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (merges_[slot].pair != pair && merges_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return merges_[slot];
}

int32_t Bpe::unknown_id() const {
  const int32_t id = vocabulary_.find(*unk_token_);
  if (id == Vocabulary::kNone)
    throw Error(Code::kInvalid, "tokenizer: unk_token {} is needed but not in the vocabulary",
                quote(*unk_token_));
  return id;
}

bool Bpe::append_bytes(std::string_view text, std::vector<int32_t>& symbols) const {
  for (const char c : text)
    if (byte_tokens_[static_cast<uint8_t>(c)] == Vocabulary::kNone) return false;
  for (const char c : text) symbols.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
  return true;
}

int32_t Bpe::character_id(std::string_view character, bool first, bool last,
                          BpeScratch& scratch) const {
  const bool decorated = (!first && !prefix_.empty()) || (last && !suffix_.empty());
  if (!decorated) {
    const auto lead = static_cast<uint8_t>(character[0]);
    const int32_t id = lead < 0x80 ? ascii_[lead] : vocabulary_.find(character);
    if (id == Vocabulary::kNone) scratch.spelling = character;
    return id;
  }
  scratch.spelling.clear();
  if (!first) scratch.spelling += prefix_;
  scratch.spelling += character;
  if (last) scratch.spelling += suffix_;
  return vocabulary_.find(scratch.spelling);
}

void Bpe::split_into_symbols(std::string_view piece, BpeScratch& scratch) const {
  std::vector<int32_t>& symbols = scratch.symbols;
  symbols.clear();
  int32_t pending = Vocabulary::kNone;  // an unknown symbol that may still grow
  for (size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, utf8_length(piece[at]));
    const bool last = at + character.size() == piece.size();
    const int32_t id = character_id(character, at == 0, last, scratch);
    at += character.size();
    if (id != Vocabulary::kNone) {
      if (pending != Vocabulary::kNone) symbols.push_back(pending);
      pending = Vocabulary::kNone;
      symbols.push_back(id);
      continue;
    }
    // As in the reference, byte tokens do not end a run of unknown characters: it comes behind.
    if (byte_fallback_ && append_bytes(scratch.spelling, symbols)) continue;
    if (!unk_token_) continue;
    if (pending != Vocabulary::kNone && !fuse_unk_) symbols.push_back(pending);
    pending = unknown_id();
  }
  if (pending != Vocabulary::kNone) symbols.push_back(pending);
}

bool Bpe::may_join(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = joints_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (joints_[slot] != pair && joints_[slot] != kNoPair) slot = (slot + 1) & mask;
  return joints_[slot] == pair;
}

// By induction a merged token spells its characters, so that the ends of both sides tell over
// which pair of characters a merge reaches. Byte tokens and unk spell something else.
void Bpe::find_joints() {
  if (!prefix_.empty() || !suffix_.empty()) return;
  const int32_t unknown = unk_token_ ? vocabulary_.find(*unk_token_) : Vocabulary::kNone;
  const auto odd = [&](int32_t id) {
    const std::string_view spelling = vocabulary_.spelling(id);
    return id == unknown || spelling.empty() ||
           (byte_fallback_ && spelling.starts_with("<0x") &&
            std::find(byte_tokens_.begin(), byte_tokens_.end(), id) != byte_tokens_.end());
  };
  // Ids of the characters of one and two bytes, looked up once each.
  constexpr int32_t kUnread = Vocabulary::kNone - 1;
  std::vector<int32_t> ids(0x800, kUnread);
  const auto character = [&](std::string_view text) {
    if (text.size() > 2) return vocabulary_.find(text);
    int32_t& id = ids[decode_at(text, 0).code_point];
    if (id == kUnread) id = vocabulary_.find(text);
    return id;
  };
  std::vector<uint64_t> joints(merges_.size(), kNoPair);
  const size_t mask = joints.size() - 1;
  for (const Merge& merge : merges_) {
    if (merge.pair == kNoPair) continue;
    const auto left = static_cast<int32_t>(merge.pair >> 32);
    const auto right = static_cast<int32_t>(merge.pair & 0xFFFFFFFFu);
    if (odd(left) || odd(right)) return;
    const std::string_view before = vocabulary_.spelling(left);
    const std::string_view behind = vocabulary_.spelling(right);
    const uint64_t pair = pair_of(character(before.substr(previous_start(before, before.size()))),
                                  character(behind.substr(0, utf8_length(behind[0]))));
    size_t slot = pair_slot(pair, mask);
    while (joints[slot] != kNoPair && joints[slot] != pair) slot = (slot + 1) & mask;
    joints[slot] = pair;
  }
  joints_ = std::move(joints);
}

size_t Bpe::merge(std::span<int32_t> symbols, BpeScratch& scratch) const {
  return symbols.size() <= kShort ? merge_short(symbols, scratch) : merge_long(symbols, scratch);
}

size_t Bpe::merge_short(std::span<int32_t> symbols, BpeScratch& scratch) const {
  std::vector<uint32_t>& ranks = scratch.ranks;  // of the pair that begins here
  size_t count = symbols.size();
  if (count < 2) return count;
  ranks.resize(count - 1);
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = merge_of(symbols[i], symbols[i + 1]).rank;
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNoRank) break;
    symbols[best] = merge_of(symbols[best], symbols[best + 1]).id;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + (count - 1), ranks.begin() + best);
    --count;
    if (best + 1 < count) ranks[best] = merge_of(symbols[best], symbols[best + 1]).rank;
    if (best > 0) ranks[best - 1] = merge_of(symbols[best - 1], symbols[best]).rank;
  }
  return count;
}

size_t Bpe::merge_long(std::span<int32_t> symbols, BpeScratch& scratch) const {
  std::vector<uint64_t>& heap = scratch.heap;  // rank and position of a pair; the smallest on top
  if (symbols.size() > INT32_MAX)
    throw Error(Code::kInvalid, "tokenizer: a piece of {} symbols, less than 2^31 expected",
                symbols.size());
  const auto count = static_cast<int32_t>(symbols.size());
  scratch.previous.resize(symbols.size());
  scratch.next.resize(symbols.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    scratch.previous[i] = i - 1;
    scratch.next[i] = i + 1 < count ? i + 1 : -1;
  }
  const auto entry = [&](int32_t at) -> uint64_t {
    const int32_t right = at < 0 ? -1 : scratch.next[at];
    if (right < 0) return kNoPair;
    const uint32_t rank = merge_of(symbols[at], symbols[right]).rank;
    return rank == kNoRank ? kNoPair : uint64_t{rank} << 32 | static_cast<uint32_t>(at);
  };
  const auto push = [&](int32_t at) {
    const uint64_t value = entry(at);
    if (value == kNoPair) return;
    heap.push_back(value);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i + 1 < count; ++i)
    if (const uint64_t value = entry(i); value != kNoPair) heap.push_back(value);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  constexpr int32_t kGone = -1;
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<int32_t>(top & 0xFFFFFFFFu);
    // Entries go stale when a neighbour merges first.
    if (symbols[at] == kGone || entry(at) != top) continue;
    const int32_t right = scratch.next[at];
    symbols[at] = merge_of(symbols[at], symbols[right]).id;
    symbols[right] = kGone;
    scratch.next[at] = scratch.next[right];
    if (scratch.next[at] >= 0) scratch.previous[scratch.next[at]] = at;
    push(at);
    push(scratch.previous[at]);
  }
  return std::remove(symbols.begin(), symbols.end(), kGone) - symbols.begin();
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& out, BpeScratch& scratch) const {
  if (piece.empty()) return;
  const int32_t whole = vocabulary_.find(piece);
  if (whole != Vocabulary::kNone) {
    if (ignore_merges_ || whole_[whole].load(std::memory_order_relaxed) == 1) {
      out.push_back(whole);
      return;
    }
  }
  split_into_symbols(piece, scratch);
  const std::span<int32_t> symbols(scratch.symbols);
  const size_t before = out.size();
  for (size_t begin = 0; begin < symbols.size();) {
    size_t end = symbols.size();
    if (end > kShort && !joints_.empty())
      for (end = begin + 1; end < symbols.size(); ++end)
        if (!may_join(symbols[end - 1], symbols[end])) break;
    const std::span<int32_t> part = symbols.subspan(begin, end - begin);
    const size_t left = merge(part, scratch);
    out.insert(out.end(), part.begin(), part.begin() + left);
    begin = end;
  }
  if (whole != Vocabulary::kNone) {
    const bool alone = out.size() == before + 1 && out.back() == whole;
    whole_[whole].store(alone ? 1 : 2, std::memory_order_relaxed);
  }
}

}  // namespace flare::frontend::tokenizer
