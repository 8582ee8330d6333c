// The pipeline: added tokens, normalizer, pre-tokenizer, model, post-processor, and back.
#include "frontend/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "frontend/tokenizer/added_tokens.h"
#include "frontend/tokenizer/decoder.h"
#include "frontend/tokenizer/model.h"
#include "frontend/tokenizer/normalizer.h"
#include "frontend/tokenizer/post_processor.h"
#include "frontend/tokenizer/pre_tokenizer.h"
#include "frontend/tokenizer/sentencepiece.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend {

namespace {

using namespace tokenizer;

Json parse(std::string_view text, std::string_view where) {
  try {
    return parse_large_json(text, where);
  } catch (const Error& error) {
    throw Error(Code::kInvalid, "{}", error.message());
  }
}

template <typename T>
std::optional<T> read_optional(const Component& root, std::string_view name) {
  if (root.find(name) == nullptr) return std::nullopt;
  return T::from_json(root.object(name));
}

void check_size(size_t bytes) {
  if (bytes > kMaxTextBytes)
    throw Error(Code::kInvalid, "tokenizer: text of {} bytes, at most {} expected", bytes,
                kMaxTextBytes);
}

// Calls valid(begin, end) and broken(begin, end) for the parts of `text` in order.
template <typename Valid, typename Broken>
void for_utf8_parts(std::string_view text, Valid&& valid, Broken&& broken) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t good = valid_utf8_prefix(text.substr(at));
    if (good > 0) valid(at, at + good);
    at += good;
    if (at == text.size()) break;
    const uint32_t bad = utf8_part(text, at).bytes;
    broken(at, at + bad);
    at += bad;
  }
}

std::string repaired(std::string_view text) {
  std::string out;
  for_utf8_parts(
      text, [&](size_t begin, size_t end) { out += text.substr(begin, end - begin); },
      [&](size_t, size_t) { out += kReplacementCharacter; });
  return out;
}

MarkedText repaired(const MarkedText& text) {
  MarkedText out;
  for_utf8_parts(
      text.text(), [&](size_t begin, size_t end) { out.append(text.slice(begin, end)); },
      [&](size_t begin, size_t end) {
        out.append(kReplacementCharacter,
                   text.all_template(begin, end) ? Origin::kTemplate : Origin::kCaller);
      });
  return out;
}

// The stretches of marks that equal 0.
std::vector<Interval> template_intervals(std::string_view marks) {
  std::vector<Interval> out;
  for (size_t begin = 0; (begin = marks.find('\0', begin)) != marks.npos;) {
    const size_t end = std::min(marks.find('\1', begin), marks.size());
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

}  // namespace

namespace {

// Working memory of one encoding, kept for the next for its cache.
struct EncodeScratch {
  MatchScratch match;
  ModelScratch model;
  SentencePieceScratch sentencepiece;
};

}  // namespace

struct Tokenizer::Impl {
  std::optional<Normalizer> normalizer;
  std::optional<PreTokenizer> pre_tokenizer;
  std::optional<Model> model;  // one of these two
  std::optional<SentencePiece> sentencepiece;
  bool characters_of_bytes = false;  // pieces are rewritten as ByteLevel says
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;
  int32_t id_limit = 0;

  Impl(const Component& root, const std::vector<std::string_view>* marker_texts)
      : model(std::in_place, root.object("model")) {
    normalizer = read_optional<Normalizer>(root, "normalizer");
    pre_tokenizer = read_optional<PreTokenizer>(root, "pre_tokenizer");
    characters_of_bytes = pre_tokenizer && pre_tokenizer->leave_bytes();
    if (const Json* list = root.find("added_tokens"))
      added = AddedTokens(*list, root.path_of("added_tokens"), vocabulary(),
                          normalizer ? &*normalizer : nullptr, marker_texts);
    id_limit = vocabulary().id_limit();
    for (const AddedToken& token : added.tokens()) id_limit = std::max(id_limit, token.id + 1);
    if (auto read = read_optional<PostProcessor>(root, "post_processor"))
      post_processor = std::move(*read);
    const auto check = [&](const std::vector<int32_t>& ids) {
      for (const int32_t id : ids)
        if (id >= id_limit)
          throw Error(Code::kInvalid, "{}: id {}, a token of the {} expected",
                      root.path_of("post_processor"), id, id_limit);
    };
    check(post_processor.prefix);
    check(post_processor.suffix);
    for (const PairItem& item : post_processor.pair) check(item.ids);
    if (auto read = read_optional<Decoder>(root, "decoder")) decoder = std::move(*read);
  }

  Impl(const SentencePieceFile& file, std::string_view where,
       const std::vector<std::string_view>* marker_texts, SentencePieceOptions options)
      : sentencepiece(std::in_place, file, where) {
    std::vector<AddedToken> tokens;
    id_limit = vocabulary().id_limit();
    for (int32_t id = 0; id < id_limit; ++id) {
      const PieceType type = sentencepiece->type(id);
      if (type != PieceType::kControl && type != PieceType::kUserDefined) continue;
      AddedToken token;
      token.id = id;
      token.content = vocabulary().spelling(id);
      token.special = type == PieceType::kControl;
      tokens.push_back(std::move(token));
    }
    added = AddedTokens(std::move(tokens), marker_texts);
    for (const AddedToken& token : added.tokens())
      if (token.structural) sentencepiece->set_structural(token.id);
    const auto control = [&](std::string_view piece) {
      std::vector<int32_t> out;
      const int32_t id = vocabulary().find(piece);
      if (id != Vocabulary::kNone && sentencepiece->type(id) == PieceType::kControl)
        out.push_back(id);
      return out;
    };
    if (options.add_bos) post_processor.prefix = control(file.bos_piece);
    if (options.add_eos) post_processor.suffix = control(file.eos_piece);
    decoder = Decoder(SentencePieceDecoder{
        sentencepiece->unknown_piece(), file.unknown_surface, file.byte_fallback,
        file.rules.add_dummy_prefix || file.rules.remove_extra_spaces,
        file.rules.remove_extra_spaces});
  }

  const Vocabulary& vocabulary() const {
    return model ? model->vocabulary() : sentencepiece->vocabulary();
  }

  // Spelling of an id in use.
  std::optional<std::string_view> spelling(int32_t id) const {
    if (const AddedToken* token = added.find(id)) return token->content;
    if (vocabulary().used(id)) return vocabulary().spelling(id);
    return std::nullopt;
  }
  bool is_special(int32_t id) const {
    const AddedToken* token = added.find(id);
    return token != nullptr && token->special;
  }
  void push(int32_t id, bool skip_special, DecodeStream& stream, std::string& out) const {
    if (const AddedToken* token = added.find(id)) {
      if (!skip_special || !token->special)
        stream.push(token->decoded, out);
      else if (sentencepiece)  // a control piece is empty, but parts the bytes around it
        stream.push({}, out);
    } else if (vocabulary().used(id)) {
      stream.push(vocabulary().spelling(id), out);
    }
  }

  class Encoding;

  // Runs f(Encoding&) with working memory that an earlier encoding may have used.
  template <typename F>
  void with_encoding(std::vector<int32_t>& out, F&& f) const;

  // Working memory that no encoding uses; as many as ran at a time.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<EncodeScratch>> free_scratch;  // guarded by `mutex`
};

// One encoding in progress.
class Tokenizer::Impl::Encoding {
 public:
  Encoding(const Impl& impl, EncodeScratch& scratch, std::vector<int32_t>& out)
      : impl_(impl), out_(out), scratch_(scratch) {}

  // Without `parse_special` no added token matches. `marks` may be nullptr: then all match
  // anywhere.
  void run(std::string_view text, bool parse_special, const MarkedText* marks) {
    parse_special_ = parse_special;
    if (!parse_special) {
      NormalizedText whole;
      whole.text = text;
      if (impl_.sentencepiece) whole.caller.assign(text.size(), '\1');
      encode_part(std::move(whole), true);
      return;
    }
    std::vector<Interval> by_template;
    std::string caller;
    if (marks == nullptr) by_template.push_back({0, text.size()});
    if (marks != nullptr) {
      size_t begin = 0;
      for (const MarkedText::Run& run : marks->runs()) {
        if (run.origin == Origin::kTemplate) by_template.push_back({begin, run.end});
        if (impl_.added.any_normalized() || impl_.sentencepiece)
          caller.append(run.end - begin, run.origin == Origin::kCaller ? '\1' : '\0');
        begin = run.end;
      }
    }
    for (const Section& section : impl_.added.split(text, false, by_template)) {
      if (section.token != nullptr) {
        out_.push_back(section.token->id);
        continue;
      }
      const size_t bytes = section.end - section.begin;
      NormalizedText part;
      part.text = text.substr(section.begin, bytes);
      if (!caller.empty()) part.caller = caller.substr(section.begin, bytes);
      encode_part(std::move(part), section.begin == 0);
    }
  }

 private:
  // Text between tokens that match as written.
  void encode_part(NormalizedText part, bool starts_input) {
    if (impl_.sentencepiece)
      return impl_.sentencepiece->encode(part.text, part.caller, out_, scratch_.sentencepiece);
    const bool marked = !part.caller.empty();
    if (impl_.normalizer) impl_.normalizer->apply(part, scratch_.match);
    starts_input &= part.front_kept;
    if (!impl_.added.any_normalized() || !parse_special_) {
      encode_words(std::move(part.text), starts_input);
      return;
    }
    const auto by_template =
        marked ? template_intervals(part.caller) : std::vector<Interval>{{0, part.text.size()}};
    for (const Section& section : impl_.added.split(part.text, true, by_template)) {
      if (section.token != nullptr)
        out_.push_back(section.token->id);
      else
        encode_words(part.text.substr(section.begin, section.end - section.begin),
                     starts_input && section.begin == 0);
    }
  }

  void encode_words(std::string text, bool starts_input) {
    if (text.empty()) return;
    check_size(text.size());
    PieceBuffer buffer;
    buffer.pieces.push_back({0, static_cast<uint32_t>(text.size())});
    buffer.text = std::move(text);
    buffer.starts_input = starts_input;
    if (impl_.pre_tokenizer) impl_.pre_tokenizer->apply(buffer, scratch_.match);
    encode_pieces(buffer);
  }

  // Hashes run some pieces ahead, so that the table's entries are there when they are looked at.
  void encode_pieces(const PieceBuffer& buffer) {
    constexpr size_t kAhead = 8;
    std::array<uint64_t, kAhead> hashes;
    const std::vector<Piece>& pieces = buffer.pieces;
    const auto note = [&](size_t i) {
      const std::string_view piece = buffer.view(pieces[i]);
      if (piece.size() > PieceCache::kMaxBytes) return;
      hashes[i % kAhead] = hash_of(piece);
      scratch_.model.cache.prefetch(hashes[i % kAhead]);
    };
    for (size_t i = 0; i < std::min(kAhead, pieces.size()); ++i) note(i);
    for (size_t i = 0; i < pieces.size(); ++i) {
      encode_piece(buffer.view(pieces[i]), hashes[i % kAhead]);
      if (i + kAhead < pieces.size()) note(i + kAhead);
    }
  }

  // `hash` is that of a short piece.
  void encode_piece(std::string_view piece, uint64_t hash) {
    const bool short_piece = piece.size() <= PieceCache::kMaxBytes;
    PieceCache& cache = scratch_.model.cache;
    if (short_piece && cache.append(piece, hash, out_)) return;
    const size_t before = out_.size();
    if (impl_.characters_of_bytes)
      impl_.model->encode_bytes(piece, out_, scratch_.model);
    else
      impl_.model->encode(piece, out_, scratch_.model);
    if (short_piece) cache.put(piece, hash, std::span(out_).subspan(before));
  }

  const Impl& impl_;
  std::vector<int32_t>& out_;
  EncodeScratch& scratch_;
  bool parse_special_ = true;
};

template <typename F>
void Tokenizer::Impl::with_encoding(std::vector<int32_t>& out, F&& f) const {
  std::unique_ptr<EncodeScratch> scratch;
  {
    const std::lock_guard lock(mutex);
    if (!free_scratch.empty()) {
      scratch = std::move(free_scratch.back());
      free_scratch.pop_back();
    }
  }
  if (!scratch) scratch = std::make_unique<EncodeScratch>();
  Encoding encoding(*this, *scratch, out);
  f(encoding);
  const std::lock_guard lock(mutex);
  free_scratch.push_back(std::move(scratch));
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view where) {
  return read(tokenizer_json, where, nullptr);
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view where,
                               const std::vector<std::string_view>& marker_texts) {
  return read(tokenizer_json, where, &marker_texts);
}

Tokenizer Tokenizer::read(std::string_view tokenizer_json, std::string_view where,
                          const std::vector<std::string_view>* marker_texts) {
  const Json json = parse(tokenizer_json, where);
  return Tokenizer(
      std::make_unique<Impl>(Component(json, fmt::format("{}: ", where)), marker_texts));
}

Tokenizer Tokenizer::from_sentencepiece(std::string_view bytes, std::string_view where,
                                        const std::vector<std::string_view>* marker_texts,
                                        SentencePieceOptions options) {
  const SentencePieceFile file = SentencePieceFile::read(bytes, where);
  return Tokenizer(std::make_unique<Impl>(file, where, marker_texts, options));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  check_size(text.size());
  std::vector<int32_t> out;
  if (options.add_special_tokens) out = impl_->post_processor.prefix;
  std::string copy;
  if (!impl_->sentencepiece && valid_utf8_prefix(text) < text.size()) text = copy = repaired(text);
  impl_->with_encoding(
      out, [&](Impl::Encoding& encoding) { encoding.run(text, options.parse_special, nullptr); });
  if (options.add_special_tokens) {
    const std::vector<int32_t>& suffix = impl_->post_processor.suffix;
    out.insert(out.end(), suffix.begin(), suffix.end());
  }
  return out;
}

std::vector<int32_t> Tokenizer::encode(const MarkedText& text) const {
  check_size(text.size());
  if (!impl_->sentencepiece && valid_utf8_prefix(text.text()) < text.size())
    return encode(repaired(text));
  std::vector<int32_t> out;
  impl_->with_encoding(out,
                       [&](Impl::Encoding& encoding) { encoding.run(text.text(), true, &text); });
  return out;
}

Tokenizer::Pair Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  if (impl_->post_processor.pair.empty())
    throw Error(Code::kInvalid, "tokenizer: its post_processor has no template for two texts");
  const std::vector<int32_t> texts[] = {encode(first, {}), encode(second, {})};
  Pair out;
  for (const PairItem& item : impl_->post_processor.pair) {
    const std::vector<int32_t>& ids = item.kind == PairItem::kIds ? item.ids : texts[item.kind];
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.types.insert(out.types.end(), ids.size(), item.type);
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string out;
  DecodeStream stream(impl_->decoder);
  for (const int32_t id : ids) impl_->push(id, skip_special_tokens, stream, out);
  stream.finish(out);
  return out;
}

int32_t Tokenizer::id_limit() const { return impl_->id_limit; }

std::string_view Tokenizer::token_text(int32_t id) const {
  return impl_->spelling(id).value_or(std::string_view());
}

std::string Tokenizer::token_bytes(int32_t id) const {
  if (const AddedToken* token = impl_->added.find(id)) return token->content;
  if (!impl_->vocabulary().used(id)) return "";
  return impl_->decoder.bytes_inside(impl_->vocabulary().spelling(id));
}

std::optional<int32_t> Tokenizer::token_id(std::string_view content) const {
  if (const AddedToken* token = impl_->added.find(content)) return token->id;
  const int32_t id = impl_->vocabulary().find(content);
  if (id == Vocabulary::kNone) return std::nullopt;
  return id;
}

bool Tokenizer::is_special(int32_t id) const { return impl_->is_special(id); }
bool Tokenizer::is_added(int32_t id) const { return impl_->added.find(id) != nullptr; }
bool Tokenizer::is_structural(int32_t id) const {
  const AddedToken* token = impl_->added.find(id);
  return token != nullptr && token->structural;
}

struct StreamDecoder::Impl {
  const Tokenizer::Impl* tokenizer;
  bool skip_special;
  DecodeStream stream;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : impl_(new Impl{tokenizer.impl_.get(), skip_special_tokens,
                     DecodeStream(tokenizer.impl_->decoder)}) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::push(int32_t id) {
  std::string out;
  impl_->tokenizer->push(id, impl_->skip_special, impl_->stream, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  impl_->stream.finish(out);
  return out;
}

}  // namespace flare::frontend
