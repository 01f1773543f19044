// What the config.json of every family has, with the limits that keep sizes far from overflow. Keys that only
// one family has are read in its own file.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "io/config_reader.h"
#include "models/decoder.h"

namespace switchyard {

// Far above any published model, and low enough that no sum of its elements, bytes or cached values
// overflows.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxWidth = 1 << 18;  // of the hidden size, of all heads together, of an expert
inline constexpr int64_t kMaxVocab = 1 << 24;
inline constexpr int64_t kMaxExperts = kMaxRoutedExperts;

// What the family's transformers config class assumes for keys that config.json leaves out.
struct FamilyDefaults {
  const char* family;  // model_type
  int64_t max_positions;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<int64_t> kv_heads =
      std::nullopt;  // nullopt: as many as query heads; a null value always means that
  std::optional<int64_t> head_dim = std::nullopt;  // nullopt: hidden_size / num_attention_heads
};

// Everything but windows, experts and the shape of latent attention. Layers are dense and see all positions.
DecoderConfig read_decoder(const ConfigReader& config, const FamilyDefaults& defaults);

// One window for each layer, 0 for none: the layers that `layer_types` names, or where it is absent those
// that `slides` picks.
void read_layer_windows(const ConfigReader& config, std::optional<int64_t> window,
                        const std::function<bool(int64_t layer)>& slides, ModelShape& shape);

// All layers have the window of the key `sliding_window`, if any.
void read_common_window(const ConfigReader& config, std::optional<int64_t> absent, ModelShape& shape);

// use_sliding_window, sliding_window (default 4096): the window that is in use, if any.
std::optional<int64_t> read_used_window(const ConfigReader& config);

// experts, under either of two names (transformers' attribute_map), and top_k from num_experts_per_tok.
void read_expert_counts(const ConfigReader& config, const char* key, const char* other_key,
                        ModelShape& shape);
// All layers but mlp_only_layers whose number (from 1) is a multiple of decoder_sparse_step.
void read_sparse_steps(const ConfigReader& config, ModelShape& shape);
void set_sparse_layers(const std::function<bool(int64_t layer)>& is_sparse, ModelShape& shape);

// The attention of layer `index` for families with grouped heads.
AttentionShape grouped_attention(const ModelShape& shape, size_t index);

// Throws Error unless the key is absent or has this value.
void require_value(const ConfigReader& config, const char* key, const Json& value);

}  // namespace switchyard
