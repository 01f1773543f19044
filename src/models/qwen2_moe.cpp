// Qwen2-MoE: Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B and relatives. Keys, defaults and the choice of layers follow
// transformers' Qwen2MoeConfig and modeling_qwen2_moe.py.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/config_reader.h"
#include "io/rope_config.h"
#include "models/blocks.h"
#include "models/families.h"
#include "models/model.h"

namespace switchyard {
namespace {

struct Config {
  ModelShape shape;
  int64_t dense_width;  // F of layers without experts
  bool qkv_bias;
  float rms_norm_eps;
  double rope_theta;
};

// Far above any published model, and low enough that no sum of its elements, bytes or cached values
// overflows.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxWidth = 1 << 18;  // of the hidden size, of all heads together, of an expert
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxExperts = 1024;

// Which layers see only a window of positions: those that layer_types names, else, with use_sliding_window,
// the layers 0, 2, 4, ... below max_window_layers.
std::vector<int64_t> read_windows(const ConfigReader& config, int64_t layers) {
  const bool use_window = config.bool_or("use_sliding_window", false);
  const auto given_window = config.optional_int("sliding_window", 0, INT32_MAX);
  const int64_t window = config.find("sliding_window") == nullptr ? 4096 : given_window.value_or(0);
  const int64_t max_window_layers = config.int_or("max_window_layers", 28, 0, kMaxLayers * kMaxLayers);
  const auto types = config.optional_string_list("layer_types");
  if (types && static_cast<int64_t>(types->size()) != layers) {
    throw Error(config.path(), "key 'layer_types'", fmt::format("one type for each of {} layers", layers),
                fmt::format("{}", types->size()));
  }
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < layers; ++i) {
    bool sliding = use_window && i % 2 == 0 && i < max_window_layers;
    if (types) {
      const std::string& type = (*types)[static_cast<size_t>(i)];
      if (type != "full_attention" && type != "sliding_attention") {
        throw Error(config.path(), fmt::format("key 'layer_types', layer {}", i),
                    "full_attention or sliding_attention", printable(type));
      }
      sliding = type == "sliding_attention";
    }
    if (sliding && (!use_window || window == 0)) {
      throw Error(config.path(), "key 'sliding_window'",
                  fmt::format("a window for layer {}, which is a sliding_attention layer", i),
                  use_window ? "none" : "use_sliding_window false");
    }
    windows.push_back(sliding ? window : 0);
  }
  return windows;
}

// Which layers have experts: all but mlp_only_layers whose number (from 1) is a multiple of
// decoder_sparse_step.
void read_layers(const ConfigReader& config, int64_t layers, ModelShape& shape) {
  const std::vector<int64_t> windows = read_windows(config, layers);
  const int64_t step = config.int_or("decoder_sparse_step", 1, 1, kMaxLayers * kMaxLayers);
  const std::vector<int64_t> mlp_only = config.int_list_or("mlp_only_layers", {}, 0, layers - 1);
  for (int64_t i = 0; i < layers; ++i) {
    const bool sparse =
        (i + 1) % step == 0 && std::find(mlp_only.begin(), mlp_only.end(), i) == mlp_only.end();
    shape.layers.push_back(
        {.window = windows[static_cast<size_t>(i)], .experts = sparse ? shape.experts : 0});
  }
  if (std::ranges::none_of(shape.layers, [](const LayerShape& layer) { return layer.experts > 0; })) {
    shape.experts = shape.top_k = 0;  // the config counts experts that no layer has
  }
}

void read_heads(const ConfigReader& config, ModelShape& shape) {
  shape.heads = config.required_int("num_attention_heads", 1, kMaxWidth);
  shape.kv_heads = config.optional_int("num_key_value_heads", 1, kMaxWidth).value_or(shape.heads);
  const auto head_dim = config.optional_int("head_dim", 2, kMaxWidth);
  if (shape.heads % shape.kv_heads != 0) {
    throw Error(config.path(), "key 'num_key_value_heads'", fmt::format("a divisor of {} heads", shape.heads),
                fmt::format("{}", shape.kv_heads));
  }
  if (!head_dim && shape.hidden % shape.heads != 0) {
    throw Error(config.path(), "key 'num_attention_heads'",
                fmt::format("a divisor of hidden_size {}", shape.hidden), fmt::format("{}", shape.heads));
  }
  shape.head_dim = head_dim.value_or(shape.hidden / shape.heads);
  if (shape.heads * shape.head_dim > kMaxWidth) {
    throw Error(config.path(), "key 'head_dim'",
                fmt::format("at most {} for {} heads", kMaxWidth / shape.heads, shape.heads),
                fmt::format("{}", shape.head_dim));
  }
  if (shape.head_dim % 2 != 0) {
    throw Error(config.path(), "head dimension", "an even number, for rotary positions",
                fmt::format("{}", shape.head_dim));
  }
}

double read_rope(const ConfigReader& config) {
  const RopeConfig rope = read_rope_config(config, 10000.0);
  if (rope.type != "default") {
    throw Error(config.path(), "rope type", "default, the only one supported for qwen2_moe", rope.type);
  }
  return rope.theta;
}

Config read_config(const ConfigReader& config) {
  ModelShape shape;
  shape.family = "qwen2_moe";
  shape.vocab = config.required_int("vocab_size", 1, kMaxVocab);
  shape.hidden = config.required_int("hidden_size", 1, kMaxWidth);
  read_heads(config, shape);
  shape.max_positions = config.int_or("max_position_embeddings", 32768, 1, INT32_MAX);
  shape.experts = config.required_int("num_experts", 0, kMaxExperts);
  shape.top_k = config.required_int("num_experts_per_tok", shape.experts > 0 ? 1 : 0,
                                    std::max<int64_t>(shape.experts, 1));
  shape.expert_width = config.required_int("moe_intermediate_size", 1, kMaxWidth);
  shape.shared_width = config.required_int("shared_expert_intermediate_size", 1, kMaxWidth);
  shape.normalize_weights = config.bool_or("norm_topk_prob", false);
  shape.tied_embeddings = config.bool_or("tie_word_embeddings", false);
  shape.router_aux_loss_coef = config.number_or("router_aux_loss_coef", 0.001, 0, 1e6);
  const std::string activation = config.string_or("hidden_act", "silu");
  if (activation != "silu") throw Error(config.path(), "key 'hidden_act'", "silu", printable(activation));
  read_layers(config, config.required_int("num_hidden_layers", 1, kMaxLayers), shape);
  return {.shape = shape,
          .dense_width = config.int_or("intermediate_size", 5632, 1, kMaxWidth),
          .qkv_bias = config.bool_or("qkv_bias", true),
          .rms_norm_eps = static_cast<float>(config.number_or("rms_norm_eps", 1e-6, 0, 1)),
          .rope_theta = read_rope(config)};
}

struct Layer {
  Tensor input_layernorm;  // [D]
  Attention self_attn;
  Tensor post_attention_layernorm;  // [D]
  FeedForward mlp;
};

class Qwen2Moe final : public Model {
 public:
  Qwen2Moe(const Config& config, WeightSource& source, Backend& backend, const LoadOptions& options);
  Tensor forward(Context& c, const Batch& batch) const override;
  void visit_linears(const LinearVisitor& visit) override;

 private:
  float eps_;
  Rope rope_;
  Tensor embed_tokens_;  // [V, D]
  std::vector<Layer> layers_;
  Tensor norm_;     // [D]
  Linear lm_head_;  // [V, D]
};

Tensor Qwen2Moe::forward(Context& c, const Batch& batch) const {
  const auto observe = [&](int index, const Tensor& x) {
    if (c.observer != nullptr) c.observer->on_hidden_state(index, x);
  };
  Tensor x = embedding(c, batch.tokens, embed_tokens_);  // [T, D]
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    observe(i, x);
    const Layer& w = layers_[static_cast<size_t>(i)];
    Tensor h = rms_norm(c, x, w.input_layernorm, eps_);
    x = add(c, x, w.self_attn.forward(c, h, batch, rope_, i));
    h = rms_norm(c, x, w.post_attention_layernorm, eps_);
    x = add(c, x, feed_forward(c, w.mlp, h, batch, i));
  }
  x = rms_norm(c, x, norm_, eps_);
  observe(static_cast<int>(layers_.size()), x);
  return linear(c, gather_rows(c, x, batch.logit_rows), lm_head_);  // [M, V]
}

void Qwen2Moe::visit_linears(const LinearVisitor& visit) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    layers_[i].self_attn.visit_linears(prefix + "self_attn.", visit);
    switchyard::visit_linears(layers_[i].mlp, prefix + "mlp.", visit);
  }
  visit("lm_head", lm_head_);
}

SparseMoe bind_sparse_moe(Binder b, const ModelShape& s) {
  return {
      .gate = b.linear("gate", s.experts, s.hidden, false, Component::kRouter),
      .rule = {.top_k = s.top_k, .normalize = s.normalize_weights},
      .experts = bind_split_experts(b, s.experts, s.hidden, s.expert_width),
      .shared_expert =
          GatedMlp::bind(b.scope("shared_expert."), s.hidden, s.shared_width, Component::kSharedExperts),
      .shared_expert_gate = b.linear("shared_expert_gate", 1, s.hidden, false, Component::kSharedExperts)};
}

Qwen2Moe::Qwen2Moe(const Config& config, WeightSource& source, Backend& backend, const LoadOptions& options)
    : Model(backend), eps_(config.rms_norm_eps) {
  shape_ = config.shape;
  const ModelShape& s = shape_;
  Binder b(source, backend, arena_, parameters_);
  rope_ = default_rope(b, config.rope_theta, s.head_dim, options.rope_precision);
  embed_tokens_ = b.tensor("model.embed_tokens.weight", {s.vocab, s.hidden}, Component::kEmbedding);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    Binder layer = b.scope(fmt::format("model.layers.{}.", i));
    const AttentionShape attention{.heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim)),
                                   .window = s.layers[i].window};
    Layer w{.input_layernorm = layer.tensor("input_layernorm.weight", {s.hidden}, Component::kNorm),
            .self_attn = Attention::bind(layer.scope("self_attn."), s.hidden, attention, config.qkv_bias),
            .post_attention_layernorm =
                layer.tensor("post_attention_layernorm.weight", {s.hidden}, Component::kNorm),
            .mlp = {}};
    Binder mlp = layer.scope("mlp.");
    if (s.layers[i].experts > 0) {
      w.mlp = bind_sparse_moe(mlp, s);
    } else {
      w.mlp = GatedMlp::bind(mlp, s.hidden, config.dense_width, Component::kDense);
    }
    layers_.push_back(std::move(w));
  }
  norm_ = b.tensor("model.norm.weight", {s.hidden}, Component::kNorm);
  lm_head_ = bind_output(b, embed_tokens_, s.tied_embeddings);
}

}  // namespace

std::unique_ptr<Model> make_qwen2_moe(const ConfigReader& reader, WeightSource& source, Backend& backend,
                                      const LoadOptions& options) {
  const Config config = read_config(reader);
  reader.finish(options.ignored_keys);
  return std::make_unique<Qwen2Moe>(config, source, backend, options);
}

}  // namespace switchyard
