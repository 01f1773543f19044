#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "jinja/case_mapping.h"
#include "jinja/filter_table.h"
#include "jinja/methods.h"
#include "jinja/operators.h"

namespace switchyard::jinja {
namespace {

Value default_filter(Runtime& runtime, const Value& input, const Bound& arguments) {
  const bool use_default = input.is_undefined() || (arguments.boolean(1, false) && !input.truthy());
  if (!use_default) return input;
  return arguments.get(0) == nullptr ? runtime.make_text("") : arguments.at(0);
}

Value length_filter(Runtime& runtime, const Value& input, const Bound&) {
  return Value(length(runtime, input));
}

Value first(Runtime& runtime, const Value& input, const Bound&) {
  const SequencePtr items = iterate(runtime, input);
  return items->items.empty() ? Value::undefined("first: the sequence is empty") : items->items.front();
}

bool is_iterator(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence().kind == SequenceKind::kIterator;
}

Value last(Runtime& runtime, const Value& input, const Bound&) {
  if (is_iterator(input)) runtime.fail("last: an iterator cannot be walked backwards");
  const SequencePtr items = iterate(runtime, input);
  return items->items.empty() ? Value::undefined("last: the sequence is empty") : items->items.back();
}

Value list(Runtime& runtime, const Value& input, const Bound&) {
  return runtime.make_list(iterate(runtime, input)->items);
}

Value reverse(Runtime& runtime, const Value& input, const Bound&) {
  if (input.is_text()) return runtime.make_text(reversed(input.text()));
  std::vector<Value> items = iterate(runtime, input)->items;
  std::reverse(items.begin(), items.end());
  return runtime.make_sequence(SequenceKind::kIterator, std::move(items));
}

Value items_filter(Runtime& runtime, const Value& input, const Bound&) {
  if (!input.is(Kind::kDict) && !input.is_undefined()) {
    runtime.fail(fmt::format("items: expected a dict, got {}", input.type_name()));
  }
  std::vector<Value> items;
  if (input.is(Kind::kDict)) items = dict_items(runtime, input.dict());
  return runtime.make_sequence(SequenceKind::kIterator, std::move(items));
}

// Stable, and reversed keeps equal items in their order, as sorted(reverse=True) does.
std::vector<Value> sort_by(Runtime& runtime, const std::vector<Value>& items, std::vector<Value> keys,
                           bool descending) {
  std::vector<size_t> places(items.size());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = descending ? places.size() - 1 - i : i;
  for (const Value& key : keys) {
    if (key.is(Kind::kFloat) && std::isnan(key.number())) runtime.fail("sort: NaN has no order");
  }
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return compare(runtime, CompareOp::kLess, keys[a], keys[b]); });
  if (descending) std::reverse(places.begin(), places.end());
  std::vector<Value> out;
  for (const size_t i : places)
    out.push_back(items[i]);
  return out;
}

std::vector<Value> keys_of(Runtime& runtime, const std::vector<Value>& items, const Value* path,
                           bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = item_at_path(runtime, item, path);
    keys.push_back(case_sensitive ? key : fold_case(runtime, key));
  }
  return keys;
}

Value sort(Runtime& runtime, const Value& input, const Bound& arguments) {
  const SequencePtr items = iterate(runtime, input);
  const Value* path = arguments.get_unless_none(2);
  if (path != nullptr && path->is_text() && path->text().bytes.find(',') != std::string::npos) {
    runtime.fail("sort: several attributes are not supported");
  }
  std::vector<Value> keys = keys_of(runtime, items->items, path, arguments.boolean(1, false));
  return runtime.make_list(sort_by(runtime, items->items, std::move(keys), arguments.boolean(0, false)));
}

Value dictsort(Runtime& runtime, const Value& input, const Bound& arguments) {
  if (!input.is(Kind::kDict))
    runtime.fail(fmt::format("dictsort: expected a dict, got {}", input.type_name()));
  const std::string by = arguments.get(1) == nullptr ? "key" : arguments.text(1).bytes;
  if (by != "key" && by != "value") runtime.fail("dictsort: 'by' must be 'key' or 'value'");
  const std::vector<Value> items = dict_items(runtime, input.dict());
  const Value column(int64_t{by == "key" ? 0 : 1});
  std::vector<Value> keys = keys_of(runtime, items, &column, arguments.boolean(0, false));
  return runtime.make_list(sort_by(runtime, items, std::move(keys), arguments.boolean(2, false)));
}

Value unique(Runtime& runtime, const Value& input, const Bound& arguments) {
  const SequencePtr items = iterate(runtime, input);
  const std::vector<Value> keys =
      keys_of(runtime, items->items, arguments.get_unless_none(1), arguments.boolean(0, false));
  std::vector<size_t> kept;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!is_valid_key(keys[i])) {
      runtime.fail(fmt::format("unique: values of type {} are not supported", keys[i].type_name()));
    }
    runtime.charge(static_cast<int64_t>(kept.size()));
    const bool seen =
        std::any_of(kept.begin(), kept.end(), [&](size_t k) { return same_key(keys[k], keys[i]); });
    if (!seen) kept.push_back(i);
  }
  std::vector<Value> out;
  for (const size_t i : kept)
    out.push_back(items->items[i]);
  return runtime.make_sequence(SequenceKind::kIterator, std::move(out));
}

template <CompareOp better>
Value extreme(Runtime& runtime, const Value& input, const Bound& arguments) {
  const SequencePtr items = iterate(runtime, input);
  if (items->items.empty()) return Value::undefined("the sequence is empty");
  const std::vector<Value> keys =
      keys_of(runtime, items->items, arguments.get_unless_none(1), arguments.boolean(0, false));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    if (compare(runtime, better, keys[i], keys[best])) best = i;
  }
  return items->items[best];
}

Value batch(Runtime& runtime, const Value& input, const Bound& arguments) {
  const int64_t size = arguments.integer(0, 0);
  if (size < 1) runtime.fail("batch: 'linecount' must be at least 1");
  const Value* fill = arguments.get_unless_none(1);
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : each(runtime, input)) {
    if (static_cast<int64_t>(row.size()) == size) rows.push_back(runtime.make_list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (fill != nullptr) {
      runtime.charge(size);
      row.resize(static_cast<size_t>(size), *fill);
    }
    rows.push_back(runtime.make_list(std::move(row)));
  }
  return runtime.make_sequence(SequenceKind::kIterator, std::move(rows));
}

}  // namespace

const FilterTable& sequence_filters() {
  static const FilterTable kTable = {
      {"default", {"default_value boolean", 0, default_filter}},
      {"d", {"default_value boolean", 0, default_filter}},
      {"length", {"", 0, length_filter}},
      {"count", {"", 0, length_filter}},
      {"first", {"", 0, first}},
      {"last", {"", 0, last}},
      {"list", {"", 0, list}},
      {"reverse", {"", 0, reverse}},
      {"items", {"", 0, items_filter}},
      {"sort", {"reverse case_sensitive attribute", 0, sort}},
      {"dictsort", {"case_sensitive by reverse", 0, dictsort}},
      {"unique", {"case_sensitive attribute", 0, unique}},
      {"min", {"case_sensitive attribute", 0, extreme<CompareOp::kLess>}},
      {"max", {"case_sensitive attribute", 0, extreme<CompareOp::kGreater>}},
      {"batch", {"linecount fill_with", 1, batch}},
  };
  return kTable;
}

}  // namespace switchyard::jinja
