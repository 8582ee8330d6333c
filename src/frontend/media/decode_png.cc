// PNG by libpng, which is shown the chunks that carry pixels and no others.
#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <cstring>

#include "frontend/media/containers.h"
#include "frontend/media/decoders.h"

namespace flare::media {
namespace {

// Profiles, texts and whatever else may unfold to megabytes never reach the library.
bool carries_pixels(std::string_view type) {
  return type == "IHDR" || type == "PLTE" || type == "tRNS" || type == "IDAT" || type == "IEND";
}

// What the library's callbacks and the frame of setjmp share.
struct PngState {
  PngChunks chunks;
  Bytes rest = as_bytes(kPngSignature);  // of the piece that is being read
  bool is_cut = false;
  char message[160] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;
  uint32_t width = 0;
  uint32_t height = 0;
  Image* image = nullptr;

  explicit PngState(Bytes file) : chunks(file) {}
  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
  PngState(const PngState&) = delete;
  PngState& operator=(const PngState&) = delete;

  // The next piece to show; false behind the last one. A critical chunk that is unknown is shown
  // too, for the library to refuse it.
  bool advance() {
    while (const auto chunk = chunks.next()) {
      const bool is_critical = (chunk->type[0] & 0x20) == 0;
      if (!carries_pixels(chunk->type) && !is_critical) continue;
      rest = chunk->whole;
      return true;
    }
    is_cut = true;
    return false;
  }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* const state = static_cast<PngState*>(png_get_error_ptr(png));
  std::strncpy(state->message, message, sizeof state->message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t n_bytes) {
  auto* const state = static_cast<PngState*>(png_get_io_ptr(png));
  while (n_bytes > 0) {
    if (state->rest.empty() && !state->advance()) png_error(png, "cut off");
    const size_t n = std::min(n_bytes, state->rest.size());
    std::memcpy(to, state->rest.data(), n);
    state->rest = state->rest.subspan(n);
    to += n;
    n_bytes -= n;
  }
}

// Makes room for the picture; apart from the setjmp frame since it may throw.
void make_room(PngState& state, uint32_t n_channels) {
  state.image->rgb.resize(size_t{state.width} * state.height * n_channels);
}

// Reads the header and asks for bytes R G B or R G B A. False on an error of the library.
// No object with a destructor may live in this frame or in read_pixels: errors jump out of them.
bool read_header(PngState& state) {
  if (setjmp(png_jmpbuf(state.png)) != 0) return false;
  png_set_read_fn(state.png, &state, on_read);
  png_set_user_limits(state.png, state.width, state.height);
  png_read_info(state.png, state.info);
  png_set_expand(state.png);    // palette, fewer than 8 bits, a transparent colour
  png_set_strip_16(state.png);  // keeps the high byte
  png_set_gray_to_rgb(state.png);
  png_set_interlace_handling(state.png);
  png_read_update_info(state.png, state.info);
  return true;
}

bool read_pixels(PngState& state, int n_passes, size_t row_bytes) {
  if (setjmp(png_jmpbuf(state.png)) != 0) return false;
  for (int pass = 0; pass < n_passes; ++pass)
    for (uint32_t y = 0; y < state.height; ++y)
      png_read_row(state.png, state.image->rgb.data() + y * row_bytes, nullptr);
  png_read_end(state.png, nullptr);
  return true;
}

[[noreturn]] void refuse(const PngState& state) {
  if (state.is_cut) throw ImageError(Fault::kInvalid, "PNG: cut off, expected a whole file");
  throw ImageError(Fault::kInvalid, "PNG: damaged: {}", quote(state.message));
}

}  // namespace

Image decode_png(Bytes file, uint32_t width, uint32_t height) {
  Image image{width, height, {}};
  PngState state(file);
  state.width = width;
  state.height = height;
  state.image = &image;
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning);
  state.info = state.png == nullptr ? nullptr : png_create_info_struct(state.png);
  if (state.info == nullptr) throw Error(Code::kDoesNotFit, "PNG: no memory for the decoder");
  if (!read_header(state)) refuse(state);
  const uint32_t n_channels = png_get_channels(state.png, state.info);
  const bool is_interlaced = png_get_interlace_type(state.png, state.info) == PNG_INTERLACE_ADAM7;
  if (png_get_image_width(state.png, state.info) != width ||
      png_get_image_height(state.png, state.info) != height ||
      png_get_bit_depth(state.png, state.info) != 8 || (n_channels != 3 && n_channels != 4))
    throw ImageError(Fault::kInvalid, "PNG: its headers contradict each other");
  make_room(state, n_channels);
  if (!read_pixels(state, is_interlaced ? 7 : 1, size_t{width} * n_channels)) refuse(state);
  if (n_channels == 4) flatten_over_white(image);
  return image;
}

}  // namespace flare::media
