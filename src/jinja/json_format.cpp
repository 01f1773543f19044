#include "jinja/json_format.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "jinja/python_format.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonFormat& format) : runtime_(runtime), format_(format) {}

  void write(const Value& value) {
    const Runtime::Frame frame(runtime_);
    runtime_.check_string(static_cast<int64_t>(out_.size()));
    if (value.is_text()) {
      write_string(value.text());
    } else if (value.is(Kind::kDict)) {
      write_dict(value.dict());
    } else if (value.is(Kind::kSequence) && (value.sequence().kind == SequenceKind::kList ||
                                             value.sequence().kind == SequenceKind::kTuple)) {
      write_list(value.sequence());
    } else {
      literal(scalar(value));
    }
  }

  Text take() { return std::move(out_); }

 private:
  void literal(std::string_view text) { out_.append(text, false); }

  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (value.is(Kind::kBool)) return value.boolean() ? "true" : "false";
    if (value.is(Kind::kInt)) return std::to_string(value.integer());
    if (!value.is(Kind::kFloat)) {
      runtime_.fail(fmt::format("tojson: a value of type {} is not JSON serializable", value.type_name()));
    }
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return format_float(number);
  }

  void write_string(const Text& text) {
    runtime_.charge_bytes(text.size());
    literal("\"");
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      const std::string escaped = escape(utf8::decode(text.bytes, i));
      if (escaped.empty()) {
        out_.append(text, begin, i);
      } else {
        out_.append(escaped, text.from_input[begin] != 0);
      }
    }
    literal("\"");
  }

  // Empty where the character stands for itself.
  std::string escape(char32_t c) const {
    static constexpr std::string_view kNamed = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    auto code = static_cast<uint32_t>(c);
    if (code < 0x80) {
      const size_t named = kNamed.find(static_cast<char>(code));
      if (named != std::string_view::npos) return {'\\', kLetters[named]};
      return code < 0x20 ? fmt::format("\\u{:04x}", code) : std::string();
    }
    if (!format_.ensure_ascii) return {};
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    code -= 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
  }

  void new_line() {
    if (!format_.indent) return;
    literal("\n");
    for (int i = 0; i < level_; ++i)
      out_.append(*format_.indent);
    runtime_.check_string(static_cast<int64_t>(out_.size()));
  }

  void write_list(const Sequence& sequence) {
    if (sequence.items.empty()) return literal("[]");
    literal("[");
    ++level_;
    bool first = true;
    for (const Value& item : sequence.items) {
      begin_item(first);
      write(item);
    }
    --level_;
    new_line();
    literal("]");
  }

  void begin_item(bool& first) {
    if (!first) out_.append(format_.item_separator);
    first = false;
    new_line();
  }

  void write_dict(const Dict& dict) {
    if (dict.entries().empty()) return literal("{}");
    literal("{");
    ++level_;
    bool first = true;
    for (const Dict::Entry* entry : in_order(dict)) {
      begin_item(first);
      write_key(entry->first);
      out_.append(format_.key_separator);
      write(entry->second);
    }
    --level_;
    new_line();
    literal("}");
  }

  std::vector<const Dict::Entry*> in_order(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) {
      if (format_.sort_keys && !entry.first.is_text()) {
        runtime_.fail("tojson: sort_keys with keys that are not strings is not supported");
      }
      entries.push_back(&entry);
    }
    if (format_.sort_keys) {
      runtime_.charge(static_cast<int64_t>(entries.size()) * 16);
      std::sort(entries.begin(), entries.end(), [](const Dict::Entry* a, const Dict::Entry* b) {
        return a->first.text().bytes < b->first.text().bytes;
      });
    }
    return entries;
  }

  void write_key(const Value& key) {
    if (key.is_text()) return write_string(key.text());
    literal("\"");
    literal(scalar(key));
    literal("\"");
  }

  Runtime& runtime_;
  const JsonFormat& format_;
  Text out_;
  int level_ = 0;
};

}  // namespace

Text to_json(Runtime& runtime, const Value& value, const JsonFormat& format) {
  JsonWriter writer(runtime, format);
  writer.write(value);
  return writer.take();
}

}  // namespace switchyard::jinja
