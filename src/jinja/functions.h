// The global functions: range, dict, namespace, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "jinja/arguments.h"

namespace switchyard::jinja {

bool is_function(std::string_view name);

// Globals of Jinja2 that are refused when used: lipsum, cycler, joiner.
bool is_refused_function(std::string_view name);

Value call_function(Runtime& runtime, std::string_view name, const Arguments& arguments);

}  // namespace switchyard::jinja
