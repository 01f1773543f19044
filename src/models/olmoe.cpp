// OLMoE-1B-7B. Keys and defaults follow transformers' OlmoeConfig: query and key norms span all heads.
#include "models/family_config.h"

namespace switchyard {

std::unique_ptr<Model> make_olmoe(const ConfigReader& config, WeightSource& source, Backend& backend,
                                  const LoadOptions& options) {
  DecoderConfig decoder =
      read_decoder(config, {.family = "olmoe", .max_positions = 4096, .rms_norm_eps = 1e-5});
  ModelShape& s = decoder.shape;
  read_expert_counts(config, "num_experts", "num_local_experts", s);
  set_sparse_layers([](int64_t) { return true; }, s);
  s.expert_width = config.required_int("intermediate_size", 1, kMaxWidth);
  s.normalize_weights = config.bool_or("norm_topk_prob", false);
  s.router_aux_loss_coef = config.number_or("router_aux_loss_coef", 0.01, 0, 1e6);
  const bool bias = config.bool_or("attention_bias", false);
  require_value(config, "clip_qkv", nullptr);
  const AttentionParts attention{
      .qkv_bias = bias, .o_bias = bias, .norm = QkNorm::kFullWidth, .norm_eps = decoder.rms_norm_eps};
  config.finish(options.ignored_keys);

  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        auto self_attn =
            GroupedAttention::bind(layer.scope("self_attn."), s.hidden, grouped_attention(s, i), attention);
        return {std::move(self_attn), SparseMoe::bind(layer.scope("mlp."), s,
                                                      {.top_k = s.top_k, .normalize = s.normalize_weights})};
      });
}

}  // namespace switchyard
