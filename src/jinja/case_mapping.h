// upper, lower, title and capitalize for ASCII text. Other text is refused: mapping it right needs Unicode's
// tables, and mapping only its ASCII part would be silently different from Python.
#pragma once

#include "jinja/runtime.h"

namespace switchyard::jinja {

enum class CaseMapping { kUpper, kLower, kCapitalize, kTitle, kTitleFilter, kSwap };

Text map_case(Runtime& runtime, const Text& text, CaseMapping mapping);

// A string in lower case, other values as they are: the key of Jinja2's case-insensitive comparisons.
Value fold_case(Runtime& runtime, const Value& value);

}  // namespace switchyard::jinja
