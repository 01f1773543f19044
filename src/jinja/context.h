// The variables a template is rendered with.
#pragma once

#include "jinja/runtime.h"

namespace switchyard::jinja {

// The context as a dict whose strings are marked as input, but for those under the trusted keys. Throws Error
// when it is not an object, nested too deep, or holds invalid UTF-8 or an integer beyond int64.
Value context_from_json(Runtime& runtime, const OrderedJson& context);

}  // namespace switchyard::jinja
