// How far encoded rows are from their numbers, by the chosen encoder and by the format's default.
#pragma once

#include <cstdint>
#include <span>

#include "base/team.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {

// Sums over weights of w·x², and of w·(x − x')² for the default encoder and for the chosen one; w
// is the column's importance, or 1.
struct ErrorSums {
  double signal = 0, before = 0, after = 0;
  void add(const ErrorSums& other) {
    signal += other.signal;
    before += other.before;
    after += other.after;
  }
};

// Of rows [row, row+n_rows), whose encoded bytes `encoded` points at; `format` holds them by rows
// (not nvfp4). Sums are added up in row order whatever the team's size.
ErrorSums measure_rows(const ImportedParameter& parameter, const codec::Format& format,
                       uint64_t row, uint64_t n_rows, const PlaneRows& encoded,
                       std::span<const float> importance, Team& team);

}  // namespace flare::prepare
