#include "jinja/string_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "jinja/python_format.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

constexpr int kMaxWidth = 1000;  // of width and precision

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {
    is_tuple_ = values.is(Kind::kSequence) && values.sequence().kind == SequenceKind::kTuple;
  }

  Text run() {
    const std::string& f = format_.bytes;
    while (at_ < f.size()) {
      const size_t percent = std::min(f.find('%', at_), f.size());
      out_.append(format_, at_, percent);
      at_ = percent;
      if (at_ < f.size()) convert();
      runtime_.check_string(static_cast<int64_t>(out_.size()));
    }
    const size_t given = is_tuple_ ? values_.sequence().items.size() : 1;
    const bool may_be_unused = values_.is(Kind::kDict) || values_.is(Kind::kSequence);
    if (next_ < given && !used_name_ && (is_tuple_ || !may_be_unused)) {
      runtime_.fail("not all values were used by the % format");
    }
    return std::move(out_);
  }

 private:
  struct Spec {
    bool left = false, plus = false, zero = false, space = false;
    int width = 0;
    std::optional<int> precision;
  };

  char take() {
    if (at_ == format_.size()) runtime_.fail("a % format ends within a conversion");
    return format_.bytes[at_++];
  }

  void convert() {
    const size_t begin = at_++;
    const Value* named = read_name();
    Spec spec = read_spec();
    const char type = take();
    if (type == '%') {
      if (at_ != begin + 2) runtime_.fail("'%%' with width or flags is not supported");
      return out_.append(format_, begin, begin + 1);
    }
    const Value& value = named != nullptr ? *named : next_value();
    if (type == 's' || type == 'r') return put_text(spec, value, type);
    put_number(spec, value, type);
  }

  const Value* read_name() {
    if (at_ == format_.size() || format_.bytes[at_] != '(') return nullptr;
    const size_t end = format_.bytes.find(')', at_);
    if (end == std::string::npos || !values_.is(Kind::kDict)) runtime_.fail("%(name) needs a dict and a ')'");
    const std::string name = format_.bytes.substr(at_ + 1, end - at_ - 1);
    const Value* value = values_.dict().find(name);
    if (value == nullptr) runtime_.fail(fmt::format("% format: no key '{}'", printable(name)));
    at_ = end + 1;
    used_name_ = true;
    return value;
  }

  Spec read_spec() {
    Spec spec;
    for (; at_ < format_.size(); ++at_) {
      const char c = format_.bytes[at_];
      if (c == '-') {
        spec.left = true;
      } else if (c == '+') {
        spec.plus = true;
      } else if (c == '0') {
        spec.zero = true;
      } else if (c == ' ') {
        spec.space = true;
      } else {
        break;
      }
    }
    spec.width = read_int().value_or(0);
    if (at_ < format_.size() && format_.bytes[at_] == '.') {
      ++at_;
      spec.precision = read_int().value_or(0);
    }
    return spec;
  }

  std::optional<int> read_int() {
    std::optional<int> out;
    while (at_ < format_.size() && format_.bytes[at_] >= '0' && format_.bytes[at_] <= '9') {
      out = out.value_or(0) * 10 + (format_.bytes[at_++] - '0');
      if (*out > kMaxWidth) runtime_.fail(fmt::format("a width above {} in a % format", kMaxWidth));
    }
    return out;
  }

  const Value& next_value() {
    if (!is_tuple_) {
      if (next_++ > 0) runtime_.fail("too few values for the % format");
      return values_;
    }
    const auto& items = values_.sequence().items;
    if (next_ == items.size()) runtime_.fail("too few values for the % format");
    return items[next_++];
  }

  void pad(const Spec& spec, const Text& text) {
    const auto missing = static_cast<size_t>(std::max<int64_t>(0, spec.width - utf8::count(text.bytes)));
    if (!spec.left) out_.append(std::string(missing, ' '), false);
    out_.append(text);
    if (spec.left) out_.append(std::string(missing, ' '), false);
  }

  void put_text(const Spec& spec, const Value& value, char type) {
    Text text = type == 's' ? to_text(runtime_, value) : to_repr(runtime_, value);
    if (spec.precision && utf8::count(text.bytes) > *spec.precision) {
      text = text.slice(0, utf8::offset(text.bytes, *spec.precision));
    }
    pad(spec, text);
  }

  void put_number(const Spec& spec, const Value& value, char type) {
    const bool is_float_type = std::string_view("feEgGF").find(type) != std::string_view::npos;
    const bool is_integer_type = std::string_view("dixXo").find(type) != std::string_view::npos;
    if (!is_float_type && !is_integer_type) {
      runtime_.fail(fmt::format("conversion '%{}' is not supported", printable(std::string_view(&type, 1))));
    }
    if (!value.is_number() ||
        (!value.is_integral() && std::string_view("xXo").find(type) != std::string_view::npos)) {
      runtime_.fail(fmt::format("conversion '%{}' needs a number, not {}", type, value.type_name()));
    }
    if (is_integer_type) return put_integer(spec, value, type);
    const std::string flags = std::string("%") + (spec.plus ? "+" : "") + (spec.space ? " " : "") +
                              (spec.zero ? "0" : "") + (spec.left ? "-" : "") + "*.*" + type;
    char buffer[2 * kMaxWidth];
    std::snprintf(buffer, sizeof buffer, flags.c_str(), spec.width, spec.precision.value_or(6),
                  value.number());
    out_.append(std::string_view(buffer), false);
  }

  void put_integer(const Spec& spec, const Value& value, char type) {
    if (spec.precision) runtime_.fail("a precision for an integer conversion is not supported");
    const int64_t number = value.is_integral() ? value.integer() : truncated(value.number());
    // An unsigned magnitude, since printf takes negative numbers in hexadecimal as two's complement.
    const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const std::string sign = number < 0 ? "-" : spec.plus ? "+" : spec.space ? " " : "";
    std::string digits = type == 'x'   ? fmt::format("{:x}", magnitude)
                         : type == 'X' ? fmt::format("{:X}", magnitude)
                         : type == 'o' ? fmt::format("{:o}", magnitude)
                                       : fmt::format("{}", magnitude);
    const auto width = static_cast<size_t>(spec.width);
    if (spec.zero && !spec.left && sign.size() + digits.size() < width) {
      digits.insert(0, width - sign.size() - digits.size(), '0');
    }
    pad(spec, Text::from_template(sign + digits));
  }

  int64_t truncated(double number) {
    if (!(std::fabs(number) < 0x1p63)) runtime_.fail("a float does not fit a 64-bit integer");
    return static_cast<int64_t>(number);
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& values_;
  Text out_;
  size_t at_ = 0;
  size_t next_ = 0;
  bool is_tuple_ = false;
  bool used_name_ = false;
};

const Value& brace_field(Runtime& runtime, const std::string& field, size_t& next,
                         const Arguments& arguments) {
  const bool is_number = !field.empty() && field.size() < 6 &&
                         std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (field.empty() || is_number) {
    const size_t i = is_number ? static_cast<size_t>(std::stoi(field)) : next++;
    if (i >= arguments.positional.size()) runtime.fail("format: too few values");
    return arguments.positional[i];
  }
  if (field.find_first_of("!:.[") != std::string::npos) {
    runtime.fail(fmt::format("format: the field '{{{}}}' is not supported", printable(field)));
  }
  for (const auto& named : arguments.named) {
    if (named.first == field) return named.second;
  }
  runtime.fail(fmt::format("format: no value for '{{{}}}'", printable(field)));
}

}  // namespace

Text percent_format(Runtime& runtime, const Text& format, const Value& values) {
  runtime.charge_bytes(format.size());
  return PercentFormatter(runtime, format, values).run();
}

Text brace_format(Runtime& runtime, const Text& format, const Arguments& arguments) {
  const std::string& f = format.bytes;
  Text out;
  size_t next = 0;
  for (size_t i = 0; i < f.size();) {
    const size_t brace = std::min(f.find_first_of("{}", i), f.size());
    out.append(format, i, brace);
    if (brace == f.size()) break;
    if (brace + 1 < f.size() && f[brace + 1] == f[brace]) {
      out.append(format, brace, brace + 1);
      i = brace + 2;
      continue;
    }
    const size_t end = f.find('}', brace);
    if (f[brace] == '}' || end == std::string::npos) runtime.fail("format: a single brace");
    out.append(to_text(runtime, brace_field(runtime, f.substr(brace + 1, end - brace - 1), next, arguments)));
    runtime.check_string(static_cast<int64_t>(out.size()));
    i = end + 1;
  }
  return out;
}

}  // namespace switchyard::jinja
