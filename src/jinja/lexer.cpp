#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "jinja/literals.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

// As Jinja2: all line ends become \n and one at the very end is dropped.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c);
}

constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& where)
      : source_(normalize_lines(source)), where_(where) {}

  std::vector<Token> run() {
    while (at_ < source_.size())
      read_text_and_tag();
    add(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, int line) const {
    throw Error(where_, fmt::format("line {}: {}", line, message));
  }
  [[noreturn]] void fail(const std::string& message) const { fail(message, line_); }

  bool looking_at(std::string_view what) const { return source_.compare(at_, what.size(), what) == 0; }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  void advance(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
  }

  void skip_space() {
    size_t end = at_;
    for (size_t next = end; end < source_.size(); end = next) {
      if (!utf8::is_space(utf8::decode(source_, next))) break;
    }
    advance(end - at_);
  }

  Token& add(TokenType type, std::string text = {}) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  // Next "{{", "{%" or "{#" at or after `from`, or the end of the source.
  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1)) {
      const char next = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return source_.size();
  }

  // Applies the tag's sign to the text before it: '-' strips all white space, a block or comment without sign
  // takes the indentation of its line with it (lstrip_blocks), '+' keeps it.
  std::string_view trim_before(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') {
      size_t end = text.size();
      while (end > 0) {
        const size_t start = utf8::previous(text, end);
        size_t i = start;
        if (!utf8::is_space(utf8::decode(text, i))) break;
        end = start;
      }
      return text.substr(0, end);
    }
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_begin == 0 && !at_line_start_) return text;
    for (size_t i = line_begin; i < text.size();) {
      if (!utf8::is_space(utf8::decode(text, i))) return text;
    }
    return text.substr(0, line_begin);
  }

  void add_text(std::string_view text) {
    if (!text.empty()) add(TokenType::kText, std::string(text));
  }

  void read_text_and_tag() {
    const size_t tag = find_tag(at_);
    const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (tag == source_.size()) {
      add_text(text);
      advance(text.size());
      return;
    }
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    const char kind = source_[tag + 1];
    add_text(trim_before(text, has_sign ? sign : '\0', kind == '{'));
    advance(text.size() + 2 + (has_sign ? 1 : 0));
    if (kind == '#') {
      skip_comment();
    } else if (kind == '%' && at_raw_tag()) {
      read_raw();
    } else {
      read_tag(kind == '{');
    }
    at_line_start_ = source_[at_ - 1] == '\n';
  }

  // Behind "-%}" all white space goes, behind "%}" one newline (trim_blocks), behind "+%}" nothing.
  void close_block(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && peek() == '\n') {
      advance(1);
    }
  }

  void skip_comment() {
    const int begin_line = line_;
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("the comment that begins here has no end", begin_line);
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    close_block(sign);
  }

  // Length of `spaces NAME spaces [-+]%}` at i, with the sign in `sign`; 0 if something else stands there.
  size_t match_plain_tag(size_t i, std::string_view name, char& sign) const {
    const size_t begin = i;
    const auto skip = [&] {
      while (i < source_.size() && (source_[i] == ' ' || source_[i] == '\n' || source_[i] == '\t'))
        ++i;
    };
    skip();
    if (source_.compare(i, name.size(), name) != 0) return 0;
    i += name.size();
    skip();
    sign = i < source_.size() ? source_[i] : '\0';
    if (sign == '-' || sign == '+') ++i;
    return source_.compare(i, 2, "%}") == 0 ? i + 2 - begin : 0;
  }

  bool at_raw_tag() const {
    char sign = '\0';
    return match_plain_tag(at_, "raw", sign) != 0 && sign != '+';
  }

  void read_raw() {
    const int begin_line = line_;
    char sign = '\0';
    advance(match_plain_tag(at_, "raw", sign));
    if (sign == '-') skip_space();
    at_line_start_ = source_[at_ - 1] == '\n';
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      const char open = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const bool has_sign = open == '-' || open == '+';
      const size_t name = tag + 2 + (has_sign ? 1 : 0);
      const size_t length = match_plain_tag(name, "endraw", sign);
      if (length == 0) continue;
      add_text(trim_before(std::string_view(source_).substr(at_, tag - at_), has_sign ? open : '\0', false));
      advance(name + length - at_);
      close_block(sign);
      return;
    }
    fail("the raw block that begins here has no end", begin_line);
  }

  void read_tag(bool is_variable) {
    const int begin_line = line_;
    const std::string_view end = is_variable ? "}}" : "%}";
    add(is_variable ? TokenType::kVariableBegin : TokenType::kBlockBegin);
    brackets_.clear();
    while (true) {
      skip_space();
      if (at_ == source_.size()) fail("the tag that begins here has no end", begin_line);
      if (brackets_.empty() && read_tag_end(end, is_variable)) return;
      read_token();
    }
  }

  bool read_tag_end(std::string_view end, bool is_variable) {
    const char sign = peek();
    const bool has_sign = sign == '-' || (sign == '+' && !is_variable);
    if (source_.compare(at_ + (has_sign ? 1 : 0), 2, end) != 0) return false;
    add(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd);
    advance(2 + (has_sign ? 1 : 0));
    if (!is_variable || sign == '-') close_block(has_sign ? sign : '\0');
    return true;
  }

  void read_token() {
    const char c = peek();
    if (is_name_start(c)) {
      size_t n = 1;
      while (is_name_part(peek(n)))
        ++n;
      add(TokenType::kName, source_.substr(at_, n));
      advance(n);
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '\'' || c == '"') {
      read_string(c);
    } else {
      read_operator();
    }
  }

  void read_number() {
    const NumberLiteral number = parse_number(std::string_view(source_).substr(at_), source_[at_ - 1] == '.');
    if (!number.error.empty()) fail(number.error);
    Token& token =
        add(number.is_integer ? TokenType::kInteger : TokenType::kFloat, source_.substr(at_, number.length));
    token.integer = number.integer;
    token.real = number.real;
    advance(number.length);
  }

  void read_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote)
      end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("the string that begins here has no end");
    std::string error;
    std::string decoded = decode_escapes(std::string_view(source_).substr(at_ + 1, end - at_ - 1), error);
    if (!error.empty()) fail(error);
    add(TokenType::kString, std::move(decoded));
    advance(end + 1 - at_);
  }

  void read_operator() {
    const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                    [this](std::string_view o) { return looking_at(o); });
    if (found == kOperators.end()) {
      fail(fmt::format("unexpected character '{}'", printable(source_.substr(at_, 4), 4)));
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) fail(fmt::format("unexpected '{}'", c));
      if (brackets_.back() != c) fail(fmt::format("unexpected '{}', expected '{}'", c, brackets_.back()));
      brackets_.pop_back();
    }
    add(TokenType::kOperator, std::string(*found));
    advance(found->size());
  }

  const std::string source_;
  const std::string& where_;
  std::vector<Token> tokens_;
  std::string brackets_;  // closing brackets still to come; inside them "}}" does not end a tag
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& where) {
  if (const auto bad = utf8::first_invalid(source)) {
    throw Error(where, fmt::format("byte {}", *bad), "valid UTF-8",
                fmt::format("'{}'", printable(source.substr(*bad, 4))));
  }
  return Lexer(source, where).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kText:
      return "template text";
    case TokenType::kVariableBegin:
      return "'{{'";
    case TokenType::kVariableEnd:
      return "'}}'";
    case TokenType::kBlockBegin:
      return "'{%'";
    case TokenType::kBlockEnd:
      return "'%}'";
    case TokenType::kString:
      return fmt::format("string '{}'", printable(token.text, 40));
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kName:
    case TokenType::kInteger:
    case TokenType::kFloat:
    case TokenType::kOperator:
      break;
  }
  return fmt::format("'{}'", printable(token.text, 40));
}

}  // namespace switchyard::jinja
