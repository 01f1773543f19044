// What Split and Punctuation do with the stretches that their pattern matches.
#pragma once

#include <vector>

#include "io/tokenizer/json_place.h"
#include "io/tokenizer/pattern.h"

namespace switchyard {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior parse_split_behavior(const JsonObject& owner, std::string_view key);

// Turns matches and gaps (contiguous spans) into the spans of the words. With "the-final--countdown" and '-':
//   Removed             the final countdown
//   Isolated            the - final - - countdown
//   MergedWithPrevious  the- final- - countdown
//   MergedWithNext      the -final - -countdown
//   Contiguous          the - final -- countdown
void apply_behavior(SplitBehavior behavior, std::vector<PatternSpan>& spans);

}  // namespace switchyard
