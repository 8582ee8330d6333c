// What stands behind the product of linear. Needs vec.inl.h before it.

struct Silu {
  static VF apply(VF x) { return silu(x); }
};
struct GeluTanh {
  static VF apply(VF x) { return gelu_tanh(x); }
};

template <typename Activation>
inline void gated_columns(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(out + i, Activation::apply(load(gate + i)) * load(up + i));
  if (i < n)
    store_n(out + i, Activation::apply(load_n(gate + i, n - i)) * load_n(up + i, n - i), n - i);
}

// out = act(gate) ⊙ up, with the activation that `output` names; out may be either.
inline void gated_row(LinearOutput output, const float* gate, const float* up, int64_t n,
                      float* out) {
  if (output == LinearOutput::kSwiglu) return gated_columns<Silu>(gate, up, n, out);
  gated_columns<GeluTanh>(gate, up, n, out);
}

// out = x + y; out may be either.
inline void add_row(const float* x, const float* y, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load(x + i) + load(y + i));
  if (i < n) store_n(out + i, load_n(x + i, n - i) + load_n(y + i, n - i), n - i);
}

// Columns [stored.begin, stored.end) of row t of y, from its row of the product: N floats.
inline void finish_row(const Problem& p, int64_t t, Range stored, const float* product) {
  const int64_t n = stored.end - stored.begin;
  float* y = p.y + t * p.y_stride + stored.begin;
  product += stored.begin;
  if (takes_halves(p.output)) return gated_row(p.output, product, product + p.n_stored(), n, y);
  if (p.residual) return add_row(p.residual + t * p.residual_stride + stored.begin, product, n, y);
  __builtin_memcpy(y, product, static_cast<size_t>(n) * 4);
}

// Runs multiply(problem, outputs) for all outputs that this member's columns of y come from, and
// what stands behind the product. A member needs no other's outputs, so nobody waits.
template <typename Multiply>
inline void for_outputs(const Problem& p, const Room& room, const Member& member,
                        const Multiply& multiply) {
  const Range stored = share_of(member, p.n_stored(), kRowGrain);
  if (p.is_stored_at_once()) return multiply(p, stored);
  Problem to_room = p;
  to_room.y = room.product;
  to_room.y_stride = p.n_outputs;
  multiply(to_room, stored);
  if (takes_halves(p.output))
    multiply(to_room, Range{stored.begin + p.n_stored(), stored.end + p.n_stored()});
  for (int64_t t = 0; t < p.n_rows; ++t) finish_row(p, t, stored, room.product + t * p.n_outputs);
}
