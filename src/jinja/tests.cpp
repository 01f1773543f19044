#include "jinja/tests.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "jinja/operators.h"
#include "jinja/python_format.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

struct TestRow {
  std::string_view parameters;
  bool (*apply)(Runtime&, const Value& input, const Bound& arguments) = nullptr;
};

template <Kind kind>
bool is_kind(Runtime&, const Value& input, const Bound&) {
  return input.is(kind);
}

bool is_defined(Runtime&, const Value& input, const Bound&) {
  return !input.is_undefined();
}
bool is_number(Runtime&, const Value& input, const Bound&) {
  return input.is_number();
}
bool is_true(Runtime&, const Value& input, const Bound&) {
  return input.is(Kind::kBool) && input.boolean();
}
bool is_false(Runtime&, const Value& input, const Bound&) {
  return input.is(Kind::kBool) && !input.boolean();
}

bool is_iterable(Runtime&, const Value& input, const Bound&) {
  return input.is_text() || input.is(Kind::kSequence) || input.is(Kind::kDict) || input.is_undefined() ||
         input.is(Kind::kLoop);
}

// What has a length and can be indexed: dicts too, and even undefined, as in Jinja2.
bool is_sequence(Runtime&, const Value& input, const Bound&) {
  return input.is_text() || input.is(Kind::kDict) || input.is_undefined() ||
         (input.is(Kind::kSequence) && input.sequence().has_index());
}

template <CompareOp op>
bool compares(Runtime& runtime, const Value& input, const Bound& arguments) {
  return compare(runtime, op, input, arguments.at(0));
}

bool is_in(Runtime& runtime, const Value& input, const Bound& arguments) {
  return contains(runtime, arguments.at(0), input);
}

bool is_sameas(Runtime& runtime, const Value& input, const Bound& arguments) {
  const Value& other = arguments.at(0);
  const auto is_single = [](const Value& v) { return v.is_none() || v.is(Kind::kBool); };
  if (!is_single(input) && !is_single(other)) {
    runtime.fail("sameas is supported for none, true and false only");
  }
  return input.kind() == other.kind() && input.truthy() == other.truthy();
}

bool divisible(Runtime& runtime, const Value& input, const Value& by) {
  const Value rest = apply_binary(runtime, BinaryOp::kModulo, input, by);
  if (rest.is_text()) runtime.fail("expected a number, got str");
  return !rest.truthy();
}

bool is_divisible(Runtime& runtime, const Value& input, const Bound& arguments) {
  return divisible(runtime, input, arguments.at(0));
}

bool is_even(Runtime& runtime, const Value& input, const Bound&) {
  return divisible(runtime, input, Value(int64_t{2}));
}

bool is_odd(Runtime& runtime, const Value& input, const Bound&) {
  const Value rest = apply_binary(runtime, BinaryOp::kModulo, input, Value(int64_t{2}));
  return equal(runtime, rest, Value(int64_t{1}));
}

// str(value).islower() or isupper(): at least one letter, and none of the other case.
bool has_only_case(Runtime& runtime, const Value& input, bool upper) {
  const std::string text = to_text(runtime, input).bytes;
  if (!utf8::is_ascii(text)) runtime.fail("the case of non-ASCII text is not supported");
  const bool has_upper = std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool has_lower = std::any_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return upper ? has_upper && !has_lower : has_lower && !has_upper;
}

bool is_lower(Runtime& runtime, const Value& input, const Bound&) {
  return has_only_case(runtime, input, false);
}
bool is_upper(Runtime& runtime, const Value& input, const Bound&) {
  return has_only_case(runtime, input, true);
}

const std::unordered_map<std::string_view, TestRow>& table() {
  static const std::unordered_map<std::string_view, TestRow> kTable = {
      {"defined", {"", is_defined}},
      {"undefined", {"", is_kind<Kind::kUndefined>}},
      {"none", {"", is_kind<Kind::kNone>}},
      {"boolean", {"", is_kind<Kind::kBool>}},
      {"integer", {"", is_kind<Kind::kInt>}},
      {"float", {"", is_kind<Kind::kFloat>}},
      {"number", {"", is_number}},
      {"string", {"", is_kind<Kind::kText>}},
      {"mapping", {"", is_kind<Kind::kDict>}},
      {"callable", {"", is_kind<Kind::kCallable>}},
      {"iterable", {"", is_iterable}},
      {"sequence", {"", is_sequence}},
      {"true", {"", is_true}},
      {"false", {"", is_false}},
      {"sameas", {"other", is_sameas}},
      {"in", {"seq", is_in}},
      {"odd", {"", is_odd}},
      {"even", {"", is_even}},
      {"divisibleby", {"num", is_divisible}},
      {"lower", {"", is_lower}},
      {"upper", {"", is_upper}},
      {"eq", {"other", compares<CompareOp::kEqual>}},
      {"equalto", {"other", compares<CompareOp::kEqual>}},
      {"==", {"other", compares<CompareOp::kEqual>}},
      {"ne", {"other", compares<CompareOp::kNotEqual>}},
      {"!=", {"other", compares<CompareOp::kNotEqual>}},
      {"lt", {"other", compares<CompareOp::kLess>}},
      {"lessthan", {"other", compares<CompareOp::kLess>}},
      {"<", {"other", compares<CompareOp::kLess>}},
      {"le", {"other", compares<CompareOp::kLessEqual>}},
      {"<=", {"other", compares<CompareOp::kLessEqual>}},
      {"gt", {"other", compares<CompareOp::kGreater>}},
      {"greaterthan", {"other", compares<CompareOp::kGreater>}},
      {">", {"other", compares<CompareOp::kGreater>}},
      {"ge", {"other", compares<CompareOp::kGreaterEqual>}},
      {">=", {"other", compares<CompareOp::kGreaterEqual>}},
  };
  return kTable;
}

}  // namespace

bool is_test(std::string_view name) {
  return table().count(name) != 0;
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const Runtime::Frame frame(runtime);
  const auto found = table().find(name);
  if (found == table().end()) runtime.fail(fmt::format("unknown test '{}'", printable(name)));
  const std::string_view parameters = found->second.parameters;
  const Bound bound(runtime, name, parameters, parameters.empty() ? 0 : 1, arguments);
  return found->second.apply(runtime, input, bound);
}

}  // namespace switchyard::jinja
