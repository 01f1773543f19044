#include "io/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "io/gguf_pre_tokenizer.h"

namespace switchyard {
namespace {

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr size_t kMaxPieceBytes = 256;  // bounds the work of finding a piece's merges
enum TokenType : int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// The keys of one file's tokenizer, types checked.
class Keys {
 public:
  explicit Keys(const GgufFile& file) : file_(file) {}

  [[noreturn]] void fail(const std::string& key, const std::string& expected, const std::string& got) const {
    throw Error(file_.path(), fmt::format("key '{}'", key), expected, got);
  }

  std::string string_or(const std::string& key, const std::string& absent) const {
    const Json* found = file_.find_metadata(key);
    if (found == nullptr) return absent;
    if (!found->is_string()) fail(key, "a string", describe(*found));
    return found->get<std::string>();
  }

  bool bool_or(const std::string& key, bool absent) const {
    const Json* found = file_.find_metadata(key);
    if (found == nullptr) return absent;
    if (!found->is_boolean()) fail(key, "true or false", describe(*found));
    return found->get<bool>();
  }

  // An array whose elements satisfy `accept`.
  const Json& list(const std::string& key, const char* what, bool (*accept)(const Json&)) const {
    const Json* found = file_.find_metadata(key);
    if (found == nullptr || !found->is_array()) {
      fail(key, fmt::format("a list of {}", what), found == nullptr ? "none" : describe(*found));
    }
    const auto bad = std::find_if_not(found->begin(), found->end(), accept);
    if (bad != found->end()) fail(key, fmt::format("a list of {}", what), describe(*bad));
    return *found;
  }

  const std::string& place() const { return file_.path(); }
  const Json* find(const std::string& key) const { return file_.find_metadata(key); }

 private:
  const GgufFile& file_;
};

bool is_string(const Json& value) {
  return value.is_string();
}
bool is_integer(const Json& value) {
  return value.is_number_integer();
}
bool is_finite(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>());
}

class Builder {
 public:
  explicit Builder(const GgufFile& file)
      : keys_(file), tokens_(keys_.list("tokenizer.ggml.tokens", "strings", is_string)) {
    if (keys_.find("tokenizer.ggml.token_type") == nullptr) return;
    types_ = keys_.list("tokenizer.ggml.token_type", "integers", is_integer);
    check_count("tokenizer.ggml.token_type", types_);
  }

  Json build() {
    const std::string model = keys_.string_or(kModelKey, "");
    if (model == "gpt2") return byte_level();
    if (model == "llama") return sentence_piece();
    keys_.fail(kModelKey, "gpt2 or llama", printable(model));
  }

  // The text of the token that a key such as tokenizer.ggml.bos_token_id has the id of; null: no such key.
  Json token_of(const std::string& key) const {
    const Json* found = keys_.find(key);
    if (found == nullptr) return nullptr;
    if (!found->is_number_unsigned() || found->get<uint64_t>() >= tokens_.size()) {
      keys_.fail(key, fmt::format("a token id below {}", tokens_.size()), describe(*found));
    }
    return tokens_[found->get<size_t>()];
  }

 private:
  void check_count(const std::string& key, const Json& list) const {
    if (list.size() == tokens_.size()) return;
    keys_.fail(key, fmt::format("one for each of {} tokens", tokens_.size()), fmt::format("{}", list.size()));
  }

  int64_t type(size_t id) const { return types_.is_null() ? int64_t{kNormal} : types_[id].get<int64_t>(); }
  const std::string& token(size_t id) const { return tokens_[id].get_ref<const std::string&>(); }

  Json vocabulary() const {
    Json vocabulary = Json::object();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (type(id) == kUnused) continue;
      if (!vocabulary.emplace(token(id), id).second) {
        keys_.fail("tokenizer.ggml.tokens", "each token once",
                   fmt::format("'{}' again", printable(token(id))));
      }
    }
    return vocabulary;
  }

  Json added_tokens() const {
    Json added = Json::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const bool special = type(id) == kControl || type(id) == kUnknown;
      if (!special && type(id) != kUserDefined) continue;
      added.push_back({{"id", id},
                       {"content", token(id)},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", special}});
    }
    return added;
  }

  // The tokens around one text.
  Json post_processor(bool bos_absent) const {
    Json single = Json::array();
    Json special = Json::object();
    const auto add = [&](const char* which) {
      const std::string key = fmt::format("tokenizer.ggml.{}_token_id", which);
      const Json token = token_of(key);
      if (token.is_null()) keys_.fail(key, "an id, since the token is to be added", "none");
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      const auto text = token.get<std::string>();
      special[text] = {{"id", token}, {"ids", {*keys_.find(key)}}, {"tokens", {token}}};
    };
    const bool has_bos = keys_.find("tokenizer.ggml.bos_token_id") != nullptr;
    if (keys_.bool_or("tokenizer.ggml.add_bos_token", bos_absent && has_bos)) add("bos");
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (keys_.bool_or("tokenizer.ggml.add_eos_token", false)) add("eos");
    if (special.empty()) return nullptr;
    return {
        {"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", special}};
  }

  Json document(Json model) const {
    model.update({{"type", "BPE"},
                  {"dropout", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"vocab", vocabulary()}});
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"model", std::move(model)}};
  }

  Json byte_level() const {
    const GgufPreTokenizer pre =
        gguf_pre_tokenizer(keys_.string_or("tokenizer.ggml.pre", "default"), keys_.place());
    Json result = document({{"unk_token", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"ignore_merges", pre.ignore_merges},
                            {"merges", keys_.list("tokenizer.ggml.merges", "strings", is_string)}});
    result["normalizer"] = pre.normalizer;
    result["pre_tokenizer"] = pre.pre_tokenizer;
    result["post_processor"] = post_processor(pre.add_bos);
    result["decoder"] = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
    return result;
  }

  // As transformers converts SentencePiece models: spaces become "▁", one is put in front of the text, and
  // merging two pieces is as urgent as the score of what they make.
  Json sentence_piece() const {
    std::string unknown;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (type(id) == kUnknown) unknown = token(id);
    }
    if (unknown.empty()) keys_.fail("tokenizer.ggml.token_type", "a token for the unknown, type 2", "none");
    const bool prefix = keys_.bool_or("tokenizer.ggml.add_space_prefix", true);
    Json result = document({{"unk_token", unknown},
                            {"fuse_unk", true},
                            {"byte_fallback", true},
                            {"ignore_merges", false},
                            {"merges", merges_of_scores()}});
    Json normalizers = Json::array();
    if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
    Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                     {{"type", "ByteFallback"}},
                     {{"type", "Fuse"}}};
    if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    result["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
    result["pre_tokenizer"] = nullptr;
    result["post_processor"] = post_processor(true);
    result["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
    return result;
  }

  struct Merge {
    double score;
    size_t left_characters;
    std::string_view left;
    std::string_view right;
  };

  Json merges_of_scores() const {
    const Json& scores = keys_.list("tokenizer.ggml.scores", "finite numbers", is_finite);
    check_count("tokenizer.ggml.scores", scores);
    std::unordered_map<std::string_view, size_t> pieces;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (type(id) == kNormal || type(id) == kUserDefined) pieces.emplace(token(id), id);
    }
    std::vector<Merge> merges;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const std::string_view piece = token(id);
      if (!pieces.contains(piece) || pieces[piece] != id) continue;
      if (piece.size() > kMaxPieceBytes) {
        keys_.fail("tokenizer.ggml.tokens", fmt::format("pieces of at most {} bytes", kMaxPieceBytes),
                   fmt::format("{} bytes", piece.size()));
      }
      add_splits(piece, scores[id].get<double>(), pieces, merges);
    }
    std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
      return a.score != b.score ? a.score > b.score : a.left_characters > b.left_characters;
    });
    Json result = Json::array();
    for (const Merge& merge : merges)
      result.push_back({merge.left, merge.right});
    return result;
  }

  // Every way to put the piece together from two others.
  static void add_splits(std::string_view piece, double score,
                         const std::unordered_map<std::string_view, size_t>& pieces,
                         std::vector<Merge>& merges) {
    size_t characters = 0;
    for (size_t at = 1; at < piece.size(); ++at) {
      if ((piece[at] & '\xC0') == '\x80') continue;  // inside a character
      ++characters;
      const std::string_view left = piece.substr(0, at);
      const std::string_view right = piece.substr(at);
      if (pieces.contains(left) && pieces.contains(right)) merges.push_back({score, characters, left, right});
    }
  }

  const Keys keys_;
  const Json& tokens_;
  Json types_;  // null: all normal
};

}  // namespace

bool gguf_has_tokenizer(const GgufFile& file) {
  const Json* model = file.find_metadata(kModelKey);
  return model != nullptr && *model != "none";
}

Json gguf_tokenizer(const GgufFile& file) {
  return Builder(file).build();
}

Json gguf_tokenizer_config(const GgufFile& file) {
  Json config = Json::object();
  if (gguf_has_tokenizer(file)) {
    const Builder builder(file);
    constexpr std::pair<const char*, const char*> kSpecial[] = {
        {"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}};
    for (const auto& [name, key] : kSpecial)
      config[name] = builder.token_of(fmt::format("tokenizer.ggml.{}_token_id", key));
  }
  const std::string key = "tokenizer.chat_template";
  Json templates = Json::array();
  for (const auto& [name, value] : file.metadata()) {
    if (name == key) templates.push_back({{"name", "default"}, {"template", value}});
    if (name.starts_with(key + ".")) {
      templates.push_back({{"name", name.substr(key.size() + 1)}, {"template", value}});
    }
  }
  if (!templates.empty()) config["chat_template"] = std::move(templates);
  return config;
}

}  // namespace switchyard
