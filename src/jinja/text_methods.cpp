#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "jinja/case_mapping.h"
#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/python_format.h"
#include "jinja/string_format.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

struct MethodRow {
  std::string_view parameters;
  size_t required = 0;
  Value (*apply)(Runtime&, const Text& self, const Bound& arguments) = nullptr;
};

template <Side side>
Value strip_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  return runtime.make_text(strip(self, arguments.text_or_none(0), side));
}

template <CaseMapping mapping>
Value case_method(Runtime& runtime, const Text& self, const Bound&) {
  return runtime.make_text(map_case(runtime, self, mapping));
}

int64_t occurrences(const Text& text, const Text& part) {
  if (part.size() == 0) return utf8::count(text.bytes) + 1;
  int64_t count = 0;
  for (size_t i = text.bytes.find(part.bytes); i != std::string::npos;
       i = text.bytes.find(part.bytes, i + part.size())) {
    ++count;
  }
  return count;
}

// Each part costs memory of its own however short it is, so it is paid for before it is made.
void charge_parts(Runtime& runtime, const Text& self, const Text* separator) {
  runtime.charge_bytes(self.size());
  runtime.charge(separator == nullptr ? static_cast<int64_t>(self.size())
                                      : 4 * occurrences(self, *separator));
}

template <std::vector<Text> (*split_function)(const Text&, const Text*, int64_t)>
Value split_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  const Text* separator = arguments.text_or_none(0);
  if (separator != nullptr && separator->size() == 0) runtime.fail("split: the separator is empty");
  charge_parts(runtime, self, separator);
  return runtime.make_texts(split_function(self, separator, arguments.integer(1, -1)));
}

Value splitlines(Runtime& runtime, const Text& self, const Bound& arguments) {
  charge_parts(runtime, self, nullptr);
  return runtime.make_texts(split_lines(self, arguments.boolean(0, false)));
}

// A prefix or suffix given as a str or as a tuple of them.
template <bool at_end>
Value has_affix(Runtime& runtime, const Text& self, const Bound& arguments) {
  const auto matches = [&](const Value& affix) {
    if (!affix.is_text()) {
      runtime.fail(affix.is_undefined()
                       ? affix.undefined_reason()
                       : fmt::format("a prefix or suffix must be str, not {}", affix.type_name()));
    }
    const std::string& part = affix.text().bytes;
    if (part.size() > self.size()) return false;
    return self.bytes.compare(at_end ? self.size() - part.size() : 0, part.size(), part) == 0;
  };
  const Value& given = arguments.at(0);
  if (!given.is(Kind::kSequence) || given.sequence().kind != SequenceKind::kTuple)
    return Value(matches(given));
  const auto& all = given.sequence().items;
  return Value(std::any_of(all.begin(), all.end(), matches));
}

template <bool at_end>
Value remove_affix(Runtime& runtime, const Text& self, const Bound& arguments) {
  const std::string& part = arguments.text(0).bytes;
  const bool fits = part.size() <= self.size() && !part.empty() &&
                    self.bytes.compare(at_end ? self.size() - part.size() : 0, part.size(), part) == 0;
  if (!fits) return runtime.make_text(self);
  return runtime.make_text(at_end ? self.slice(0, self.size() - part.size())
                                  : self.slice(part.size(), self.size()));
}

Value replace_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  return replace_checked(runtime, self, arguments.text(0), arguments.text(1), arguments.integer(2, -1));
}

// The code point index of a part, -1 where there is none.
template <bool last>
int64_t find_part(Runtime& runtime, const Text& self, const Bound& arguments) {
  runtime.charge_bytes(self.size());
  const std::string& part = arguments.text(0).bytes;
  const size_t found = last ? self.bytes.rfind(part) : self.bytes.find(part);
  if (found == std::string::npos) return -1;
  return utf8::count(std::string_view(self.bytes).substr(0, found));
}

template <bool last>
Value find_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  return Value(find_part<last>(runtime, self, arguments));
}

template <bool last>
Value index_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  const int64_t found = find_part<last>(runtime, self, arguments);
  if (found < 0) runtime.fail("index: substring not found");
  return Value(found);
}

Value count_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  runtime.charge_bytes(self.size());
  return Value(occurrences(self, arguments.text(0)));
}

Value join_method(Runtime& runtime, const Text& self, const Bound& arguments) {
  Text out;
  bool first = true;
  for (const Value& item : each(runtime, arguments.at(0))) {
    if (!item.is_text()) runtime.fail(fmt::format("join: expected str items, got {}", item.type_name()));
    if (!first) out.append(self);
    first = false;
    runtime.charge_bytes(self.size() + item.text().size());
    out.append(item.text());
    runtime.check_string(static_cast<int64_t>(out.size()));
  }
  return runtime.make_text(std::move(out));
}

template <bool last>
Value partition(Runtime& runtime, const Text& self, const Bound& arguments) {
  const Text& separator = arguments.text(0);
  if (separator.size() == 0) runtime.fail("partition: the separator is empty");
  const size_t found = last ? self.bytes.rfind(separator.bytes) : self.bytes.find(separator.bytes);
  std::vector<Text> parts(3);
  if (found == std::string::npos) {
    parts[last ? 2 : 0] = self;
  } else {
    const size_t end = found + separator.size();
    parts = {self.slice(0, found), self.slice(found, end), self.slice(end, self.size())};
  }
  return runtime.make_sequence(SequenceKind::kTuple, runtime.make_texts(std::move(parts)).sequence().items);
}

// True for a non-empty text of which each character passes.
template <bool (*passes)(char)>
Value all_characters(Runtime& runtime, const Text& self, const Bound&) {
  if (!utf8::is_ascii(self.bytes)) runtime.fail("classes of non-ASCII characters are not supported");
  return Value(self.size() != 0 && std::all_of(self.bytes.begin(), self.bytes.end(), passes));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_alpha(char c) {
  return is_upper(c) || is_lower(c);
}
bool is_alnum(char c) {
  return is_alpha(c) || is_digit(c);
}

Value isspace(Runtime&, const Text& self, const Bound&) {
  return Value(self.size() != 0 && strip(self, nullptr, Side::kBoth).size() == 0);
}

template <bool (*wanted)(char), bool (*unwanted)(char)>
Value has_only_case(Runtime& runtime, const Text& self, const Bound&) {
  if (!utf8::is_ascii(self.bytes)) runtime.fail("the case of non-ASCII text is not supported");
  return Value(std::any_of(self.bytes.begin(), self.bytes.end(), wanted) &&
               std::none_of(self.bytes.begin(), self.bytes.end(), unwanted));
}

Text fill(Runtime& runtime, const Bound& arguments, int64_t count) {
  const Text character = arguments.get(1) == nullptr ? Text::from_template(" ") : arguments.text(1);
  if (utf8::count(character.bytes) != 1) runtime.fail("the fill character must be exactly one character");
  Text out;
  runtime.check_string(count);
  for (int64_t i = 0; i < count; ++i)
    out.append(character);
  return out;
}

// str.center puts the odd character to the left when the width is odd.
enum class Adjust { kLeft, kCenter, kRight };
template <Adjust adjust>
Value justify(Runtime& runtime, const Text& self, const Bound& arguments) {
  const int64_t width = arguments.integer(0, 0);
  const int64_t missing = std::max<int64_t>(0, width - utf8::count(self.bytes));
  const int64_t left = adjust == Adjust::kLeft    ? 0
                       : adjust == Adjust::kRight ? missing
                                                  : missing / 2 + (missing & width & 1);
  Text out = fill(runtime, arguments, left);
  out.append(self);
  out.append(fill(runtime, arguments, missing - left));
  return runtime.make_text(std::move(out));
}

Value zfill(Runtime& runtime, const Text& self, const Bound& arguments) {
  const int64_t missing = std::max<int64_t>(0, arguments.integer(0, 0) - utf8::count(self.bytes));
  runtime.check_string(missing);
  const size_t sign = self.size() != 0 && (self.bytes[0] == '-' || self.bytes[0] == '+') ? 1 : 0;
  Text out = self.slice(0, sign);
  out.append(std::string(static_cast<size_t>(missing), '0'), false);
  out.append(self, sign, self.size());
  return runtime.make_text(std::move(out));
}

const std::unordered_map<std::string_view, MethodRow>& table() {
  static const std::unordered_map<std::string_view, MethodRow> kTable = {
      {"strip", {"chars", 0, strip_method<Side::kBoth>}},
      {"lstrip", {"chars", 0, strip_method<Side::kLeft>}},
      {"rstrip", {"chars", 0, strip_method<Side::kRight>}},
      {"upper", {"", 0, case_method<CaseMapping::kUpper>}},
      {"lower", {"", 0, case_method<CaseMapping::kLower>}},
      {"title", {"", 0, case_method<CaseMapping::kTitle>}},
      {"capitalize", {"", 0, case_method<CaseMapping::kCapitalize>}},
      {"swapcase", {"", 0, case_method<CaseMapping::kSwap>}},
      {"split", {"sep maxsplit", 0, split_method<split>}},
      {"rsplit", {"sep maxsplit", 0, split_method<rsplit>}},
      {"splitlines", {"keepends", 0, splitlines}},
      {"startswith", {"prefix", 1, has_affix<false>}},
      {"endswith", {"suffix", 1, has_affix<true>}},
      {"removeprefix", {"prefix", 1, remove_affix<false>}},
      {"removesuffix", {"suffix", 1, remove_affix<true>}},
      {"replace", {"old new count", 2, replace_method}},
      {"find", {"sub", 1, find_method<false>}},
      {"rfind", {"sub", 1, find_method<true>}},
      {"index", {"sub", 1, index_method<false>}},
      {"rindex", {"sub", 1, index_method<true>}},
      {"count", {"sub", 1, count_method}},
      {"join", {"iterable", 1, join_method}},
      {"partition", {"sep", 1, partition<false>}},
      {"rpartition", {"sep", 1, partition<true>}},
      {"isdigit", {"", 0, all_characters<is_digit>}},
      {"isalpha", {"", 0, all_characters<is_alpha>}},
      {"isalnum", {"", 0, all_characters<is_alnum>}},
      {"isspace", {"", 0, isspace}},
      {"isupper", {"", 0, has_only_case<is_upper, is_lower>}},
      {"islower", {"", 0, has_only_case<is_lower, is_upper>}},
      {"ljust", {"width fillchar", 1, justify<Adjust::kLeft>}},
      {"rjust", {"width fillchar", 1, justify<Adjust::kRight>}},
      {"center", {"width fillchar", 1, justify<Adjust::kCenter>}},
      {"zfill", {"width", 1, zfill}},
  };
  return kTable;
}

// Python takes names only for these; the arguments of the other methods are positional.
bool takes_names(const std::string& name) {
  return name == "split" || name == "rsplit" || name == "splitlines";
}

}  // namespace

bool is_text_method(std::string_view name) {
  return name == "format" || table().count(name) != 0;
}

Value call_text_method(Runtime& runtime, const Text& self, const std::string& name,
                       const Arguments& arguments) {
  if (name == "format") return runtime.make_text(brace_format(runtime, self, arguments));
  const MethodRow& row = table().at(name);
  if (!arguments.named.empty() && !takes_names(name)) {
    runtime.fail(fmt::format("{} takes no named arguments", name));
  }
  return row.apply(runtime, self, Bound(runtime, name, row.parameters, row.required, arguments));
}

Value replace_checked(Runtime& runtime, const Text& text, const Text& old, const Text& by, int64_t count) {
  runtime.charge_bytes(text.size());
  int64_t matches = occurrences(text, old);
  if (count >= 0) matches = std::min(matches, count);
  // At most 2^24 matches and 2^24 bytes each: no overflow.
  const auto growth = static_cast<int64_t>(by.size()) - static_cast<int64_t>(old.size());
  runtime.check_string(static_cast<int64_t>(text.size()) + matches * growth);
  return runtime.make_text(replace(text, old, by, count));
}

}  // namespace switchyard::jinja
