// JPEG by libjpeg-turbo with its default (slow, exact) transform and smooth upsampling.
#include <setjmp.h>

// The library's headers need this order.
// clang-format off
#include <stddef.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>

#include "frontend/media/decoders.h"

namespace flare::media {
namespace {

// More scans than any encoder writes (ten are usual). Each one costs a pass over the whole picture
// even if it holds nothing, so large pictures may have fewer: about 10^9 pixels in all.
constexpr int kMaxScans = 100, kMaxScansOfLargest = 20;
constexpr uint64_t kScannedPixels = 1'000'000'000;
// For tables, one row of blocks and the state of the decoder, besides the coefficients.
constexpr long kDecoderBytes = 64L << 20;

// What the library's callbacks and the frames of setjmp share. The library's structures come first:
// callbacks find the rest behind them.
struct JpegState {
  jpeg_decompress_struct decoder = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  jmp_buf jump = {};
  char message[JMSG_LENGTH_MAX] = "";
  int error = 0;
  bool is_cut = false;
  int max_scans = kMaxScans;
  bool has_many_scans = false;
  uint32_t width = 0;
  uint32_t height = 0;
  Image* image = nullptr;
  uint8_t* row = nullptr;  // four bytes a pixel, for CMYK

  JpegState() = default;
  ~JpegState() { jpeg_destroy_decompress(&decoder); }
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;
};

JpegState& state_of(j_common_ptr common) { return *static_cast<JpegState*>(common->client_data); }

[[noreturn]] void on_error(j_common_ptr common) {
  JpegState& state = state_of(common);
  state.error = common->err->msg_code;
  common->err->format_message(common, state.message);
  longjmp(state.jump, 1);
}

// Warnings that mean wrong pixels are errors; stray bytes and odd version numbers are not.
void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  switch (common->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      on_error(common);
    default:
      return;
  }
}

void on_progress(j_common_ptr common) {
  JpegState& state = state_of(common);
  if (state.decoder.input_scan_number <= state.max_scans) return;
  state.has_many_scans = true;
  longjmp(state.jump, 1);
}

void on_source(j_decompress_ptr) {}

// The whole file lies in memory, so to ask for more is to have met its end.
boolean on_fill(j_decompress_ptr decoder) {
  JpegState& state = state_of(reinterpret_cast<j_common_ptr>(decoder));
  state.is_cut = true;
  longjmp(state.jump, 1);
}

void on_skip(j_decompress_ptr decoder, long n_bytes) {
  if (n_bytes <= 0) return;
  if (static_cast<size_t>(n_bytes) > decoder->src->bytes_in_buffer) on_fill(decoder);
  decoder->src->next_input_byte += n_bytes;
  decoder->src->bytes_in_buffer -= static_cast<size_t>(n_bytes);
}

bool is_cmyk(const jpeg_decompress_struct& decoder) { return decoder.out_color_space == JCS_CMYK; }

// False on an error of the library. No object with a destructor may live in this frame or in
// read_pixels: errors jump out of them.
bool read_header(JpegState& state, Bytes file) {
  jpeg_decompress_struct& decoder = state.decoder;
  decoder.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = on_error;
  state.errors.emit_message = on_message;
  decoder.client_data = &state;
  if (setjmp(state.jump) != 0) return false;
  jpeg_create_decompress(&decoder);
  decoder.client_data = &state;
  state.source = {reinterpret_cast<const JOCTET*>(file.data()),
                  file.size(),
                  on_source,
                  on_fill,
                  on_skip,
                  jpeg_resync_to_restart,
                  on_source};
  decoder.src = &state.source;
  state.progress.progress_monitor = on_progress;
  decoder.progress = &state.progress;
  jpeg_read_header(&decoder, TRUE);
  const bool has_black =
      decoder.jpeg_color_space == JCS_CMYK || decoder.jpeg_color_space == JCS_YCCK;
  decoder.out_color_space = has_black ? JCS_CMYK : JCS_RGB;
  // Progressive files keep two bytes for each coefficient, of sides rounded up to whole blocks.
  const size_t padded = (size_t{state.width} + 64) * (size_t{state.height} + 64);
  decoder.mem->max_memory_to_use =
      static_cast<long>(padded) * 2 * decoder.num_components + kDecoderBytes;
  return true;
}

// Adobe stores 255 − C, so R = (255−C)·(255−K)/255 is a product of what is stored.
void rgb_of_cmyk(const uint8_t* from, size_t n_pixels, uint8_t* to) {
  for (size_t i = 0; i < n_pixels; ++i, from += 4, to += 3)
    for (int c = 0; c < 3; ++c)
      to[c] = static_cast<uint8_t>(divided_by_255(uint32_t{from[c]} * from[3]));
}

bool read_pixels(JpegState& state) {
  jpeg_decompress_struct& decoder = state.decoder;
  if (setjmp(state.jump) != 0) return false;
  jpeg_start_decompress(&decoder);
  const bool has_black = is_cmyk(decoder);
  while (decoder.output_scanline < decoder.output_height) {
    uint8_t* const to = state.image->rgb.data() + size_t{decoder.output_scanline} * state.width * 3;
    JSAMPROW row = has_black ? state.row : to;
    jpeg_read_scanlines(&decoder, &row, 1);
    if (has_black) rgb_of_cmyk(state.row, state.width, to);
  }
  jpeg_finish_decompress(&decoder);
  return true;
}

[[noreturn]] void refuse(const JpegState& state) {
  if (state.is_cut) throw ImageError(Fault::kInvalid, "JPEG: cut off, expected a whole file");
  if (state.has_many_scans)
    throw ImageError(Fault::kInvalid, "JPEG: more than {} scans, expected at most that many",
                     state.max_scans);
  switch (state.error) {
    case JERR_OUT_OF_MEMORY:
      throw Error(Code::kDoesNotFit, "JPEG: no memory for a picture of {} × {}", state.width,
                  state.height);
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
      throw ImageError(Fault::kUnsupported,
                       "image: JPEG of an unusual kind ({}), expected one of 8 bits, baseline or "
                       "progressive",
                       quote(state.message));
    default:
      throw ImageError(Fault::kInvalid, "JPEG: damaged: {}", quote(state.message));
  }
}

}  // namespace

Image decode_jpeg(Bytes file, uint32_t width, uint32_t height) {
  JpegState state;
  state.width = width;
  state.height = height;
  state.max_scans = static_cast<int>(std::clamp<uint64_t>(
      kScannedPixels / (uint64_t{width} * height), kMaxScansOfLargest, kMaxScans));
  if (!read_header(state, file)) refuse(state);
  if (state.decoder.image_width != width || state.decoder.image_height != height)
    throw ImageError(Fault::kInvalid, "JPEG: its headers contradict each other");
  Image image{width, height, std::vector<uint8_t>(size_t{width} * height * 3)};
  std::vector<uint8_t> row(is_cmyk(state.decoder) ? size_t{width} * 4 : 0);
  state.image = &image;
  state.row = row.data();
  if (!read_pixels(state)) refuse(state);
  return image;
}

}  // namespace flare::media
