// Text <-> token ids, as a tokenizer.json of Hugging Face defines it. The behaviour is that of the
// `tokenizers` library 0.23 for BPE models; what is not supported or not known is refused by name when
// loading:
//   normalizer     Sequence NFC NFD NFKC NFKD Lowercase StripAccents Strip Prepend Replace ByteLevel
//   pre_tokenizer  Sequence Split ByteLevel Metaspace Digits Punctuation Whitespace WhitespaceSplit
//   model          BPE, without dropout and subword prefixes or suffixes
//   post_processor Sequence ByteLevel TemplateProcessing (one text)
//   decoder        Sequence ByteLevel ByteFallback Fuse Strip Replace Metaspace
// `truncation` and `padding` are ignored: they describe the batches of a training run, and `transformers` too
// switches both off for every call that does not ask for them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace switchyard {

class RunningDecoder;

struct EncodeOptions {
  bool add_special_tokens = false;  // run the post-processor (begin of text, ...)
  bool parse_special = true;        // false: special added tokens in the text are ordinary text
  // As long as the text when not empty: across bytes marked nonzero no special added token is found, so that
  // text of a user inside a rendered chat template cannot become a control token. The text is otherwise
  // tokenized as one. Where a normalizer changes a text so that marks cannot be followed through it, all of
  // the stretch between two added tokens counts as marked; tokens with "normalized": false are not affected.
  std::string_view literal_mask = {};
};

// Immutable; copies share their data and all functions may be called from several threads.
class Tokenizer {
 public:
  // Reads tokenizer.json in a folder. Throws Error for what it does not understand or what contradicts
  // itself.
  static Tokenizer load(const std::string& folder);
  // The same for the text of the file; `where` names it in errors.
  static Tokenizer parse(std::string_view json, const std::string& where);

  // Throws Error for invalid UTF-8 (with the byte offset), for texts beyond 64 MiB, for a regular expression
  // that exceeds its step limit, and for a character that the model has no token for at all.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Ill-formed UTF-8 becomes U+FFFD. Throws Error for an id without a token.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  int64_t vocab_size() const;  // largest id + 1; ids in between may be unused
  std::optional<int32_t> token_to_id(std::string_view token) const;
  std::string_view id_to_token(int32_t id) const;  // as the file spells it. Throws Error for an unused id
  bool is_special(int32_t id) const;               // a special added token; false for unused ids

 private:
  friend class StreamDecoder;
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  // The string that the decoder gets for an id, or nullopt when the token is skipped.
  std::optional<std::string_view> decoder_input(int32_t id, bool skip_special_tokens) const;
  RunningDecoder start_decoder() const;

  std::shared_ptr<const Parts> parts_;
};

}  // namespace switchyard
