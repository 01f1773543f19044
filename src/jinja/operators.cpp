#include "jinja/operators.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "jinja/methods.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

bool comparable_kind(SequenceKind kind) {
  return kind == SequenceKind::kList || kind == SequenceKind::kTuple || kind == SequenceKind::kRange;
}

bool equal_sequences(Runtime& runtime, const Sequence& left, const Sequence& right) {
  if (!comparable_kind(left.kind) || !comparable_kind(right.kind)) {
    runtime.fail("comparing views or iterators is not supported");
  }
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i) {
    if (!equal(runtime, left.items[i], right.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.entries().size() != right.entries().size()) return false;
  for (const Dict::Entry& entry : left.entries()) {
    const Value* other = right.find(entry.first);
    if (other == nullptr || !equal(runtime, entry.second, *other)) return false;
  }
  return true;
}

[[noreturn]] void fail_order(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_undefined()) runtime.fail(left.undefined_reason());
  if (right.is_undefined()) runtime.fail(right.undefined_reason());
  runtime.fail(fmt::format("a {} and a {} have no order", left.type_name(), right.type_name()));
}

int order(Runtime& runtime, const Value& left, const Value& right);

int order_sequences(Runtime& runtime, const Sequence& left, const Sequence& right) {
  const size_t common = std::min(left.items.size(), right.items.size());
  for (size_t i = 0; i < common; ++i) {
    if (!equal(runtime, left.items[i], right.items[i])) return order(runtime, left.items[i], right.items[i]);
  }
  return left.items.size() < right.items.size() ? -1 : left.items.size() > right.items.size() ? 1 : 0;
}

// -1, 0, 1, or 2 where a NaN is involved.
int order(Runtime& runtime, const Value& left, const Value& right) {
  const Runtime::Frame frame(runtime);
  if (left.is_number() && right.is_number()) return compare_numbers(left, right);
  if (left.is_text() && right.is_text()) {
    // UTF-8 sorts like the code points it stands for.
    runtime.charge_bytes(std::min(left.text().size(), right.text().size()));
    const int c = left.text().bytes.compare(right.text().bytes);
    return c < 0 ? -1 : c > 0 ? 1 : 0;
  }
  if (left.is(Kind::kSequence) && right.is(Kind::kSequence) &&
      left.sequence().kind == right.sequence().kind &&
      (left.sequence().kind == SequenceKind::kList || left.sequence().kind == SequenceKind::kTuple)) {
    return order_sequences(runtime, left.sequence(), right.sequence());
  }
  fail_order(runtime, left, right);
}

// Position of an index that may count from the end; nothing outside.
std::optional<int64_t> position(int64_t index, int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return index;
}

struct SliceRange {
  int64_t start, step, count;
};

// PySlice_AdjustIndices.
SliceRange slice_range(Runtime& runtime, const Value& start, const Value& stop, const Value& step,
                       int64_t size) {
  const auto integer = [&](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    if (!v.is_integral())
      runtime.fail(fmt::format("a slice bound must be int or None, not {}", v.type_name()));
    return v.integer();
  };
  const int64_t by = std::max(integer(step, 1), -std::numeric_limits<int64_t>::max());
  if (by == 0) runtime.fail("the step of a slice is zero");
  const auto clip = [&](int64_t v) {
    if (v < 0) v += size;
    if (v < 0) return by < 0 ? int64_t{-1} : int64_t{0};
    return v >= size ? (by < 0 ? size - 1 : size) : v;
  };
  const int64_t from = start.is_none() ? (by < 0 ? size - 1 : 0) : clip(integer(start, 0));
  const int64_t to = stop.is_none() ? (by < 0 ? -1 : size) : clip(integer(stop, 0));
  int64_t count = 0;
  if (by > 0 && from < to) count = (to - from - 1) / by + 1;
  if (by < 0 && to < from) count = (from - to - 1) / -by + 1;
  return {from, by, count};
}

Value slice_text(Runtime& runtime, const Text& text, const SliceRange& range) {
  runtime.charge_bytes(text.size());
  if (range.step == 1) {
    const size_t begin = utf8::offset(text.bytes, range.start);
    const size_t end = begin + utf8::offset(std::string_view(text.bytes).substr(begin), range.count);
    return runtime.make_text(text.slice(begin, end));
  }
  runtime.charge(static_cast<int64_t>(text.size()));  // for the pieces
  const std::vector<Text> all = characters(text);
  Text out;
  for (int64_t k = 0; k < range.count; ++k)
    out.append(all[static_cast<size_t>(range.start + k * range.step)]);
  return runtime.make_text(std::move(out));
}

Value character_at(Runtime& runtime, const Text& text, int64_t index) {
  runtime.charge_bytes(text.size());
  const auto at = position(index, utf8::count(text.bytes));
  if (!at) return Value::undefined("the index is outside the string");
  const size_t begin = utf8::offset(text.bytes, *at);
  size_t end = begin;
  utf8::decode(text.bytes, end);
  return runtime.make_text(text.slice(begin, end));
}

}  // namespace

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  const Runtime::Frame frame(runtime);
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kText:
      runtime.charge_bytes(std::min(left.text().size(), right.text().size()));
      return left.text().bytes == right.text().bytes;
    case Kind::kSequence:
      return equal_sequences(runtime, left.sequence(), right.sequence());
    case Kind::kDict:
      return equal_dicts(runtime, left.dict(), right.dict());
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCallable:
      runtime.fail(fmt::format("comparing a {} is not supported", left.type_name()));
    default:
      return true;  // undefined and none
  }
}

bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEqual:
      return equal(runtime, left, right);
    case CompareOp::kNotEqual:
      return !equal(runtime, left, right);
    case CompareOp::kLess:
      return order(runtime, left, right) == -1;
    case CompareOp::kLessEqual: {
      const int o = order(runtime, left, right);
      return o == -1 || o == 0;
    }
    case CompareOp::kGreater:
      return order(runtime, left, right) == 1;
    case CompareOp::kGreaterEqual: {
      const int o = order(runtime, left, right);
      return o == 0 || o == 1;
    }
    case CompareOp::kIn:
      return contains(runtime, right, left);
    case CompareOp::kNotIn:
      break;
  }
  return !contains(runtime, right, left);
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) {
      runtime.fail(item.is_undefined() ? item.undefined_reason()
                                       : fmt::format("'in' a str needs a str, not {}", item.type_name()));
    }
    runtime.charge_bytes(container.text().size());
    return container.text().bytes.find(item.text().bytes) != std::string::npos;
  }
  if (container.is(Kind::kDict)) {
    if (!is_valid_key(item) && !item.is_undefined()) {
      runtime.fail(fmt::format("a {} as key of a dict is not supported", item.type_name()));
    }
    return !item.is_undefined() && container.dict().find(item) != nullptr;
  }
  const SequencePtr items = iterate(runtime, container);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& candidate) { return equal(runtime, candidate, item); });
}

int64_t length(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    runtime.charge_bytes(value.text().size());
    return utf8::count(value.text().bytes);
  }
  if (value.is(Kind::kDict)) return static_cast<int64_t>(value.dict().entries().size());
  if (value.is(Kind::kSequence) && value.sequence().has_length()) {
    return static_cast<int64_t>(value.sequence().items.size());
  }
  runtime.fail(fmt::format("a {} has no length", value.type_name()));
}

SequencePtr iterate(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kSequence)) {
    const Sequence& sequence = value.sequence();
    if (sequence.kind == SequenceKind::kIterator) {
      if (sequence.consumed)
        runtime.fail("an iterator (what map, select, ... return) can be walked only once");
      sequence.consumed = true;
    }
    return value.sequence_ptr();
  }
  std::vector<Value> items;
  if (value.is_text()) {
    runtime.charge(static_cast<int64_t>(value.text().size()));  // before the pieces take memory
    return runtime.make_texts(characters(value.text())).sequence_ptr();
  }
  if (value.is(Kind::kDict)) {
    for (const Dict::Entry& entry : value.dict().entries())
      items.push_back(entry.first);
  } else if (!value.is_undefined()) {
    runtime.fail(fmt::format("a {} cannot be iterated", value.type_name()));
  }
  return runtime.make_list(std::move(items)).sequence_ptr();
}

Value subscript(Runtime& runtime, const Value& object, const Value& index) {
  if (object.is_undefined()) runtime.fail(object.undefined_reason());
  if (object.is(Kind::kDict) && is_valid_key(index)) {
    if (const Value* found = object.dict().find(index)) return *found;
  }
  if (index.is_integral() && object.is_text()) return character_at(runtime, object.text(), index.integer());
  if (index.is_integral() && object.is(Kind::kSequence) && object.sequence().has_index()) {
    const std::vector<Value>& items = object.sequence().items;
    const auto at = position(index.integer(), static_cast<int64_t>(items.size()));
    if (at) return items[static_cast<size_t>(*at)];
    return Value::undefined(fmt::format("the {} has no item {}", object.type_name(), index.integer()));
  }
  if (index.is_text()) return attribute(runtime, object, index.text().bytes);
  return Value::undefined(fmt::format("the {} has no such item", object.type_name()));
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) runtime.fail(object.undefined_reason());
  if (object.is_text()) {
    return slice_text(runtime, object.text(),
                      slice_range(runtime, start, stop, step, length(runtime, object)));
  }
  if (!object.is(Kind::kSequence) || !object.sequence().has_index()) {
    runtime.fail(fmt::format("a {} cannot be sliced", object.type_name()));
  }
  const std::vector<Value>& items = object.sequence().items;
  const SliceRange range = slice_range(runtime, start, stop, step, static_cast<int64_t>(items.size()));
  std::vector<Value> out;
  for (int64_t k = 0; k < range.count; ++k)
    out.push_back(items[static_cast<size_t>(range.start + k * range.step)]);
  return runtime.make_sequence(object.sequence().kind, std::move(out));
}

Value attribute(Runtime& runtime, const Value& object, const std::string& name) {
  if (object.is_undefined()) runtime.fail(object.undefined_reason());
  if (object.is(Kind::kLoop)) return loop_attribute(runtime, object, name);
  if (object.is(Kind::kNamespace)) {
    if (const Value* found = object.space().find(name)) return *found;
  } else if (is_method(runtime, object, name)) {
    auto method = std::make_shared<Callable>();
    method->type = Callable::Type::kMethod;
    method->name = name;
    method->receiver = object;
    return Value(CallablePtr(std::move(method)));
  } else if (object.is(Kind::kDict)) {
    if (const Value* found = object.dict().find(name)) return *found;
  }
  if (name.compare(0, 2, "__") == 0) {
    runtime.fail(fmt::format("access to '{}' of a {} is not safe", printable(name), object.type_name()));
  }
  return Value::undefined(fmt::format("a {} has no '{}'", object.type_name(), printable(name)));
}

}  // namespace switchyard::jinja
