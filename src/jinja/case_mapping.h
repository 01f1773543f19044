// upper, lower, title, capitalize and swapcase for all of Unicode, as Python does them: with the mappings of
// one character to several (ß becomes SS), without those of single languages.
#pragma once

#include "jinja/runtime.h"

namespace switchyard::jinja {

enum class CaseMapping {
  kUpper,
  kLower,
  kCapitalize,
  kTitle,        // str.title(): a word begins behind each character that has no case
  kTitleFilter,  // Jinja2's filter: a word begins behind white space, '-' and opening brackets
  kSwap,
};

Text map_case(Runtime& runtime, const Text& text, CaseMapping mapping);

// A string in lower case, other values as they are: the key of Jinja2's case-insensitive comparisons.
Value fold_case(Runtime& runtime, const Value& value);

}  // namespace switchyard::jinja
