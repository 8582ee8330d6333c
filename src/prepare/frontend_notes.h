// What people should know of a model's text files when it is built or loaded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "package/prepared.h"
#include "prepare/prepare.h"

namespace flare::prepare {

// One sentence for each thing that the template writes in no format that is known and of
// which no choice says what it is. Empty if there is nothing to say, or no template that can be
// parsed.
std::vector<std::string> frontend_notes(const package::FrontendBlock& block,
                                        const FrontendChoices& choices);

// The same of files by their role ("chat_template.jinja"), of which nothing need be there. What
// cannot be read is a note too.
std::vector<std::string> frontend_notes(
    const std::function<std::optional<std::string>(std::string_view role)>& resource,
    const std::string& file);

}  // namespace flare::prepare
