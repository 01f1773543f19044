#include <algorithm>
#include <array>

#include "base/error.h"
#include "jinja/ast_children.h"
#include "jinja/filters.h"
#include "jinja/parser.h"
#include "jinja/tests.h"

namespace switchyard::jinja {
namespace {

constexpr std::array<std::string_view, 8> kReserved = {"and", "or", "not", "if", "else", "elif", "in", "is"};

bool is_reserved(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace

// Counts how deep the parser's own recursion is.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxExpressionHeight) {
      parser_.tokens_.fail(parser_.tokens_.peek().line,
                           fmt::format("expressions nested more than {} deep", kMaxExpressionHeight));
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionPtr ExpressionParser::make(int line, ExpressionNode node) const {
  auto out = std::make_unique<Expression>();
  out->line = line;
  const auto visit = [&](const Expression& child) {
    out->height = std::max(out->height, 1 + child.height);
    refuse_markup(child);
  };
  std::visit(ForEachChild<decltype(visit)>{visit}, node);
  out->node = std::move(node);
  if (out->height > kMaxExpressionHeight) {
    tokens_.fail(line, fmt::format("expressions nested more than {} deep", kMaxExpressionHeight));
  }
  return out;
}

void ExpressionParser::refuse_markup(const Expression& value) const {
  const auto* filter = std::get_if<FilterUse>(&value.node);
  if (filter == nullptr || !makes_markup(filter->name)) return;
  tokens_.fail(value.line,
               fmt::format("filter '{}' is supported only as the last of a printed value", filter->name));
}

ExpressionPtr ExpressionParser::parse() {
  return parse_conditional();
}

ExpressionPtr ExpressionParser::parse_stored(bool tuple) {
  ExpressionPtr value = tuple ? parse_tuple() : parse();
  refuse_markup(*value);
  return value;
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.at(TokenType::kVariableEnd) || tokens_.at(TokenType::kBlockEnd) || tokens_.at_operator(")");
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_conditional) {
  const int line = tokens_.peek().line;
  SequenceLiteral tuple;
  tuple.kind = SequenceKind::kTuple;
  bool has_comma = false;
  while (!at_tuple_end()) {
    tuple.items.push_back(with_conditional ? parse() : parse_or());
    if (!tokens_.skip_operator(",")) break;
    has_comma = true;
  }
  if (tuple.items.empty()) tokens_.fail_expected("an expression");
  if (!has_comma) return std::move(tuple.items.front());
  return make(line, std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_conditional() {
  const Nesting nesting(*this);
  ExpressionPtr value = parse_or();
  while (tokens_.at_name("if")) {
    const int line = tokens_.next().line;
    Conditional node{parse_or(), std::move(value), nullptr};
    if (tokens_.skip_name("else")) node.otherwise = parse_conditional();
    value = make(line, std::move(node));
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (tokens_.at_name("or")) {
    const int line = tokens_.next().line;
    ExpressionPtr right = parse_and();
    left = make(line, Logic{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (tokens_.at_name("and")) {
    const int line = tokens_.next().line;
    ExpressionPtr right = parse_not();
    left = make(line, Logic{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!tokens_.at_name("not")) return parse_comparison();
  const Nesting nesting(*this);
  const int line = tokens_.next().line;
  return make(line, Unary{UnaryOp::kNot, parse_not()});
}

ExpressionPtr ExpressionParser::parse_comparison() {
  static const std::vector<std::pair<std::string_view, CompareOp>> kOps = {
      {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
      {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual}};
  const int line = tokens_.peek().line;
  Comparison node;
  node.first = parse_sum();
  while (true) {
    const auto found = std::find_if(kOps.begin(), kOps.end(),
                                    [this](const auto& row) { return tokens_.at_operator(row.first); });
    if (found != kOps.end()) {
      tokens_.next();
      node.rest.emplace_back(found->second, parse_sum());
    } else if (tokens_.skip_name("in")) {
      node.rest.emplace_back(CompareOp::kIn, parse_sum());
    } else if (tokens_.at_name("not") && tokens_.peek_second().type == TokenType::kName &&
               tokens_.peek_second().text == "in") {
      tokens_.next();
      tokens_.next();
      node.rest.emplace_back(CompareOp::kNotIn, parse_sum());
    } else {
      break;
    }
  }
  if (node.rest.empty()) return std::move(node.first);
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    const Token op = tokens_.next();
    ExpressionPtr right = parse_concat();
    left = make(op.line, Binary{op.text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract, std::move(left),
                                std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  const int line = tokens_.peek().line;
  Concat node;
  node.parts.push_back(parse_product());
  while (tokens_.skip_operator("~"))
    node.parts.push_back(parse_product());
  if (node.parts.size() == 1) return std::move(node.parts.front());
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::parse_product() {
  static const std::vector<std::pair<std::string_view, BinaryOp>> kOps = {{"*", BinaryOp::kMultiply},
                                                                          {"/", BinaryOp::kDivide},
                                                                          {"//", BinaryOp::kFloorDivide},
                                                                          {"%", BinaryOp::kModulo}};
  ExpressionPtr left = parse_power();
  while (true) {
    const auto found = std::find_if(kOps.begin(), kOps.end(),
                                    [this](const auto& row) { return tokens_.at_operator(row.first); });
    if (found == kOps.end()) return left;
    const int line = tokens_.next().line;
    ExpressionPtr right = parse_power();
    left = make(line, Binary{found->second, std::move(left), std::move(right)});
  }
}

// Left associative, unlike Python's: Jinja2 has it so.
ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary();
  while (tokens_.at_operator("**")) {
    const int line = tokens_.next().line;
    ExpressionPtr right = parse_unary();
    left = make(line, Binary{BinaryOp::kPower, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  ExpressionPtr value;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Token op = tokens_.next();
    value = make(op.line, Unary{op.text == "-" ? UnaryOp::kMinus : UnaryOp::kPlus, parse_unary(false)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filter ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.peek();
  switch (token.type) {
    case TokenType::kName:
      return parse_name();
    case TokenType::kString:
      return parse_string();
    case TokenType::kInteger: {
      const Token number = tokens_.next();
      return make(number.line, Literal{Value(number.integer)});
    }
    case TokenType::kFloat: {
      const Token number = tokens_.next();
      return make(number.line, Literal{Value(number.real)});
    }
    default:
      break;
  }
  if (tokens_.at_operator("(")) return parse_parenthesis();
  if (tokens_.at_operator("[")) return parse_list();
  if (tokens_.at_operator("{")) return parse_dict();
  tokens_.fail_expected("an expression");
}

ExpressionPtr ExpressionParser::parse_name() {
  if (is_reserved(tokens_.peek().text)) tokens_.fail_expected("an expression");
  Token token = tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, Literal{Value(true)});
  if (name == "false" || name == "False") return make(token.line, Literal{Value(false)});
  if (name == "none" || name == "None") return make(token.line, Literal{Value(None{})});
  if (in_macro_ && (name == "varargs" || name == "kwargs" || name == "caller")) {
    tokens_.fail(token.line, fmt::format("'{}' inside a macro is not supported", name));
  }
  return make(token.line, Name{std::move(token.text)});
}

ExpressionPtr ExpressionParser::parse_string() {
  const int line = tokens_.peek().line;
  std::string joined;
  while (tokens_.at(TokenType::kString))
    joined += tokens_.next().text;
  return make(line, Literal{Value(Text::from_template(joined))});
}

ExpressionPtr ExpressionParser::parse_parenthesis() {
  const int line = tokens_.next().line;
  if (tokens_.skip_operator(")")) return make(line, SequenceLiteral{SequenceKind::kTuple, {}});
  ExpressionPtr value = parse_tuple();
  tokens_.expect_operator(")");
  return value;
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.next().line;
  SequenceLiteral list;
  while (!tokens_.at_operator("]")) {
    if (!list.items.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("]")) break;
    list.items.push_back(parse());
  }
  tokens_.expect_operator("]");
  return make(line, std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.next().line;
  DictLiteral dict;
  while (!tokens_.at_operator("}")) {
    if (!dict.entries.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    ExpressionPtr key = parse();
    tokens_.expect_operator(":");
    dict.entries.emplace_back(std::move(key), parse());
  }
  tokens_.expect_operator("}");
  return make(line, std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (tokens_.at_operator(".")) {
      value = parse_dot(std::move(value));
    } else if (tokens_.at_operator("[")) {
      value = parse_subscript(std::move(value));
    } else if (tokens_.at_operator("(")) {
      const int line = tokens_.peek().line;
      value = make(line, Call{std::move(value), parse_arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr value) {
  while (true) {
    const int line = tokens_.peek().line;
    if (tokens_.skip_operator("|")) {
      value = make(line, parse_filter(std::move(value)));
    } else if (tokens_.at_name("is")) {
      value = parse_test(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = make(line, Call{std::move(value), parse_arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_dot(ExpressionPtr object) {
  const int line = tokens_.next().line;
  const Token token = tokens_.next();
  if (token.type == TokenType::kName) return make(line, Attribute{std::move(object), token.text});
  if (token.type == TokenType::kInteger) {
    ExpressionPtr index = make(line, Literal{Value(token.integer)});
    return make(line, Subscript{std::move(object), std::move(index)});
  }
  tokens_.fail(token.line, fmt::format("expected a name or a number behind '.', got {}", describe(token)));
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = tokens_.next().line;
  ExpressionPtr bounds[3];
  int colons = 0;
  while (!tokens_.at_operator("]")) {
    if (tokens_.skip_operator(":")) {
      if (++colons > 2) tokens_.fail(line, "a slice has at most two ':'");
    } else if (tokens_.at_operator(",")) {
      tokens_.fail(line, "a subscript of several values is not supported");
    } else if (bounds[colons]) {
      tokens_.fail_expected("']'");
    } else {
      bounds[colons] = parse();
    }
  }
  tokens_.expect_operator("]");
  if (colons > 0) {
    return make(line,
                Slice{std::move(object), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])});
  }
  if (!bounds[0]) tokens_.fail(line, "expected an index between '[' and ']'");
  return make(line, Subscript{std::move(object), std::move(bounds[0])});
}

bool ExpressionParser::at_test_argument() const {
  const Token& t = tokens_.peek();
  if (t.type == TokenType::kName) return t.text != "else" && t.text != "or" && t.text != "and";
  return t.type == TokenType::kString || t.type == TokenType::kInteger || t.type == TokenType::kFloat ||
         tokens_.at_operator("[") || tokens_.at_operator("{");
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  const int line = tokens_.next().line;
  TestUse node;
  node.negated = tokens_.skip_name("not");
  node.name = tokens_.expect_name("the name of a test");
  if (!is_test(node.name)) tokens_.fail(line, fmt::format("unknown test '{}'", printable(node.name)));
  node.input = std::move(input);
  if (tokens_.at_operator("(")) {
    node.arguments = parse_arguments();
  } else if (at_test_argument()) {
    if (tokens_.at_name("is")) tokens_.fail(line, "tests cannot be chained with 'is'");
    node.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  return make(line, std::move(node));
}

FilterUse ExpressionParser::parse_filter(ExpressionPtr input) {
  const int line = tokens_.peek().line;
  FilterUse node;
  node.name = tokens_.expect_name("the name of a filter");
  if (!is_filter(node.name)) tokens_.fail(line, fmt::format("unknown filter '{}'", printable(node.name)));
  node.input = std::move(input);
  if (tokens_.at_operator("(")) node.arguments = parse_arguments();
  return node;
}

std::vector<FilterUse> ExpressionParser::parse_filter_chain() {
  std::vector<FilterUse> filters;
  while (tokens_.skip_operator("|"))
    filters.push_back(parse_filter(nullptr));
  return filters;
}

ArgumentList ExpressionParser::parse_arguments() {
  ArgumentList out;
  tokens_.expect_operator("(");
  bool first = true;
  while (!tokens_.at_operator(")")) {
    if (!first) tokens_.expect_operator(",");
    first = false;
    if (tokens_.at_operator(")")) break;
    parse_argument(out);
  }
  tokens_.expect_operator(")");
  return out;
}

void ExpressionParser::parse_argument(ArgumentList& out) {
  const int line = tokens_.peek().line;
  if (tokens_.at_operator("*") || tokens_.at_operator("**")) {
    tokens_.fail(line, fmt::format("'{}' in a call is not supported", tokens_.peek().text));
  }
  const Token& second = tokens_.peek_second();
  if (tokens_.at(TokenType::kName) && second.type == TokenType::kOperator && second.text == "=") {
    std::string name = tokens_.next().text;
    tokens_.next();
    for (const auto& given : out.named) {
      if (given.first == name)
        tokens_.fail(line, fmt::format("argument '{}' is given twice", printable(name)));
    }
    out.named.emplace_back(std::move(name), parse());
    return;
  }
  if (!out.named.empty()) tokens_.fail(line, "a positional argument stands behind a named one");
  out.positional.push_back(parse());
}

}  // namespace switchyard::jinja
