#include "base/error.h"
#include "jinja/filters.h"
#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/python_format.h"
#include "jinja/tests.h"

namespace switchyard::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Runtime::Frame frame(runtime_, expression.line);
  return std::visit([this](const auto& node) { return eval(node); }, expression.node);
}

Value Interpreter::eval(const Name& node) {
  runtime_.charge(scope_->size() / 16);
  if (const Value* found = scope_->find(node.name)) return *found;
  if (const Value* found = context_.dict().find(node.name)) return *found;
  if (is_function(node.name)) {
    auto function = std::make_shared<Callable>();
    function->name = node.name;
    return Value(CallablePtr(std::move(function)));
  }
  if (is_refused_global(node.name)) {
    runtime_.fail(fmt::format("the global '{}' is not supported", node.name));
  }
  return Value::undefined(fmt::format("'{}' is undefined", printable(node.name)));
}

Value Interpreter::eval(const SequenceLiteral& node) {
  std::vector<Value> items;
  for (const auto& item : node.items)
    items.push_back(evaluate(*item));
  return runtime_.make_sequence(node.kind, std::move(items));
}

Value Interpreter::eval(const DictLiteral& node) {
  std::vector<Dict::Entry> entries;
  for (const auto& entry : node.entries) {
    Value key = evaluate(*entry.first);
    entries.emplace_back(std::move(key), evaluate(*entry.second));
  }
  return runtime_.make_dict(std::move(entries));
}

Value Interpreter::eval(const Unary& node) {
  return apply_unary(runtime_, node.op, evaluate(*node.operand));
}

Value Interpreter::eval(const Binary& node) {
  const Value left = evaluate(*node.left);
  return apply_binary(runtime_, node.op, left, evaluate(*node.right));
}

Value Interpreter::eval(const Logic& node) {
  Value left = evaluate(*node.left);
  return left.truthy() == node.is_and ? evaluate(*node.right) : left;
}

Value Interpreter::eval(const Concat& node) {
  Text out;
  for (const auto& part : node.parts) {
    out.append(to_text(runtime_, evaluate(*part)));
    runtime_.check_string(static_cast<int64_t>(out.size()));
  }
  return runtime_.make_text(std::move(out));
}

Value Interpreter::eval(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& step : node.rest) {
    Value right = evaluate(*step.second);
    if (!compare(runtime_, step.first, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::eval(const Conditional& node) {
  if (evaluate(*node.condition).truthy()) return evaluate(*node.then);
  if (node.otherwise) return evaluate(*node.otherwise);
  return Value::undefined("the condition of an inline if is false and it has no else");
}

Value Interpreter::eval(const Attribute& node) {
  return attribute(runtime_, evaluate(*node.object), node.name);
}

Value Interpreter::eval(const Subscript& node) {
  const Value object = evaluate(*node.object);
  return subscript(runtime_, object, evaluate(*node.index));
}

Value Interpreter::eval(const Slice& node) {
  const auto bound = [this](const ExpressionPtr& e) { return e ? evaluate(*e) : Value(None{}); };
  const Value object = evaluate(*node.object);
  const Value start = bound(node.start);
  const Value stop = bound(node.stop);
  return slice(runtime_, object, start, stop, bound(node.step));
}

Arguments Interpreter::evaluate(const ArgumentList& list) {
  Arguments out;
  for (const auto& argument : list.positional)
    out.positional.push_back(evaluate(*argument));
  for (const auto& argument : list.named)
    out.named.emplace_back(argument.first, evaluate(*argument.second));
  return out;
}

Value Interpreter::eval(const Call& node) {
  const Value callee = evaluate(*node.callee);
  if (callee.is_undefined()) runtime_.fail(callee.undefined_reason());
  if (!callee.is(Kind::kCallable)) runtime_.fail(fmt::format("a {} cannot be called", callee.type_name()));
  const Arguments arguments = evaluate(node.arguments);
  const Callable& callable = callee.callable();
  switch (callable.type) {
    case Callable::Type::kMacro:
      return call_macro(*callable.macro, arguments);
    case Callable::Type::kMethod:
      return call_method(runtime_, callable.receiver, callable.name, arguments);
    case Callable::Type::kGlobal:
      break;
  }
  return call_function(runtime_, callable.name, arguments);
}

Value Interpreter::eval(const FilterUse& node) {
  const Value input = evaluate(*node.input);
  return apply_filter(runtime_, node.name, input, evaluate(node.arguments));
}

Value Interpreter::eval(const TestUse& node) {
  const Value input = evaluate(*node.input);
  return Value(apply_test(runtime_, node.name, input, evaluate(node.arguments)) != node.negated);
}

}  // namespace switchyard::jinja
