// What a chat template writes that no output format reads: people must hear of it, since answers of
// that kind stay text.
#pragma once

#include <string>
#include <string_view>

#include "frontend/template/traits.h"

namespace flare::frontend {

// How the template writes these where it is in no format that is known; else empty.
struct UnknownFormats {
  std::string call;      // of a probe tool
  std::string thinking;  // of a probe thought, with what stands around it
};

// The same probes as detect_traits(), whose answer has no name then.
UnknownFormats find_unknown_formats(const TemplateSource& chat, const TemplateSource& with_tools,
                                    std::string_view bos_token, std::string_view eos_token);

}  // namespace flare::frontend
