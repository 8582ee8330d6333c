// The formats, one function a file; format.cc lists them in its table.
#pragma once

#include "codec/format.h"
#include "codec/search.h"

namespace flare::codec {

Format bf16_format();
Format fp32_format();
Format int32_format();
Format fp16_format();
Format q4_g64_format();
Format q5_g64_format();
Format q6_g64_format();
Format q8_g32_format();
Format gguf_q4_0_format();
Format gguf_q8_0_format();
Format gguf_q4_k_format();
Format gguf_q6_k_format();
Format gguf_q4_1_format();
Format gguf_q5_0_format();
Format gguf_q5_1_format();
Format gguf_q2_0_format();
Format gguf_q2_k_format();
Format gguf_q3_k_format();
Format gguf_q5_k_format();
Format gguf_iq4_nl_format();
Format gguf_iq4_xs_format();
Format q2_g64_format();
Format t2_g128_format();
Format fp8_row_bf16_format();
Format fp8_row_fp16_format();
Format nvfp4_format();
Format gguf_iq2_xxs_format();
Format gguf_iq2_xs_format();
Format gguf_iq3_xxs_format();
Format gguf_iq1_s_format();
Format gguf_iq3_s_format();
Format gguf_iq2_s_format();
Format gguf_iq1_m_format();
Format mxfp4_format();
Format mxfp8_format();
Format fp8_g32_format();
Format fp8_g128_format();
Format nvfp4_rows_format();
Format q4_g32_bf16_format();
Format q4_g64_bf16_format();
Format q4_g128_bf16_format();
Format u4z4_g32_bf16_format();
Format u4z4_g64_bf16_format();
Format u4z4_g128_bf16_format();
Format u4z4_g32_fp16_format();
Format u4z4_g64_fp16_format();
Format u4z4_g128_fp16_format();
Format i8_g32_bf16_format();
Format i8_row_fp32_format();
Format u8z8_g32_bf16_format();
Format u8z8_g32_fp16_format();

// Searches, of the formats that have one (search.cc lists them).
Search q4_g64_search();
Search q5_g64_search();
Search q6_g64_search();
Search q8_g32_search();
Search gguf_q4_k_search();
Search gguf_q5_k_search();
Search gguf_q6_k_search();

}  // namespace flare::codec
