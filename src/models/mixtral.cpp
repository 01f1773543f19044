// Mixtral 8x7B, 8x22B. Keys and defaults follow transformers' MixtralConfig; tensors are named as published:
// block_sparse_moe, with w1 the gate, w3 the up and w2 the down matrix. Softmax over the chosen logits, as
// the paper has it, equals softmax over all followed by renormalisation.
#include "models/family_config.h"

namespace switchyard {

std::unique_ptr<Model> make_mixtral(const ConfigReader& config, WeightSource& source, Backend& backend,
                                    const LoadOptions& options) {
  DecoderConfig decoder = read_decoder(
      config,
      {.family = "mixtral", .max_positions = 131072, .rms_norm_eps = 1e-5, .rope_theta = 1e6, .kv_heads = 8});
  ModelShape& s = decoder.shape;
  read_common_window(config, std::nullopt, s);
  read_expert_counts(config, "num_local_experts", "num_experts", s);
  set_sparse_layers([](int64_t) { return true; }, s);
  s.expert_width = config.required_int("intermediate_size", 1, kMaxWidth);
  s.normalize_weights = true;
  s.router_aux_loss_coef = config.number_or("router_aux_loss_coef", 0.001, 0, 1e6);
  config.finish(options.ignored_keys);

  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        auto self_attn =
            GroupedAttention::bind(layer.scope("self_attn."), s.hidden, grouped_attention(s, i), {});
        return {std::move(self_attn),
                SparseMoe::bind(layer.scope("block_sparse_moe."), s, {.top_k = s.top_k, .normalize = true},
                                {.gate = "w1", .up = "w3", .down = "w2"})};
      });
}

}  // namespace switchyard
