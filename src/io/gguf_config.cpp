#include "io/gguf_config.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/ranges.h>

#include "base/error.h"
#include "io/config_reader.h"
#include "io/gguf_rope.h"
#include "io/safetensors.h"

namespace switchyard {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;
constexpr int64_t kMaxLayers = 1 << 16;
enum GatingFunction : int64_t { kSoftmax = 1, kSigmoid = 2 };

// The metadata under the architecture's prefix, with the plain ones of "general." and "split.".
Json keys_of(const GgufFile& file, const std::string& prefix) {
  Json keys = Json::object();
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(prefix)) keys[key] = value;
  }
  return keys;
}

// Writes config.json key by key from the keys of one file.
class ConfigBuilder {
 public:
  explicit ConfigBuilder(const GgufFile& file)
      : file_(file),
        architecture_(gguf_architecture(file)),
        prefix_(architecture_ + "."),
        keys_(keys_of(file, prefix_), file.path()) {}

  Json build() {
    check_one_model();
    const Architecture& architecture = find_architecture();
    add_shape();
    (this->*architecture.add)();
    check_all_read();
    return std::move(config_);
  }

 private:
  struct Architecture {
    std::string_view name;
    void (ConfigBuilder::*add)();
  };

  const Architecture& find_architecture() const {
    static constexpr std::array kArchitectures = {
        Architecture{"llama", &ConfigBuilder::add_llama},
        Architecture{"qwen2", &ConfigBuilder::add_qwen2},
        Architecture{"qwen2moe", &ConfigBuilder::add_qwen2_moe},
        Architecture{"qwen3", &ConfigBuilder::add_qwen3},
        Architecture{"qwen3moe", &ConfigBuilder::add_qwen3_moe},
        Architecture{"olmoe", &ConfigBuilder::add_olmoe},
        Architecture{"deepseek", &ConfigBuilder::add_deepseek},
        Architecture{"deepseek2", &ConfigBuilder::add_deepseek2},
    };
    std::vector<std::string_view> known;
    for (const Architecture& architecture : kArchitectures) {
      if (architecture.name == architecture_) return architecture;
      known.push_back(architecture.name);
    }
    throw Error(file_.path(), "key 'general.architecture'", fmt::format("one of: {}", fmt::join(known, ", ")),
                printable(architecture_));
  }

  void check_one_model() const {
    const Json* type = file_.find_metadata("general.type");
    if (type != nullptr && *type != "model") {
      throw Error(file_.path(), "key 'general.type'", "a model", describe(*type));
    }
    const Json* count = file_.find_metadata("split.count");
    if (count != nullptr && *count != 0 && *count != 1) {
      throw Error(file_.path(), "key 'split.count'", "a model in one file",
                  fmt::format("{} files", describe(*count)));
    }
  }

  int64_t required(const std::string& key) const { return keys_.required_int(prefix_ + key, 1, kMaxSize); }
  int64_t int_or(const std::string& key, int64_t absent) const {
    return keys_.int_or(prefix_ + key, absent, 0, kMaxSize);
  }
  double number_or(const std::string& key, double absent) const {
    return keys_.number_or(prefix_ + key, absent, 0, 1e15);
  }

  void require_value(const std::string& key, int64_t want, const char* reason) const {
    const int64_t value = int_or(key, want);
    if (value == want) return;
    throw Error(file_.path(), fmt::format("key '{}{}'", prefix_, key), fmt::format("{}, {}", want, reason),
                fmt::format("{}", value));
  }

  const GgufTensor& tensor(const std::string& name) const {
    const GgufTensor* found = file_.find(name);
    if (found == nullptr) throw Error(file_.path(), tensor_item(name), "a tensor", "none");
    return *found;
  }

  // The rows of the first layer's tensor blk.<i>.<leaf>.weight, for widths that older files do not state.
  int64_t rows_of(const std::string& leaf, size_t dimension) const {
    for (int64_t layer = 0; layer < config_["num_hidden_layers"]; ++layer) {
      const GgufTensor* found = file_.find(fmt::format("blk.{}.{}.weight", layer, leaf));
      if (found != nullptr && dimension < found->shape.size()) return found->shape[dimension];
    }
    return 0;
  }

  int64_t expert_width() const {
    if (const int64_t stated = int_or("expert_feed_forward_length", 0)) return stated;
    if (const int64_t merged = rows_of("ffn_gate_exps", 1)) return merged;
    if (const int64_t split = rows_of("ffn_gate.0", 0)) return split;
    throw Error(file_.path(), fmt::format("key '{}expert_feed_forward_length'", prefix_),
                "a width, or tensors of experts to take it from", "neither");
  }

  // What all architectures have.
  void add_shape() {
    config_["num_hidden_layers"] = keys_.required_int(prefix_ + "block_count", 1, kMaxLayers);
    config_["hidden_size"] = required("embedding_length");
    config_["max_position_embeddings"] = required("context_length");
    config_["rms_norm_eps"] = number_or("attention.layer_norm_rms_epsilon", 1e-6);
    config_["rope_theta"] = number_or("rope.freq_base", 10000.0);
    config_["tie_word_embeddings"] = file_.find("output.weight") == nullptr;
    const int64_t vocab = tensor("token_embd.weight").shape.front();
    require_value("vocab_size", vocab, "the rows of token_embd.weight");
    config_["vocab_size"] = vocab;
    if (!keys_.bool_or(prefix_ + "attention.causal", true)) {
      throw Error(file_.path(), fmt::format("key '{}attention.causal'", prefix_), "true", "false");
    }
    keys_.string_or(prefix_ + "tensor_data_layout", "");  // describes the order of rows that is undone anyway
    config_["num_attention_heads"] = required("attention.head_count");
  }

  void add_heads() {
    const int64_t heads = config_["num_attention_heads"];
    config_["num_key_value_heads"] = int_or("attention.head_count_kv", heads);
    const int64_t hidden = config_["hidden_size"];
    const int64_t head_dim = int_or("attention.key_length", hidden / heads);
    require_value("attention.value_length", head_dim, "the width of keys");
    require_value("rope.dimension_count", head_dim, "the width of a head");
    config_["head_dim"] = head_dim;
    config_["rope_scaling"] = gguf_rope_scaling(file_, keys_, prefix_, false);
  }

  void add_dense_width() { config_["intermediate_size"] = required("feed_forward_length"); }

  void add_experts(const char* count_key) {
    config_[count_key] = required("expert_count");
    config_["num_experts_per_tok"] = required("expert_used_count");
  }

  bool weights_normalized(bool absent) const {
    return keys_.bool_or(prefix_ + "expert_weights_norm", absent);
  }

  void require_plain_routing() const {
    require_value("expert_gating_func", kSoftmax, "softmax");
    if (number_or("expert_weights_scale", 1) != 1) {
      throw Error(file_.path(), fmt::format("key '{}expert_weights_scale'", prefix_), "1", "another number");
    }
  }

  void add_llama() {
    add_heads();
    add_dense_width();
    if (int_or("expert_count", 0) == 0) {
      require_value("expert_used_count", 0, "as there are no experts");
      config_["model_type"] = "llama";
      config_["attention_bias"] = file_.find("blk.0.attn_q.bias") != nullptr;
      config_["mlp_bias"] = file_.find("blk.0.ffn_gate.bias") != nullptr;
      return;
    }
    config_["model_type"] = "mixtral";
    config_["sliding_window"] = nullptr;
    require_plain_routing();
    require_value("expert_feed_forward_length", config_["intermediate_size"], "the feed_forward_length");
    add_experts("num_local_experts");
  }

  void add_qwen2() {
    config_["model_type"] = "qwen2";
    add_heads();
    add_dense_width();
  }

  void add_qwen3() {
    config_["model_type"] = "qwen3";
    add_heads();
    add_dense_width();
  }

  void add_qwen2_moe() {
    config_["model_type"] = "qwen2_moe";
    add_heads();
    config_["intermediate_size"] = int_or("feed_forward_length", 5632);  // no layer is dense
    require_plain_routing();
    add_experts("num_experts");
    config_["moe_intermediate_size"] = expert_width();
    int64_t shared = int_or("expert_shared_feed_forward_length", 0);
    if (shared == 0) shared = rows_of("ffn_gate_shexp", 0);
    config_["shared_expert_intermediate_size"] = shared;
    config_["norm_topk_prob"] = weights_normalized(false);
  }

  void add_qwen3_moe() {
    config_["model_type"] = "qwen3_moe";
    add_heads();
    config_["intermediate_size"] = int_or("feed_forward_length", 6144);  // no layer is dense
    require_plain_routing();
    add_experts("num_experts");
    config_["moe_intermediate_size"] = expert_width();
    config_["norm_topk_prob"] = weights_normalized(true);
  }

  void add_olmoe() {
    config_["model_type"] = "olmoe";
    add_heads();
    int_or("feed_forward_length", 0);  // that of an expert
    require_plain_routing();
    add_experts("num_experts");
    config_["intermediate_size"] = expert_width();
    config_["norm_topk_prob"] = weights_normalized(false);
  }

  void add_deepseek_experts() {
    add_dense_width();
    add_experts("n_routed_experts");
    config_["n_shared_experts"] = required("expert_shared_count");
    config_["moe_intermediate_size"] = expert_width();
    config_["first_k_dense_replace"] = int_or("leading_dense_block_count", 0);
  }

  void add_deepseek() {
    config_["model_type"] = "deepseek";
    add_heads();
    require_plain_routing();
    add_deepseek_experts();
    config_["norm_topk_prob"] = weights_normalized(false);
  }

  void add_deepseek2() {
    add_deepseek_experts();
    add_latent_attention();
    config_["rope_scaling"] = gguf_rope_scaling(file_, keys_, prefix_, true);
    const int64_t gating = int_or("expert_gating_func", kSoftmax);
    if (gating != kSoftmax && gating != kSigmoid) {
      throw Error(file_.path(), fmt::format("key '{}expert_gating_func'", prefix_),
                  "1 (softmax) or 2 (sigmoid)", fmt::format("{}", gating));
    }
    config_["model_type"] = gating == kSigmoid ? "deepseek_v3" : "deepseek_v2";
    config_["routed_scaling_factor"] = number_or("expert_weights_scale", 1.0);
    config_["norm_topk_prob"] = weights_normalized(false);
    add_groups(gating == kSoftmax);
  }

  void add_latent_attention() {
    const int64_t heads = config_["num_attention_heads"];
    config_["num_key_value_heads"] = heads;
    int_or("attention.head_count_kv", heads);  // 1 in files that count latents
    const int64_t rank = required("attention.kv_lora_rank");
    config_["kv_lora_rank"] = rank;
    const int64_t q_rank = int_or("attention.q_lora_rank", 0);
    config_["q_lora_rank"] = q_rank > 0 ? Json(q_rank) : Json();
    const int64_t rope_dim = required("rope.dimension_count");
    // Newer files state the width of the latent under the old names, and the heads' own under new ones.
    const int64_t key_length = required("attention.key_length");
    const int64_t value_length = required("attention.value_length");
    const int64_t key_dim = int_or("attention.key_length_mla", key_length);
    config_["qk_rope_head_dim"] = rope_dim;
    config_["qk_nope_head_dim"] = key_dim - rope_dim;
    config_["v_head_dim"] = int_or("attention.value_length_mla", value_length);
    if (key_dim != key_length) {
      require_value("attention.key_length", rank + rope_dim, "the width of latent and position");
      require_value("attention.value_length", rank, "the width of the latent");
    }
  }

  // Older files do not say that the experts of the large models are chosen by groups.
  void add_groups(bool greedy) {
    const int64_t experts = config_["n_routed_experts"];
    const bool stated = keys_.find(prefix_ + "expert_group_count") != nullptr;
    if (!stated && experts > 64) {
      throw Error(file_.path(), fmt::format("key '{}expert_group_count'", prefix_),
                  fmt::format("the number of groups of {} experts", experts),
                  "none; files of newer converters have it");
    }
    const int64_t groups = std::max<int64_t>(int_or("expert_group_count", 1), 1);
    config_["n_group"] = groups;
    config_["topk_group"] = std::max<int64_t>(int_or("expert_group_used_count", 1), 1);
    if (greedy) config_["topk_method"] = groups > 1 ? "group_limited_greedy" : "greedy";
  }

  void check_all_read() const {
    for (const std::string& key : keys_.unread_keys()) {
      throw Error(file_.path(), fmt::format("key '{}'", printable(key)),
                  fmt::format("a key that is known for {}, for it may change results", architecture_),
                  describe(keys_.json()[key]));
    }
  }

  const GgufFile& file_;
  const std::string architecture_;
  const std::string prefix_;
  const ConfigReader keys_;
  Json config_ = Json::object();
};

}  // namespace

std::string gguf_architecture(const GgufFile& file) {
  const Json* found = file.find_metadata("general.architecture");
  if (found == nullptr || !found->is_string()) {
    throw Error(file.path(), "key 'general.architecture'", "a string",
                found == nullptr ? "none" : describe(*found));
  }
  return found->get<std::string>();
}

Json gguf_config(const GgufFile& file) {
  return ConfigBuilder(file).build();
}

Json gguf_generation_config(const GgufFile& file) {
  const auto id = [&](const char* name) {
    const Json* found = file.find_metadata(fmt::format("tokenizer.ggml.{}_token_id", name));
    return found != nullptr ? *found : Json();
  };
  Json ends = Json::array();  // of text, of turn, of message
  for (const char* name : {"eos", "eot", "eom"}) {
    const Json end = id(name);
    if (!end.is_null() && std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  return {{"bos_token_id", id("bos")}, {"eos_token_id", ends}};
}

bool gguf_permutes_rows(const std::string& architecture) {
  return architecture == "llama" || architecture == "deepseek";
}

}  // namespace switchyard
