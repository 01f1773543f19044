// Jinja2's tests, what stands behind `is`.
#pragma once

#include <string_view>

#include "jinja/arguments.h"

namespace switchyard::jinja {

bool is_test(std::string_view name);

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);

}  // namespace switchyard::jinja
