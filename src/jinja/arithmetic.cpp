#include <cmath>

#include "base/error.h"
#include "jinja/operators.h"
#include "jinja/string_format.h"

namespace switchyard::jinja {
namespace {

[[noreturn]] void fail_overflow(Runtime& runtime) {
  runtime.fail("an integer result does not fit 64 bits");
}

std::string_view spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
    case BinaryOp::kPower:
      break;
  }
  return "**";
}

int64_t floor_divide(Runtime& runtime, int64_t a, int64_t b) {
  if (b == 0) runtime.fail("division by zero");
  if (b == -1) {  // INT64_MIN / -1 traps
    int64_t out = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &out)) fail_overflow(runtime);
    return out;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(Runtime& runtime, int64_t a, int64_t b) {
  if (b == 0) runtime.fail("modulo by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t integer_power(Runtime& runtime, int64_t base, int64_t exponent) {
  int64_t out = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) fail_overflow(runtime);
    exponent >>= 1;
    if (exponent == 0) return out;
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow(runtime);
  }
}

Value float_power(Runtime& runtime, double base, double exponent) {
  if (base == 0 && exponent < 0) runtime.fail("zero to a negative power");
  if (base < 0 && std::isfinite(exponent) && exponent != std::floor(exponent)) {
    runtime.fail("a negative number to a fractional power is not supported");
  }
  const double out = std::pow(base, exponent);
  if (std::isinf(out) && std::isfinite(base) && std::isfinite(exponent))
    runtime.fail("result of ** is too large");
  return Value(out);
}

// float.__mod__ and __floordiv__ of CPython, which derive both from fmod.
void float_divmod(double a, double b, double& quotient, double& rest) {
  rest = std::fmod(a, b);
  quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) {
    quotient = std::copysign(0.0, a / b);
    return;
  }
  const double floor = std::floor(quotient);
  quotient = quotient - floor > 0.5 ? floor + 1 : floor;
}

Value float_operation(Runtime& runtime, BinaryOp op, double a, double b) {
  if (op == BinaryOp::kAdd) return Value(a + b);
  if (op == BinaryOp::kSubtract) return Value(a - b);
  if (op == BinaryOp::kMultiply) return Value(a * b);
  if (op == BinaryOp::kPower) return float_power(runtime, a, b);
  if (b == 0) runtime.fail("division by zero");
  if (op == BinaryOp::kDivide) return Value(a / b);
  double quotient = 0;
  double rest = 0;
  float_divmod(a, b, quotient, rest);
  return Value(op == BinaryOp::kModulo ? rest : quotient);
}

Value integer_operation(Runtime& runtime, BinaryOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case BinaryOp::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case BinaryOp::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case BinaryOp::kDivide:
      if (b == 0) runtime.fail("division by zero");
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOp::kFloorDivide:
      return Value(floor_divide(runtime, a, b));
    case BinaryOp::kModulo:
      return Value(modulo(runtime, a, b));
    case BinaryOp::kPower:
      if (b < 0) return float_power(runtime, static_cast<double>(a), static_cast<double>(b));
      return Value(integer_power(runtime, a, b));
  }
  if (overflow) fail_overflow(runtime);
  return Value(out);
}

// The size of `unit` repeated `times`, when it stays below the limit that `charge` enforces.
int64_t repeated_size(Runtime& runtime, size_t unit, int64_t times) {
  int64_t total = 0;
  if (times <= 0) return 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(unit), times, &total)) fail_overflow(runtime);
  return total;
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  if (value.is_text()) {
    const int64_t size = repeated_size(runtime, value.text().size(), times);
    runtime.check_string(size);
    Text out;
    while (static_cast<int64_t>(out.size()) < size)
      out.append(value.text());
    return runtime.make_text(std::move(out));
  }
  const std::vector<Value>& items = value.sequence().items;
  const int64_t size = repeated_size(runtime, items.size(), times);
  runtime.charge(size);
  std::vector<Value> out;
  while (static_cast<int64_t>(out.size()) < size)
    out.insert(out.end(), items.begin(), items.end());
  return runtime.make_sequence(value.sequence().kind, std::move(out));
}

bool is_list_or_tuple(const Value& v) {
  return v.is(Kind::kSequence) &&
         (v.sequence().kind == SequenceKind::kList || v.sequence().kind == SequenceKind::kTuple);
}

Value join_sequences(Runtime& runtime, const Value& left, const Value& right) {
  const std::vector<Value>& tail = right.sequence().items;
  runtime.charge(static_cast<int64_t>(left.sequence().items.size() + tail.size()));
  std::vector<Value> items = left.sequence().items;
  items.insert(items.end(), tail.begin(), tail.end());
  return runtime.make_sequence(left.sequence().kind, std::move(items));
}

Value join_texts(Runtime& runtime, const Text& left, const Text& right) {
  Text out = left;
  out.append(right);
  return runtime.make_text(std::move(out));
}

void refuse_undefined(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) runtime.fail(value.undefined_reason());
}

}  // namespace

Value apply_unary(Runtime& runtime, UnaryOp op, const Value& operand) {
  if (op == UnaryOp::kNot) return Value(!operand.truthy());
  refuse_undefined(runtime, operand);
  const bool minus = op == UnaryOp::kMinus;
  if (operand.is(Kind::kFloat)) return Value(minus ? -operand.number() : operand.number());
  if (!operand.is_integral()) {
    runtime.fail(fmt::format("a {} has no unary {}", operand.type_name(), minus ? "-" : "+"));
  }
  if (!minus) return Value(operand.integer());
  return integer_operation(runtime, BinaryOp::kSubtract, 0, operand.integer());
}

Value apply_binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return integer_operation(runtime, op, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    return float_operation(runtime, op, left.number(), right.number());
  }
  if (op == BinaryOp::kAdd && left.is_text() && right.is_text()) {
    return join_texts(runtime, left.text(), right.text());
  }
  if (op == BinaryOp::kModulo && left.is_text()) {
    return runtime.make_text(percent_format(runtime, left.text(), right));
  }
  if (op == BinaryOp::kAdd && is_list_or_tuple(left) && is_list_or_tuple(right) &&
      left.sequence().kind == right.sequence().kind) {
    return join_sequences(runtime, left, right);
  }
  const auto repeatable = [](const Value& v) { return v.is_text() || is_list_or_tuple(v); };
  if (op == BinaryOp::kMultiply && repeatable(left) && right.is_integral()) {
    return repeat(runtime, left, right.integer());
  }
  if (op == BinaryOp::kMultiply && repeatable(right) && left.is_integral()) {
    return repeat(runtime, right, left.integer());
  }
  refuse_undefined(runtime, left);
  refuse_undefined(runtime, right);
  runtime.fail(fmt::format("unsupported operands of {}: {} and {}", spelling(op), left.type_name(),
                           right.type_name()));
}

}  // namespace switchyard::jinja
