// Pulls cpu_floor.cc, whose constructor checks the CPU before main, into a program.
#pragma once

namespace flare::app {

extern const int kCpuFloorLinked;

}  // namespace flare::app
