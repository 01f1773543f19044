#include "jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "jinja/filters.h"

namespace switchyard::jinja {

Token TokenStream::next() {
  const Token& token = tokens_[at_];
  if (token.type != TokenType::kEnd) ++at_;
  return token;
}

bool TokenStream::at_operator(std::string_view spelling) const {
  return at(TokenType::kOperator) && peek().text == spelling;
}

bool TokenStream::at_name(std::string_view name) const {
  return at(TokenType::kName) && peek().text == name;
}

bool TokenStream::skip_operator(std::string_view spelling) {
  if (!at_operator(spelling)) return false;
  ++at_;
  return true;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  ++at_;
  return true;
}

void TokenStream::expect_operator(std::string_view spelling) {
  if (!skip_operator(spelling)) fail_expected(fmt::format("'{}'", spelling));
}

void TokenStream::expect(TokenType type, std::string_view what) {
  if (!at(type)) fail_expected(what);
  ++at_;
}

std::string TokenStream::expect_name(std::string_view what) {
  if (!at(TokenType::kName)) fail_expected(what);
  return next().text;
}

void TokenStream::fail(int line, const std::string& message) const {
  throw Error(where_, fmt::format("line {}: {}", line, message));
}

void TokenStream::fail_expected(std::string_view what) const {
  fail(peek().line, fmt::format("expected {}, got {}", what, describe(peek())));
}

namespace {

class Parser {
 public:
  explicit Parser(TokenStream& tokens) : tokens_(tokens), expressions_(tokens) {}

  Program run() {
    Program program;
    program.body = parse_block({});
    return program;
  }

 private:
  // Statements up to one of the `ends`, whose name is left as the next token. Without ends: up to the end of
  // the template.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    if (++nesting_ > kMaxBlockNesting) {
      tokens_.fail(tokens_.peek().line, fmt::format("blocks nested more than {} deep", kMaxBlockNesting));
    }
    Block block;
    const int begin_line = tokens_.last_line();
    while (!tokens_.at(TokenType::kEnd)) {
      if (tokens_.at(TokenType::kBlockBegin)) {
        tokens_.next();
        const Token& name = tokens_.peek();
        if (name.type == TokenType::kName && std::find(ends.begin(), ends.end(), name.text) != ends.end()) {
          --nesting_;
          return block;
        }
      }
      block.push_back(parse_statement());
    }
    if (ends.size() != 0) {
      tokens_.fail(begin_line, fmt::format("the block that begins here has no '{}'", *(ends.end() - 1)));
    }
    --nesting_;
    return block;
  }

  // The body of a block that only `end` closes, with the closing tag.
  Block parse_body(std::string_view end) {
    Block body = parse_block({end});
    tokens_.next();
    end_tag();
    return body;
  }

  void end_tag() { tokens_.expect(TokenType::kBlockEnd, "'%}'"); }

  Statement parse_statement() {
    const int line = tokens_.peek().line;
    if (tokens_.at(TokenType::kText)) {
      const Token text = tokens_.next();
      return {line, Output{std::make_shared<const Text>(Text::from_template(text.text))}};
    }
    if (tokens_.at(TokenType::kVariableBegin)) {
      tokens_.next();
      Print print{expressions_.parse_tuple()};
      tokens_.expect(TokenType::kVariableEnd, "'}}'");
      return {line, std::move(print)};
    }
    return {line, parse_tag(line)};
  }

  StatementNode parse_tag(int line) {
    const std::string tag = tokens_.expect_name("the name of a tag");
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro(line);
    if (tag == "with") return parse_with();
    if (tag == "generation") {
      end_tag();
      return With{{}, parse_captured("endgeneration")};
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) tokens_.fail(line, fmt::format("'{}' outside a loop", tag));
      end_tag();
      if (tag == "break") return Break{};
      return Continue{};
    }
    tokens_.fail(line, fmt::format("unknown or unsupported tag '{}'", printable(tag)));
  }

  Block parse_scope(std::string_view end) {
    ++scopes_;
    Block body = parse_body(end);
    --scopes_;
    return body;
  }

  // A body that is rendered on its own: break and continue cannot leave it.
  Block parse_captured(std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    Block body = parse_scope(end);
    loops_ = outer_loops;
    return body;
  }

  If parse_if() {
    If node;
    while (true) {
      Branch branch;
      branch.condition = expressions_.parse_tuple(false);
      end_tag();
      branch.body = parse_block({"elif", "else", "endif"});
      node.branches.push_back(std::move(branch));
      const std::string next = tokens_.next().text;
      if (next == "elif") continue;
      end_tag();
      if (next == "else") node.otherwise = parse_body("endif");
      return node;
    }
  }

  For parse_for() {
    For node;
    node.target = parse_target(false);
    if (!tokens_.skip_name("in")) tokens_.fail_expected("'in'");
    node.iterable = expressions_.parse_tuple(false);
    if (tokens_.skip_name("if")) node.condition = expressions_.parse();
    if (tokens_.at_name("recursive")) {
      tokens_.fail(tokens_.peek().line, "recursive loops are not supported");
    }
    end_tag();
    ++loops_;
    ++scopes_;
    node.body = parse_block({"else", "endfor"});
    --loops_;
    const bool has_else = tokens_.next().text == "else";
    end_tag();
    if (has_else) node.otherwise = parse_body("endfor");
    --scopes_;
    return node;
  }

  Target parse_target(bool allow_attribute) {
    Target target;
    const bool parenthesis = tokens_.skip_operator("(");
    target.names.push_back(parse_target_name());
    if (allow_attribute && tokens_.skip_operator(".")) {
      target.attribute = tokens_.expect_name("the name of an attribute");
      if (tokens_.at_operator(",")) {
        tokens_.fail(tokens_.peek().line, "unpacking into an attribute is not supported");
      }
    }
    while (tokens_.skip_operator(",")) {
      target.unpacks = true;
      if (parenthesis && tokens_.at_operator(")")) break;
      target.names.push_back(parse_target_name());
    }
    if (parenthesis) tokens_.expect_operator(")");
    return target;
  }

  std::string parse_target_name() {
    if (tokens_.at_operator("(")) {
      tokens_.fail(tokens_.peek().line, "nested assignment targets are not supported");
    }
    const int line = tokens_.peek().line;
    std::string name = tokens_.expect_name("a name to assign to");
    for (const std::string_view constant :
         {"true", "false", "none", "True", "False", "None", "loop", "not", "and", "or", "if", "in", "is"}) {
      if (name == constant) tokens_.fail(line, fmt::format("cannot assign to '{}'", name));
    }
    return name;
  }

  StatementNode parse_set() {
    Target target = parse_target(true);
    if (tokens_.skip_operator("=")) {
      Set node{std::move(target), expressions_.parse_stored(true)};
      end_tag();
      return node;
    }
    SetBlock node;
    node.target = std::move(target);
    node.filters = expressions_.parse_filter_chain();
    for (const FilterUse& filter : node.filters) {
      if (makes_markup(filter.name)) {
        tokens_.fail(tokens_.peek().line,
                     fmt::format("filter '{}' on a set block is not supported", filter.name));
      }
    }
    end_tag();
    node.body = parse_captured("endset");
    return node;
  }

  MacroStatement parse_macro(int line) {
    // A macro sees the variables of the place it was defined at; at the top level those live as long as the
    // rendering.
    if (scopes_ != 0) tokens_.fail(line, "a macro inside a loop, macro or scoped block is not supported");
    MacroStatement macro;
    macro.name = parse_target_name();
    expressions_.set_in_macro(true);
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")")) {
      if (!macro.parameters.empty()) tokens_.expect_operator(",");
      if (tokens_.at_operator(")")) break;
      macro.parameters.push_back(parse_parameter(macro));
    }
    tokens_.expect_operator(")");
    end_tag();
    macro.body = parse_captured("endmacro");
    expressions_.set_in_macro(false);
    return macro;
  }

  Parameter parse_parameter(const MacroStatement& macro) {
    const int line = tokens_.peek().line;
    Parameter parameter;
    parameter.name = parse_target_name();
    if (tokens_.skip_operator("=")) {
      parameter.otherwise = expressions_.parse_stored(false);
    } else if (!macro.parameters.empty() && macro.parameters.back().otherwise) {
      tokens_.fail(line, "a parameter without default stands behind one with a default");
    }
    for (const Parameter& other : macro.parameters) {
      if (other.name == parameter.name) {
        tokens_.fail(line, fmt::format("parameter '{}' is declared twice", printable(parameter.name)));
      }
    }
    return parameter;
  }

  With parse_with() {
    With node;
    while (!tokens_.at(TokenType::kBlockEnd)) {
      if (!node.variables.empty()) tokens_.expect_operator(",");
      Target target;
      target.names.push_back(parse_target_name());
      tokens_.expect_operator("=");
      node.variables.emplace_back(std::move(target), expressions_.parse_stored(false));
    }
    end_tag();
    node.body = parse_scope("endwith");
    return node;
  }

  TokenStream& tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;
  int scopes_ = 0;  // open blocks whose variables end with them
};

}  // namespace

Program parse_template(std::string_view source, const std::string& where) {
  TokenStream tokens(tokenize(source, where), where);
  return Parser(tokens).run();
}

}  // namespace switchyard::jinja
