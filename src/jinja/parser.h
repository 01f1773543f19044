// Tokens to tree, by recursive descent with Jinja2's grammar.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace switchyard::jinja {

// Bounds of the tree. Real templates stay below 40 and 15.
inline constexpr int kMaxExpressionHeight = 120;
inline constexpr int kMaxBlockNesting = 50;

// Walks the tokens; what both halves of the parser share.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& where)
      : tokens_(std::move(tokens)), where_(where) {}

  const Token& peek() const { return tokens_[at_]; }
  const Token& peek_second() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  int last_line() const { return tokens_[at_ == 0 ? 0 : at_ - 1].line; }  // of the token before peek()

  bool at(TokenType type) const { return peek().type == type; }
  bool at_operator(std::string_view spelling) const;
  bool at_name(std::string_view name) const;
  bool skip_operator(std::string_view spelling);
  bool skip_name(std::string_view name);

  void expect_operator(std::string_view spelling);
  void expect(TokenType type, std::string_view what);
  std::string expect_name(std::string_view what);

  [[noreturn]] void fail(int line, const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  std::vector<Token> tokens_;
  const std::string& where_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr parse();  // with inline if
  // a, b, c: a tuple, or the only element. Inline if is left out where `if` means something else.
  ExpressionPtr parse_tuple(bool with_conditional = true);
  // A value that will be kept in a variable.
  ExpressionPtr parse_stored(bool tuple);
  std::vector<FilterUse> parse_filter_chain();  // | a | b(1), without input

  // A value that `safe` or `escape` marks as HTML escapes the strings it is joined with, which this engine
  // does not do: those filters may only be the last thing before printing, where the mark has no effect.
  void refuse_markup(const Expression& value) const;

  // Names varargs, kwargs and caller have a meaning inside macros that is not supported.
  void set_in_macro(bool in_macro) { in_macro_ = in_macro; }

 private:
  class Nesting;

  ExpressionPtr make(int line, ExpressionNode node) const;
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_parenthesis();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr value);
  ExpressionPtr parse_dot(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_test(ExpressionPtr input);
  FilterUse parse_filter(ExpressionPtr input);
  ArgumentList parse_arguments();
  void parse_argument(ArgumentList& out);
  bool at_tuple_end() const;
  bool at_test_argument() const;

  TokenStream& tokens_;
  int nesting_ = 0;
  bool in_macro_ = false;
};

// Throws Error "<where>: line N: ...".
Program parse_template(std::string_view source, const std::string& where);

}  // namespace switchyard::jinja
