#include "io/tokenizer/normalizer.h"

#include <vector>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/pattern.h"
#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> steps) : steps_(std::move(steps)) {}

  void apply(NormalizedText& text, bool is_start) const override {
    for (const auto& step : steps_) {
      step->apply(text, is_start);
      check_text_size(text.text.size());
    }
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

class UnicodeForm : public Normalizer {
 public:
  explicit UnicodeForm(NormalizationForm form) : form_(form) {}
  void apply(NormalizedText& text, bool) const override { text.text = normalize_unicode(form_, text.text); }

 private:
  NormalizationForm form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(NormalizedText& text, bool) const override { text.text = lowercase(text.text); }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(NormalizedText& text, bool) const override {
    std::string out;
    append_byte_level(text.text, out);
    text.text = std::move(out);
  }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text, bool is_start) const override {
    if (is_start && !text.text.empty()) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(NormalizedText& text, bool) const override {
    std::vector<PatternSpan> spans;
    pattern_.find_all(text.text, spans);
    std::string out;
    out.reserve(text.text.size());
    for (const PatternSpan& span : spans) {
      const std::string_view old = std::string_view(text.text).substr(span.begin, span.end - span.begin);
      out += span.matched ? std::string_view(content_) : old;
      check_text_size(out.size());
      if (span.matched && span.begin == 0 && !keeps_origin(old)) text.at_origin = false;
    }
    text.text = std::move(out);
  }

 private:
  // The library aligns inserted characters with the last one that they replace.
  bool keeps_origin(std::string_view replaced) const {
    if (replaced.empty()) return true;
    size_t first_end = 0;
    next_char(replaced, first_end);
    return !content_.empty() && first_end == replaced.size();
  }

  Pattern pattern_;
  std::string content_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void apply(NormalizedText& text, bool) const override {
    std::string_view rest = text.text;
    while (right_ && !rest.empty()) {
      size_t begin = rest.size();
      if (!is_whitespace(previous_char(rest, begin))) break;
      rest = rest.substr(0, begin);
    }
    while (left_ && !rest.empty()) {
      size_t end = 0;
      if (!is_whitespace(next_char(rest, end))) break;
      rest.remove_prefix(end);
      text.at_origin = false;
    }
    text.text = std::string(rest);
  }

 private:
  bool left_;
  bool right_;
};

class StripAccents : public Normalizer {
 public:
  void apply(NormalizedText& text, bool) const override {
    std::string out;
    for (size_t i = 0; i < text.text.size();) {
      const bool first = i == 0;
      const char32_t c = next_char(text.text, i);
      if (!is_mark(c)) {
        append_char(c, out);
      } else if (first) {
        text.at_origin = false;
      }
    }
    text.text = std::move(out);
  }
};

std::unique_ptr<const Normalizer> parse_sequence(const JsonObject& object) {
  object.allow_only({"type", "normalizers"});
  const Json& array = object.array("normalizers");
  std::vector<std::unique_ptr<const Normalizer>> steps;
  for (size_t i = 0; i < array.size(); ++i) {
    steps.push_back(parse_normalizer(array[i], object.place("normalizers").index(i)));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace

void check_text_size(size_t bytes) {
  if (bytes > kMaxTextBytes) {
    throw Error("text", "", fmt::format("at most {} bytes", kMaxTextBytes), fmt::format("{} bytes", bytes));
  }
}

std::unique_ptr<const Normalizer> parse_normalizer(const Json& value, const JsonPlace& place) {
  if (value.is_null()) return std::make_unique<Sequence>(std::vector<std::unique_ptr<const Normalizer>>{});
  const JsonObject object(value, place);
  const std::string& type = object.string("type");
  if (type == "Sequence") return parse_sequence(object);
  if (type == "Prepend") {
    object.allow_only({"type", "prepend"});
    return std::make_unique<Prepend>(object.string("prepend"));
  }
  if (type == "Replace") {
    object.allow_only({"type", "pattern", "content"});
    return std::make_unique<Replace>(Pattern::parse(object, "pattern"), object.string("content"));
  }
  if (type == "Strip") {
    object.allow_only({"type", "strip_left", "strip_right"});
    return std::make_unique<Strip>(object.boolean("strip_left"), object.boolean("strip_right"));
  }
  object.allow_only({"type"});
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalizationForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalizationForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalizationForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalizationForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  object.place("type").refuse(
      "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace or ByteLevel",
      printable(type));
}

}  // namespace switchyard
