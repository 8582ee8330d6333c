// The body of sample, included once per level: the passes over whole rows for draw.h.

namespace {

inline VI mask_lanes(uint32_t bits) {
  VI lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = 1 << i;
  return (VI{} + static_cast<int32_t>(bits)) & lane;
}

// NaN becomes −inf, +inf the largest number: neither may spoil the row.
void copy_legal(const float* logits, const uint32_t* mask, int64_t n, float* out) {
  const VF never = splat(-__builtin_inff());
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t live = min64(kLanes, n - i);
    VF v = live == kLanes ? load(logits + i) : load_n(logits + i, live);
    v = max(v, never);
    v = min(v, splat(__FLT_MAX__));
    if (mask != nullptr) v = mask_lanes(mask[i / 32] >> (i % 32)) != 0 ? v : never;
    if (live == kLanes) {
      store(out + i, v);
    } else {
      store_n(out + i, v, live);
    }
  }
}

float largest(const float* logits, int64_t n) {
  VF best[2] = {splat(-__builtin_inff()), splat(-__builtin_inff())};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    best[0] = max(best[0], load(logits + i));
    best[1] = max(best[1], load(logits + i + kLanes));
  }
  float top = max_lanes(max(best[0], best[1]));
  for (; i < n; ++i) top = logits[i] > top ? logits[i] : top;
  return top;
}

int64_t first(const float* logits, int64_t n, float floor) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const uint32_t hits = mask_ge(load(logits + i), splat(floor));
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  while (logits[i] < floor) ++i;
  return i;
}

// Σ e^s over a row, or Σ s·e^s, with s = (logit − top)·inverse_temperature.
// A binary32 sum over at most 64 vectors, then double: 1e-6 of relative error.
template <bool kMoment>
double sum_of(const float* logits, int64_t n, float top, float inverse_temperature) {
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += 64 * kLanes) {
    const int64_t end = min64(n, begin + 64 * kLanes);
    VF part = splat(0);
    for (int64_t i = begin; i < end; i += kLanes) {
      const int64_t live = min64(kLanes, end - i);
      const VF v = live == kLanes ? load(logits + i) : load_n(logits + i, live);
      VF scaled = (v - splat(top)) * splat(inverse_temperature);
      // Of −∞ and of what lies so low the product is 0, not NaN.
      if constexpr (kMoment) scaled = max(scaled, splat(-100.0f));
      VF value = exp(scaled);
      if constexpr (kMoment) value *= scaled;
      if (live == kLanes) {
        part += value;
      } else {
        float lanes[kLanes];
        store(lanes, value);
        for (int64_t k = 0; k < live; ++k) sum += lanes[k];
      }
    }
    sum += sum_lanes(part);
  }
  return sum;
}

double total(const float* logits, int64_t n, float top, float inverse_temperature) {
  return sum_of<false>(logits, n, top, inverse_temperature);
}

double moment(const float* logits, int64_t n, float top, float inverse_temperature) {
  return sum_of<true>(logits, n, top, inverse_temperature);
}

int64_t collect(const float* logits, int64_t n, float floor, sampling::Candidate* out) {
  int64_t found = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    uint32_t hits = mask_ge(load(logits + i), splat(floor));
    for (; hits != 0; hits &= hits - 1) {
      const int64_t id = i + __builtin_ctz(hits);
      out[found].logit = logits[id];
      out[found++].id = static_cast<int32_t>(id);
    }
  }
  for (; i < n; ++i)
    if (logits[i] >= floor) {
      out[found].logit = logits[i];
      out[found++].id = static_cast<int32_t>(i);
    }
  return found;
}

}  // namespace

void sample(const LaunchArgs& args, Member& member) {
  static constexpr sampling::Passes kPasses = {copy_legal, largest, first, total, moment, collect};
  const OperandView& logits = args.operands[0];
  const SampleParams* params = reinterpret_cast<const SampleParams*>(args.operands[1].data);
  int32_t* sampled = reinterpret_cast<int32_t*>(args.operands[2].data);
  const int64_t vocabulary = logits.cols;
  const sampling::RowBuffers buffers = sampling::row_buffers(
      args.workspace.data() + member.index() * sampling::row_bytes(vocabulary), vocabulary);
  const auto part = member.share(logits.rows);
  for (int64_t l = part.first; l < part.second; ++l)
    sampled[l] = sampling::sample_row(logits.f32(l), vocabulary, params[l], buffers, kPasses);
}
