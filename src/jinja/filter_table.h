// How filters are listed: one table per file, all joined in filters.cpp.
#pragma once

#include <string_view>
#include <unordered_map>

#include "jinja/arguments.h"

namespace switchyard::jinja {

struct FilterRow {
  std::string_view parameters;
  size_t required = 0;
  Value (*apply)(Runtime&, const Value& input, const Bound& arguments) = nullptr;
};
using FilterTable = std::unordered_map<std::string_view, FilterRow>;

const FilterTable& text_filters();
const FilterTable& number_filters();
const FilterTable& sequence_filters();

// map, select, reject, selectattr, rejectattr hand arguments on to other filters and tests.
bool is_mapping_filter(std::string_view name);
Value apply_mapping_filter(Runtime& runtime, std::string_view name, const Value& input,
                           const Arguments& arguments);

// The item at `path`, "a.b.0" or an index, as the attribute= argument of several filters finds it; the item
// itself without a path. Each step that leads to nothing gives `otherwise`, if that is there.
Value item_at_path(Runtime& runtime, const Value& item, const Value* path, const Value* otherwise = nullptr);

}  // namespace switchyard::jinja
