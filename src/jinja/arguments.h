// Arguments of filters, tests, methods and functions, matched to parameter names.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/runtime.h"

namespace switchyard::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  bool empty() const { return positional.empty() && named.empty(); }
};

// Matches arguments to `parameters` (names separated by one space), of which the first `required` must be
// given.
class Bound {
 public:
  Bound(Runtime& runtime, std::string_view callee, std::string_view parameters, size_t required,
        const Arguments& arguments);

  // The argument, or nullptr where it was not given.
  const Value* get(size_t i) const { return slots_[i]; }
  // Same, but none counts as not given.
  const Value* get_unless_none(size_t i) const;

  const Value& at(size_t i) const { return *slots_[i]; }  // a required one
  int64_t integer(size_t i, int64_t otherwise) const;
  bool boolean(size_t i, bool otherwise) const;
  const Text& text(size_t i) const;          // a required str
  const Text* text_or_none(size_t i) const;  // nullptr for none and where not given

 private:
  [[noreturn]] void fail_type(size_t i, std::string_view expected) const;

  Runtime& runtime_;
  std::string_view callee_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> slots_;
};

}  // namespace switchyard::jinja
