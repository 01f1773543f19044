#include "jinja/functions.h"

#include <array>
#include <ctime>
#include <unordered_map>

#include "base/error.h"
#include "jinja/operators.h"
#include "jinja/python_format.h"

namespace switchyard::jinja {
namespace {

int64_t range_argument(Runtime& runtime, const Value& value) {
  if (!value.is_integral()) {
    runtime.fail(value.is_undefined() ? value.undefined_reason()
                                      : fmt::format("range: expected int, got {}", value.type_name()));
  }
  return value.integer();
}

// Number of values from start to before stop; exact although the distance may not fit 64 bits.
uint64_t range_length(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop);
  const auto high = static_cast<uint64_t>(step > 0 ? stop : start);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return (high - low - 1) / stride + 1;
}

Value range(Runtime& runtime, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    runtime.fail("range takes one to three plain arguments");
  }
  const int64_t start = given.size() > 1 ? range_argument(runtime, given[0]) : 0;
  const int64_t stop = range_argument(runtime, given[given.size() > 1 ? 1 : 0]);
  const int64_t step = given.size() > 2 ? range_argument(runtime, given[2]) : 1;
  if (step == 0) runtime.fail("range: the step is zero");
  const uint64_t size = range_length(start, stop, step);
  if (size > static_cast<uint64_t>(runtime.options().max_range)) {
    runtime.fail(fmt::format("range of more than {} values", runtime.options().max_range));
  }
  std::vector<Value> items;
  items.reserve(size);
  // Unsigned, since i * step may leave the range of int64 although the sum does not.
  for (uint64_t i = 0; i < size; ++i) {
    items.emplace_back(static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step)));
  }
  return runtime.make_sequence(SequenceKind::kRange, std::move(items));
}

std::vector<Dict::Entry> entries_of(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) runtime.fail("dict and namespace take at most one plain argument");
  std::vector<Dict::Entry> entries;
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional.front();
    if (first.is(Kind::kDict)) {
      entries = first.dict().entries();
    } else {
      for (const Value& item : each(runtime, first)) {
        const SequencePtr pair = iterate(runtime, item);
        if (pair->items.size() != 2) runtime.fail("dict: expected pairs of key and value");
        entries.emplace_back(pair->items[0], pair->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    entries.emplace_back(runtime.make_text(name), value);
  return entries;
}

Value dict(Runtime& runtime, const Arguments& arguments) {
  return runtime.make_dict(entries_of(runtime, arguments));
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  const Value attributes = dict(runtime, arguments);
  auto out = std::make_shared<Namespace>();
  for (const Dict::Entry& entry : attributes.dict().entries()) {
    if (!entry.first.is_text()) runtime.fail("namespace: names must be strings");
    out->attributes.emplace_back(entry.first.text().bytes, entry.second);
  }
  return Value(NamespacePtr(std::move(out)));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Bound bound(runtime, "raise_exception", "message", 1, arguments);
  const Text message = to_text(runtime, bound.at(0));
  runtime.fail("template refused: " + printable(message.bytes, 500));
}

// Conversions that strftime has and that mean the same for Python's datetime.now(): those that depend on a
// time zone or on microseconds are left out.
bool is_known_conversion(char c) {
  return std::string_view("aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%").find(c) != std::string_view::npos;
}

void check_time_format(Runtime& runtime, const std::string& format) {
  if (format.size() > 256) runtime.fail("strftime_now: the format is longer than 256 bytes");
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '\0') runtime.fail("strftime_now: a zero byte in the format");
    if (format[i] != '%') continue;
    ++i;
    if (i < format.size() && format[i] == '-') ++i;  // no padding, a GNU extension that templates use
    if (i == format.size() || !is_known_conversion(format[i])) {
      runtime.fail(fmt::format("strftime_now: the format '{}' is not supported", printable(format)));
    }
  }
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Bound bound(runtime, "strftime_now", "format", 1, arguments);
  const Text& format = bound.text(0);
  check_time_format(runtime, format.bytes);
  const std::tm now = runtime.options().now ? runtime.options().now() : local_time();
  std::array<char, 8192> buffer{};
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.bytes.c_str(), &now);
  const std::string_view text(buffer.data(), size);
  return runtime.make_text(format.any_from_input() ? Text::from_context(text) : Text::from_template(text));
}

using Function = Value (*)(Runtime&, const Arguments&);

const std::unordered_map<std::string_view, Function>& table() {
  static const std::unordered_map<std::string_view, Function> kTable = {{"range", range},
                                                                        {"dict", dict},
                                                                        {"namespace", make_namespace},
                                                                        {"raise_exception", raise_exception},
                                                                        {"strftime_now", strftime_now}};
  return kTable;
}

}  // namespace

bool is_function(std::string_view name) {
  return table().count(name) != 0;
}

bool is_refused_global(std::string_view name) {
  return name == "self" || name == "lipsum" || name == "cycler" || name == "joiner";
}

Value call_function(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  return table().at(name)(runtime, arguments);
}

}  // namespace switchyard::jinja
