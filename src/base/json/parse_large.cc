// Parsing with simdjson for texts of megabytes: the same contract, thirty times the speed.
#include <simdjson.h>

#include <unordered_set>

#include "base/json/json.h"

namespace flare {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

struct Converter {
  std::string_view where;

  Json convert(element e) const {
    switch (e.type()) {
      case element_type::NULL_VALUE:
        return Json();
      case element_type::BOOL:
        return Json(bool(e));
      case element_type::INT64: {
        const int64_t v = int64_t(e);
        return v < 0 ? Json(JsonInteger{0 - static_cast<uint64_t>(v), true})
                     : Json(JsonInteger{static_cast<uint64_t>(v), false});
      }
      case element_type::UINT64:
        return Json(JsonInteger{uint64_t(e), false});
      case element_type::DOUBLE:
        return Json(double(e));
      case element_type::STRING:
        return Json(std::string_view(e));
      case element_type::ARRAY: {
        Json::Array items;
        const simdjson::dom::array array = e;
        items.reserve(array.size());
        for (element item : array) items.push_back(convert(item));
        return Json(std::move(items));
      }
      case element_type::OBJECT:
        return convert_object(e);
    }
    return Json();
  }

  Json convert_object(const simdjson::dom::object& object) const {
    Json::Object members;
    members.reserve(object.size());
    std::unordered_set<std::string_view> names;  // views into the parser's string buffer
    names.reserve(object.size());
    for (const auto& [key, value] : object) {
      if (!names.insert(key).second)
        throw Error(Code::kDirectory, "{}: member {} appears twice", where, quote(key));
      members.emplace_back(std::string(key), convert(value));
    }
    return Json(std::move(members));
  }
};

}  // namespace

Json parse_large_json(std::string_view text, std::string_view where, JsonLimits limits) {
  if (text.size() > limits.max_bytes)
    throw Error(Code::kDirectory, "{}: {} bytes of JSON, at most {} expected", where, text.size(),
                limits.max_bytes);
  if (text.starts_with("\xEF\xBB\xBF"))
    throw Error(Code::kDirectory, "{}: byte 0: byte-order mark before the JSON text", where);
  simdjson::dom::parser parser;
  const auto allocated =
      parser.allocate(text.size() + 1, static_cast<size_t>(limits.max_depth) + 1);
  element root;
  const auto error = allocated ? allocated : parser.parse(text.data(), text.size()).get(root);
  if (error)
    throw Error(Code::kDirectory, "{}: invalid JSON: {}", where, simdjson::error_message(error));
  return Converter{where}.convert(root);
}

}  // namespace flare
