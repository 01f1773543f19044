#include "jinja/methods.h"

#include <algorithm>

#include "base/error.h"
#include "jinja/operators.h"

namespace switchyard::jinja {
namespace {

// Space-separated names, each with a space on both sides.
constexpr std::string_view kDictMethods = " items keys values get copy ";
constexpr std::string_view kDictMutators = " clear pop popitem setdefault update ";
constexpr std::string_view kDictOthers = " fromkeys ";
constexpr std::string_view kListMethods = " index count copy ";
constexpr std::string_view kListMutators = " append clear extend insert pop remove reverse sort ";
constexpr std::string_view kTupleMethods = " index count ";
constexpr std::string_view kRangeOthers = " index count start stop step ";
constexpr std::string_view kViewOthers = " isdisjoint mapping ";
constexpr std::string_view kIteratorOthers = " send throw close gi_frame gi_code gi_running gi_yieldfrom ";
constexpr std::string_view kTextOthers =
    " casefold encode expandtabs format_map isascii isdecimal isidentifier isnumeric isprintable istitle "
    "maketrans "
    "translate ";
constexpr std::string_view kIntOthers =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real "
    "to_bytes ";
constexpr std::string_view kFloatOthers = " as_integer_ratio conjugate fromhex hex imag is_integer real ";
constexpr std::string_view kFunctionOthers =
    " name arguments catch_kwargs catch_varargs caller explicit_caller ";

bool lists(std::string_view names, const std::string& name) {
  return !name.empty() && name.find(' ') == std::string::npos &&
         names.find(" " + name + " ") != std::string_view::npos;
}

struct MethodNames {
  std::string_view supported, mutators, others;
};

MethodNames method_names(const Value& object) {
  switch (object.kind()) {
    case Kind::kDict:
      return {kDictMethods, kDictMutators, kDictOthers};
    case Kind::kText:
      return {{}, {}, kTextOthers};
    case Kind::kBool:
    case Kind::kInt:
      return {{}, {}, kIntOthers};
    case Kind::kFloat:
      return {{}, {}, kFloatOthers};
    case Kind::kCallable:
      return {{}, {}, kFunctionOthers};
    case Kind::kSequence:
      break;
    default:
      return {};
  }
  switch (object.sequence().kind) {
    case SequenceKind::kList:
      return {kListMethods, kListMutators, {}};
    case SequenceKind::kTuple:
      return {kTupleMethods, {}, {}};
    case SequenceKind::kRange:
      return {{}, {}, kRangeOthers};
    case SequenceKind::kIterator:
      return {{}, {}, kIteratorOthers};
    default:
      return {{}, {}, kViewOthers};
  }
}

Value call_dict_method(Runtime& runtime, const Value& object, const std::string& name,
                       const Arguments& arguments) {
  const Dict& dict = object.dict();
  const bool is_get = name == "get";
  const Bound bound(runtime, name, is_get ? "key default" : "", is_get ? 1 : 0, arguments);
  if (is_get) {
    if (!arguments.named.empty()) runtime.fail("get takes no named arguments");
    const Value* found = is_valid_key(bound.at(0)) ? dict.find(bound.at(0)) : nullptr;
    if (found != nullptr) return *found;
    return bound.get(1) == nullptr ? Value(None{}) : bound.at(1);
  }
  if (name == "copy") return object;
  if (name == "items") return runtime.make_sequence(SequenceKind::kItemsView, dict_items(runtime, dict));
  std::vector<Value> out;
  for (const Dict::Entry& entry : dict.entries())
    out.push_back(name == "keys" ? entry.first : entry.second);
  return runtime.make_sequence(name == "keys" ? SequenceKind::kKeysView : SequenceKind::kValuesView,
                               std::move(out));
}

Value call_sequence_method(Runtime& runtime, const Value& object, const std::string& name,
                           const Arguments& arguments) {
  const bool is_copy = name == "copy";
  const Bound bound(runtime, name, is_copy ? "" : "value", is_copy ? 0 : 1, arguments);
  if (is_copy) return object;
  int64_t count = 0;
  const std::vector<Value>& items = object.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!equal(runtime, items[i], bound.at(0))) continue;
    if (name == "index") return Value(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") runtime.fail(fmt::format("index: the value is not in the {}", object.type_name()));
  return Value(count);
}

Value cycle(Runtime& runtime, const Loop& loop, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty())
    runtime.fail("loop.cycle needs plain arguments");
  return arguments.positional[static_cast<size_t>(loop.index0) % arguments.positional.size()];
}

}  // namespace

bool is_method(Runtime& runtime, const Value& object, const std::string& name) {
  const MethodNames names = method_names(object);
  if (lists(names.mutators, name)) {
    runtime.fail(
        fmt::format("method '{}' changes its {}, which templates must not", name, object.type_name()));
  }
  if (lists(names.others, name)) {
    runtime.fail(fmt::format("attribute '{}' of a {} is not supported", name, object.type_name()));
  }
  return lists(names.supported, name) || (object.is_text() && is_text_method(name));
}

Value call_method(Runtime& runtime, const Value& object, const std::string& name,
                  const Arguments& arguments) {
  if (object.is_text()) return call_text_method(runtime, object.text(), name, arguments);
  if (object.is(Kind::kDict)) return call_dict_method(runtime, object, name, arguments);
  if (object.is(Kind::kLoop)) return cycle(runtime, object.loop(), arguments);
  return call_sequence_method(runtime, object, name, arguments);
}

Value loop_attribute(Runtime& runtime, const Value& loop_value, const std::string& name) {
  const Loop& loop = loop_value.loop();
  const std::vector<Value>& items = loop.items->items;
  const auto size = static_cast<int64_t>(items.size());
  const int64_t i = loop.index0;
  if (name == "index0") return Value(i);
  if (name == "index") return Value(i + 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == size);
  if (name == "length") return Value(size);
  if (name == "revindex0") return Value(size - 1 - i);
  if (name == "revindex") return Value(size - i);
  if (name == "depth0") return Value(int64_t{0});  // counts recursive loops only, which are refused
  if (name == "depth") return Value(int64_t{1});
  if (name == "previtem") {
    return i == 0 ? Value::undefined("there is no previous item") : items[static_cast<size_t>(i - 1)];
  }
  if (name == "nextitem") {
    return i + 1 == size ? Value::undefined("there is no next item") : items[static_cast<size_t>(i + 1)];
  }
  if (name == "cycle") {
    auto method = std::make_shared<Callable>();
    method->type = Callable::Type::kMethod;
    method->name = name;
    method->receiver = loop_value;
    return Value(CallablePtr(std::move(method)));
  }
  if (name == "changed") runtime.fail("'loop.changed' is not supported");
  return Value::undefined(fmt::format("loop has no '{}'", printable(name)));
}

std::vector<Value> dict_items(Runtime& runtime, const Dict& dict) {
  std::vector<Value> items;
  for (const Dict::Entry& entry : dict.entries())
    items.push_back(runtime.make_tuple(entry.first, entry.second));
  return items;
}

}  // namespace switchyard::jinja
