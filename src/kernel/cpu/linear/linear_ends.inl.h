// What stands before and behind the product of linear, in vectors of its own: FLARE_LANES of them.

// Each body uses the words of those before it.
// clang-format off
namespace ends {
#include "kernel/cpu/vec.inl.h"
#include "kernel/cpu/norm.inl.h"
#include "kernel/cpu/linear/linear_prologue.inl.h"
#include "kernel/cpu/linear/linear_epilogue.inl.h"
}  // namespace ends
// clang-format on
