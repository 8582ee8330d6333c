// Sets of schemas become alternatives without branches, and each alternative a part per JSON type.
#include "frontend/grammar/schema.h"

#include <algorithm>
#include <array>

namespace flare::frontend::grammar {
namespace {

// Alternatives of one set, and of a whole schema.
constexpr size_t kMaxAlternatives = 4096;
constexpr size_t kMaxAlternativesInAll = 50000;
// Members of one object.
constexpr size_t kMaxNames = 20000;
// Kinds of names that patternProperties may tell apart.
constexpr size_t kMaxNameKinds = 128;
// Optional tuple members that nest before a procedure takes over.
constexpr size_t kNestedItems = 16;

// Besides the refused ones.
constexpr std::array kRelevant = {
    std::string_view("type"),
    std::string_view("enum"),
    std::string_view("const"),
    std::string_view("$ref"),
    std::string_view("allOf"),
    std::string_view("anyOf"),
    std::string_view("oneOf"),
    std::string_view("minimum"),
    std::string_view("maximum"),
    std::string_view("exclusiveMinimum"),
    std::string_view("exclusiveMaximum"),
    std::string_view("multipleOf"),
    std::string_view("minLength"),
    std::string_view("maxLength"),
    std::string_view("pattern"),
    std::string_view("format"),
    std::string_view("prefixItems"),
    std::string_view("items"),
    std::string_view("additionalItems"),
    std::string_view("minItems"),
    std::string_view("maxItems"),
    std::string_view("uniqueItems"),
    std::string_view("properties"),
    std::string_view("patternProperties"),
    std::string_view("additionalProperties"),
    std::string_view("required"),
    std::string_view("dependentRequired"),
    std::string_view("dependencies"),
    std::string_view("minProperties"),
    std::string_view("maxProperties"),
};

bool is_relevant(std::string_view key) {
  return std::find(kRelevant.begin(), kRelevant.end(), key) != kRelevant.end() ||
         std::find(kRefusedKeywords.begin(), kRefusedKeywords.end(), key) != kRefusedKeywords.end();
}

void tighten(NumberBounds& into, const NumberBounds& other) {
  if (other.least && (!into.least || *other.least > *into.least)) {
    into.least = other.least;
    into.above_least = other.above_least;
  } else if (other.least && *other.least == *into.least) {
    into.above_least |= other.above_least;
  }
  if (other.most && (!into.most || *other.most < *into.most)) {
    into.most = other.most;
    into.below_most = other.below_most;
  } else if (other.most && *other.most == *into.most) {
    into.below_most |= other.below_most;
  }
  into.multiples_of.insert(into.multiples_of.end(), other.multiples_of.begin(),
                           other.multiples_of.end());
}

}  // namespace

// What the schemas of one alternative say together.
struct SchemaCompiler::Joint {
  unsigned kinds = Kinds::kAll;
  bool has_values = false;
  std::vector<const Json*> values;
  NumberBounds bounds;
  Lang text = Languages::kEverything;
  std::vector<const Keywords*> arrays, objects;
};

SchemaCompiler::SchemaCompiler(ProgramBuilder& builder, const Json& schema, SchemaOptions options,
                               std::function<void()> check)
    : builder_(builder),
      languages_(builder.languages()),
      root_(schema),
      options_(options),
      check_(std::move(check)) {
  const Lang space = languages_.letter(' ');
  const Lang newline = languages_.concat(languages_.letter('\n'), languages_.repeat(space, 0, 16));
  white_ = languages_.either({Languages::kEmptyWord, space, newline});
}

// Every choice of branches of anyOf and oneOf. Walks them depth first along one path, which grows
// at its ends only and is cut back for the next branch: memory is that of the longest path.
class SchemaCompiler::Branching {
 public:
  explicit Branching(SchemaCompiler& compiler) : compiler_(compiler) {}

  std::vector<Set> run(const Set& set) {
    for (const Json* schema : set) todo_.push_back({schema, -1});
    if (settle()) descend(set);
    while (!levels_.empty()) {
      Level& level = levels_.back();
      cut_back(level);
      const Branch branch = branches_[static_cast<size_t>(level.branch)];
      if (level.next == branch.options->size()) {
        levels_.pop_back();
        continue;
      }
      todo_.assign(1, {&(*branch.options)[level.next++], branch.reason});
      if (settle()) descend(set);
    }
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  // A schema that applies, and the one that asked for it.
  struct Item {
    const Json* schema;
    int32_t reason;  // index into reasons_, -1: asked for from outside
  };
  struct Branch {
    const Json::Array* options;
    int32_t reason;
    int32_t next;  // the one that waits behind it, -1: none
  };
  // A place where the path divides.
  struct Level {
    size_t n_done, n_reasons, n_branches;
    int32_t waiting;  // of branches, behind this one
    int32_t branch;
    size_t next = 0;  // option
  };

  // Takes everything to do that has no choice. False if nothing can be of it.
  bool settle() {
    while (!todo_.empty()) {
      const Item item = todo_.back();
      todo_.pop_back();
      compiler_.languages_.charge(0);
      if (item.schema->is_bool()) {
        if (!item.schema->as_bool()) return false;
        continue;
      }
      if (is_circular(item)) return false;
      if (!is_done_.insert(item.schema).second) continue;
      done_.push_back(item.schema);
      const Keywords& k = compiler_.read(*item.schema);
      const auto reason = static_cast<int32_t>(reasons_.size());
      reasons_.push_back(item);
      if (k.ref) todo_.push_back({k.ref, reason});
      if (k.all_of)
        for (const Json& s : *k.all_of) todo_.push_back({&s, reason});
      for (const Json::Array* options : k.any_of) {
        branches_.push_back({options, reason, waiting_});
        waiting_ = static_cast<int32_t>(branches_.size() - 1);
      }
    }
    return true;
  }

  bool is_circular(const Item& item) const {
    for (int32_t r = item.reason; r >= 0; r = reasons_[static_cast<size_t>(r)].reason)
      if (reasons_[static_cast<size_t>(r)].schema == item.schema) return true;
    return false;
  }

  // To the next branch that waits, or to the end of an alternative.
  void descend(const Set& set) {
    compiler_.check_();
    if (waiting_ < 0) return keep(set);
    levels_.push_back({.n_done = done_.size(),
                       .n_reasons = reasons_.size(),
                       .n_branches = branches_.size(),
                       .waiting = branches_[static_cast<size_t>(waiting_)].next,
                       .branch = waiting_});
  }

  void cut_back(const Level& level) {
    for (size_t i = level.n_done; i < done_.size(); ++i) is_done_.erase(done_[i]);
    done_.resize(level.n_done);
    reasons_.resize(level.n_reasons);
    branches_.resize(level.n_branches);
    waiting_ = level.waiting;
  }

  void keep(const Set& set) {
    compiler_.languages_.charge(done_.size() * sizeof(done_[0]) + 64);
    found_.push_back(done_);
    std::sort(found_.back().begin(), found_.back().end());
    if (found_.size() <= kMaxAlternatives && ++compiler_.n_alternatives_ <= kMaxAlternativesInAll)
      return;
    const std::string where = compiler_.pointer(*set[0]);
    throw ConstraintError(kConstraintTooLarge, where,
                          "schema: {}: its branches combine to more than {} alternatives",
                          quote(where), kMaxAlternatives);
  }

  SchemaCompiler& compiler_;
  std::vector<Item> todo_;
  // The path: what applies, why, the branches met, and the latest of those that wait (-1: none).
  std::vector<const Json*> done_;
  std::unordered_set<const Json*> is_done_;
  std::vector<Item> reasons_;
  std::vector<Branch> branches_;
  int32_t waiting_ = -1;
  std::vector<Level> levels_;
  std::vector<Set> found_;
};

ProgramBuilder::Part SchemaCompiler::compile() {
  survey_root();
  const Part root = call({&root_});
  compile_procedures();
  return root;
}

ProgramBuilder::Part SchemaCompiler::compile_text(Lang within) {
  survey_root();
  std::vector<Part> others;
  std::vector<Lang> texts;
  for (const Set& alternative : Branching(*this).run({&root_}))
    compile_alternative(alternative, false, others, texts);
  compile_procedures();
  return builder_.leaf(languages_.both({languages_.either(std::move(texts)), within}));
}

void SchemaCompiler::survey_root() {
  if (!is_schema(root_))
    throw ConstraintError(kInvalidJsonSchema, "", "schema: it is {}, expected an object or boolean",
                          root_.kind_name());
  survey(root_);
}

void SchemaCompiler::compile_procedures() {
  while (!todo_.empty()) {
    const auto [set, id] = std::move(todo_.back());
    todo_.pop_back();
    check_();
    builder_.define(id, compile_set(set));
  }
  compare_branches();
}

int32_t SchemaCompiler::procedure(Set set) {
  set = simplified(std::move(set));
  const auto [it, fresh] = procedures_.try_emplace(set, -1);
  if (fresh) {
    languages_.charge(2 * set.size() * sizeof(set[0]) + 128);
    it->second = builder_.declare();
    todo_.emplace_back(std::move(set), it->second);
  }
  return it->second;
}

// Without schemas that say nothing, and through references that stand alone.
SchemaCompiler::Set SchemaCompiler::simplified(Set set) {
  Set out;
  for (const Json* schema : set) {
    bool trivial = false;
    for (int hops = 0; hops < 64; ++hops) {
      if (schema->is_bool()) {
        trivial = schema->as_bool();
        break;
      }
      const Json* ref = nullptr;
      bool others = false;
      for (const auto& [key, value] : schema->as_object()) {
        if (key == "$ref")
          ref = &value;
        else
          others |= is_relevant(key);
      }
      trivial = !ref && !others;
      if (!ref || others) break;
      schema = read(*schema).ref;
    }
    if (!trivial) out.push_back(schema);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

SchemaCompiler::Part SchemaCompiler::compile_set(const Set& set) {
  std::vector<Part> parts;
  std::vector<Lang> texts;
  for (const Set& alternative : Branching(*this).run(set))
    compile_alternative(alternative, false, parts, texts);
  // Strings of all alternatives are one leaf.
  if (!texts.empty())
    parts.push_back(builder_.leaf(languages_.either(std::move(texts)), Spelling::kJson));
  return builder_.choice(std::move(parts));
}

SchemaCompiler::Joint SchemaCompiler::join(const Set& set) {
  Joint joint;
  for (const Json* schema : set) {
    languages_.charge(0);
    const Keywords& k = read(*schema);
    joint.kinds &= k.kinds;
    tighten(joint.bounds, k.bounds);
    if (k.text >= 0) joint.text = languages_.both({joint.text, k.text});
    if (k.has_array) joint.arrays.push_back(&k);
    if (k.has_object || k.closed_by_strict) joint.objects.push_back(&k);
    if (!k.has_values) continue;
    if (joint.has_values)
      keep_common(joint.values, k);
    else
      joint.values = k.values;
    joint.has_values = true;
  }
  return joint;
}

void SchemaCompiler::compile_alternative(const Set& set, bool ignore_values, std::vector<Part>& out,
                                         std::vector<Lang>& texts) {
  Joint joint = join(set);
  if (joint.has_values && !ignore_values) {
    compile_values(joint, set, out, texts);
    return;
  }
  const auto has = [&](unsigned kind) { return (joint.kinds & kind) != 0; };
  const auto word = [&](std::string_view text) {
    out.push_back(builder_.leaf(languages_.text(text)));
  };
  if (has(Kinds::kNull)) word("null");
  if (has(Kinds::kBool)) {
    word("true");
    word("false");
  }
  if (has(Kinds::kReal))
    out.push_back(builder_.leaf(numbers(languages_, joint.bounds)));
  else if (has(Kinds::kInteger))
    out.push_back(builder_.leaf(integers(languages_, joint.bounds)));
  if (has(Kinds::kString) && languages_.live(joint.text)) texts.push_back(joint.text);
  if (has(Kinds::kArray)) out.push_back(array(joint));
  if (has(Kinds::kObject)) out.push_back(object(joint));
}

// The listed values that the other keywords allow.
void SchemaCompiler::compile_values(const Joint& joint, const Set& set, std::vector<Part>& out,
                                    std::vector<Lang>& texts) {
  std::vector<std::u32string> words;
  for (const Json* value : joint.values) {
    check_();
    const auto has = [&](unsigned kind) { return (joint.kinds & kind) != 0; };
    if (value->is_null() && has(Kinds::kNull)) {
      out.push_back(builder_.leaf(languages_.text("null")));
    } else if (value->is_bool() && has(Kinds::kBool)) {
      out.push_back(builder_.leaf(languages_.text(value->as_bool() ? "true" : "false")));
    } else if (value->is_number()) {
      const std::optional<Decimal> d = Decimal::of(*value);
      if (!d) continue;
      const bool fits = has(Kinds::kReal) || (has(Kinds::kInteger) && d->is_integer());
      if (fits && joint.bounds.hold(*d)) out.push_back(builder_.leaf(exactly(languages_, *value)));
    } else if (value->is_string() && has(Kinds::kString)) {
      std::u32string word = decode_utf8(value->as_string());
      if (languages_.matches(joint.text, word)) words.push_back(std::move(word));
    } else if ((value->is_array() && has(Kinds::kArray)) ||
               (value->is_object() && has(Kinds::kObject))) {
      Set with = set;
      with.push_back(schema_of_value(*value));
      compile_alternative(with, true, out, texts);
    }
  }
  if (!words.empty()) texts.push_back(languages_.words(std::move(words)));
}

// A schema of exactly this array or object, its members in any order.
const Json* SchemaCompiler::schema_of_value(const Json& value) {
  Json schema = Json::object();
  const auto constant = [](const Json& v) { return Json::object({{"const", v}}); };
  if (value.is_array()) {
    Json items = Json::array();
    for (const Json& item : value.as_array()) items.push_back(constant(item));
    schema.set("type", "array");
    schema.set("minItems", value.as_array().size());
    schema.set("maxItems", value.as_array().size());
    schema.set("prefixItems", std::move(items));
  } else {
    Json properties = Json::object(), required = Json::array();
    for (const auto& [name, member] : value.as_object()) {
      properties.mutable_object().emplace_back(name, constant(member));
      required.push_back(name);
    }
    schema.set("type", "object");
    schema.set("properties", std::move(properties));
    schema.set("required", std::move(required));
    schema.set("additionalProperties", false);
  }
  made_.push_back(std::move(schema));
  return &made_.back();
}

SchemaCompiler::Part SchemaCompiler::array(const Joint& joint) {
  uint32_t min = 0, max = Languages::kInfinite;
  size_t n_prefix = 0;
  for (const Keywords* k : joint.arrays) {
    min = std::max(min, k->min_items);
    max = std::min(max, k->max_items);
    n_prefix = std::max(n_prefix, k->prefix.size());
  }
  if (min > max) return builder_.nothing();
  const auto item = [&](size_t index) {
    Set schemas;
    for (const Keywords* k : joint.arrays) {
      if (index < k->prefix.size())
        schemas.push_back(k->prefix[index]);
      else if (k->items)
        schemas.push_back(k->items);
    }
    return call(std::move(schemas));
  };
  const auto leaf = [&](Lang l) { return builder_.leaf(l); };
  const Lang open = languages_.letter('['), shut = languages_.letter(']');
  const Part close = leaf(languages_.concat(white_, shut));
  const auto comma = [&] {
    return leaf(languages_.concat({white_, languages_.letter(','), white_}));
  };
  std::vector<Part> ways;
  if (min == 0) ways.push_back(leaf(languages_.concat({open, white_, shut})));
  if (max > 0) {
    const size_t n_front = std::max<size_t>(n_prefix, 1);
    const auto left = [&](uint32_t n) {
      return n == Languages::kInfinite ? n : n > n_front ? n - static_cast<uint32_t>(n_front) : 0;
    };
    Part tail = builder_.repeat(builder_.sequence({comma(), item(n_front)}), left(min), left(max));
    for (size_t i = n_front - 1; i > 0; --i) {
      const Part more = builder_.sequence({comma(), item(i), tail});
      if (i >= max)
        tail = leaf(Languages::kEmptyWord);
      else
        tail = i < min ? more : builder_.choice({leaf(Languages::kEmptyWord), more});
      if (i % kNestedItems == 0) {
        const int32_t id = builder_.declare();
        builder_.define(id, tail);
        tail = builder_.call(id);
      }
    }
    ways.push_back(
        builder_.sequence({leaf(languages_.concat(open, white_)), item(0), tail, close}));
  }
  return builder_.choice(std::move(ways));
}

// The schemas of the value of a member. `forbidden`: no value may stand there.
void SchemaCompiler::value_set(const Joint& joint, const std::string& name, Set& out,
                               bool& forbidden) {
  const std::u32string letters = decode_utf8(name);
  bool listed_anywhere = false, closed = false;
  for (const Keywords* k : joint.objects) {
    bool matched = false;
    if (const auto found = k->properties.find(name); found != k->properties.end()) {
      out.push_back(found->second);
      matched = listed_anywhere = true;
    }
    for (const auto& [pattern, schema] : k->patterns) {
      if (!languages_.matches(pattern, letters)) continue;
      out.push_back(schema);
      matched = true;
    }
    if (matched) continue;
    if (k->additional) out.push_back(k->additional);
    closed |= k->closed_by_strict;
  }
  forbidden = closed && !listed_anywhere;
}

SchemaCompiler::Part SchemaCompiler::object(const Joint& joint) {
  std::map<std::u32string, std::string> names;
  ObjectSpec spec;
  const auto name = [&](const std::string& text) { names.emplace(decode_utf8(text), text); };
  bool has_needs = false;
  for (const Keywords* k : joint.objects) {
    for (const auto& [n, schema] : k->properties) name(std::string(n));
    for (const std::string& n : k->required) name(n);
    for (const auto& [n, list] : k->needs) {
      name(n);
      for (const std::string& other : list) name(other);
      has_needs = true;
    }
    spec.min = std::max(spec.min, k->min_members);
    spec.max = std::min(spec.max, k->max_members);
  }
  std::unordered_map<std::string, size_t> index;
  for (const auto& [letters, text] : names) {
    check_();
    languages_.charge(2 * text.size() + 5 * letters.size() + 160);
    index.emplace(text, spec.names.size());
    Set schemas;
    bool forbidden = false;
    value_set(joint, text, schemas, forbidden);
    spec.names.push_back(letters);
    spec.procedures.push_back(forbidden ? -1 : procedure(std::move(schemas)));
  }
  if (names.size() > kMaxNames)
    throw ConstraintError(kConstraintTooLarge, "", "schema: an object has more than {} members",
                          kMaxNames);
  const size_t words = (names.size() + 63) / 64;
  const auto set_bit = [](ObjectSpec::Bits& bits, size_t i) {
    bits[i / 64] |= uint64_t{1} << (i % 64);
  };
  spec.required.assign(words, 0);
  for (const Keywords* k : joint.objects)
    for (const std::string& n : k->required) set_bit(spec.required, index.at(n));
  if (has_needs) {
    // Each name with all that it asks for, and what that asks for.
    std::vector<std::vector<size_t>> asks(names.size());
    for (const Keywords* k : joint.objects)
      for (const auto& [n, list] : k->needs)
        for (const std::string& other : list) asks[index.at(n)].push_back(index.at(other));
    for (size_t i = 0; i < names.size(); ++i) {
      languages_.charge(words * sizeof(uint64_t));
      ObjectSpec::Bits closed(words, 0);
      std::vector<size_t> todo = {i};
      while (!todo.empty()) {
        languages_.charge(0);
        const size_t at = todo.back();
        todo.pop_back();
        if (closed[at / 64] >> (at % 64) & 1) continue;
        set_bit(closed, at);
        todo.insert(todo.end(), asks[at].begin(), asks[at].end());
      }
      spec.needs.push_back(std::move(closed));
    }
  }
  spec.others = other_names(joint);
  return builder_.object(std::move(spec));
}

// Names that are not listed, told apart by the patterns that they match.
std::vector<ObjectSpec::Others> SchemaCompiler::other_names(const Joint& joint) {
  std::vector<Lang> patterns;
  for (const Keywords* k : joint.objects)
    for (const auto& [pattern, schema] : k->patterns)
      if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end())
        patterns.push_back(pattern);
  struct NameKind {
    Lang names;
    std::vector<Lang> matched;
  };
  std::vector<NameKind> kinds = {{Languages::kEverything, {}}};
  for (const Lang pattern : patterns) {
    std::vector<NameKind> split;
    for (NameKind& kind : kinds) {
      check_();
      const Lang in = languages_.both({kind.names, pattern});
      const Lang out = languages_.both({kind.names, languages_.except(pattern)});
      if (languages_.live(in)) {
        split.push_back({in, kind.matched});
        split.back().matched.push_back(pattern);
      }
      if (languages_.live(out)) split.push_back({out, kind.matched});
    }
    kinds = std::move(split);
    if (kinds.size() > kMaxNameKinds)
      throw ConstraintError(kConstraintTooLarge, "",
                            "schema: patternProperties overlap in more than {} ways",
                            kMaxNameKinds);
  }
  std::vector<ObjectSpec::Others> out;
  for (const NameKind& kind : kinds) {
    Set schemas;
    bool forbidden = false;
    for (const Keywords* k : joint.objects) {
      bool matched = false;
      for (const auto& [pattern, schema] : k->patterns) {
        if (std::find(kind.matched.begin(), kind.matched.end(), pattern) == kind.matched.end())
          continue;
        schemas.push_back(schema);
        matched = true;
      }
      if (matched) continue;
      if (k->additional) schemas.push_back(k->additional);
      forbidden |= k->closed_by_strict;
    }
    const bool never = std::any_of(schemas.begin(), schemas.end(),
                                   [](const Json* s) { return s->is_bool() && !s->as_bool(); });
    if (!forbidden && !never)
      out.push_back({.names = kind.names, .procedure = procedure(std::move(schemas))});
  }
  return out;
}

}  // namespace flare::frontend::grammar
