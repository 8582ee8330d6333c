// The orientation that a camera noted in its EXIF block.
#pragma once

#include "base/bytes.h"

namespace flare::media {

// Tag 0x0112 of the first directory of a TIFF block, with or without "Exif\0\0" in front.
// 1 … 8; whatever is broken or absent counts as 1.
int exif_orientation(Bytes block);

}  // namespace flare::media
