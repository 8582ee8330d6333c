// What a service manager such as systemd hands to a server and hears from it, by environment and
// datagram alone.
#pragma once

#include <string_view>
#include <vector>

namespace flare::app {

// The listening sockets opened for this process (LISTEN_FDS, LISTEN_PID); the variables are gone
// afterwards, so that no child takes them for its own. Empty where there are none.
std::vector<int> take_inherited_sockets();

// Lines of "NAME=value" to NOTIFY_SOCKET; does nothing without one. A manager that does not listen
// is no failure.
void notify_manager(std::string_view state);
// RELOADING=1 with the clock's reading that it must carry.
void notify_reloading();

}  // namespace flare::app
