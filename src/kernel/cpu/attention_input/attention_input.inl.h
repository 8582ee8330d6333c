// The body of attention_input, included once per level: one unit is a row's key and value of one
// KV head, or its query head. A member works out a row's angles once for neighbouring heads.
#include "kernel/cpu/kv_write/record.inl.h"
#include "kernel/cpu/norm.inl.h"
#include "kernel/cpu/rope/rotate.inl.h"

struct HeadTurn {
  int64_t width, half;
  float eps, offset;
  const float* cosine;
  const float* sine;

  // out may be in. w null: no norm.
  void apply(const float* in, const float* w, float* out) const {
    if (w != nullptr) {
      rms_norm_group(in, w, width, eps, offset, out);
      in = out;
    }
    for (int64_t first = 0; first < half; first += kPairBlock)
      rotate_pairs(in + first, out + first, half, min64(kPairBlock, half - first), cosine + first,
                   sine + first);
    if (in != out)
      __builtin_memcpy(out + 2 * half, in + 2 * half, static_cast<size_t>(width - 2 * half) * 4);
  }
};

inline void write_heads(const LaunchArgs& args, int64_t t, int64_t head, const float* key) {
  const OperandView& v = args.operands[2];
  const OperandView& k_region = args.operands[3];
  const OperandView& v_region = args.operands[4];
  const int64_t v_width = v.cols / args.immediates[0].i;
  const StepInputs& step = *args.step;
  const auto [page, slot] = token_place(step, t);
  write_key(key, k_region.dtype, page + k_region.offset, step.page_tokens, head, slot,
            args.immediates[1].i);
  write_value(v.f32(t) + head * v_width, v_region.dtype, page + v_region.offset, step.page_tokens,
              head, slot, v_width);
}

void attention_input(const LaunchArgs& args, Member& member) {
  const OperandView& q = args.operands[0];
  const OperandView& k = args.operands[1];
  const float* q_norm = args.operands[5].f32();
  const float* k_norm = args.operands[6].f32();
  const OperandView& out = args.operands[9];
  const int64_t width = args.immediates[1].i;
  const int64_t query_heads = q.cols / width;
  const Rotation rotation{args.operands[7], args.operands[8], args.immediates[2].r,
                          3 * args.immediates[3].i, 3 * args.immediates[4].i};
  const attention_input::Room room = attention_input::room_of(args);
  float* cosine = reinterpret_cast<float*>(args.workspace.data()) + member.index() * room.floats;
  float* sine = cosine + room.angles;
  float* key = sine + room.angles;
  const HeadTurn turn{width,
                      rotation.frequencies.cols,
                      static_cast<float>(args.immediates[5].r),
                      static_cast<float>(args.immediates[6].i),
                      cosine,
                      sine};
  int64_t row = -1;  // whose angles are at hand
  const auto take_angles = [&](int64_t t) {
    if (t == row) return;
    for (int64_t first = 0; first < turn.half; first += kPairBlock)
      rotation.angles(t, first, min64(kPairBlock, turn.half - first), cosine + first, sine + first);
    row = t;
  };
  // Keys and values, whose lines of a page are cold, are dealt out apart from queries: with one row
  // the last members would have them all.
  const int64_t kv_heads = args.immediates[0].i;
  const auto written = member.share(q.rows * kv_heads);
  for (int64_t unit = written.first; unit < written.second; ++unit) {
    const int64_t t = unit / kv_heads, head = unit % kv_heads;
    take_angles(t);
    turn.apply(k.f32(t) + head * width, k_norm, key);
    write_heads(args, t, head, key);
  }
  const auto turned = member.share(q.rows * query_heads);
  for (int64_t unit = turned.first; unit < turned.second; ++unit) {
    const int64_t t = unit / query_heads, head = unit % query_heads;
    take_angles(t);
    turn.apply(q.f32(t) + head * width, q_norm, out.f32_out(t) + head * width);
  }
}
