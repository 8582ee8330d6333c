// Runs of template and caller text: kept minimal while text is appended and cut.
#include "frontend/marked_text.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace flare::frontend {

namespace {

// The run that holds byte `at`.
size_t run_index(const std::vector<MarkedText::Run>& runs, size_t at) {
  return std::upper_bound(
             runs.begin(), runs.end(), at,
             [](size_t value, const MarkedText::Run& run) { return value < run.end; }) -
         runs.begin();
}

}  // namespace

void MarkedText::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  if (text.size() > std::numeric_limits<uint32_t>::max() - text_.size())
    throw Error(Code::kInvalid, "marked text: {} + {} bytes, expected less than 2^32", text_.size(),
                text.size());
  text_ += text;
  const uint32_t end = static_cast<uint32_t>(text_.size());
  if (!runs_.empty() && runs_.back().origin == origin)
    runs_.back().end = end;
  else
    runs_.push_back({end, origin});
}

void MarkedText::append(const MarkedText& other) {
  if (&other == this) return append(MarkedText(other));
  size_t begin = 0;
  for (const Run& run : other.runs_) {
    append(std::string_view(other.text_).substr(begin, run.end - begin), run.origin);
    begin = run.end;
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  FLARE_ASSERT(begin <= end && end <= text_.size());
  MarkedText out;
  for (size_t i = run_index(runs_, begin); begin < end; ++i) {
    const size_t stop = std::min<size_t>(end, runs_[i].end);
    out.append(std::string_view(text_).substr(begin, stop - begin), runs_[i].origin);
    begin = stop;
  }
  return out;
}

bool MarkedText::all_template(size_t begin, size_t end) const {
  FLARE_ASSERT(begin <= end && end <= text_.size());
  if (begin == end) return true;
  const Run& run = runs_[run_index(runs_, begin)];
  return run.origin == Origin::kTemplate && end <= run.end;
}

}  // namespace flare::frontend
