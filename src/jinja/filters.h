// Jinja2's filters. They are known by name at parse time, so that an unknown one is refused even where it is
// never reached.
#pragma once

#include <string_view>

#include "jinja/arguments.h"

namespace switchyard::jinja {

bool is_filter(std::string_view name);

// `safe` and `escape`: their result is HTML to Jinja2.
bool makes_markup(std::string_view name);

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);

}  // namespace switchyard::jinja
