#include "io/tokenizer/regex_syntax.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace switchyard {
namespace {

constexpr std::string_view kWordProperties = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside classes Oniguruma looks Latin-1 up in a table that counts superscripts and fractions as well.
constexpr std::string_view kLatin1Words = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// General categories are spelled alike in both; every other property name is tried as a script.
bool is_general_category(std::string_view name) {
  constexpr std::array<std::string_view, 37> kNames = {
      "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
      "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
      "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

class Translator {
 public:
  Translator(std::string_view pattern, const JsonPlace& place) : in_(pattern), place_(place) {}

  std::string run() {
    if (take("(?i)")) {
      caseless_ = true;
      out_ += "(?i)";
    }
    while (at_ < in_.size())
      item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    place_.refuse("a regular expression that PCRE2 and Oniguruma read alike",
                  fmt::format("{} at byte {} of {}", what, at_, printable(in_)));
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  bool take(std::string_view text) {
    if (in_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  void copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void item() {
    const char c = peek();
    if (std::string_view("[{*+?^$.|").find(c) != std::string_view::npos) last_literal_ = '\0';
    switch (c) {
      case '\\':
        return escape(false);
      case '[':
        return bracket();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '{':
        return interval();
      case '*':
      case '+':
      case '?':
      case '^':
      case '$':
      case '.':
      case '|':
        return copy(1);
      default:
        return literal();
    }
  }

  void literal() {
    check_caseless_literal(peek());
    copy(1);
  }

  // Case folding maps some pairs of ASCII letters to single characters (ss = ß, ff, fi, fl, st), which
  // Oniguruma honours and PCRE2 does not.
  void check_caseless_literal(char c) {
    const char previous = last_literal_;
    last_literal_ = lower(c);
    if (!caseless_) return;
    if (static_cast<unsigned char>(c) >= 0x80) refuse("a non-ASCII letter without case");
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (previous == pair[0] && lower(c) == pair[1]) refuse(fmt::format("'{}' without case", pair));
    }
  }

  void open_group() {
    groups_.push_back(caseless_);
    for (const std::string_view head : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (in_.substr(at_, head.size()) == head) return copy(head.size());
    }
    if (take("(?i:")) {
      caseless_ = true;
      out_ += "(?i:";
    } else if (take("(?-i:")) {
      caseless_ = false;
      out_ += "(?-i:";
    } else if (peek(1) == '?') {
      refuse(fmt::format("group {}", printable(in_.substr(at_, 4))));
    } else {
      at_ += 1;
      out_ += "(?:";
    }
  }

  void close_group() {
    if (groups_.empty()) refuse("an unmatched )");
    caseless_ = groups_.back();
    groups_.pop_back();
    copy(1);
  }

  void interval() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t start = end;
      while (end < in_.size() && is_digit(in_[end]))
        ++end;
      return end > start;
    };
    const bool has_min = digits();
    const bool has_comma = end < in_.size() && in_[end] == ',';
    if (has_comma) {
      ++end;
      digits();
    }
    if (!has_min || end >= in_.size() || in_[end] != '}') refuse("'{'");
    const char next = end + 1 < in_.size() ? in_[end + 1] : '\0';
    if (next == '+' || (next == '?' && !has_comma)) refuse(fmt::format("'{}' behind an interval", next));
    copy(end + 1 - at_);
  }

  void bracket() {
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') refuse("']' first in a class");
    while (peek() != ']') {
      if (at_ >= in_.size()) refuse("an unclosed class");
      if (peek() == '[') refuse("'[' inside a class");
      if (peek() == '&' && peek(1) == '&') refuse("'&&' inside a class");
      if (peek() == '\\') {
        escape(true);
      } else {
        last_literal_ = '\0';  // the members of a class never form a pair
        literal();
      }
    }
    copy(1);
    last_literal_ = '\0';
  }

  void escape(bool in_class) {
    const char c = peek(1);
    const char previous = std::exchange(last_literal_, '\0');
    if (at_ + 1 >= in_.size()) refuse("a trailing backslash");
    if (!is_letter(c) && !is_digit(c)) {
      if (static_cast<unsigned char>(c) >= 0x80) refuse("an escaped non-ASCII character");
      return copy(2);
    }
    switch (c) {
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        return copy(2);
      case 's':
      case 'S':
        return replace(2, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
      case 'w':
      case 'W':
        return set(std::string(kWordProperties).append(in_class ? "" : kLatin1Words), c == 'W', in_class);
      case 'h':
      case 'H':
        return set(kHexDigits, c == 'H', in_class);
      case 'v':
        return replace(2, "\\x0b");
      case 'p':
      case 'P':
        return property();
      case 'x':
      case 'u':
        last_literal_ = previous;
        return code_point();
      case 'A':
      case 'z':
      case 'Z':
        if (!in_class) return copy(2);
        break;
      default:
        break;
    }
    refuse(fmt::format("\\{}", c));
  }

  void replace(size_t count, std::string_view text) {
    at_ += count;
    out_ += text;
  }

  void set(std::string_view members, bool negated, bool in_class) {
    if (in_class && negated) refuse(fmt::format("\\{} inside a class", peek(1)));
    replace(2, in_class ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members));
  }

  void property() {
    if (caseless_) refuse("a property without case");
    const size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse(fmt::format("\\{} without braces", peek(1)));
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool caret = !name.empty() && name[0] == '^';
    if (caret) name.remove_prefix(1);
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || c == '_'; });
    if (name.empty() || !plain) refuse(fmt::format("property '{}'", printable(name)));
    out_ += fmt::format("\\{}{{{}{}{}}}", peek(1), caret ? "^" : "",
                        is_general_category(name) ? "" : "sc:", name);
    at_ = end + 1;
  }

  void code_point() {
    const bool braces = in_.substr(at_, 3) == "\\x{";
    const size_t max_digits = braces ? 6 : peek(1) == 'u' ? 4 : 2;
    const size_t start = at_ + (braces ? 3 : 2);
    size_t end = start;
    while (end < in_.size() && end - start < max_digits && is_hex(in_[end]))
      ++end;
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    if (end == start || !closed || (peek(1) == 'u' && end - start != 4)) refuse("a malformed code point");
    const std::string digits(in_.substr(start, end - start));
    const unsigned long code = std::stoul(digits, nullptr, 16);
    if (peek(1) == 'x' && !braces && code >= 0x80) refuse("a raw byte");
    check_caseless_literal(code < 0x80 ? static_cast<char>(code) : '\x80');
    replace(end + (braces ? 1 : 0) - at_, fmt::format("\\x{{{}}}", digits));
  }

  std::string_view in_;
  const JsonPlace& place_;
  size_t at_ = 0;
  std::string out_;
  bool caseless_ = false;
  char last_literal_ = '\0';  // lower case; the literal that the next one directly follows
  std::vector<bool> groups_;  // caseless_ outside each open group
};

}  // namespace

std::string pcre2_syntax(std::string_view oniguruma_pattern, const JsonPlace& place) {
  return Translator(oniguruma_pattern, place).run();
}

}  // namespace switchyard
