// The CPU kernel of embed: bound by memory, so that one level serves all.
#pragma once

#include "kernel/embed.h"

namespace flare::kernel::v2 {

void embed(const LaunchArgs& args, Member& member);

}  // namespace flare::kernel::v2
