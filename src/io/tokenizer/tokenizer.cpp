#include "io/tokenizer/tokenizer.h"

#include <algorithm>

#include "io/tokenizer/added_tokens.h"
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/decoder.h"
#include "io/tokenizer/encoder.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/post_processor.h"
#include "io/tokenizer/pre_tokenizer.h"
#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;  // published files have up to 40 MB
const Json kNull;

// The value under `key`, null when it is missing.
const Json& component(const JsonObject& document, std::string_view key) {
  const Json* value = document.find(key);
  return value == nullptr ? kNull : *value;
}

JsonObject checked_document(const Json& json, const std::string& where) {
  const JsonObject document(json, {where, ""});
  document.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                       "post_processor", "decoder", "model"});
  if (document.find("version") != nullptr && document.string("version") != "1.0") {
    document.place("version").refuse("1.0", describe(document.at("version")));
  }
  return document;
}

}  // namespace

struct Tokenizer::Parts {
  Parts(const JsonObject& document, BpeTables tables);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  bool has_token(int64_t id) const;

  std::string where;
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  Bpe model;
  AddedTokens added;
  PostProcessor post_processor;
  TokenDecoder decoder;
};

Tokenizer::Parts::Parts(const JsonObject& document, BpeTables tables)
    : where(document.place().document),
      normalizer(parse_normalizer(component(document, "normalizer"), document.place("normalizer"))),
      pre_tokenizer(
          parse_pre_tokenizer(component(document, "pre_tokenizer"), document.place("pre_tokenizer"))),
      model(document.at("model"), std::move(tables), document.place("model")),
      added(component(document, "added_tokens"), document.place("added_tokens"), model.vocabulary(),
            *normalizer),
      post_processor(component(document, "post_processor"), document.place("post_processor"),
                     [this](int64_t id) { return has_token(id); }),
      decoder(component(document, "decoder"), document.place("decoder")) {}

bool Tokenizer::Parts::has_token(int64_t id) const {
  const auto id32 = static_cast<int32_t>(id);
  return added.find(id32) != nullptr || model.vocabulary().token(id32).has_value();
}

Tokenizer Tokenizer::load(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  return parse(read_file(path, kMaxFileBytes), path);
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& where) {
  BpeTables tables;
  const Json document = parse_json(json, where, tables.streams({where, "model"}));
  return Tokenizer(std::make_shared<const Parts>(checked_document(document, where), std::move(tables)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  SY_CHECK(options.literal_mask.empty() || options.literal_mask.size() == text.size(),
           "literal_mask of {} bytes for a text of {}", options.literal_mask.size(), text.size());
  check_text_size(text.size());
  if (const size_t at = first_invalid_utf8(text); at != text.size()) {
    throw Error("text", fmt::format("byte {}", at), "valid UTF-8", printable(text.substr(at, 4)));
  }
  TextEncoder encoder(parts_->added, *parts_->normalizer, *parts_->pre_tokenizer, parts_->model);
  std::vector<int32_t> ids = encoder.encode(text, {options.parse_special, options.literal_mask});
  if (options.add_special_tokens) parts_->post_processor.apply(ids);
  return ids;
}

std::optional<std::string_view> Tokenizer::decoder_input(int32_t id, bool skip_special_tokens) const {
  const AddedToken* token = parts_->added.find(id);
  // The library decodes the form that was searched for, and compares it with the special tokens.
  const std::string_view text = token == nullptr ? id_to_token(id) : std::string_view(token->pattern());
  if (skip_special_tokens && parts_->added.is_special_content(text)) return std::nullopt;
  return text;
}

RunningDecoder Tokenizer::start_decoder() const {
  return parts_->decoder.start();
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  RunningDecoder decoder = start_decoder();
  std::string text;
  for (const int32_t id : ids) {
    if (const auto token = decoder_input(id, skip_special_tokens)) text += decoder.push(*token);
  }
  text += decoder.finish();
  return text;
}

int64_t Tokenizer::vocab_size() const {
  return std::max(parts_->model.vocabulary().end_id(), parts_->added.end_id());
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  if (const AddedToken* added = parts_->added.find(token)) return added->id;
  return parts_->model.vocabulary().find(token);
}

std::string_view Tokenizer::id_to_token(int32_t id) const {
  if (const AddedToken* added = parts_->added.find(id)) return added->content;
  if (const auto token = parts_->model.vocabulary().token(id)) return *token;
  throw Error(parts_->where, fmt::format("token id {}", id),
              fmt::format("an id of a token (below {})", vocab_size()), "none with this id");
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

}  // namespace switchyard
