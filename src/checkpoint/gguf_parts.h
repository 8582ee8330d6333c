// A GGUF model split over several files: which they are, and that they belong together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/gguf.h"

namespace flare::checkpoint {

// The files of the model that `path` is a part of, in the order of their numbers: NAME.gguf alone,
// or all of NAME-00001-of-0000N.gguf, whichever of them `path` is. The first holds the metadata.
// Errors: those of GgufFile::open; kFileset where a part is missing, has another number or count
// than its name says, or where the parts do not hold as many tensors as they say; kDirectory for a
// tensor in two of them.
std::vector<GgufFile> open_gguf_parts(const std::filesystem::path& path);

// NAME of a part's file name NAME-00001-of-0000N.gguf; the name without its extension of any other.
std::string gguf_model_name(const std::filesystem::path& path);

}  // namespace flare::checkpoint
