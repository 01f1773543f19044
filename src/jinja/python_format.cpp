#include "jinja/python_format.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

// Puts the decimal point into `digits` whose scientific exponent is `exponent`, as repr() does for exponents
// from -4 to 15.
std::string positional(std::string digits, int exponent) {
  if (exponent < 0)
    return fmt::format("0.{}{}", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return digits.append(whole - digits.size(), '0') + ".0";
  return fmt::format("{}.{}", digits.substr(0, whole), digits.substr(whole));
}

class ReprWriter {
 public:
  explicit ReprWriter(Runtime& runtime) : runtime_(runtime) {}

  void write(const Value& value) {
    const Runtime::Frame frame(runtime_);
    runtime_.check_string(static_cast<int64_t>(out_.size()));
    switch (value.kind()) {
      case Kind::kUndefined:
        return literal("Undefined");
      case Kind::kNone:
        return literal("None");
      case Kind::kBool:
        return literal(value.boolean() ? "True" : "False");
      case Kind::kInt:
        return literal(std::to_string(value.integer()));
      case Kind::kFloat:
        return literal(format_float(value.number()));
      case Kind::kText:
        return write_string(value.text());
      case Kind::kSequence:
        return write_sequence(value.sequence());
      case Kind::kDict:
        return write_dict(value.dict());
      case Kind::kNamespace:
      case Kind::kLoop:
      case Kind::kCallable:
        break;
    }
    runtime_.fail(fmt::format("printing a {} is not supported", value.type_name()));
  }

  Text take() { return std::move(out_); }

 private:
  void literal(std::string_view text) { out_.append(text, false); }

  void write_string(const Text& text) {
    runtime_.charge_bytes(text.size());
    const bool has_single = text.bytes.find('\'') != std::string::npos;
    const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
    literal(std::string_view(&quote, 1));
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      const char32_t c = utf8::decode(text.bytes, i);
      const std::string escaped = escape(c, quote);
      if (escaped.empty()) {
        out_.append(text, begin, i);
      } else {
        out_.append(escaped, text.from_input[begin] != 0);
      }
    }
    literal(std::string_view(&quote, 1));
  }

  // Empty where the character stands for itself.
  static std::string escape(char32_t c, char quote) {
    const auto code = static_cast<uint32_t>(c);
    if (c == static_cast<unsigned char>(quote) || c == '\\') return {'\\', static_cast<char>(code)};
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (utf8::is_printable(c)) return {};
    if (c < 0x100) return fmt::format("\\x{:02x}", code);
    if (c < 0x10000) return fmt::format("\\u{:04x}", code);
    return fmt::format("\\U{:08x}", code);
  }

  void write_sequence(const Sequence& sequence) {
    switch (sequence.kind) {
      case SequenceKind::kList:
        return write_items(sequence, "[", "]");
      case SequenceKind::kTuple:
        return write_items(sequence, "(", sequence.items.size() == 1 ? ",)" : ")");
      case SequenceKind::kKeysView:
        return write_items(sequence, "dict_keys([", "])");
      case SequenceKind::kValuesView:
        return write_items(sequence, "dict_values([", "])");
      case SequenceKind::kItemsView:
        return write_items(sequence, "dict_items([", "])");
      case SequenceKind::kRange:
      case SequenceKind::kIterator:
        break;
    }
    runtime_.fail(sequence.kind == SequenceKind::kRange ? "printing a range is not supported"
                                                        : "printing an iterator is not supported");
  }

  void write_items(const Sequence& sequence, std::string_view open, std::string_view close) {
    literal(open);
    bool first = true;
    for (const Value& item : sequence.items) {
      if (!first) literal(", ");
      first = false;
      write(item);
    }
    literal(close);
  }

  void write_dict(const Dict& dict) {
    literal("{");
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!first) literal(", ");
      first = false;
      write(entry.first);
      literal(": ");
      write(entry.second);
    }
    literal("}");
  }

  Runtime& runtime_;
  Text out_;
};

}  // namespace

Text to_text(Runtime& runtime, const Value& value) {
  if (value.is_text()) {
    runtime.charge_bytes(value.text().size());
    return value.text();
  }
  if (value.is_undefined()) return {};
  return to_repr(runtime, value);
}

Text to_repr(Runtime& runtime, const Value& value) {
  ReprWriter writer(runtime);
  writer.write(value);
  return writer.take();
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));  // d.ddde[+-]xx
  const size_t e = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  const std::string_view sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) return fmt::format("{}{}", sign, text);
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);
  return fmt::format("{}{}", sign, positional(std::move(digits), exponent));
}

}  // namespace switchyard::jinja
