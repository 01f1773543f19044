#include "jinja/filters.h"

#include "base/error.h"
#include "jinja/filter_table.h"

namespace switchyard::jinja {
namespace {

const FilterRow* find_row(std::string_view name) {
  for (const FilterTable* table : {&text_filters(), &number_filters(), &sequence_filters()}) {
    if (const auto found = table->find(name); found != table->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace

bool is_filter(std::string_view name) {
  return is_mapping_filter(name) || find_row(name) != nullptr;
}

bool makes_markup(std::string_view name) {
  return name == "safe" || name == "escape" || name == "e";
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const Runtime::Frame frame(runtime);
  if (is_mapping_filter(name)) return apply_mapping_filter(runtime, name, input, arguments);
  const FilterRow* row = find_row(name);
  if (row == nullptr) runtime.fail(fmt::format("unknown filter '{}'", printable(name)));
  return row->apply(runtime, input, Bound(runtime, name, row->parameters, row->required, arguments));
}

}  // namespace switchyard::jinja
