// Qwen2-MoE: Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B and relatives. Keys, defaults and the choice of layers follow
// transformers' Qwen2MoeConfig and modeling_qwen2_moe.py.
#include "models/family_config.h"

namespace switchyard {

std::unique_ptr<Model> make_qwen2_moe(const ConfigReader& config, WeightSource& source, Backend& backend,
                                      const LoadOptions& options) {
  DecoderConfig decoder =
      read_decoder(config, {.family = "qwen2_moe", .max_positions = 32768, .kv_heads = 16});
  ModelShape& s = decoder.shape;
  const int64_t max_window_layers = config.int_or("max_window_layers", 28, 0, kMaxLayers * kMaxLayers);
  read_layer_windows(
      config, read_used_window(config), [&](int64_t i) { return i % 2 == 0 && i < max_window_layers; }, s);
  read_expert_counts(config, "num_experts", "num_local_experts", s);
  read_sparse_steps(config, s);
  s.expert_width = config.required_int("moe_intermediate_size", 1, kMaxWidth);
  s.shared_width = config.required_int("shared_expert_intermediate_size", 1, kMaxWidth);
  s.shared_gate = true;
  s.normalize_weights = config.bool_or("norm_topk_prob", false);
  s.router_aux_loss_coef = config.number_or("router_aux_loss_coef", 0.001, 0, 1e6);
  const int64_t dense_width = config.int_or("intermediate_size", 5632, 1, kMaxWidth);
  const AttentionParts attention{.qkv_bias = config.bool_or("qkv_bias", true)};
  config.finish(options.ignored_keys);

  const auto bind_moe = [&s](Binder b) {
    SparseMoe moe = SparseMoe::bind(b, s, {.top_k = s.top_k, .normalize = s.normalize_weights});
    moe.shared_expert =
        GatedMlp::bind(b.scope("shared_expert."), s.hidden, s.shared_width, Component::kSharedExperts);
    moe.shared_expert_gate = b.linear("shared_expert_gate", 1, s.hidden, false, Component::kSharedExperts);
    return moe;
  };
  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        Binder mlp = layer.scope("mlp.");
        auto self_attn =
            GroupedAttention::bind(layer.scope("self_attn."), s.hidden, grouped_attention(s, i), attention);
        if (s.layers[i].experts > 0) return {std::move(self_attn), bind_moe(mlp)};
        return {std::move(self_attn), GatedMlp::bind(mlp, s.hidden, dense_width, Component::kDense)};
      });
}

}  // namespace switchyard
