// A visitor for the direct subexpressions of an expression, whatever its kind.
#pragma once

#include <vector>

#include "jinja/ast.h"

namespace switchyard::jinja {

// For std::visit over an ExpressionNode: calls visit(child) for each direct subexpression that is there.
template <typename F>
struct ForEachChild {
  F visit;

  void one(const ExpressionPtr& e) const {
    if (e) visit(*e);
  }
  void all(const std::vector<ExpressionPtr>& list) const {
    for (const auto& e : list)
      one(e);
  }
  void all(const ArgumentList& arguments) const {
    all(arguments.positional);
    for (const auto& a : arguments.named)
      one(a.second);
  }
  void operator()(const Literal&) const {}
  void operator()(const Name&) const {}
  void operator()(const SequenceLiteral& e) const { all(e.items); }
  void operator()(const DictLiteral& e) const {
    for (const auto& entry : e.entries) {
      one(entry.first);
      one(entry.second);
    }
  }
  void operator()(const Unary& e) const { one(e.operand); }
  void operator()(const Binary& e) const {
    one(e.left);
    one(e.right);
  }
  void operator()(const Logic& e) const {
    one(e.left);
    one(e.right);
  }
  void operator()(const Concat& e) const { all(e.parts); }
  void operator()(const Comparison& e) const {
    one(e.first);
    for (const auto& row : e.rest)
      one(row.second);
  }
  void operator()(const Conditional& e) const {
    one(e.condition);
    one(e.then);
    one(e.otherwise);
  }
  void operator()(const Attribute& e) const { one(e.object); }
  void operator()(const Subscript& e) const {
    one(e.object);
    one(e.index);
  }
  void operator()(const Slice& e) const {
    one(e.object);
    one(e.start);
    one(e.stop);
    one(e.step);
  }
  void operator()(const Call& e) const {
    one(e.callee);
    all(e.arguments);
  }
  void operator()(const FilterUse& e) const {
    one(e.input);
    all(e.arguments);
  }
  void operator()(const TestUse& e) const {
    one(e.input);
    all(e.arguments);
  }
};

}  // namespace switchyard::jinja
