// Splits a template into text and the tokens inside its tags, with the white space rules of
// Environment(trim_blocks=True, lstrip_blocks=True).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace switchyard::jinja {

enum class TokenType {
  kText,           // template text, white space already trimmed
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,    // escapes decoded
  kInteger,   // value in `integer`
  kFloat,     // value in `real`
  kOperator,  // spelling in `text`
  kEnd
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

// Throws Error "<where>: line N: ...". The last token is kEnd.
std::vector<Token> tokenize(std::string_view source, const std::string& where);

// What a token is called in messages.
std::string describe(const Token& token);

}  // namespace switchyard::jinja
