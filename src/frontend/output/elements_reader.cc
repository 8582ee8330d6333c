// An element is a string, a scalar, an object or an array: its schema and its first child tell.
#include "frontend/output/elements_reader.h"

#include <utility>

#include "base/json/json.h"
#include "frontend/output/headed_reader.h"

namespace flare::frontend::output {
namespace {

constexpr size_t kMaxHead = 512;
constexpr size_t kMaxDepth = 64;
constexpr size_t kTextDecidesAt = 64;  // characters of text after which an element is no container
constexpr uint8_t kContainers = kArrayType | kObjectType;
constexpr std::string_view kItem = "item";
constexpr std::string_view kMixedText = "$text";

enum Tag { kCallOpen, kClose, kCallClose };

}  // namespace

ElementsReader::ElementsReader(const Spelling& spelling, CallWriter* writer)
    : spelling_(spelling),
      writer_(writer),
      between_({spelling.call_open, spelling.close, spelling.call_close}),
      tag_open_(std::string(spelling.element_mark) + "<") {
  marks_ = Scanner({tag_open_});
}

// A tag is held until it is known to be no next call's.
Taken ElementsReader::skipped() const {
  if (state_ == State::kTag || !marks_.held().empty()) return {};
  return {.fate = passing_ ? Fate::kText : writer_->open() ? Fate::kMarkup : Fate::kHeld};
}

Taken ElementsReader::push(char byte) {
  switch (state_) {
    case State::kBetween:
      return between(byte);
    case State::kHead:
      return head(byte);
    case State::kText:
      return text(byte);
    case State::kTag:
      return tag(byte);
  }
  return {};
}

Taken ElementsReader::between(char byte) {
  if (between_.held().empty() && is_space(byte)) return {};
  const Fate known = any_call_ ? Fate::kMarkup : Fate::kText;
  const size_t held = between_.held().size();
  std::string free;
  const int tag = between_.push(byte, &free);
  if (!free.empty()) return {.taken = false, .over = true, .rewind = held};
  if (tag < 0) return {};
  if (tag != kCallOpen) return {.over = tag == kClose || !seen_, .fate = known};
  head_.clear();
  state_ = State::kHead;
  return {};
}

Taken ElementsReader::head(char byte) {
  head_ += byte;
  if (head_.size() > kMaxHead) return {.over = true, .fate = Fate::kText};
  if (!head_.ends_with(spelling_.call_open_end) || !quotes_are_closed(head_)) return {};
  std::string name;
  if (!read_attribute(head_, spelling_.name_attribute, false, &name))
    return {.over = true, .fate = Fate::kText};
  tool_ = writer_->find(name);
  passing_ = tool_ == nullptr;
  if (tool_) writer_->start(*tool_);
  open_.clear();
  open_.push_back({.shape = Element::Shape::kObject, .name = {}});
  if (tool_) open_[0].schema = &tool_->parameters;
  junk_.clear();
  state_ = State::kText;
  return skipped();
}

Taken ElementsReader::text(char byte) {
  std::string free;
  const int mark = marks_.push(byte, &free);
  element_text(free);
  if (mark == 0) {
    head_.clear();
    state_ = State::kTag;
  }
  return skipped();
}

Taken ElementsReader::tag(char byte) {
  head_ += byte;
  if (head_.size() > kMaxHead || byte == '<') {  // no tag after all
    state_ = State::kText;
    element_text(tag_open_);
    for (const char c : std::exchange(head_, {})) push(c);
    return skipped();
  }
  if (byte != '>' || !quotes_are_closed(head_)) return skipped();
  state_ = State::kText;
  head_.pop_back();
  const std::string name = std::exchange(head_, {});
  const std::string full = tag_open_ + name + ">";
  if (full.starts_with(spelling_.call_open)) {  // the next call, without a closer before
    sound_ = false;
    end_call();
    head_ = full.substr(spelling_.call_open.size());
    head_.pop_back();
    state_ = State::kHead;
    return head('>');
  }
  if (name.starts_with('/')) return end_tag(std::string_view(name).substr(1));
  Element& parent = open_.back();
  if (open_.size() >= kMaxDepth || !can_have_child(&parent, name))
    element_text(full);
  else
    open_element(name);
  return skipped();
}

// Closes the innermost element of that name; without one it is the call's or the region's closer,
// or ignored.
Taken ElementsReader::end_tag(std::string_view name) {
  for (size_t i = open_.size(); i-- > 1;)
    if (open_[i].name == name) {
      if (i + 1 != open_.size()) sound_ = false;
      close_to(i);
      return skipped();
    }
  const std::string full = tag_open_ + "/" + std::string(name) + ">";
  if (full == spelling_.call_close || full == spelling_.close) {
    Taken ended = end_call();
    ended.over = full == spelling_.close;
    if (ended.over) sound_ = false;
    return ended;
  }
  return skipped();
}

// Whether elements may stand in `parent`; decides what it is.
bool ElementsReader::can_have_child(Element* parent, std::string_view child) {
  using Shape = Element::Shape;
  if (parent->shape == Shape::kObject || parent->shape == Shape::kArray) return true;
  if (parent->shape == Shape::kValue || (parent->types & kContainers) == 0) return false;
  const uint8_t containers = parent->types & kContainers;
  const bool is_array = containers == kArrayType || (containers == kContainers && child == kItem);
  parent->shape = is_array ? Shape::kArray : Shape::kObject;
  if (!parent->skipped) send(is_array ? "[" : "{");
  return true;
}

void ElementsReader::open_element(std::string_view name) {
  Element& parent = open_.back();
  const bool in_array = parent.shape == Element::Shape::kArray;
  const std::string key = valid_utf8(name);
  const bool call_is_parent = open_.size() == 1;
  Element child{.name = std::string(name)};
  child.skipped = parent.skipped || (!in_array && !parent.keys.insert(key).second);
  if (tool_ && parent.schema)
    child.schema = in_array ? item_schema(tool_->parameters, parent.schema)
                            : member_schema(tool_->parameters, parent.schema, name);
  // An argument that is not declared stays a string; below one the elements tell.
  if (child.schema)
    child.types = schema_types(tool_->parameters, child.schema);
  else
    child.types = call_is_parent ? kStringType | kContainers : kAnyType & ~kNullType;
  if (!child.skipped) {
    std::string lead = parent.any_child ? "," : call_is_parent ? "{" : "";
    if (!in_array) lead += quote_json(key) + ":";
    send(lead);
    parent.any_child = true;
  }
  open_.push_back(std::move(child));
}

void ElementsReader::element_text(std::string_view text) {
  if (text.empty()) return;
  Element& element = open_.back();
  if (open_.size() == 1) {
    if (!passing_) junk_ += text;
    if (!is_blank(text)) sound_ = false;
    return;
  }
  std::string piece;
  switch (element.shape) {
    case Element::Shape::kArray:
      return;
    case Element::Shape::kObject:
      element.text += text;
      return;
    case Element::Shape::kOpen: {
      element.text += text;
      const bool may_have_children = (element.types & kContainers) != 0;
      element.any_text = element.any_text || !is_blank(text);
      const bool decides = (element.types & kStringType) != 0 &&
                           element.text.size() > kTextDecidesAt && element.any_text;
      if (may_have_children && !decides) return;
      element.shape = Element::Shape::kValue;
      element.value = TypedValue::of_types(element.types);
      for (const char c : std::exchange(element.text, {})) element.value.push(c, &piece);
      break;
    }
    case Element::Shape::kValue:
      for (const char c : text) element.value.push(c, &piece);
  }
  if (!element.skipped) send(piece);
}

void ElementsReader::close_element(std::string* out) {
  Element& element = open_.back();
  switch (element.shape) {
    case Element::Shape::kValue:
      element.value.close(out);
      break;
    case Element::Shape::kArray:
      *out += ']';
      break;
    case Element::Shape::kObject:
      if (!is_blank(element.text)) {
        *out += (element.any_child ? ",\"" : "\"") + std::string(kMixedText) +
                "\":" + quote_json(valid_utf8(element.text));
      }
      *out += '}';
      break;
    case Element::Shape::kOpen: {
      const uint8_t containers = element.types & kContainers;
      if (is_blank(element.text) && containers != 0 && (element.types & kStringType) == 0) {
        *out += containers == kArrayType ? "[]" : "{}";
        break;
      }
      TypedValue value = TypedValue::of_types(element.types);
      for (const char c : element.text) value.push(c, out);
      value.close(out);
    }
  }
}

void ElementsReader::close_to(size_t depth) {
  while (open_.size() > depth) {
    std::string piece;
    close_element(&piece);
    if (!open_.back().skipped) send(piece);
    open_.pop_back();
  }
}

Taken ElementsReader::end_call() {
  const Fate fate = passing_ ? Fate::kText : Fate::kMarkup;
  if (open_.size() > 1) sound_ = false;
  close_to(1);
  send(open_[0].any_child ? "}" : "{}");
  writer_->end(true);
  any_call_ = !passing_;
  seen_ = true;
  passing_ = false;
  junk_.clear();
  state_ = State::kBetween;
  return {.fate = fate};
}

void ElementsReader::send(std::string_view json) { writer_->arguments(json); }

void ElementsReader::finish(OutputEnd end, std::string* left_over) {
  if (!is_blank(junk_)) *left_over = junk_;
  if (!writer_->open()) return;
  sound_ = false;
  if (end == OutputEnd::kNatural) {
    close_to(1);
    send(open_[0].any_child ? "}" : "{}");
  } else if (Element& element = open_.back(); open_.size() > 1 && !element.skipped) {
    std::string piece;
    if (element.shape == Element::Shape::kOpen) {
      TypedValue value = TypedValue::of_types(element.types);
      for (const char c : element.text) value.push(c, &piece);
      value.cut(&piece);
    } else if (element.shape == Element::Shape::kValue) {
      element.value.cut(&piece);
    }
    send(piece);
  }
  writer_->end(end == OutputEnd::kNatural);
}

}  // namespace flare::frontend::output
