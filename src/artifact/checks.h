// The steps of §13.1 one by one, for callers that need work of their own between them.
#pragma once

#include <string>
#include <string_view>

#include "artifact/directory.h"

namespace flare::artifact {

// Steps 2 and 3: grammar, member sets, types, enums, then check_schema. kDirectory.
Directory decode_directory(std::string_view text, const std::string& file);
// What step 3 demands beyond types: nonempty lists and IDs, dimensions, unique names. kDirectory.
void check_schema(const Directory& directory, const std::string& file);
// Step 4 without the length of the entry: names (kDirectory), positive lengths, their sum (kRange).
void check_files(const Directory& directory, const std::string& file,
                 const std::string& entry_name);
// Step 5: unique IDs, shapes (kDirectory), ascending disjoint ranges in the payload (kRange).
void check_objects(const Directory& directory, const std::string& file);
// Step 6: every name refers to something of the right kind, part ranges. kReference.
void check_references(const Directory& directory, const std::string& file);

}  // namespace flare::artifact
