// Comparison record by record, then of payload bytes, then of numbers.
#include "artifact/diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/checked.h"
#include "base/file.h"
#include "base/file_stamps.h"
#include "base/team.h"

namespace flare::artifact {
namespace {

constexpr uint64_t kChunkBytes = 8u << 20;
// Values of both sides that are decoded before pages are given back.
constexpr uint64_t kValuesAtOnce = 4u << 20;

std::string shape_text(const codec::Shape& shape) {
  std::string out;
  for (uint64_t n : shape) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

std::string binding_text(const Binding& binding) {
  if (binding.parts.empty()) return binding.object;
  std::string out;
  for (const Part& part : binding.parts)
    out += fmt::format("{}{}[{},{})", out.empty() ? "" : " + ", part.object, part.begin, part.end);
  return out;
}

std::vector<Part> parts_of(const Binding& binding, const Directory& directory) {
  if (!binding.parts.empty()) return binding.parts;
  return {{binding.object, 0, codec::element_count(directory.find_object(binding.object)->shape)}};
}

class Comparison {
 public:
  Comparison(Reader& a, Reader& b, int threads, const std::function<void(uint64_t)>& on_progress)
      : a_(a), b_(b), team_(std::max(1, threads)), on_progress_(on_progress) {}

  DiffReport run() {
    compare_components();
    compare_objects();
    compare_bindings();
    compare_uses();
    return std::move(report_);
  }

 private:
  void add(std::string kind, std::string name, std::string member, std::string a, std::string b) {
    if (a != b)
      report_.differences.push_back(
          {std::move(kind), std::move(name), std::move(member), std::move(a), std::move(b)});
  }
  void progress(uint64_t bytes) {
    if (on_progress_) on_progress_(bytes);
  }

  void compare_components() {
    const Directory &a = a_.directory(), &b = b_.directory();
    for (const auto& [id, component] : a.components) {
      const Component* other = b.find_component(id);
      if (other == nullptr) {
        add("component", id, "", "there", "");
        continue;
      }
      add("component", id, "config", component.config.to_text(), other->config.to_text());
      add("component", id, "target", component.target, other->target);
      add("component", id, "proposal", proposal_text(component), proposal_text(*other));
      compare_resources(id, component, *other);
    }
    for (const auto& [id, component] : b.components)
      if (a.find_component(id) == nullptr) add("component", id, "", "", "there");
  }

  static std::string proposal_text(const Component& component) {
    if (!component.proposal) return {};
    return component.proposal->rows
               ? fmt::format("{} {}", component.proposal->domain, *component.proposal->rows)
               : component.proposal->domain;
  }

  void compare_resources(const std::string& id, const Component& a, const Component& b) {
    const std::map<std::string, std::string> in_a(a.resources.begin(), a.resources.end());
    const std::map<std::string, std::string> in_b(b.resources.begin(), b.resources.end());
    std::set<std::string> roles;
    for (const auto* side : {&in_a, &in_b})
      for (const auto& [role, object] : *side) roles.insert(role);
    for (const std::string& role : roles) {
      const auto x = in_a.find(role), y = in_b.find(role);
      const std::string name = id + "/" + role;
      if (x == in_a.end() || y == in_b.end())
        add("resource", name, "", x == in_a.end() ? "" : x->second,
            y == in_b.end() ? "" : y->second);
      else
        compare_bytes("resource", name, a_.resource(x->second), b_.resource(y->second));
    }
  }

  // Same bytes; where not, the first place that differs is told.
  bool compare_bytes(const std::string& kind, const std::string& name, const Object& a,
                     const Object& b) {
    if (a.bytes != b.bytes) {
      add(kind, name, "bytes", std::to_string(a.bytes), std::to_string(b.bytes));
      return false;
    }
    for (uint64_t at = 0; at < a.bytes; at += chunk_a_.size()) {
      chunk_a_.resize(std::min(kChunkBytes, a.bytes - at));
      chunk_b_.resize(chunk_a_.size());
      a_.read(a.offset + at, chunk_a_);
      b_.read(b.offset + at, chunk_b_);
      const auto [x, y] = std::ranges::mismatch(chunk_a_, chunk_b_);
      if (x == chunk_a_.end()) continue;
      const auto first = at + static_cast<uint64_t>(x - chunk_a_.begin());
      add(kind, name, fmt::format("byte {}", first),
          fmt::format("{:02x}", std::to_integer<int>(*x)),
          fmt::format("{:02x}", std::to_integer<int>(*y)));
      return false;
    }
    return true;
  }

  void compare_objects() {
    for (const Object& object : a_.directory().objects) {
      if (const Object* other = b_.directory().find_object(object.id))
        compare_object(object, *other);
      else
        add("object", object.id, "", object_text(object), "");
      progress(object.bytes);
    }
    for (const Object& object : b_.directory().objects)
      if (a_.directory().find_object(object.id) == nullptr)
        add("object", object.id, "", "", object_text(object));
  }

  static std::string object_text(const Object& object) {
    if (object.kind == Object::Kind::kResource) return fmt::format("{} bytes", object.bytes);
    return fmt::format("{} {}", object.format, shape_text(object.shape));
  }

  void compare_object(const Object& a, const Object& b) {
    const size_t before = report_.differences.size();
    const auto kind_text = [](const Object& object) {
      return object.kind == Object::Kind::kTensor ? "tensor" : "resource";
    };
    add("object", a.id, "kind", kind_text(a), kind_text(b));
    add("object", a.id, "shape", shape_text(a.shape), shape_text(b.shape));
    add("object", a.id, "format", a.format, b.format);
    add("object", a.id, "layout", a.layout, b.layout);
    add("object", a.id, "encoding", a.encoding, b.encoding);
    add("object", a.id, "divisors", std::to_string(a.divisors), std::to_string(b.divisors));
    if (report_.differences.size() == before && compare_bytes("object", a.id, a, b))
      same_objects_.insert(a.id);
  }

  void compare_bindings() {
    for (const auto& [name, binding] : a_.directory().bindings) {
      const Binding* other = b_.directory().find_binding(name);
      if (other == nullptr) {
        add("binding", name, "", binding_text(binding), "");
        continue;
      }
      const std::string text = binding_text(binding);
      add("binding", name, "parts", text, binding_text(*other));
      const auto parts = parts_of(binding, a_.directory());
      const bool same_words =
          text == binding_text(*other) && std::ranges::all_of(parts, [&](const Part& part) {
            return same_objects_.contains(part.object);
          });
      if (!same_words) compare_values(name, parts, parts_of(*other, b_.directory()));
    }
    for (const auto& [name, binding] : b_.directory().bindings)
      if (a_.directory().find_binding(name) == nullptr)
        add("binding", name, "", "", binding_text(binding));
  }

  static uint64_t elements_of(const std::vector<Part>& parts) {
    uint64_t sum = 0;
    for (const Part& part : parts) sum = checked_add(sum, part.end - part.begin, "elements");
    return sum;
  }

  // Rows as one side stores them that the other can be cut into too.
  struct Pair {
    codec::Matrix a, b;
  };
  std::optional<Pair> matrices(const std::string& name, const std::vector<Part>& a,
                               const std::vector<Part>& b, uint64_t elements) {
    const auto cols_of = [](Reader& reader, const std::vector<Part>& parts) {
      return reader.tensor(parts.front().object).geometry.cols;
    };
    for (const uint64_t cols : {cols_of(a_, a), cols_of(b_, b), elements}) {
      if (cols == 0 || elements % cols != 0) continue;
      const codec::Geometry geometry{.rows = elements / cols, .cols = cols};
      try {
        return Pair{a_.matrix({.parts = a}, geometry, name),
                    b_.matrix({.parts = b}, geometry, name)};
      } catch (const Error& error) {
        if (error.code() != Code::kBinding) throw;
      }
    }
    return std::nullopt;
  }

  void compare_values(const std::string& name, const std::vector<Part>& a,
                      const std::vector<Part>& b) {
    const uint64_t elements = elements_of(a);
    if (elements != elements_of(b)) {
      add("value", name, "elements", std::to_string(elements), std::to_string(elements_of(b)));
      return;
    }
    const auto pair = matrices(name, a, b, elements);
    if (!pair) {
      add("value", name, "rows", "of another width", "not comparable");
      return;
    }
    ValueDifference found{.parameter = name, .elements = elements};
    double signal = 0, noise = 0;
    const uint64_t block = std::max<uint64_t>(1, kValuesAtOnce / pair->a.cols);
    for (uint64_t row = 0; row < pair->a.rows; row += block) {
      add_rows(*pair, row, std::min(block, pair->a.rows - row), found, signal, noise);
      for (const Part& part : a) release_mapped(a_.mapped(part.object));
      for (const Part& part : b) release_mapped(b_.mapped(part.object));
      progress(0);
    }
    if (found.different == 0) return;
    found.relative =
        signal > 0 ? std::sqrt(noise / signal) : std::numeric_limits<double>::infinity();
    report_.values.push_back(std::move(found));
  }

  // Sums row by row, so that they do not depend on the team's size.
  void add_rows(const Pair& pair, uint64_t row, uint64_t n, ValueDifference& found, double& signal,
                double& noise) {
    struct Row {
      uint64_t different = 0;
      double largest = 0, signal = 0, noise = 0;
    };
    std::vector<Row> rows(n);
    team_.for_range(static_cast<int64_t>(n), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> x(pair.a.cols), y(pair.a.cols);
      for (int64_t r = begin; r < end; ++r) {
        codec::decode_row(pair.a, row + static_cast<uint64_t>(r), x.data());
        codec::decode_row(pair.b, row + static_cast<uint64_t>(r), y.data());
        Row& sums = rows[static_cast<size_t>(r)];
        for (size_t i = 0; i < x.size(); ++i) {
          const double delta = static_cast<double>(x[i]) - static_cast<double>(y[i]);
          const bool both_nan = std::isnan(x[i]) && std::isnan(y[i]);
          if (x[i] == y[i] || both_nan) {
            sums.signal += both_nan ? 0 : static_cast<double>(x[i]) * static_cast<double>(x[i]);
            continue;
          }
          ++sums.different;
          sums.largest = std::isnan(delta) ? std::numeric_limits<double>::infinity()
                                           : std::max(sums.largest, std::fabs(delta));
          sums.noise += delta * delta;
          sums.signal += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        }
      }
    });
    for (const Row& sums : rows) {
      found.different += sums.different;
      found.largest = std::max(found.largest, sums.largest);
      signal += sums.signal;
      noise += sums.noise;
    }
  }

  void compare_uses() {
    std::map<std::string, const Use*> in_a, in_b;
    const auto name_of = [](const Use& use) { return use.parameter + " at " + use.input; };
    for (const Use& use : a_.directory().uses) in_a[name_of(use)] = &use;
    for (const Use& use : b_.directory().uses) in_b[name_of(use)] = &use;
    for (const auto& [name, use] : in_a) {
      const auto other = in_b.find(name);
      if (other == in_b.end()) {
        add("use", name, "", "there", "");
        continue;
      }
      add("use", name, "policy", use->activation_policy, other->second->activation_policy);
      add("use", name, "auxiliaries", auxiliaries_text(*use), auxiliaries_text(*other->second));
    }
    for (const auto& [name, use] : in_b)
      if (!in_a.contains(name)) add("use", name, "", "", "there");
  }

  static std::string auxiliaries_text(const Use& use) {
    std::map<std::string, std::string> sorted;
    for (const auto& [role, binding] : use.auxiliaries) sorted[role] = binding_text(binding);
    std::string out;
    for (const auto& [role, text] : sorted)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", role, text);
    return out;
  }

  Reader &a_, &b_;
  Team team_;
  const std::function<void(uint64_t)>& on_progress_;
  std::vector<std::byte> chunk_a_, chunk_b_;
  std::set<std::string> same_objects_;
  DiffReport report_;
};

}  // namespace

DiffReport diff(Reader& a, Reader& b, int threads,
                const std::function<void(uint64_t)>& on_progress) {
  const FileStamps stamps_a(a.file_paths()), stamps_b(b.file_paths());
  DiffReport report = Comparison(a, b, threads, on_progress).run();
  stamps_a.check();
  stamps_b.check();
  return report;
}

uint64_t diff_bytes(const Reader& a) {
  uint64_t sum = 0;
  for (const Object& object : a.directory().objects) sum += object.bytes;
  return sum;
}

}  // namespace flare::artifact
