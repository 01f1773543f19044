#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace switchyard {
namespace {

// Length of the longest end of `text` that a stop string starts with.
size_t possible_start(const std::string& text, const std::string& stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.compare(text.size() - length, length, stop, 0, length) == 0) return length;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    SY_CHECK(!stop.empty(), "an empty stop {}", "string");
}

std::string StopMatcher::push(const std::string& text) {
  if (stopped_) return {};
  held_ += text;
  size_t begin = std::string::npos;  // of the winning stop string
  size_t end = std::string::npos;
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    keep = std::max(keep, possible_start(held_, stop));
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      begin = at;
      end = at + stop.size();
    }
  }
  if (begin != std::string::npos) {
    stopped_ = true;
    held_.resize(begin);
    return finish();
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace switchyard
