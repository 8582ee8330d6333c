// The values a template computes with: Python's, as far as the sandbox shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/marked_text.h"

namespace flare::frontend::jinja {

class Evaluator;
struct Macro;

// Wide enough for every integer that JSON carries; overflow is an error.
using Int = __int128;

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  // From here on the value refers to an Object.
  kUndefined,
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,  // consumed by iterating: generators, reversed lists
  kNamespace,
  kFunction,
  kLoop,
  kCycler,
  kSelf,  // self, which has the blocks
};

// Bytes that the values of one render occupy; kept by strings and containers themselves.
struct Meter {
  size_t live = 0;
};

// Base of everything that values share. Confined to the thread of one render.
struct Object {
  virtual ~Object() = default;
  uint32_t references = 0;
  // Objects that refer to each other below this one, at most; namespaces count none. It bounds
  // every recursion over values, destruction included.
  int depth = 0;
};

struct String;
struct List;
struct Dict;
struct DictView;
struct Range;
struct Iterator;
struct Namespace;
struct Function;
struct Undefined;
struct Loop;
struct Cycler;

struct Value {
  Value() = default;
  explicit Value(bool v) : kind_(Kind::kBool) { words_[0] = v; }
  explicit Value(Int v) : kind_(Kind::kInt) { __builtin_memcpy(words_, &v, sizeof v); }
  explicit Value(double v) : kind_(Kind::kFloat) { __builtin_memcpy(words_, &v, sizeof v); }
  Value(Kind kind, Object* object) : kind_(kind) {
    words_[0] = reinterpret_cast<uint64_t>(object);
    ++object->references;
  }
  Value(const Value& o) : kind_(o.kind_), words_{o.words_[0], o.words_[1]} {
    if (is_object()) ++object()->references;
  }
  Value(Value&& o) noexcept : kind_(o.kind_), words_{o.words_[0], o.words_[1]} {
    o.kind_ = Kind::kNone;
  }
  Value& operator=(Value o) noexcept {
    std::swap(kind_, o.kind_);
    std::swap(words_, o.words_);
    return *this;
  }
  ~Value() {
    if (is_object() && --object()->references == 0) delete object();
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  // Whether the kind has items, as Python's abc.Iterable; an undefined value has none, yet is one.
  bool is_iterable() const {
    return kind_ >= Kind::kUndefined && kind_ != Kind::kNamespace && kind_ != Kind::kFunction &&
           kind_ != Kind::kCycler;
  }

  bool boolean() const { return words_[0] != 0; }
  Int integer() const {  // of kInt and kBool
    if (kind_ == Kind::kBool) return words_[0] != 0;
    Int v;
    __builtin_memcpy(&v, words_, sizeof v);
    return v;
  }
  double real() const {  // of every number
    if (kind_ != Kind::kFloat) return static_cast<double>(integer());
    double v;
    __builtin_memcpy(&v, words_, sizeof v);
    return v;
  }

  inline String& string() const;
  inline List& list() const;  // kList and kTuple
  inline Dict& dict() const;
  inline DictView& dict_view() const;
  inline Range& range() const;
  inline Iterator& iterator() const;
  inline Namespace& name_space() const;
  inline Function& function() const;
  inline Undefined& undefined() const;
  inline Loop& loop() const;
  inline Cycler& cycler() const;
  // Identity of objects.
  Object* object() const { return reinterpret_cast<Object*>(words_[0]); }
  bool is_object() const { return kind_ >= Kind::kUndefined; }

 private:
  Kind kind_ = Kind::kNone;
  uint64_t words_[2] = {0, 0};
};

struct String : Object {
  MarkedText text;
  size_t length = 0;  // code points
  bool safe = false;  // escaped markup (filters safe and escape): joins escape the other side
  Meter* meter = nullptr;

  const std::string& bytes() const { return text.text(); }
  bool ascii() const { return length == text.size(); }
  ~String() override {
    if (meter) meter->live -= text.size();
  }
};

// What lists, tuples and dicts have in common.
struct Container : Object {
  // Depth and weight bound the work of a walk over a value.
  uint64_t weight = 0;  // bytes of text and a few per value, shared parts counted each time
  Meter* meter = nullptr;
  size_t metered = 0;
  ~Container() override {
    if (meter) meter->live -= metered;
  }
};

// A list or a tuple.
struct List : Container {
  std::vector<Value> items;
  bool is_group = false;  // a group of groupby, which has its parts as attributes too
};

// Ordered members; keys are hashable.
struct Dict : Container {
  std::vector<std::pair<Value, Value>> items;

  // The value under `key`, or nullptr.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);

 private:
  template <typename Equal>
  const Value* lookup(size_t hash, Equal equal) const;
  mutable std::unordered_multimap<size_t, uint32_t> index_;  // only of large dicts
};

struct DictView : Object {
  enum class Part : uint8_t { kKeys, kValues, kItems };
  Value dict;
  Part part = Part::kItems;
};

struct Range : Object {
  Int begin = 0, end = 0, step = 1;
  Int size() const {
    if (step > 0) return begin < end ? (end - begin + step - 1) / step : 0;
    return begin > end ? (begin - end - step - 1) / -step : 0;
  }
  Int at(Int index) const { return begin + index * step; }
};

struct Iterator : Object {
  std::function<bool(Value&)> next;  // false at the end
  std::string_view type = "generator";
};

struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

// Arguments of a call; methods find their object in `self`, filters and tests their operand in
// positional[0].
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

struct Function : Object {
  std::function<Value(Evaluator&, CallArguments&)> call;
  const Macro* macro = nullptr;  // of a macro or caller
  std::string repr;
  std::string_view type = "function";
};

struct Undefined : Object {
  std::string hint;        // the whole message, if not made of the next two
  std::string_view owner;  // type of the object that lacks `name`; empty: a variable
  Value name;
  std::string message() const;
};

struct SelfReference : Object {};

struct Cycler : Object {
  std::vector<Value> items;
  size_t at = 0;
};

inline String& Value::string() const { return static_cast<String&>(*object()); }
inline List& Value::list() const { return static_cast<List&>(*object()); }
inline Dict& Value::dict() const { return static_cast<Dict&>(*object()); }
inline DictView& Value::dict_view() const { return static_cast<DictView&>(*object()); }
inline Range& Value::range() const { return static_cast<Range&>(*object()); }
inline Iterator& Value::iterator() const { return static_cast<Iterator&>(*object()); }
inline Namespace& Value::name_space() const { return static_cast<Namespace&>(*object()); }
inline Function& Value::function() const { return static_cast<Function&>(*object()); }
inline Undefined& Value::undefined() const { return static_cast<Undefined&>(*object()); }
inline Cycler& Value::cycler() const { return static_cast<Cycler&>(*object()); }

// A string that counts as escaped markup.
inline bool is_safe(const Value& value) { return value.is_string() && value.string().safe; }
// The name of the Python type.
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
// Python's ==. Never fails.
bool equal(const Value& a, const Value& b);
// False for lists, dicts and namespaces with such in them.
bool hashable(const Value& value);
size_t hash(const Value& value);
int depth_of(const Value& value);
uint64_t weight_of(const Value& value);

std::string int_to_text(Int value);
std::string float_to_text(double value);  // Python's repr
// str(value): a string stays as it is.
MarkedText to_text(const Value& value);
// repr(value): quotes and brackets are the template's.
MarkedText to_repr(const Value& value);
// ascii(value): repr with escapes for all but ASCII.
MarkedText to_ascii(const Value& value);
// Appends repr of a string.
void append_repr(MarkedText& out, const MarkedText& text);

}  // namespace flare::frontend::jinja
