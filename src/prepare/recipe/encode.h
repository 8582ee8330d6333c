// Rows of an imported parameter: read from the source tensors as real values, or encoded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/team.h"
#include "prepare/import/encoded_source.h"
#include "prepare/import/imported_model.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {

// The encoder of numbers, and for kSearch the weights of the columns' squared errors (empty: ones).
struct RowEncoder {
  Encoder encoder = Encoder::kAbsmax;
  std::span<const float> importance;
};

codec::Geometry geometry_of(const ImportedParameter& parameter);

// out[0 .. n_rows·cols) = rows [row, row+n_rows) as binary32 (§8: nearest, f64 included).
void read_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, float* out);

// The format that holds the words of every piece as they are stored: codes and scales of encoded
// weights too. nullopt: there is none, or its layout cannot hold this shape.
std::optional<codec::FormatId> kept_format(const ImportedParameter& parameter);

// The format of words that are stored and that no numbers can be read from, where a piece has them.
std::optional<codec::FormatId> unreadable_format(const ImportedParameter& parameter);

// Rows of an object that lie together: encode_rows takes whole tiles of them.
uint64_t row_step(const codec::Format& format);

// The bytes behind the planes of an object of these words: the divisor of an nvfp4 weight.
std::vector<std::byte> tail_of(const ImportedParameter& parameter, const codec::Format& format);

// The divisor of a parameter that is kept as nvfp4 in tiles, which has one for the whole object.
std::optional<float> weight_divisor(const ImportedParameter& parameter,
                                    const codec::Format& format);
// The activation divisor of its uses, where its words are kept and its policy is AllowA4: the least
// of its pieces.
std::optional<float> activation_divisor(const ImportedParameter& parameter,
                                        const codec::Format& format);

// Whether encode_rows leaves the columns in the source's order: where words are copied in blocks
// wider than the runs of columns that would move, no column can. The parameter's uses then need
// input_columns.
bool keeps_source_columns(const ImportedParameter& parameter, const codec::Format& format);

// For each column of the encoded rows the column of the use's input that it multiplies (§10.3);
// empty: the same one.
std::vector<int32_t> input_columns(const ImportedParameter& parameter, const codec::Format& format);

// Encodes rows [row, row+n_rows) in `format`; dst points at the first encoded byte of `row` in each
// plane. Both are multiples of row_step, but for n_rows at the end. Words of the same type are
// copied unchanged (§8.1). The bytes do not depend on the team's size. kValue names the parameter
// for a value that the format refuses, in copied blocks as well.
void encode_rows(const ImportedParameter& parameter, const codec::Format& format, uint64_t row,
                 uint64_t n_rows, const PlaneRows& dst, Team& team, const RowEncoder& encoder = {});

// Whether encode_rows copies words, so that no encoder is asked.
bool copies_words(const ImportedParameter& parameter, const codec::Format& format);

// Gives back the source pages that lie wholly in rows [begin, end), which were read.
void release_rows(const checkpoint::Checkpoint& checkpoint, const ImportedParameter& parameter,
                  uint64_t begin, uint64_t end);

// Gives back every page of the parameter's sources.
void release_sources(const checkpoint::Checkpoint& checkpoint, const ImportedParameter& parameter);

}  // namespace flare::prepare
