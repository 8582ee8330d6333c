// Attention in products of bf16 words, of pages that hold such or e4m3.

inline void attend_words(const LaunchArgs& args, Member& member) {
  const graph::DType k = args.operands[1].dtype;
  const graph::DType v = args.operands[2].dtype;
  if (k == graph::DType::kBf16)
    return v == graph::DType::kBf16 ? attend<PageBf16, PageBf16>(args, member)
                                    : attend<PageBf16, PageF8>(args, member);
  return v == graph::DType::kBf16 ? attend<PageF8, PageBf16>(args, member)
                                  : attend<PageF8, PageF8>(args, member);
}
