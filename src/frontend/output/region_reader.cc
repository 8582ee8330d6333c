// Chooses the reader of a region by the format's description.
#include "frontend/output/region_reader.h"

#include <type_traits>

namespace flare::frontend::output {

RegionReader::RegionReader(const Spelling& spelling, bool bare, CallWriter* writer)
    : spelling_(spelling), writer_(writer) {
  if (!spelling.array) choose(bare);
}

RegionReader::RegionReader(const Spelling& spelling, std::string_view name, CallWriter* writer)
    : spelling_(spelling), writer_(writer) {
  auto reader = std::make_unique<HeadedReader>(spelling, writer);
  reader->set_name(name);
  reader_ = std::move(reader);
}

void RegionReader::choose(bool bare) {
  using Shape = JsonCallReader::Shape;
  switch (spelling_.body) {
    case Body::kNone:
    case Body::kJson:
    case Body::kParameters:
      reader_ = std::make_unique<HeadedReader>(spelling_, writer_);
      break;
    case Body::kJsonCall:
      reader_ = std::make_unique<JsonCallReader>(spelling_, bare ? Shape::kBare : Shape::kTagged,
                                                 writer_);
      break;
    case Body::kElements:
      reader_ = std::make_unique<ElementsReader>(spelling_, writer_);
      break;
    case Body::kLiteral:
      reader_ = std::make_unique<LiteralReader>(spelling_, writer_);
      break;
  }
}

Taken RegionReader::push(char byte) {
  if (std::holds_alternative<std::monostate>(reader_)) {
    if (is_space(byte)) return {};
    if (byte == '[') {
      reader_ = std::make_unique<JsonCallReader>(spelling_, JsonCallReader::Shape::kArray, writer_);
      return {};
    }
    choose(false);
  }
  return std::visit(
      [byte](auto& reader) -> Taken {
        if constexpr (std::is_same_v<decltype(reader), std::monostate&>)
          return {.taken = false, .over = true};
        else
          return reader->push(byte);
      },
      reader_);
}

void RegionReader::finish(OutputEnd end, std::string* left_over) {
  std::visit(
      [&](auto& reader) {
        if constexpr (!std::is_same_v<decltype(reader), std::monostate&>)
          reader->finish(end, left_over);
      },
      reader_);
}

bool RegionReader::after_call() const {
  return std::visit(
      [](const auto& reader) {
        if constexpr (std::is_same_v<decltype(reader), const std::monostate&>)
          return false;
        else
          return reader->after_call();
      },
      reader_);
}

bool RegionReader::in_call() const { return writer_->open(); }

bool RegionReader::sound() const {
  return std::visit(
      [](const auto& reader) {
        if constexpr (std::is_same_v<decltype(reader), const std::monostate&>)
          return true;
        else
          return reader->sound();
      },
      reader_);
}

}  // namespace flare::frontend::output
