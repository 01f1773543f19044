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
constexpr const char* kDeepseekLetters =
    R"~(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ)~"
    R"~(-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ)~"
    R"~(-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)~";

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
