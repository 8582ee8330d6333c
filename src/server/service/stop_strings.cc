// The search over what is held back and what is new.
#include "server/service/stop_strings.h"

#include <algorithm>
#include <utility>

namespace flare::server {

StopStrings::StopStrings(std::vector<std::string> stop) : stop_(std::move(stop)) {}

std::string StopStrings::push(std::string_view text) {
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& s : stop_)
    if (const size_t at = held_.find(s); at < first) {
      first = at;
      matched_ = s;
    }
  if (first != std::string::npos) {
    held_.resize(first);
    return take_held();
  }
  size_t keep = 0;  // longest suffix of held_ that begins some stop string
  for (const std::string& s : stop_)
    for (size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n)
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) {
        keep = n;
        break;
      }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::take_held() { return std::exchange(held_, {}); }

}  // namespace flare::server
