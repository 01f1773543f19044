// Python's operators on values.
#pragma once

#include <utility>

#include "jinja/ast.h"
#include "jinja/runtime.h"

namespace switchyard::jinja {

Value apply_unary(Runtime& runtime, UnaryOp op, const Value& operand);
Value apply_binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);

bool equal(Runtime& runtime, const Value& left, const Value& right);
bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);

// len(); 0 for undefined.
int64_t length(Runtime& runtime, const Value& value);

// What a loop over `value` walks: characters of a string, keys of a dict, nothing for undefined. Uses an
// iterator up: it cannot be walked again.
SequencePtr iterate(Runtime& runtime, const Value& value);

// The same for a range-based for, where it keeps the items alive for the length of the loop.
class Each {
 public:
  explicit Each(SequencePtr items) : items_(std::move(items)) {}
  auto begin() const { return items_->items.begin(); }
  auto end() const { return items_->items.end(); }

 private:
  SequencePtr items_;
};
inline Each each(Runtime& runtime, const Value& value) {
  return Each(iterate(runtime, value));
}

// object[index]; undefined where there is none.
Value subscript(Runtime& runtime, const Value& object, const Value& index);

// object[start:stop:step]; the bounds are int or none.
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

// object.name as Jinja2 resolves it: methods first, then keys.
Value attribute(Runtime& runtime, const Value& object, const std::string& name);

}  // namespace switchyard::jinja
