// The dense families that mixtures are compared with, distilled into and grown from: Qwen2 and 2.5, Qwen3,
// Llama 2 and 3 with SmolLM2, Mistral. Keys and defaults follow transformers' config class of each.
#include "models/family_config.h"

namespace switchyard {
namespace {

std::unique_ptr<Model> make_dense(const ConfigReader& config, const DecoderConfig& decoder,
                                  const AttentionParts& attention, bool mlp_bias, WeightSource& source,
                                  Backend& backend, const LoadOptions& options) {
  const ModelShape& s = decoder.shape;
  const int64_t width = config.required_int("intermediate_size", 1, kMaxWidth);
  config.finish(options.ignored_keys);
  return std::make_unique<Decoder>(
      decoder, source, backend, options, [&](Binder layer, size_t i) -> DecoderBlocks {
        auto self_attn =
            GroupedAttention::bind(layer.scope("self_attn."), s.hidden, grouped_attention(s, i), attention);
        return {std::move(self_attn),
                GatedMlp::bind(layer.scope("mlp."), s.hidden, width, Component::kDense, mlp_bias)};
      });
}

// Qwen2 and Qwen3: with use_sliding_window, the layers from max_window_layers on.
void read_qwen_windows(const ConfigReader& config, ModelShape& shape) {
  const int64_t first = config.int_or("max_window_layers", 28, 0, kMaxLayers * kMaxLayers);
  read_layer_windows(
      config, read_used_window(config), [&](int64_t i) { return i >= first; }, shape);
}

}  // namespace

std::unique_ptr<Model> make_qwen2(const ConfigReader& config, WeightSource& source, Backend& backend,
                                  const LoadOptions& options) {
  DecoderConfig decoder = read_decoder(config, {.family = "qwen2", .max_positions = 32768, .kv_heads = 32});
  read_qwen_windows(config, decoder.shape);
  return make_dense(config, decoder, {.qkv_bias = true}, false, source, backend, options);
}

std::unique_ptr<Model> make_qwen3(const ConfigReader& config, WeightSource& source, Backend& backend,
                                  const LoadOptions& options) {
  DecoderConfig decoder =
      read_decoder(config, {.family = "qwen3", .max_positions = 32768, .kv_heads = 32, .head_dim = 128});
  read_qwen_windows(config, decoder.shape);
  const bool bias = config.bool_or("attention_bias", false);
  const AttentionParts attention{
      .qkv_bias = bias, .o_bias = bias, .norm = QkNorm::kPerHead, .norm_eps = decoder.rms_norm_eps};
  return make_dense(config, decoder, attention, false, source, backend, options);
}

std::unique_ptr<Model> make_llama(const ConfigReader& config, WeightSource& source, Backend& backend,
                                  const LoadOptions& options) {
  const DecoderConfig decoder = read_decoder(config, {.family = "llama", .max_positions = 2048});
  const bool bias = config.bool_or("attention_bias", false);
  const bool mlp_bias = config.bool_or("mlp_bias", false);
  return make_dense(config, decoder, {.qkv_bias = bias, .o_bias = bias}, mlp_bias, source, backend, options);
}

std::unique_ptr<Model> make_mistral(const ConfigReader& config, WeightSource& source, Backend& backend,
                                    const LoadOptions& options) {
  DecoderConfig decoder = read_decoder(config, {.family = "mistral", .max_positions = 131072, .kv_heads = 8});
  read_common_window(config, 4096, decoder.shape);
  return make_dense(config, decoder, {}, false, source, backend, options);
}

}  // namespace switchyard
