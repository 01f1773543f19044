#include "io/gguf_pre_tokenizer.h"

#include <array>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"

namespace switchyard {
namespace {

// Patterns as in the published tokenizer.json of the models.
constexpr const char* kQwen2 =
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~";
constexpr const char* kLlama3 =
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~";
constexpr const char* kTekken =
    R"~([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)~"
    R"~(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)~"
    R"~(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)~";
constexpr const char* kDeepseek3 =
    R"~([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)~"
    R"~(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~";
// Letters of alphabets with upper and lower case. As escapes: some have look-alikes that editors put for
// them.
constexpr const char* kDeepseekLetters =
    "\\s?["
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293"
    "\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C"
    "\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5"
    "\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    "\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59"
    "\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC"
    "\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107"
    "\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE"
    "\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E"
    "\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F"
    "\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2"
    "\U000118A0-\U000118DF\U0001E900-\U0001E943"
    "]+";

Json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", use_regex}};
}

Json digits() {
  return {{"type", "Digits"}, {"individual_digits", true}};
}

Json sequence(std::vector<Json> parts) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

Json patterns(std::initializer_list<const char*> list) {
  std::vector<Json> parts;
  for (const char* pattern : list)
    parts.push_back(split(pattern));
  parts.push_back(byte_level(false));
  return sequence(std::move(parts));
}

GgufPreTokenizer gpt2() {
  return {.normalizer = nullptr, .pre_tokenizer = byte_level(true)};
}

GgufPreTokenizer olmo() {
  return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = byte_level(true)};
}

GgufPreTokenizer smollm() {
  return {.normalizer = nullptr, .pre_tokenizer = sequence({digits(), byte_level(true)})};
}

GgufPreTokenizer qwen2() {
  return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = patterns({kQwen2})};
}

GgufPreTokenizer llama3() {
  return {
      .normalizer = nullptr, .pre_tokenizer = patterns({kLlama3}), .ignore_merges = true, .add_bos = true};
}

GgufPreTokenizer tekken() {
  return {
      .normalizer = nullptr, .pre_tokenizer = patterns({kTekken}), .ignore_merges = true, .add_bos = true};
}

GgufPreTokenizer deepseek_llm() {
  return {.normalizer = nullptr,
          .pre_tokenizer = sequence({split("[\r\n]"), split(kDeepseekLetters),
                                     split(R"~(\s?[!-/:-~！-／：-～‘-‟　-。]+)~"), split(R"~(\s+$)~"),
                                     split("[一-龥ࠀ-一가-퟿]+"), digits(), byte_level(false)})};
}

GgufPreTokenizer deepseek_v3() {
  return {.normalizer = nullptr,
          .pre_tokenizer = patterns({R"~(\p{N}{1,3})~", "[一-龥぀-ゟ゠-ヿ]+", kDeepseek3})};
}

struct Row {
  std::string_view name;
  GgufPreTokenizer (*make)();
};

// A file without a name, or with "default", was written by a converter that knew none but GPT-2's.
constexpr std::array kRows = {
    Row{"default", gpt2},
    Row{"gpt-2", gpt2},
    Row{"olmo", olmo},
    Row{"smollm", smollm},
    Row{"qwen2", qwen2},
    Row{"deepseek-r1-qwen", qwen2},
    Row{"llama-bpe", llama3},
    Row{"llama3", llama3},
    Row{"llama-v3", llama3},
    Row{"tekken", tekken},
    Row{"deepseek-llm", deepseek_llm},
    Row{"deepseek-v3", deepseek_v3},
};

}  // namespace

GgufPreTokenizer gguf_pre_tokenizer(const std::string& name, const std::string& where) {
  std::vector<std::string_view> known;
  for (const Row& row : kRows) {
    if (row.name == name) return row.make();
    known.push_back(row.name);
  }
  throw Error(where, "key 'tokenizer.ggml.pre'", fmt::format("one of: {}", fmt::join(known, ", ")),
              printable(name));
}

}  // namespace switchyard
