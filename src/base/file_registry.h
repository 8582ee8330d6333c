// What a signal handler may ask about our files: whose bytes an address belongs to, and which
// temporary files there are. Fixed tables without locks, filled from any thread.
#pragma once

#include <string>

#include "base/bytes.h"

namespace flare {

// The mapping `bytes` belongs to the file at `path`. Of more than 4096 mappings the last ones stay
// unknown, and so do longer paths than the system takes. Empty bytes are no mapping.
void note_mapping(Bytes bytes, const std::string& path);
// Before it is unmapped: nothing inside `bytes` is a mapping any more.
void forget_mappings(Bytes bytes);
// The path, fit for a one-line message, of the mapped file that holds `address`; nullptr if none
// does. Async-signal-safe.
const char* path_of_mapping_at(const void* address);

// A file that is to go if the process ends early. Of more than 256 the last ones stay unknown.
void note_temporary(const std::string& path);
void forget_temporary(const std::string& path);
// Removes all that are noted. Async-signal-safe.
void unlink_temporaries();

}  // namespace flare
