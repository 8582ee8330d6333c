// Reading post-processors into a prefix and a suffix.
#include "frontend/tokenizer/post_processor.h"

namespace flare::frontend::tokenizer {

namespace {

// The ids of special token `name`, from the processor's own table.
std::vector<int32_t> ids_of_special(const Component& component, const std::string& name) {
  const Component entry = component.object("special_tokens").object(name);
  const Json::Array& items = entry.array("ids");
  std::vector<int32_t> out;
  for (size_t i = 0; i < items.size(); ++i)
    out.push_back(static_cast<int32_t>(id_of(items[i], entry.path_of("ids", i))));
  return out;
}

// The list "pair"; where it does not name both sequences, only single texts can be processed.
std::vector<PairItem> read_pair(const Component& component) {
  std::vector<PairItem> out;
  if (component.find("pair") == nullptr) return out;
  const Json::Array& items = component.array("pair");
  for (size_t i = 0; i < items.size(); ++i) {
    const Component item(items[i], component.path_of("pair", i));
    const bool sequence = item.find("Sequence") != nullptr;
    const Component part = item.object(sequence ? "Sequence" : "SpecialToken");
    PairItem entry{PairItem::kIds, {}, 0};
    if (part.find("type_id") != nullptr)
      entry.type = static_cast<int32_t>(part.number("type_id", INT32_MAX));
    if (sequence)
      entry.kind = part.text("id") == "A" ? PairItem::kFirst : PairItem::kSecond;
    else
      entry.ids = ids_of_special(component, part.text("id"));
    out.push_back(std::move(entry));
  }
  return out;
}

PostProcessor read_template(const Component& component) {
  PostProcessor out;
  bool seen = false;
  const Json::Array& items = component.array("single");
  for (size_t i = 0; i < items.size(); ++i) {
    const Component item(items[i], component.path_of("single", i));
    if (item.find("Sequence") != nullptr) {
      const Component sequence = item.object("Sequence");
      if (seen || sequence.text("id") != "A")
        throw Error(Code::kInvalid, "{}: {} found, sequence A once expected",
                    sequence.path_of("id"), quote(sequence.text("id")));
      seen = true;
      continue;
    }
    const auto ids = ids_of_special(component, item.object("SpecialToken").text("id"));
    std::vector<int32_t>& side = seen ? out.suffix : out.prefix;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!seen) throw Error(Code::kInvalid, "{}: no sequence A found", component.path_of("single"));
  out.pair = read_pair(component);
  return out;
}

// ["[CLS]", 101]
int32_t id_of_pair(const Component& component, std::string_view name) {
  const Json::Array& pair = component.array(name);
  if (pair.size() != 2)
    throw Error(Code::kInvalid, "{}: {} items found, a token and its id expected",
                component.path_of(name), pair.size());
  return static_cast<int32_t>(id_of(pair[1], component.path_of(name, 1)));
}

}  // namespace

PostProcessor PostProcessor::from_json(const Component& component) {
  const std::string& type = component.type();
  if (type == "ByteLevel") return {};  // it moves offsets only
  if (type == "TemplateProcessing") return read_template(component);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const int32_t cls = id_of_pair(component, "cls"), sep = id_of_pair(component, "sep");
    PostProcessor out{{cls}, {sep}, {}};
    const bool bert = type == "BertProcessing";
    const int32_t second = bert ? 1 : 0;  // type of the second text
    out.pair = {{PairItem::kIds, {cls}, 0},
                {PairItem::kFirst, {}, 0},
                {PairItem::kIds, bert ? std::vector{sep} : std::vector{sep, sep}, 0},
                {PairItem::kSecond, {}, second},
                {PairItem::kIds, {sep}, second}};
    return out;
  }
  if (type == "Sequence") {
    PostProcessor out;
    const Json::Array& items = component.array("processors");
    for (size_t i = 0; i < items.size(); ++i) {
      PostProcessor step = from_json({items[i], component.path_of("processors", i)});
      // What several of them make of a pair is nobody's use; then pairs are refused.
      if (!step.plain()) {
        if (out.plain())
          out.pair = std::move(step.pair);
        else
          out.pair.clear();
      }
      out.prefix.insert(out.prefix.begin(), step.prefix.begin(), step.prefix.end());
      out.suffix.insert(out.suffix.end(), step.suffix.begin(), step.suffix.end());
    }
    return out;
  }
  component.refuse_type();
}

}  // namespace flare::frontend::tokenizer
