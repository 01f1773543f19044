// Methods of strings, lists and dicts, and the attributes of `loop`.
#pragma once

#include <string>
#include <vector>

#include "jinja/arguments.h"

namespace switchyard::jinja {

// Whether `object` has that method. Throws where Python has the attribute but this engine does not, and where
// it would change its object, which the sandbox forbids.
bool is_method(Runtime& runtime, const Value& object, const std::string& name);

Value call_method(Runtime& runtime, const Value& object, const std::string& name, const Arguments& arguments);

Value loop_attribute(Runtime& runtime, const Value& loop, const std::string& name);

// The (key, value) tuples of a dict.
std::vector<Value> dict_items(Runtime& runtime, const Dict& dict);

// str.replace; count < 0 means all.
Value replace_checked(Runtime& runtime, const Text& text, const Text& old, const Text& by, int64_t count);

// For methods.cpp: the string part.
bool is_text_method(std::string_view name);
Value call_text_method(Runtime& runtime, const Text& self, const std::string& name,
                       const Arguments& arguments);

}  // namespace switchyard::jinja
