// Values as text, exactly as Python prints them. Bytes of strings keep their provenance; everything else
// (digits, brackets, quotes, True, None, ...) counts as the template's own.
#pragma once

#include <string>

#include "jinja/runtime.h"

namespace switchyard::jinja {

// str(value); the empty string for undefined. Refuses what prints as an address or is not supported.
Text to_text(Runtime& runtime, const Value& value);

// repr(value).
Text to_repr(Runtime& runtime, const Value& value);

// repr(float): the shortest digits that give the same double back.
std::string format_float(double value);

}  // namespace switchyard::jinja
