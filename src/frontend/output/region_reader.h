// A region of calls, whichever way it is spelt.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "frontend/output/elements_reader.h"
#include "frontend/output/headed_reader.h"
#include "frontend/output/json_call_reader.h"
#include "frontend/output/literal_reader.h"

namespace flare::frontend::output {

class RegionReader {
 public:
  // Behind spelling.open; `bare`: at an object that stands without it.
  RegionReader(const Spelling& spelling, bool bare, CallWriter* writer);
  // Behind a head that was read elsewhere.
  RegionReader(const Spelling& spelling, std::string_view name, CallWriter* writer);

  Taken push(char byte);
  void finish(OutputEnd end, std::string* left_over);
  bool after_call() const;
  bool in_call() const;
  bool sound() const;

 private:
  void choose(bool bare);

  const Spelling& spelling_;
  CallWriter* writer_;
  // The first: an array or a head follows.
  std::variant<std::monostate, std::unique_ptr<JsonCallReader>, std::unique_ptr<HeadedReader>,
               std::unique_ptr<ElementsReader>, std::unique_ptr<LiteralReader>>
      reader_;
};

}  // namespace flare::frontend::output
