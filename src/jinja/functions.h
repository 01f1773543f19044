// The global functions: range, dict, namespace, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "jinja/arguments.h"

namespace switchyard::jinja {

bool is_function(std::string_view name);

// Names that Jinja2 defines and that are refused when used: self, lipsum, cycler, joiner.
bool is_refused_global(std::string_view name);

Value call_function(Runtime& runtime, std::string_view name, const Arguments& arguments);

}  // namespace switchyard::jinja
