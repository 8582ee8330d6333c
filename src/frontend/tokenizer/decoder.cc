// The stages of decoding, each as a step over parts of pieces.
#include "frontend/tokenizer/decoder.h"

#include <optional>
#include <utility>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Gathers parts until the piece is whole. Then `text` is the piece, kept in `storage` if need be.
bool gather(std::string& parts, std::string_view& text, bool ends, std::string& storage) {
  if (ends && parts.empty()) return true;
  parts += text;
  if (!ends) return false;
  storage = std::move(parts);
  parts.clear();
  text = storage;
  return true;
}

// The byte that a token like <0x0A> stands for, or -1. A sign in front of one digit counts: the
// reference parses with u8::from_str_radix.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]);
  const int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// The bytes of a byte-level spelling; nullopt if a character of it is not in the table.
std::optional<std::string> bytes_of_characters(std::string_view spelling) {
  std::string out;
  for (size_t i = 0; i < spelling.size();) {
    const Decoded d = decode_at(spelling, i);
    const int byte = byte_of_character(d.code_point);
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    i += d.bytes;
  }
  return out;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == text.npos) return;
  std::string out;
  size_t done = 0;
  for (size_t found; (found = text.find(from, done)) != text.npos;) {
    out.append(text, done, found - done);
    out += to;
    done = found + from.size();
  }
  out.append(text, done);
  text = std::move(out);
}

// Up to `start` times `content` goes from the front and up to `stop` times from the end.
std::string stripped(std::string text, const StripDecoder& strip) {
  for (uint32_t i = 0; i < strip.start && text.starts_with(strip.content); ++i)
    text.erase(0, strip.content.size());
  for (uint32_t i = 0; i < strip.stop && text.ends_with(strip.content); ++i)
    text.resize(text.size() - strip.content.size());
  return text;
}

// The reference's list, in its order.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kSteps[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kSteps) replace_all(text, from, to);
}

std::string word_piece(const WordPieceDecoder& decoder, std::string_view piece, bool first) {
  std::string out(piece);
  if (!first) {
    if (piece.starts_with(decoder.prefix))
      out.erase(0, decoder.prefix.size());
    else
      out.insert(0, 1, ' ');
  }
  if (decoder.cleanup) clean_up(out);
  return out;
}

std::string without_padding(const CtcDecoder& decoder, std::string_view piece) {
  std::string out(piece);
  replace_all(out, decoder.pad, {});
  if (!decoder.cleanup) return out;
  clean_up(out);
  replace_all(out, decoder.word_delimiter, " ");
  return out;
}

}  // namespace

Decoder::Decoder() { stages_.push_back(JoinDecoder{}); }

Decoder Decoder::from_json(const Component& component) {
  Decoder out;
  out.stages_.clear();
  out.read(component);
  return out;
}

void Decoder::read(const Component& component) {
  const std::string& type = component.type();
  if (type == "ByteLevel") {
    stages_.push_back(ByteLevelDecoder{});
  } else if (type == "ByteFallback") {
    stages_.push_back(ByteFallbackDecoder{});
  } else if (type == "Fuse") {
    stages_.push_back(FuseDecoder{});
  } else if (type == "Strip") {
    StripDecoder strip;
    append_utf8(strip.content, component.character("content"));
    strip.start = component.number("start", UINT32_MAX);
    strip.stop = component.number("stop", UINT32_MAX);
    stages_.push_back(std::move(strip));
  } else if (type == "Replace") {
    stages_.push_back(
        ReplaceDecoder{Pattern::from_json(component.object("pattern")), component.text("content")});
  } else if (type == "Metaspace") {
    Metaspace meta = Metaspace::from_json(component);
    stages_.push_back(
        MetaspaceDecoder{std::move(meta.replacement), meta.scheme != PrependScheme::kNever});
  } else if (type == "BPEDecoder") {
    stages_.push_back(SuffixDecoder{component.text_or("suffix", "</w>")});
  } else if (type == "WordPiece") {
    stages_.push_back(
        WordPieceDecoder{component.text_or("prefix", "##"), component.flag_or("cleanup", true)});
  } else if (type == "CTC") {
    stages_.push_back(CtcDecoder{component.text_or("pad_token", "<pad>"),
                                 component.text_or("word_delimiter_token", "|"),
                                 component.flag_or("cleanup", true)});
  } else if (type == "Sequence") {
    const Json::Array& items = component.array("decoders");
    for (size_t i = 0; i < items.size(); ++i) read({items[i], component.path_of("decoders", i)});
  } else {
    component.refuse_type();
  }
}

std::string Decoder::bytes_inside(std::string_view spelling) const {
  std::string text(spelling);
  bool fused = false;  // stages behind see the whole text, so that its ends are far
  for (const Stage& stage : stages_) {
    if (std::holds_alternative<ByteLevelDecoder>(stage)) {
      if (auto bytes = bytes_of_characters(text)) text = std::move(*bytes);
      fused = true;
      // What follows cannot tell bytes from characters.
      if (valid_utf8_prefix(text) < text.size()) return text;
    } else if (std::holds_alternative<ByteFallbackDecoder>(stage)) {
      const int byte = byte_of_token(text);
      if (byte >= 0) return std::string(1, static_cast<char>(byte));
    } else if (std::holds_alternative<FuseDecoder>(stage)) {
      fused = true;
    } else if (const auto* strip = std::get_if<StripDecoder>(&stage)) {
      if (!fused) text = stripped(std::move(text), *strip);
    } else if (const auto* replace = std::get_if<ReplaceDecoder>(&stage)) {
      MatchScratch scratch;
      text = replace->pattern.replace_all(text, replace->content, scratch);
    } else if (const auto* meta = std::get_if<MetaspaceDecoder>(&stage)) {
      replace_all(text, meta->replacement, " ");
    } else if (const auto* suffix = std::get_if<SuffixDecoder>(&stage)) {
      replace_all(text, suffix->suffix, " ");
    } else if (const auto* words = std::get_if<WordPieceDecoder>(&stage)) {
      text = word_piece(*words, text, false);
    } else if (const auto* pieces = std::get_if<SentencePieceDecoder>(&stage)) {
      if (text == pieces->unknown_piece) return pieces->unknown_surface;
      const int byte = pieces->byte_fallback ? byte_of_token(text) : -1;
      if (byte >= 0) return std::string(1, static_cast<char>(byte));
      replace_all(text, kSpaceMark, " ");
    } else if (const auto* ctc = std::get_if<CtcDecoder>(&stage)) {
      text = without_padding(*ctc, text);
    } else {
      text.insert(0, 1, ' ');
    }
  }
  return text;
}

DecodeStream::DecodeStream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.stages().size()) {}

void DecodeStream::feed(size_t at, std::string_view text, bool ends, std::string& out) {
  if (at == states_.size()) {
    out += text;
    return;
  }
  if (text.empty() && !ends) return;
  std::visit([&](const auto& stage) { run(stage, at, text, ends, out); }, decoder_->stages()[at]);
}

void DecodeStream::finish(std::string& out) { flush(0, out); }

void DecodeStream::flush(size_t at, std::string& out) {
  if (at == states_.size()) return;
  const Decoder::Stage& stage = decoder_->stages()[at];
  if (std::holds_alternative<ByteLevelDecoder>(stage)) {
    const bool cut = !states_[at].held.empty();
    states_[at].held.clear();
    feed(at + 1, cut ? kReplacementCharacter : std::string_view(), true, out);
  } else if (std::holds_alternative<ByteFallbackDecoder>(stage)) {
    flush_bytes(at, out);
  } else if (std::holds_alternative<FuseDecoder>(stage)) {
    feed(at + 1, {}, true, out);
  } else if (std::holds_alternative<SentencePieceDecoder>(stage)) {
    flush_characters(at, true, out);
  } else if (std::holds_alternative<SuffixDecoder>(stage)) {
    flush_suffixed(at, {}, out);
  }
  flush(at + 1, out);
}

// Every token is its bytes if each of its characters is in the table, else its own spelling; all
// of them are one piece, in which every maximal broken part becomes U+FFFD.
void DecodeStream::run(const ByteLevelDecoder&, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  std::string storage;
  if (!gather(state.parts, text, ends, storage)) return;
  std::string& bytes = state.held;
  if (const auto known = bytes_of_characters(text))
    bytes += *known;
  else
    bytes += text;
  std::string ready;
  size_t done = 0;
  while (done < bytes.size()) {
    const Utf8Part part = utf8_part(bytes, done);
    if (part.kind == Utf8Part::kIncomplete) break;
    if (part.kind == Utf8Part::kCharacter)
      ready.append(bytes, done, part.bytes);
    else
      ready += kReplacementCharacter;
    done += part.bytes;
  }
  bytes.erase(0, done);
  feed(at + 1, ready, false, out);
}

// A run of byte tokens is one piece if it is valid UTF-8, else U+FFFD for every byte. Only the
// token behind the run decides, so the whole run waits.
void DecodeStream::run(const ByteFallbackDecoder&, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  std::string storage;
  if (!gather(states_[at].parts, text, ends, storage)) return;
  const int byte = byte_of_token(text);
  if (byte >= 0) {
    states_[at].held += static_cast<char>(byte);
    return;
  }
  flush_bytes(at, out);
  feed(at + 1, text, true, out);
}

void DecodeStream::flush_bytes(size_t at, std::string& out) {
  const std::string bytes = std::move(states_[at].held);
  states_[at].held.clear();
  if (bytes.empty()) return;
  if (valid_utf8_prefix(bytes) == bytes.size()) return feed(at + 1, bytes, true, out);
  for (size_t i = 0; i < bytes.size(); ++i) feed(at + 1, kReplacementCharacter, true, out);
}

void DecodeStream::run(const FuseDecoder&, size_t at, std::string_view text, bool,
                       std::string& out) {
  feed(at + 1, text, false, out);
}

// Up to `start` characters go from the front of every piece and up to `stop` from its end. Where
// both meet the reference crashes; here nothing is left.
void DecodeStream::run(const StripDecoder& strip, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  std::string ready;
  for (size_t i = 0; i < text.size();) {
    const std::string_view character = text.substr(i, utf8_length(text[i]));
    i += character.size();
    const bool match = character == strip.content;
    if (!state.front_done && match && state.cut < strip.start) {
      ++state.cut;
      continue;
    }
    state.front_done = true;
    if (!match) {
      ready += state.held;
      ready += character;
      state.held.clear();
    } else if (state.held.size() / strip.content.size() < strip.stop) {
      state.held += character;
    } else {
      ready += character;
    }
  }
  if (ends) state = State{};
  feed(at + 1, ready, ends, out);
}

void DecodeStream::run(const ReplaceDecoder& replace, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  std::string storage;
  if (!gather(states_[at].parts, text, ends, storage)) return;
  feed(at + 1, replace.pattern.replace_all(text, replace.content, scratch_), true, out);
}

void DecodeStream::run(const MetaspaceDecoder& meta, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  std::string ready;
  size_t done = 0;
  for (size_t found; (found = text.find(meta.replacement, done)) != text.npos;) {
    ready += text.substr(done, found - done);
    if (state.pieces > 0 || !meta.drops_first) ready += ' ';
    done = found + meta.replacement.size();
  }
  ready += text.substr(done);
  if (ends) ++state.pieces;
  feed(at + 1, ready, ends, out);
}

// Which piece is the last one is known only behind it, so that one piece waits.
void DecodeStream::run(const SuffixDecoder&, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  std::string storage;
  if (!gather(state.parts, text, ends, storage)) return;
  flush_suffixed(at, " ", out);
  state.held = text;
  state.begun = true;
}

void DecodeStream::flush_suffixed(size_t at, std::string_view separator, std::string& out) {
  State& state = states_[at];
  if (!state.begun) return;
  const std::string& suffix = std::get<SuffixDecoder>(decoder_->stages()[at]).suffix;
  std::string piece;
  size_t done = 0;
  for (size_t found; !suffix.empty() && (found = state.held.find(suffix, done)) != suffix.npos;) {
    piece.append(state.held, done, found - done);
    piece += separator;
    done = found + suffix.size();
  }
  piece.append(state.held, done);
  state = State{};
  feed(at + 1, piece, true, out);
}

void DecodeStream::run(const WordPieceDecoder& decoder, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  std::string storage;
  if (!gather(state.parts, text, ends, storage)) return;
  feed(at + 1, word_piece(decoder, text, state.pieces++ == 0), true, out);
}

void DecodeStream::run(const CtcDecoder& decoder, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  std::string storage;
  if (!gather(state.parts, text, ends, storage)) return;
  if (state.begun && state.held == text) return;
  state.held = text;
  state.begun = true;
  const std::string piece = without_padding(decoder, text);
  if (!piece.empty()) feed(at + 1, piece, true, out);
}

void DecodeStream::flush_characters(size_t at, bool run_ends, std::string& out) {
  State& state = states_[at];
  std::string& bytes = state.held;
  std::string ready;
  size_t done = 0;
  while (done < bytes.size()) {
    const Utf8Part part = utf8_part(bytes, done);
    if (part.kind == Utf8Part::kIncomplete && !run_ends) break;
    const bool whole = part.kind == Utf8Part::kCharacter;
    ready += whole ? std::string_view(bytes).substr(done, part.bytes) : kReplacementCharacter;
    done += whole ? part.bytes : 1;
  }
  bytes.erase(0, done);
  if (ready.empty()) return;
  state.begun = true;
  feed(at + 1, ready, true, out);
}

// `begun`: the text has something; `cut`: the piece before lost the space in front of the text.
void DecodeStream::run(const SentencePieceDecoder& decoder, size_t at, std::string_view text,
                       bool ends, std::string& out) {
  State& state = states_[at];
  std::string storage;
  if (!gather(state.parts, text, ends, storage)) return;
  const int byte = decoder.byte_fallback ? byte_of_token(text) : -1;
  if (byte >= 0) {
    state.held += static_cast<char>(byte);
    return flush_characters(at, false, out);
  }
  flush_characters(at, true, out);
  state.front_done |= state.begun || state.cut > 0;
  state.cut = 0;
  std::string piece(text);
  if (!text.empty() && text == decoder.unknown_piece) {
    piece = decoder.unknown_surface;
  } else {
    if (!state.front_done && decoder.drops_first && text.starts_with(kSpaceMark)) {
      piece.erase(0, kSpaceMark.size());
      state.cut = decoder.drops_all ? 0 : 1;
    }
    replace_all(piece, kSpaceMark, " ");
  }
  state.begun |= !piece.empty();
  feed(at + 1, piece, true, out);
}

void DecodeStream::run(const JoinDecoder&, size_t at, std::string_view text, bool ends,
                       std::string& out) {
  State& state = states_[at];
  if (!state.begun && state.pieces > 0) feed(at + 1, " ", false, out);
  state.begun = !ends;
  if (ends) ++state.pieces;
  feed(at + 1, text, ends, out);
}

}  // namespace flare::frontend::tokenizer
