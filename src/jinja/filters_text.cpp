#include <algorithm>
#include <optional>

#include "jinja/case_mapping.h"
#include "jinja/filter_table.h"
#include "jinja/json_format.h"
#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/python_format.h"
#include "jinja/string_format.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

template <CaseMapping mapping>
Value map_case_filter(Runtime& runtime, const Value& input, const Bound&) {
  return runtime.make_text(map_case(runtime, to_text(runtime, input), mapping));
}

Value trim(Runtime& runtime, const Value& input, const Bound& arguments) {
  return runtime.make_text(strip(to_text(runtime, input), arguments.text_or_none(0), Side::kBoth));
}

Value replace_filter(Runtime& runtime, const Value& input, const Bound& arguments) {
  const Text text = to_text(runtime, input);
  const Text by = to_text(runtime, arguments.at(1));
  const Value* count = arguments.get_unless_none(2);
  const int64_t most = count == nullptr ? -1 : arguments.integer(2, -1);
  return replace_checked(runtime, text, to_text(runtime, arguments.at(0)), by, most);
}

Value string_filter(Runtime& runtime, const Value& input, const Bound&) {
  return runtime.make_text(to_text(runtime, input));
}

Value escape(Runtime& runtime, const Value& input, const Bound&) {
  static constexpr std::string_view kSpecial = "&<>'\"";
  static constexpr std::string_view kEscaped[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const Text text = to_text(runtime, input);
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t special = kSpecial.find(text.bytes[i]);
    if (special == std::string_view::npos) {
      out.append(text, i, i + 1);
    } else {
      out.append(kEscaped[special], text.from_input[i] != 0);
    }
  }
  return runtime.make_text(std::move(out));
}

Text indentation(Runtime& runtime, const Bound& arguments) {
  const Value* width = arguments.get(0);
  if (width != nullptr && width->is_text()) return width->text();
  const int64_t spaces = std::max<int64_t>(0, arguments.integer(0, 4));
  runtime.check_string(spaces);
  return Text::from_template(std::string(static_cast<size_t>(spaces), ' '));
}

// As Jinja2: lines are what splitlines() finds, joined by "\n" again; the first line is left alone unless
// `first`, empty lines unless `blank`.
Value indent(Runtime& runtime, const Value& input, const Bound& arguments) {
  const Text by = indentation(runtime, arguments);
  const bool first = arguments.boolean(1, false);
  const bool blank = arguments.boolean(2, false);
  Text text = to_text(runtime, input);
  runtime.charge(static_cast<int64_t>(text.size()));  // for the lines
  text.append("\n", false);                           // so that a final line end keeps its line
  Text out;
  bool is_first = true;
  for (const Text& line : split_lines(text, false)) {
    if (!is_first) out.append("\n", false);
    if (is_first ? first : (blank || line.size() != 0)) out.append(by);
    out.append(line);
    is_first = false;
    runtime.check_string(static_cast<int64_t>(out.size()));
  }
  return runtime.make_text(std::move(out));
}

Value join(Runtime& runtime, const Value& input, const Bound& arguments) {
  const Text separator = arguments.get(0) == nullptr ? Text() : to_text(runtime, arguments.at(0));
  Text out;
  bool first = true;
  for (const Value& item : each(runtime, input)) {
    if (!first) out.append(separator);
    first = false;
    out.append(to_text(runtime, item_at_path(runtime, item, arguments.get_unless_none(1))));
    runtime.check_string(static_cast<int64_t>(out.size()));
  }
  return runtime.make_text(std::move(out));
}

std::optional<Text> json_indent(Runtime& runtime, const Bound& arguments) {
  const Value* indent = arguments.get_unless_none(1);
  if (indent == nullptr) return std::nullopt;
  if (indent->is_text()) return indent->text();
  const int64_t width = std::max<int64_t>(0, arguments.integer(1, 0));
  runtime.check_string(width);
  return Text::from_template(std::string(static_cast<size_t>(width), ' '));
}

Value tojson(Runtime& runtime, const Value& input, const Bound& arguments) {
  JsonFormat format;
  format.ensure_ascii = arguments.boolean(0, false);
  format.indent = json_indent(runtime, arguments);
  format.sort_keys = arguments.boolean(3, false);
  format.item_separator = Text::from_template(format.indent ? "," : ", ");
  format.key_separator = Text::from_template(": ");
  if (const Value* separators = arguments.get_unless_none(2)) {
    const SequencePtr pair = iterate(runtime, *separators);
    if (pair->items.size() != 2 || !pair->items[0].is_text() || !pair->items[1].is_text()) {
      runtime.fail("tojson: 'separators' must be two strings");
    }
    format.item_separator = pair->items[0].text();
    format.key_separator = pair->items[1].text();
  }
  return runtime.make_text(to_json(runtime, input, format));
}

Value format_filter(Runtime& runtime, const Value& input, const Bound& arguments) {
  std::vector<Value> values;
  for (size_t i = 0; i < 8 && arguments.get(i) != nullptr; ++i)
    values.push_back(arguments.at(i));
  const Value tuple = runtime.make_sequence(SequenceKind::kTuple, std::move(values));
  return runtime.make_text(percent_format(runtime, to_text(runtime, input), tuple));
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable kTable = {
      {"upper", {"", 0, map_case_filter<CaseMapping::kUpper>}},
      {"lower", {"", 0, map_case_filter<CaseMapping::kLower>}},
      {"title", {"", 0, map_case_filter<CaseMapping::kTitleFilter>}},
      {"capitalize", {"", 0, map_case_filter<CaseMapping::kCapitalize>}},
      {"trim", {"chars", 0, trim}},
      {"replace", {"old new count", 2, replace_filter}},
      {"string", {"", 0, string_filter}},
      {"safe", {"", 0, string_filter}},
      {"escape", {"", 0, escape}},
      {"e", {"", 0, escape}},
      {"indent", {"width first blank", 0, indent}},
      {"join", {"d attribute", 0, join}},
      {"tojson", {"ensure_ascii indent separators sort_keys", 0, tojson}},
      {"format", {"1 2 3 4 5 6 7 8", 0, format_filter}},
  };
  return kTable;
}

}  // namespace switchyard::jinja
