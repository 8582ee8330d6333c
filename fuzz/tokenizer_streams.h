// What every tokenizer that loads must do with the ids of a text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "frontend/tokenizer/tokenizer.h"
#include "require.h"

// Ids within the limit; token by token they decode to what they decode to at once.
inline void check_streams(const flare::frontend::Tokenizer& tokenizer,
                          std::span<const int32_t> ids) {
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.id_limit());
  for (const bool skip : {false, true}) {
    const std::string whole = tokenizer.decode(ids, skip);
    flare::frontend::StreamDecoder stream(tokenizer, skip);
    std::string parts;
    for (const int32_t id : ids) parts += stream.push(id);
    require(parts + stream.finish() == whole);
  }
}
