// DeepSeek: MoE v1 (deepseek-moe-16b), V2 and V2-Lite, V3 and R1. Keys and defaults of V2 and V3 follow
// transformers' config classes; v1 follows the model code published with its checkpoints. They share
// fine-grained experts beside shared ones that every token passes through, after a few dense layers.
#include <cmath>

#include "base/error.h"
#include "models/family_config.h"

namespace switchyard {
namespace {

constexpr float kNormalizeEps = 1e-20f;  // added to the sum that weights are divided by

void read_experts(const ConfigReader& config, int64_t dense_layers_absent, ModelShape& s) {
  read_expert_counts(config, "n_routed_experts", "num_local_experts", s);
  s.expert_width = config.required_int("moe_intermediate_size", 1, kMaxWidth);
  const int64_t shared = config.required_int("n_shared_experts", 1, kMaxExperts);
  if (shared * s.expert_width > kMaxWidth) {
    throw Error(config.path(), "key 'n_shared_experts'",
                fmt::format("at most {} of width {}", kMaxWidth / s.expert_width, s.expert_width),
                fmt::format("{}", shared));
  }
  s.shared_width = shared * s.expert_width;
  const int64_t dense = config.int_or("first_k_dense_replace", dense_layers_absent, 0, kMaxLayers);
  require_value(config, "moe_layer_freq", 1);
  set_sparse_layers([&](int64_t i) { return i >= dense; }, s);
}

SparseMoe bind_moe(Binder b, const ModelShape& s, const RoutingRule& rule) {
  SparseMoe moe = SparseMoe::bind(b, s, rule);
  moe.shared_expert =
      GatedMlp::bind(b.scope("shared_experts."), s.hidden, s.shared_width, Component::kSharedExperts);
  return moe;
}

// n_group and topk_group; one group of all experts is no limit.
void read_groups(const ConfigReader& config, int64_t absent_groups, int64_t absent_top, ModelShape& s) {
  const int64_t groups = config.optional_int("n_group", 1, kMaxExperts).value_or(absent_groups);
  const int64_t top = config.optional_int("topk_group", 1, kMaxExperts).value_or(absent_top);
  if (s.experts == 0) return;
  if (s.experts % groups != 0) {
    throw Error(config.path(), "key 'n_group'", fmt::format("a divisor of {} experts", s.experts),
                fmt::format("{}", groups));
  }
  if (top > groups || top * (s.experts / groups) < s.top_k) {
    throw Error(config.path(), "key 'topk_group'",
                fmt::format("at most {} groups, with at least {} experts in them", groups, s.top_k),
                fmt::format("{}", top));
  }
  s.n_group = groups;
  s.topk_group = top;
}

struct LatentConfig {
  LatentShape shape;
  int64_t dense_width;
};

// qk_head_dim and head_dim follow from the others, but transformers writes them too.
LatentConfig read_latent(const ConfigReader& config, DecoderConfig& decoder) {
  ModelShape& s = decoder.shape;
  LatentShape latent{.heads = s.heads,
                     .nope_dim = config.int_or("qk_nope_head_dim", 128, 1, kMaxWidth),
                     .rope_dim = config.int_or("qk_rope_head_dim", 64, 2, kMaxWidth),
                     .value_dim = config.int_or("v_head_dim", 128, 1, kMaxWidth),
                     .kv_rank = config.int_or("kv_lora_rank", 512, 1, kMaxWidth),
                     .q_rank = 0,
                     .scale = 0,
                     .bias = config.bool_or("attention_bias", false)};
  const bool q_rank_absent = config.find("q_lora_rank") == nullptr;
  latent.q_rank = q_rank_absent ? 1536 : config.optional_int("q_lora_rank", 1, kMaxWidth).value_or(0);
  if (s.heads * (latent.key_dim() + latent.value_dim + latent.kv_rank) > 4 * kMaxWidth) {
    throw Error(config.path(), "key 'num_attention_heads'", "heads whose widths stay below 2^20 together",
                fmt::format("{}", s.heads));
  }
  if (latent.rope_dim % 2 != 0) {
    throw Error(config.path(), "key 'qk_rope_head_dim'", "an even number",
                fmt::format("{}", latent.rope_dim));
  }
  require_value(config, "qk_head_dim", latent.key_dim());
  s.head_dim = latent.key_dim();
  s.kv_heads = s.heads;
  s.kv = latent.kv();
  decoder.rope_shape.rotary_dim = latent.rope_dim;
  latent.scale = static_cast<float>(
      deepseek_attention_scale(decoder.rope, 1.0 / std::sqrt(static_cast<double>(latent.key_dim()))));
  return {latent, config.required_int("intermediate_size", 1, kMaxWidth)};
}

std::unique_ptr<Model> make_latent(const DecoderConfig& decoder, const LatentConfig& latent,
                                   const RoutingRule& rule, bool selection_bias, WeightSource& source,
                                   Backend& backend, const LoadOptions& options) {
  const ModelShape& s = decoder.shape;
  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        auto self_attn = LatentAttention::bind(layer.scope("self_attn."), s.hidden, latent.shape);
        Binder mlp = layer.scope("mlp.");
        if (s.layers[i].experts == 0) {
          return {std::move(self_attn), GatedMlp::bind(mlp, s.hidden, latent.dense_width, Component::kDense)};
        }
        SparseMoe moe = bind_moe(mlp, s, rule);
        if (selection_bias) {
          moe.rule.selection_bias =
              mlp.float_vector("gate.e_score_correction_bias", s.experts, Component::kRouter);
        }
        return {std::move(self_attn), std::move(moe)};
      });
}

}  // namespace

std::unique_ptr<Model> make_deepseek(const ConfigReader& config, WeightSource& source, Backend& backend,
                                     const LoadOptions& options) {
  DecoderConfig decoder = read_decoder(config, {.family = "deepseek", .max_positions = 2048});
  ModelShape& s = decoder.shape;
  read_experts(config, 0, s);
  require_value(config, "scoring_func", "softmax");
  require_value(config, "mlp_bias", false);
  s.normalize_weights = config.bool_or("norm_topk_prob", false);
  const int64_t dense_width = config.required_int("intermediate_size", 1, kMaxWidth);
  const bool bias = config.bool_or("attention_bias", false);
  config.finish(options.ignored_keys);
  const RoutingRule rule{.top_k = s.top_k, .normalize = s.normalize_weights, .epsilon = kNormalizeEps};

  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        auto self_attn = GroupedAttention::bind(layer.scope("self_attn."), s.hidden, grouped_attention(s, i),
                                                {.qkv_bias = bias, .o_bias = bias});
        Binder mlp = layer.scope("mlp.");
        if (s.layers[i].experts > 0) return {std::move(self_attn), bind_moe(mlp, s, rule)};
        return {std::move(self_attn), GatedMlp::bind(mlp, s.hidden, dense_width, Component::kDense)};
      });
}

std::unique_ptr<Model> make_deepseek_v2(const ConfigReader& config, WeightSource& source, Backend& backend,
                                        const LoadOptions& options) {
  DecoderConfig decoder = read_decoder(config, {.family = "deepseek_v2", .max_positions = 2048});
  ModelShape& s = decoder.shape;
  read_experts(config, 0, s);
  const LatentConfig latent = read_latent(config, decoder);
  decoder.rope_shape.interleaved = true;
  require_value(config, "scoring_func", "softmax");
  require_value(config, "mlp_bias", false);
  require_value(config, "norm_topk_prob", false);  // the published code and transformers disagree on true
  RoutingRule rule{.top_k = s.top_k,
                   .normalize = false,
                   .scaling = static_cast<float>(config.number_or("routed_scaling_factor", 1.0, 0, 1e6))};
  const std::string method = config.string_or("topk_method", "greedy");
  read_groups(config, 1, 1, s);
  if (method == "greedy") {
    s.n_group = s.topk_group = 1;
  } else if (method != "group_limited_greedy") {
    throw Error(config.path(), "key 'topk_method'", "greedy or group_limited_greedy", printable(method));
  }
  rule.n_group = s.n_group;
  rule.topk_group = s.topk_group;
  rule.group_score = GroupScore::kBest;
  config.find("ep_size");
  config.finish(options.ignored_keys);
  return make_latent(decoder, latent, rule, false, source, backend, options);
}

std::unique_ptr<Model> make_deepseek_v3(const ConfigReader& config, WeightSource& source, Backend& backend,
                                        const LoadOptions& options) {
  DecoderConfig decoder =
      read_decoder(config, {.family = "deepseek_v3", .max_positions = 4096, .kv_heads = 128});
  ModelShape& s = decoder.shape;
  read_experts(config, 3, s);
  const LatentConfig latent = read_latent(config, decoder);
  decoder.rope_shape.interleaved = config.bool_or("rope_interleave", true);
  require_value(config, "scoring_func", "sigmoid");
  require_value(config, "topk_method", "noaux_tc");
  s.normalize_weights = config.bool_or("norm_topk_prob", true);
  s.sigmoid_scores = true;
  RoutingRule rule{.top_k = s.top_k,
                   .normalize = s.normalize_weights,
                   .epsilon = kNormalizeEps,
                   .scaling = static_cast<float>(config.number_or("routed_scaling_factor", 2.5, 0, 1e6)),
                   .score = RouterScore::kSigmoid,
                   .group_score = GroupScore::kBestTwo};
  read_groups(config, 8, 4, s);
  rule.n_group = s.n_group;
  rule.topk_group = s.topk_group;
  config.find("ep_size");
  // Layers that predict further tokens stand behind the model's own.
  const int64_t extra = config.int_or("num_nextn_predict_layers", 1, 0, kMaxLayers);
  config.int_or("num_mtp_layers", extra, 0, kMaxLayers);
  config.finish(options.ignored_keys);
  for (int64_t i = 0; i < extra; ++i) {
    source.leave_unused(fmt::format("model.layers.{}.", s.layer_count() + i),
                        "a layer for multi-token prediction, which is not used");
  }
  return make_latent(decoder, latent, rule, true, source, backend, options);
}

}  // namespace switchyard
