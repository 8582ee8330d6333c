// What two artifacts say differently: components, objects, bindings, uses, values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "artifact/reader.h"

namespace flare::artifact {

struct Difference {
  std::string kind;    // "component", "resource", "object", "binding", "use" or "value"
  std::string name;    // of a component, object or parameter; of a use "parameter at input"
  std::string member;  // what of it: "format", "policy", …; empty: the whole
  std::string a, b;    // as each artifact has it; empty: not there
};

// How far the numbers of a parameter lie apart.
struct ValueDifference {
  std::string parameter;
  uint64_t elements = 0;
  uint64_t different = 0;
  double largest = 0;   // |a − b|
  double relative = 0;  // sqrt(Σ (a − b)² / Σ a²); infinite where a is zero and b is not
};

struct DiffReport {
  std::vector<Difference> differences;
  std::vector<ValueDifference> values;
  bool same() const { return differences.empty() && values.empty(); }
};

// Metadata, provenance and artifact_id describe and are not compared. Objects are compared byte for
// byte where both have one of the same name, parameters number for number where their words differ
// or lie elsewhere. Resident memory does not depend on the size of the artifacts, and the report
// not on `threads`. `on_progress(bytes)`, which may be empty, is called on the calling thread, at
// last for as many bytes as diff_bytes. Errors: those of Reader.
DiffReport diff(Reader& a, Reader& b, int threads,
                const std::function<void(uint64_t)>& on_progress);
uint64_t diff_bytes(const Reader& a);

}  // namespace flare::artifact
