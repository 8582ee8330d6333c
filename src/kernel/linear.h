// Op linear: y = x·Wᵀ + b over a weight in row segments of any format, with what stands directly
// before and behind it in the same launch.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// What is done to x before the product.
enum class LinearInput : int64_t {
  kPlain,
  kRmsNorm,    // x̂ = RMSNorm(x)·w over all K columns (rms_norm.h)
  kGateMul,    // x̂ = x ⊙ σ(g) (gate_mul.h)
  kGatedNorm,  // x̂ = RMSNorm per head of width cols(w), times SiLU(g) (gated_norm.h)
};
// What is done to the product before it is stored.
enum class LinearOutput : int64_t {
  kPlain,   // y = product (+ residual)
  kSwiglu,  // N = 2M: y[m] = silu(product[m])·product[M + m]; no residual
  kGeglu,   // the same with gelu_tanh (geglu.h)
};
constexpr bool takes_halves(LinearOutput output) {
  return output == LinearOutput::kSwiglu || output == LinearOutput::kGeglu;
}

// product[t,n] = Σ_k x̂[t,k]·W[n,k] (+ b[n]);  y as above.
// Operands: 0 x f32 [T,K]; 1 W weight [N,K]; 2 b const [1,N] or absent; 3 y f32 [T,N] (of halves:
// [T,M]), may not alias x or g; 4 w const [1,K] or [1,head width], absent unless a norm; 5 g f32
// [T,K], absent unless gated; 6 residual f32 [T,N] or absent, may be y itself.
// Immediates: 0 policy (integer, graph::Policy); 1 LinearInput; 2 LinearOutput; 3 eps (real, of a
// norm); 4 offset (integer 0 or 1: the weight of kRmsNorm is 1 + w; else 0).
// Policies. kExact: W decoded exactly, products and sums in binary32 or better. kA16Only: x̂ may be
// rounded to bf16, nothing below. kAllowA8: x̂ may be quantised to int8 with one scale per weight
// group of a row. Norms, gates and the steps behind the product are binary32 in every policy.
// Accumulation is binary32 over groups along K in ascending order (int32 inside a group), so a
// row's bits are the same whatever rows stand beside it within one row class. T >= 0. x, W and y
// hold finite values.
void linear_ref(const LaunchArgs& args);

inline constexpr uint32_t kLinearOperands = 7;
inline constexpr uint32_t kLinearImmediates = 5;

}  // namespace flare::kernel
