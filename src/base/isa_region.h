// Target regions: how a body is compiled for one ISA level inside an ordinary translation unit.
//
// Every header comes first, then the region, then the body in its level's namespace:
//
//   #include <immintrin.h>
//   #include "base/isa_region.h"
//   FLARE_TARGET_BEGIN(FLARE_TARGET_V3)
//   namespace flare::kernel::v3 {
//   #include "kernel/cpu/swiglu/swiglu.inl.h"
//   }
//   FLARE_TARGET_END
//
// A region holds no #include of a header and instantiates no template of the standard library:
// such functions are shared by the linker and would run on CPUs below the level.
#pragma once

// What base/cpu.h checks for each Isa, and nothing more. v2 needs no region: it is the floor.
#define FLARE_TARGET_V3 "avx2,fma,f16c,bmi,bmi2"
#define FLARE_TARGET_V4 \
  FLARE_TARGET_V3 ",avx512f,avx512cd,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#define FLARE_TARGET_VNNI FLARE_TARGET_V4 ",avx512vnni"
#define FLARE_TARGET_BF16 FLARE_TARGET_VNNI ",avx512bf16,avx512vbmi"
#define FLARE_TARGET_AMX FLARE_TARGET_BF16 ",amx-tile,amx-int8,amx-bf16"

#define FLARE_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
// clang wants the names as target("…") of an attribute pushed onto every function.
#define FLARE_TARGET_BEGIN(names) \
  FLARE_PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define FLARE_TARGET_END FLARE_PRAGMA(clang attribute pop)
#else
#define FLARE_TARGET_BEGIN(names) FLARE_PRAGMA(GCC push_options) FLARE_PRAGMA(GCC target(names))
#define FLARE_TARGET_END FLARE_PRAGMA(GCC pop_options)
#endif

// For functions and lambdas (behind their parameters) that are to be part of the loop around them:
// what they pass by reference then stays in registers.
#define FLARE_ALWAYS_INLINE __attribute__((always_inline))
