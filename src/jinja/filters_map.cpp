#include "base/error.h"
#include "jinja/filter_table.h"
#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/tests.h"

namespace switchyard::jinja {
namespace {

// The name that stands first among the arguments, and the arguments behind it.
std::string take_name(Runtime& runtime, std::string_view filter, const Arguments& arguments,
                      Arguments& rest) {
  if (!arguments.positional.front().is_text()) {
    runtime.fail(fmt::format("{}: expected a name as first argument, got {}", filter,
                             arguments.positional.front().type_name()));
  }
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  return arguments.positional.front().text().bytes;
}

Value map_attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Bound bound(runtime, "map", "attribute default", 0, arguments);
  if (bound.get(0) == nullptr) runtime.fail("map: the name of a filter or attribute= is missing");
  std::vector<Value> out;
  for (const Value& item : each(runtime, input)) {
    out.push_back(item_at_path(runtime, item, bound.get(0), bound.get_unless_none(1)));
  }
  return runtime.make_sequence(SequenceKind::kIterator, std::move(out));
}

Value map_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (arguments.positional.empty()) return map_attribute(runtime, input, arguments);
  Arguments rest;
  const std::string name = take_name(runtime, "map", arguments, rest);
  std::vector<Value> out;
  for (const Value& item : each(runtime, input))
    out.push_back(apply_filter(runtime, name, item, rest));
  return runtime.make_sequence(SequenceKind::kIterator, std::move(out));
}

Value select(Runtime& runtime, std::string_view filter, const Value& input, Arguments arguments, bool keep,
             bool by_attribute) {
  Value path;
  if (by_attribute) {
    if (arguments.positional.empty()) runtime.fail(fmt::format("{}: the attribute is missing", filter));
    path = arguments.positional.front();
    arguments.positional.erase(arguments.positional.begin());
  }
  std::string test;
  Arguments rest;
  if (!arguments.positional.empty()) {
    test = take_name(runtime, filter, arguments, rest);
  } else if (!arguments.named.empty()) {
    runtime.fail(fmt::format("{}: named arguments without the name of a test", filter));
  }
  std::vector<Value> out;
  for (const Value& item : each(runtime, input)) {
    const Value looked_at = by_attribute ? item_at_path(runtime, item, &path) : item;
    const bool passes = test.empty() ? looked_at.truthy() : apply_test(runtime, test, looked_at, rest);
    if (passes == keep) out.push_back(item);
  }
  return runtime.make_sequence(SequenceKind::kIterator, std::move(out));
}

bool is_index(const std::string& part) {
  return !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

Value item_at_path(Runtime& runtime, const Value& item, const Value* path, const Value* otherwise) {
  if (path == nullptr) return item;
  const auto step = [&](const Value& from, const Value& index) {
    Value found = subscript(runtime, from, index);
    return found.is_undefined() && otherwise != nullptr ? *otherwise : found;
  };
  if (path->is_integral()) return step(item, *path);
  if (!path->is_text())
    runtime.fail(fmt::format("an attribute must be str or int, not {}", path->type_name()));
  Value found = item;
  const Text dot = Text::from_template(".");
  for (const Text& part : split(path->text(), &dot, -1)) {
    const Value index =
        is_index(part.bytes) ? Value(int64_t{std::stoi(part.bytes)}) : runtime.make_text(part);
    found = step(found, index);
  }
  return found;
}

bool is_mapping_filter(std::string_view name) {
  return name == "map" || name == "select" || name == "reject" || name == "selectattr" ||
         name == "rejectattr";
}

Value apply_mapping_filter(Runtime& runtime, std::string_view name, const Value& input,
                           const Arguments& arguments) {
  if (name == "map") return map_filter(runtime, input, arguments);
  const bool keep = name == "select" || name == "selectattr";
  return select(runtime, name, input, arguments, keep, name == "selectattr" || name == "rejectattr");
}

}  // namespace switchyard::jinja
