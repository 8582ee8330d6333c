// The body of gather_rows, included once per level.

void gather_rows(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const int32_t* rows = args.operands[1].i32();
  const OperandView& y = args.operands[2];
  const auto part = member.share(y.rows);
  for (int64_t l = part.first; l < part.second; ++l)
    __builtin_memcpy(y.f32_out(l), x.f32(rows[l]), static_cast<size_t>(y.cols) * 4);
}
