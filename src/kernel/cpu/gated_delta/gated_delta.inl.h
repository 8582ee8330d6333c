// The bodies of gated_delta, gated_delta_verify and gated_delta_commit, included once per level:
// one unit is a V head of a sequence.
#include "kernel/cpu/gated_delta/chunk.inl.h"  // includes rows.inl.h
#include "kernel/cpu/gated_delta/steps.inl.h"

inline float* state_of(const LaunchArgs& args, const Shape& s, int operand, int64_t unit) {
  return reinterpret_cast<float*>(args.step->rows[unit / s.nv] + args.operands[operand].offset) +
         unit % s.nv * s.dk * s.dv;
}
inline int64_t rows_of_unit(const LaunchArgs& args, const Shape& s, int64_t unit) {
  const int32_t* begin = args.step->sequence_begin + unit / s.nv;
  return begin[1] - begin[0];
}

// This member's columns of all tails; rows(b) of sequence b are taken.
template <class Rows>
inline void move_tails(const LaunchArgs& args, Member& member, int operand, int64_t taps,
                       const Rows& rows) {
  const StepInputs& step = *args.step;
  const OperandView& u = args.operands[0];
  const auto part = member.share(u.cols, 64);
  for (int64_t b = 0; b < step.n_sequences; ++b) {
    if (rows.of(b) == 0) continue;
    float* tail = reinterpret_cast<float*>(step.rows[b] + args.operands[operand].offset);
    move_tail({u, tail, step.sequence_begin[b], taps}, tail, rows.of(b), part.first,
              part.second - part.first);
  }
}
struct StepRows {
  const StepInputs& step;
  int64_t of(int64_t b) const { return step.sequence_begin[b + 1] - step.sequence_begin[b]; }
};
struct AcceptedRows {
  const int32_t* accepted;
  int64_t of(int64_t b) const { return accepted[b]; }
};

// Units are taken one ahead: the state of the next one is on its way while this one is computed.
void gated_delta(const LaunchArgs& args, Member& member) {
  const Shape s = gated_delta_layout::shape_of(args);
  const DeltaBuffers b = delta_buffers(args, member, s);
  const int64_t units = args.step->n_sequences * s.nv;
  for (int64_t unit = member.take(), next = 0; unit < units; unit = next) {
    next = member.take();
    const int64_t rows = rows_of_unit(args, s, unit);
    if (rows == 0) continue;
    const HeadRows h = head_rows(args, s, unit / s.nv, unit % s.nv);
    float* state = state_of(args, s, 7, unit);
    if (rows >= gated_delta_layout::kChunkFrom) {
      delta_chunks(h, b, rows, state);
    } else {
      delta_steps(h, b, rows, state, /*verify=*/false,
                  next < units ? state_of(args, s, 7, next) : nullptr);
    }
  }
  member.barrier();  // every head has read the tails that it needs
  move_tails(args, member, 6, args.operands[3].rows, StepRows{*args.step});
}

void gated_delta_verify(const LaunchArgs& args, Member& member) {
  const Shape s = gated_delta_layout::shape_of(args);
  const DeltaBuffers b = delta_buffers(args, member, s);
  const int64_t units = args.step->n_sequences * s.nv;
  for (int64_t unit = member.take(), next = 0; unit < units; unit = next) {
    next = member.take();
    delta_steps(head_rows(args, s, unit / s.nv, unit % s.nv), b, rows_of_unit(args, s, unit),
                state_of(args, s, 7, unit), /*verify=*/true,
                next < units ? state_of(args, s, 7, next) : nullptr);
  }
}

void gated_delta_commit(const LaunchArgs& args, Member& member) {
  const Shape s = gated_delta_layout::shape_of(args);
  const AcceptedRows accepted = {args.operands[2].i32()};
  const int64_t units = args.step->n_sequences * s.nv;
  for (int64_t unit = member.take(); unit < units; unit = member.take()) {
    const int64_t sequence = unit / s.nv;
    if (accepted.of(sequence) > 0)
      replay_state(args, s, args.step->sequence_begin[sequence], accepted.of(sequence), unit % s.nv,
                   state_of(args, s, 4, unit));
  }
  move_tails(args, member, 3, args.immediates[4].i, accepted);
}
