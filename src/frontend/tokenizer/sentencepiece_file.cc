// A reader of just enough of the protocol buffer encoding.
#include "frontend/tokenizer/sentencepiece_file.h"

#include <bit>
#include <cmath>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

// The fields of one message, in order.
class Message {
 public:
  struct Field {
    uint32_t number = 0;
    enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } wire = kVarint;
    uint64_t value = 0;      // of kVarint and kFixed32
    std::string_view bytes;  // of kBytes
  };

  Message(std::string_view bytes, std::string where) : rest_(bytes), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const uint64_t tag = varint();
    Field out;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX / 8)
      throw Error(Code::kInvalid, "{}: field number {}, 1 to 2^29-1 expected", where_, tag >> 3);
    out.number = static_cast<uint32_t>(tag >> 3);
    out.wire = static_cast<Field::Wire>(tag & 7);
    switch (tag & 7) {
      case Field::kVarint:
        out.value = varint();
        break;
      case Field::kFixed64:
        take(8);
        break;
      case Field::kBytes:
        out.bytes = take(varint());
        break;
      case Field::kFixed32:
        out.value = load_le<uint32_t>(as_bytes(take(4)).data());
        break;
      default:
        throw Error(Code::kInvalid, "{}: field {} has wire type {}, 0, 1, 2 or 5 expected", where_,
                    out.number, tag & 7);
    }
    return out;
  }

  // The value of a field that must have the wire type its meaning demands.
  void expect(const Field& field, Field::Wire wire, std::string_view name) const {
    if (field.wire != wire)
      throw Error(Code::kInvalid, "{}: {} has wire type {}, {} expected", where_, name,
                  static_cast<int>(field.wire), static_cast<int>(wire));
  }
  std::string_view bytes(const Field& field, std::string_view name) const {
    expect(field, Field::kBytes, name);
    return field.bytes;
  }
  std::string text(const Field& field, std::string_view name) const {
    const std::string_view out = bytes(field, name);
    if (valid_utf8_prefix(out) < out.size())
      throw Error(Code::kInvalid, "{}: {} is not UTF-8 at byte {}", where_, name,
                  valid_utf8_prefix(out));
    return std::string(out);
  }
  bool flag(const Field& field, std::string_view name) const {
    expect(field, Field::kVarint, name);
    return field.value != 0;
  }
  // An integer in [low, high].
  int32_t integer(const Field& field, std::string_view name, int32_t low, int32_t high) const {
    expect(field, Field::kVarint, name);
    const auto value = static_cast<int64_t>(field.value);
    if (value < low || value > high)
      throw Error(Code::kInvalid, "{}: {} is {}, {} to {} expected", where_, name, value, low,
                  high);
    return static_cast<int32_t>(value);
  }

 private:
  uint64_t varint() {
    uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      if (shift == 63 && byte > 1) break;
      out |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return out;
    }
    throw Error(Code::kInvalid, "{}: an integer over 64 bits", where_);
  }
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size())
      throw Error(Code::kInvalid, "{}: {} bytes wanted, {} left", where_, bytes, rest_.size());
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return out;
  }

  std::string_view rest_;
  std::string where_;
};

using Field = Message::Field;

SentencePieceFile::Piece read_piece(Message message) {
  SentencePieceFile::Piece out;
  while (const auto field = message.next()) {
    switch (field->number) {
      case 1:
        out.text = message.text(*field, "piece");
        break;
      case 2:
        message.expect(*field, Field::kFixed32, "score");
        out.score = std::bit_cast<float>(static_cast<uint32_t>(field->value));
        break;
      case 3:
        out.type = static_cast<PieceType>(message.integer(*field, "type", 1, 6));
        break;
      default:
        break;
    }
  }
  if (out.text.empty()) throw Error(Code::kInvalid, "{}: no text, some expected", message.where());
  if (!std::isfinite(out.score))
    throw Error(Code::kInvalid, "{}: score {}, a finite number expected", message.where(),
                out.score);
  return out;
}

void read_trainer(Message message, SentencePieceFile& out) {
  while (const auto field = message.next()) {
    switch (field->number) {
      case 3:
        out.kind =
            static_cast<SentencePieceFile::Kind>(message.integer(*field, "model_type", 1, 4));
        break;
      case 24:
        out.space_as_suffix = message.flag(*field, "treat_whitespace_as_suffix");
        break;
      case 35:
        out.byte_fallback = message.flag(*field, "byte_fallback");
        break;
      case 44:
        out.unknown_surface = message.text(*field, "unk_surface");
        break;
      case 46:  // the pieces tell their ids, bos_id and eos_id only those that training asked for
        out.bos_piece = message.text(*field, "bos_piece");
        break;
      case 47:
        out.eos_piece = message.text(*field, "eos_piece");
        break;
      default:
        break;
    }
  }
}

void read_rules(Message message, SentencePieceFile::Rules& out) {
  while (const auto field = message.next()) {
    switch (field->number) {
      case 2:
        out.charsmap = message.bytes(*field, "precompiled_charsmap");
        break;
      case 3:
        out.add_dummy_prefix = message.flag(*field, "add_dummy_prefix");
        break;
      case 4:
        out.remove_extra_spaces = message.flag(*field, "remove_extra_whitespaces");
        break;
      case 5:
        out.escape_spaces = message.flag(*field, "escape_whitespaces");
        break;
      default:
        break;
    }
  }
}

}  // namespace

SentencePieceFile SentencePieceFile::read(std::string_view bytes, std::string_view where) {
  SentencePieceFile out;
  Message message(bytes, std::string(where));
  while (const auto field = message.next()) {
    switch (field->number) {
      case 1:
        if (out.pieces.size() == kMaxIds)
          throw Error(Code::kInvalid, "{}: more than {} pieces", where, kMaxIds);
        out.pieces.push_back(
            read_piece(Message(message.bytes(*field, "pieces"),
                               fmt::format("{}: piece {}", where, out.pieces.size()))));
        break;
      case 2:
        read_trainer(
            {message.bytes(*field, "trainer_spec"), fmt::format("{}: trainer_spec", where)}, out);
        break;
      case 3:
        read_rules(
            {message.bytes(*field, "normalizer_spec"), fmt::format("{}: normalizer_spec", where)},
            out.rules);
        break;
      case 5: {
        Rules back;
        read_rules({message.bytes(*field, "denormalizer_spec"),
                    fmt::format("{}: denormalizer_spec", where)},
                   back);
        out.has_denormalizer = !back.charsmap.empty();
        break;
      }
      default:
        break;
    }
  }
  if (out.pieces.empty()) throw Error(Code::kInvalid, "{}: no pieces, some expected", where);
  if (out.has_denormalizer)
    throw Error(Code::kInvalid, "{}: denormalizer_spec has rules, none are supported", where);
  return out;
}

}  // namespace flare::frontend::tokenizer
