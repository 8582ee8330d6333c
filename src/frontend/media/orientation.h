// Turns and mirrors a picture as EXIF says it is to be seen.
#pragma once

#include "frontend/media/media.h"

namespace flare::media {

// The upright picture of `image` as stored with this EXIF orientation (1 … 8).
Image upright(Image image, int orientation);

}  // namespace flare::media
