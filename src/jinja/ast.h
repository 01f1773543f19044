// The parsed template. Trees are bounded in height by the parser, so walking and destroying them is safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/value.h"

namespace switchyard::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct SequenceLiteral {
  SequenceKind kind = SequenceKind::kList;  // kList or kTuple
  std::vector<ExpressionPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
enum class UnaryOp { kNot, kMinus, kPlus };
struct Unary {
  UnaryOp op;
  ExpressionPtr operand;
};
enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOp op;
  ExpressionPtr left, right;
};
struct Logic {  // `and`, `or`: the result is one of the operands
  bool is_and;
  ExpressionPtr left, right;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct Comparison {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // otherwise may be missing: undefined
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object, index;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  // the last three may be missing
};
struct Call {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct FilterUse {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
};
struct TestUse {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
  bool negated = false;
};

using ExpressionNode =
    std::variant<Literal, Name, SequenceLiteral, DictLiteral, Unary, Binary, Logic, Concat, Comparison,
                 Conditional, Attribute, Subscript, Slice, Call, FilterUse, TestUse>;

struct Expression {
  int line = 1;
  int height = 1;
  ExpressionNode node;
};

struct Statement;
using Block = std::vector<Statement>;

// Where an assignment goes: names, or one attribute of a namespace. More than one name unpacks.
struct Target {
  std::vector<std::string> names;
  std::string attribute;  // of namespace names[0], when not empty
  bool unpacks = false;
};

struct Output {  // template text
  TextPtr text;
};
struct Print {
  ExpressionPtr value;
};
struct Branch {
  ExpressionPtr condition;
  Block body;
};
struct If {
  std::vector<Branch> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // may be missing
  Block body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {  // {% set x | filter %} ... {% endset %}
  Target target;
  std::vector<FilterUse> filters;  // without input
  Block body;
};
struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // default, may be missing
};
struct MacroStatement {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
};
struct With {  // also a generation block, which has no variables
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Block body;
};
struct Break {};
struct Continue {};

using StatementNode =
    std::variant<Output, Print, If, For, Set, SetBlock, MacroStatement, With, Break, Continue>;

struct Statement {
  int line = 1;
  StatementNode node;
};

struct Program {
  Block body;
};

}  // namespace switchyard::jinja
