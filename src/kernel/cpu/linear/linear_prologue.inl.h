// What stands before the product of linear, a row at a time: every kernel prepares a row by these
// operations alone, so its bits depend neither on the rows beside it nor on the kernel.
// Needs vec.inl.h and norm.inl.h before it.

// out = x ⊙ σ(gate).
inline void gate_row(const float* x, const float* gate, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load(x + i) * sigmoid(load(gate + i)));
  if (i < n) store_n(out + i, load_n(x + i, n - i) * sigmoid(load_n(gate + i, n - i)), n - i);
}

// x̂ of row t: K floats.
inline void prepare_row(const Problem& p, int64_t t, float* out) {
  const float* x = p.x + t * p.x_stride;
  const float* gate = p.gate + t * p.gate_stride;
  switch (p.input) {
    case LinearInput::kPlain:
      __builtin_memcpy(out, x, static_cast<size_t>(p.k) * 4);
      return;
    case LinearInput::kRmsNorm:
      return rms_norm_group(x, p.norm, p.k, p.eps, p.norm_offset, out);
    case LinearInput::kGateMul:
      return gate_row(x, gate, p.k, out);
    case LinearInput::kGatedNorm:
      for (int64_t i = 0; i < p.k; i += p.norm_width)
        gated_norm_group(x + i, gate + i, p.norm, p.norm_width, p.eps, out + i);
      return;
  }
}

// The launch after its first phase: x̂ lies in the room's rows, as plain x. Meets the team where
// there was something to do.
inline Problem prepared(Problem p, const Room& room, Member& member) {
  if (p.input == LinearInput::kPlain) return p;
  const Range rows = share_of(member, p.n_rows, 1);
  for (int64_t t = rows.begin; t < rows.end; ++t)
    prepare_row(p, t, room.rows + t * room.rows_stride);
  member.barrier();
  p.x = room.rows;
  p.x_stride = room.rows_stride;
  p.input = LinearInput::kPlain;
  return p;
}
