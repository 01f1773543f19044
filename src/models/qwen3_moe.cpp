// Qwen3-MoE: Qwen3-30B-A3B, Qwen3-235B-A22B and relatives. Keys and defaults follow transformers'
// Qwen3MoeConfig and modeling_qwen3_moe.py: the window, where it is in use, holds for every layer.
#include "models/family_config.h"

namespace switchyard {

std::unique_ptr<Model> make_qwen3_moe(const ConfigReader& config, WeightSource& source, Backend& backend,
                                      const LoadOptions& options) {
  DecoderConfig decoder =
      read_decoder(config, {.family = "qwen3_moe", .max_positions = 32768, .kv_heads = 4});
  ModelShape& s = decoder.shape;
  const std::optional<int64_t> window = read_used_window(config);
  for (LayerShape& layer : s.layers)
    layer.window = window.value_or(0);
  config.int_or("max_window_layers", 28, 0, kMaxLayers * kMaxLayers);  // published, and used by nobody
  read_expert_counts(config, "num_experts", "num_local_experts", s);
  read_sparse_steps(config, s);
  s.expert_width = config.int_or("moe_intermediate_size", 768, 1, kMaxWidth);
  s.normalize_weights = config.bool_or("norm_topk_prob", false);
  s.router_aux_loss_coef = config.number_or("router_aux_loss_coef", 0.001, 0, 1e6);
  const int64_t dense_width = config.int_or("intermediate_size", 6144, 1, kMaxWidth);
  const bool bias = config.bool_or("attention_bias", false);
  const AttentionParts attention{
      .qkv_bias = bias, .o_bias = bias, .norm = QkNorm::kPerHead, .norm_eps = decoder.rms_norm_eps};
  config.finish(options.ignored_keys);

  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        Binder mlp = layer.scope("mlp.");
        auto self_attn =
            GroupedAttention::bind(layer.scope("self_attn."), s.hidden, grouped_attention(s, i), attention);
        if (s.layers[i].experts == 0) {
          return {std::move(self_attn), GatedMlp::bind(mlp, s.hidden, dense_width, Component::kDense)};
        }
        return {std::move(self_attn),
                SparseMoe::bind(mlp, s, {.top_k = s.top_k, .normalize = s.normalize_weights})};
      });
}

}  // namespace switchyard
