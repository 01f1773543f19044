#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "jinja/filter_table.h"
#include "jinja/operators.h"

namespace switchyard::jinja {
namespace {

// The number without white space, sign '+' and '_' between digits: what int() and float() accept around
// digits.
std::optional<std::string> plain_number(const Text& text) {
  const std::string stripped = strip(text, nullptr, Side::kBoth).bytes;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string out;
  for (size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] != '_') {
      out += stripped[i];
    } else if (i == 0 || i + 1 == stripped.size() || !is_digit(stripped[i - 1]) ||
               !is_digit(stripped[i + 1])) {
      return std::nullopt;
    }
  }
  if (!out.empty() && out[0] == '+') {
    out.erase(0, 1);
    if (!out.empty() && out[0] == '-') return std::nullopt;
  }
  return out;
}

std::optional<double> parse_float(const Text& text) {
  const auto plain = plain_number(text);
  if (!plain || plain->empty()) return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(plain->data(), plain->data() + plain->size(), value);
  if (result.ptr != plain->data() + plain->size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) return std::strtod(plain->c_str(), nullptr);
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

int64_t truncate(Runtime& runtime, double value) {
  if (!(std::fabs(value) < 0x1p63)) runtime.fail("int: the number does not fit 64 bits");
  return static_cast<int64_t>(value);
}

std::optional<int64_t> parse_int(Runtime& runtime, const Text& text) {
  const auto plain = plain_number(text);
  if (!plain || plain->empty()) return std::nullopt;
  int64_t value = 0;
  const auto result = std::from_chars(plain->data(), plain->data() + plain->size(), value);
  if (result.ptr != plain->data() + plain->size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) runtime.fail("int: the number does not fit 64 bits");
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

Value int_filter(Runtime& runtime, const Value& input, const Bound& arguments) {
  if (arguments.integer(1, 10) != 10) runtime.fail("int: a base other than 10 is not supported");
  const Value otherwise = arguments.get(0) == nullptr ? Value(int64_t{0}) : arguments.at(0);
  if (input.is_integral()) return Value(input.integer());
  if (input.is(Kind::kFloat)) {
    if (std::isnan(input.number())) return otherwise;
    return Value(truncate(runtime, input.number()));
  }
  if (input.is_undefined()) runtime.fail(input.undefined_reason());
  if (!input.is_text()) return otherwise;
  if (const auto value = parse_int(runtime, input.text())) return Value(*value);
  const auto value = parse_float(input.text());
  if (!value || std::isnan(*value)) return otherwise;
  return Value(truncate(runtime, *value));
}

Value float_filter(Runtime& runtime, const Value& input, const Bound& arguments) {
  if (input.is_number()) return Value(input.number());
  if (input.is_undefined()) runtime.fail(input.undefined_reason());
  const auto value = input.is_text() ? parse_float(input.text()) : std::nullopt;
  if (value) return Value(*value);
  return arguments.get(0) == nullptr ? Value(0.0) : arguments.at(0);
}

// round(float, digits): the decimal that is nearest to the exact binary value, which printf gives, read back.
double round_decimal(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[800];  // 309 digits before the point, 323 behind
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
  return std::strtod(buffer, nullptr);
}

Value round_filter(Runtime& runtime, const Value& input, const Bound& arguments) {
  const int64_t digits = arguments.integer(0, 0);
  const std::string method = arguments.get(1) == nullptr ? "common" : arguments.text(1).bytes;
  if (input.is_undefined()) runtime.fail(input.undefined_reason());
  if (!input.is_number()) runtime.fail(fmt::format("round: expected a number, got {}", input.type_name()));
  if (digits < -18 || digits > 323) runtime.fail("round: 'precision' must be from -18 to 323");
  if (method == "common") {
    if (!input.is_integral()) return Value(round_decimal(input.number(), digits));
    if (digits < 0) runtime.fail("round: a negative precision for an int is not supported");
    return Value(input.integer());
  }
  if (method != "ceil" && method != "floor") {
    runtime.fail("round: 'method' must be 'common', 'ceil' or 'floor'");
  }
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.number() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value abs_filter(Runtime& runtime, const Value& input, const Bound&) {
  if (input.is(Kind::kFloat)) return Value(std::fabs(input.number()));
  if (!input.is_integral()) {
    runtime.fail(input.is_undefined() ? input.undefined_reason()
                                      : fmt::format("abs: expected a number, got {}", input.type_name()));
  }
  if (input.integer() >= 0) return Value(input.integer());
  return apply_unary(runtime, UnaryOp::kMinus, input);
}

Value sum(Runtime& runtime, const Value& input, const Bound& arguments) {
  Value total = arguments.get(1) == nullptr ? Value(int64_t{0}) : arguments.at(1);
  if (total.is_text()) runtime.fail("sum: strings cannot be summed");
  for (const Value& item : each(runtime, input)) {
    total = apply_binary(runtime, BinaryOp::kAdd, total,
                         item_at_path(runtime, item, arguments.get_unless_none(0)));
  }
  return total;
}

}  // namespace

const FilterTable& number_filters() {
  static const FilterTable kTable = {
      {"int", {"default base", 0, int_filter}},
      {"float", {"default", 0, float_filter}},
      {"round", {"precision method", 0, round_filter}},
      {"abs", {"", 0, abs_filter}},
      {"sum", {"attribute start", 0, sum}},
  };
  return kTable;
}

}  // namespace switchyard::jinja
