#include "io/tokenizer/pre_tokenizer.h"

#include <functional>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/metaspace.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/pattern.h"
#include "io/tokenizer/split_behavior.h"
#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

// ByteLevel's own way of splitting words, from the encoder of GPT-2.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

using FindSpans = std::function<void(std::string_view, std::vector<PatternSpan>&)>;

// Replaces every word by the parts that `find` and `behavior` make of it.
void split_words(SplitText& split, const FindSpans& find, SplitBehavior behavior) {
  std::vector<WordSpan> out;
  out.reserve(split.words.size());
  std::vector<PatternSpan> spans;
  for (const WordSpan& word : split.words) {
    find(split.view(word), spans);
    apply_behavior(behavior, spans);
    for (const PatternSpan& span : spans) {
      if (span.begin == span.end) continue;
      out.push_back({word.begin + span.begin, word.begin + span.end, word.at_origin && span.begin == 0});
    }
  }
  split.words = std::move(out);
}

// Rewrites the text of every word.
template <typename Append>
void rewrite_words(SplitText& split, Append append) {
  std::string out;
  out.reserve(split.text.size());
  for (WordSpan& word : split.words) {
    const size_t begin = out.size();
    append(split.view(word), word, out);
    word.begin = begin;
    word.end = out.size();
    check_text_size(out.size());
  }
  split.text = std::move(out);
}

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void apply(SplitText& split) const override {
    for (const auto& step : steps_)
      step->apply(split);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> steps_;
};

class Splitter : public PreTokenizer {
 public:
  Splitter(FindSpans find, SplitBehavior behavior) : find_(std::move(find)), behavior_(behavior) {}
  void apply(SplitText& split) const override { split_words(split, find_, behavior_); }

 private:
  FindSpans find_;
  SplitBehavior behavior_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, const JsonPlace& place)
      : add_prefix_space_(add_prefix_space) {
    if (use_regex) pattern_ = Pattern::regex(kGpt2Pattern, place);
  }

  void apply(SplitText& split) const override {
    if (add_prefix_space_) {
      rewrite_words(split, [](std::string_view text, const WordSpan&, std::string& out) {
        if (text[0] != ' ') out += ' ';
        out += text;
      });
    }
    if (pattern_) {
      const auto find = [this](std::string_view text, std::vector<PatternSpan>& spans) {
        pattern_->find_all(text, spans);
      };
      split_words(split, find, SplitBehavior::kIsolated);
    }
    rewrite_words(split, [](std::string_view text, const WordSpan&, std::string& out) {
      append_byte_level(text, out);
    });
  }

 private:
  bool add_prefix_space_;
  std::optional<Pattern> pattern_;
};

class MetaspaceSplitter : public PreTokenizer {
 public:
  explicit MetaspaceSplitter(const Metaspace& metaspace) : metaspace_(metaspace) {}

  void apply(SplitText& split) const override {
    rewrite_words(split, [this](std::string_view text, const WordSpan& word, std::string& out) {
      append_rewritten(text, word.at_origin, out);
    });
    if (!metaspace_.split) return;
    const auto find = [this](std::string_view text, std::vector<PatternSpan>& spans) {
      find_all_chars(
          text, [this](char32_t c) { return c == metaspace_.replacement; }, spans);
    };
    split_words(split, find, SplitBehavior::kMergedWithNext);
  }

 private:
  void append_rewritten(std::string_view text, bool at_origin, std::string& out) const {
    size_t i = 0;
    const char32_t first = next_char(text, i);
    const bool marked = first == U' ' || first == metaspace_.replacement;
    const bool wanted = metaspace_.scheme == PrependScheme::kAlways ||
                        (metaspace_.scheme == PrependScheme::kFirst && at_origin);
    if (wanted && !marked) append_char(metaspace_.replacement, out);
    for (const char c : text) {
      if (c == ' ') {
        append_char(metaspace_.replacement, out);
      } else {
        out += c;
      }
    }
  }

  Metaspace metaspace_;
};

// Runs of word characters and runs of what is neither that nor white space: the expression \w+|[^\w\s]+.
void find_whitespace_words(std::string_view text, std::vector<PatternSpan>& spans) {
  enum class Kind { kSpace, kWord, kOther };
  const auto kind = [](char32_t c) {
    return is_word_character(c) ? Kind::kWord : is_whitespace(c) ? Kind::kSpace : Kind::kOther;
  };
  spans.clear();
  Kind last = Kind::kSpace;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const Kind current = kind(next_char(text, i));
    if (spans.empty() || current != last) spans.push_back({begin, i, current == Kind::kSpace});
    spans.back().end = i;
    last = current;
  }
}

std::unique_ptr<const PreTokenizer> split_chars(bool (*is_match)(char32_t), SplitBehavior behavior) {
  const auto find = [is_match](std::string_view text, std::vector<PatternSpan>& spans) {
    find_all_chars(text, is_match, spans);
  };
  return std::make_unique<Splitter>(find, behavior);
}

std::unique_ptr<const PreTokenizer> parse_sequence(const JsonObject& object) {
  object.allow_only({"type", "pretokenizers"});
  const Json& array = object.array("pretokenizers");
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  for (size_t i = 0; i < array.size(); ++i) {
    steps.push_back(parse_pre_tokenizer(array[i], object.place("pretokenizers").index(i)));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<const PreTokenizer> parse_split(const JsonObject& object) {
  object.allow_only({"type", "pattern", "behavior", "invert"});
  const Pattern pattern = Pattern::parse(object, "pattern");
  const bool invert = object.boolean("invert");
  const auto find = [pattern, invert](std::string_view text, std::vector<PatternSpan>& spans) {
    pattern.find_all(text, spans);
    if (!invert) return;
    for (PatternSpan& span : spans)
      span.matched = !span.matched;
  };
  return std::make_unique<Splitter>(find, parse_split_behavior(object, "behavior"));
}

}  // namespace

SplitText::SplitText(std::string whole, bool at_origin) : text(std::move(whole)) {
  if (!text.empty()) words.push_back({0, text.size(), at_origin});
}

std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const Json& value, const JsonPlace& place) {
  if (value.is_null()) return std::make_unique<Sequence>(std::vector<std::unique_ptr<const PreTokenizer>>{});
  const JsonObject object(value, place);
  const std::string& type = object.string("type");
  if (type == "Sequence") return parse_sequence(object);
  if (type == "Split") return parse_split(object);
  if (type == "Metaspace") return std::make_unique<MetaspaceSplitter>(parse_metaspace(object));
  if (type == "ByteLevel") {
    // trim_offsets concerns offsets only, which are not computed here.
    object.allow_only({"type", "add_prefix_space", "use_regex", "trim_offsets"});
    return std::make_unique<ByteLevel>(object.boolean("add_prefix_space"),
                                       object.boolean_or("use_regex", true), place);
  }
  if (type == "Digits") {
    object.allow_only({"type", "individual_digits"});
    return split_chars(is_numeric, object.boolean("individual_digits") ? SplitBehavior::kIsolated
                                                                       : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    object.allow_only({"type", "behavior"});
    return split_chars(is_punctuation, object.find("behavior") == nullptr
                                           ? SplitBehavior::kIsolated
                                           : parse_split_behavior(object, "behavior"));
  }
  object.allow_only({"type"});
  if (type == "Whitespace") return std::make_unique<Splitter>(find_whitespace_words, SplitBehavior::kRemoved);
  if (type == "WhitespaceSplit") return split_chars(is_whitespace, SplitBehavior::kRemoved);
  object.place("type").refuse(
      "Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace or WhitespaceSplit",
      printable(type));
}

}  // namespace switchyard
