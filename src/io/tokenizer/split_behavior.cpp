#include "io/tokenizer/split_behavior.h"

#include <algorithm>

namespace switchyard {
namespace {

// Joins spans[i] to the span before it (in the order given) wherever `joins(span, previous_matched)` says so.
template <typename Joins>
void join(std::vector<PatternSpan>& spans, Joins joins) {
  std::vector<PatternSpan> out;
  bool previous_matched = false;
  for (const PatternSpan& span : spans) {
    if (!out.empty() && joins(span.matched, previous_matched)) {
      out.back().begin = std::min(out.back().begin, span.begin);
      out.back().end = std::max(out.back().end, span.end);
    } else {
      out.push_back(span);
    }
    previous_matched = span.matched;
  }
  spans = std::move(out);
}

}  // namespace

SplitBehavior parse_split_behavior(const JsonObject& owner, std::string_view key) {
  const std::string& name = owner.string(key);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  owner.place(key).refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                          printable(name));
}

void apply_behavior(SplitBehavior behavior, std::vector<PatternSpan>& spans) {
  const auto single_match = [](bool matched, bool previous_matched) { return matched && !previous_matched; };
  switch (behavior) {
    case SplitBehavior::kRemoved:
      spans.erase(
          std::remove_if(spans.begin(), spans.end(), [](const PatternSpan& span) { return span.matched; }),
          spans.end());
      return;
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kMergedWithPrevious:
      return join(spans, single_match);
    case SplitBehavior::kMergedWithNext:
      std::reverse(spans.begin(), spans.end());
      join(spans, single_match);
      std::reverse(spans.begin(), spans.end());
      return;
    case SplitBehavior::kContiguous:
      return join(spans, [](bool matched, bool previous_matched) { return matched == previous_matched; });
  }
}

}  // namespace switchyard
