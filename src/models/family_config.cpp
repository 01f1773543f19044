#include "models/family_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace switchyard {
namespace {

void read_heads(const ConfigReader& config, const FamilyDefaults& defaults, ModelShape& shape) {
  shape.heads = config.required_int("num_attention_heads", 1, kMaxWidth);
  const bool kv_absent = config.find("num_key_value_heads") == nullptr;
  const int64_t absent = kv_absent ? defaults.kv_heads.value_or(shape.heads) : shape.heads;
  shape.kv_heads = config.optional_int("num_key_value_heads", 1, kMaxWidth).value_or(absent);
  if (shape.heads % shape.kv_heads != 0) {
    throw Error(config.path(), "key 'num_key_value_heads'", fmt::format("a divisor of {} heads", shape.heads),
                fmt::format("{}{}", shape.kv_heads, kv_absent ? ", the family's default" : ""));
  }
  auto head_dim = config.optional_int("head_dim", 2, kMaxWidth);
  if (!head_dim && config.find("head_dim") == nullptr) head_dim = defaults.head_dim;
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
  shape.kv = {.heads = shape.kv_heads, .key_dim = shape.head_dim, .value_dim = shape.head_dim};
}

}  // namespace

DecoderConfig read_decoder(const ConfigReader& config, const FamilyDefaults& defaults) {
  DecoderConfig decoder;
  ModelShape& shape = decoder.shape;
  shape.family = defaults.family;
  shape.vocab = config.required_int("vocab_size", 1, kMaxVocab);
  shape.hidden = config.required_int("hidden_size", 1, kMaxWidth);
  read_heads(config, defaults, shape);
  shape.max_positions = config.int_or("max_position_embeddings", defaults.max_positions, 1, INT32_MAX);
  shape.tied_embeddings = config.bool_or("tie_word_embeddings", false);
  const std::string activation = config.string_or("hidden_act", "silu");
  if (activation != "silu") throw Error(config.path(), "key 'hidden_act'", "silu", printable(activation));
  const int64_t layers = config.required_int("num_hidden_layers", 1, kMaxLayers);
  shape.layers.assign(static_cast<size_t>(layers), LayerShape{.window = 0, .experts = 0});
  decoder.rms_norm_eps = static_cast<float>(config.number_or("rms_norm_eps", defaults.rms_norm_eps, 0, 1));
  decoder.rope = read_rope_config(config, defaults.rope_theta);
  check_full_rotation(decoder.rope);
  decoder.rope_shape = {.rotary_dim = shape.head_dim, .max_positions = shape.max_positions};
  return decoder;
}

std::optional<int64_t> read_used_window(const ConfigReader& config) {
  const bool used = config.bool_or("use_sliding_window", false);
  const auto given = config.optional_int("sliding_window", 0, INT32_MAX);
  const bool absent = config.find("sliding_window") == nullptr;
  const int64_t window = absent ? 4096 : given.value_or(0);
  return used && window > 0 ? std::optional(window) : std::nullopt;
}

void read_layer_windows(const ConfigReader& config, std::optional<int64_t> window,
                        const std::function<bool(int64_t layer)>& slides, ModelShape& shape) {
  const auto types = config.optional_string_list("layer_types");
  if (types && types->size() != shape.layers.size()) {
    throw Error(config.path(), "key 'layer_types'",
                fmt::format("one type for each of {} layers", shape.layers.size()),
                fmt::format("{}", types->size()));
  }
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    bool sliding = window && slides(static_cast<int64_t>(i));
    if (types) {
      const std::string& type = (*types)[i];
      if (type != "full_attention" && type != "sliding_attention") {
        throw Error(config.path(), fmt::format("key 'layer_types', layer {}", i),
                    "full_attention or sliding_attention", printable(type));
      }
      sliding = type == "sliding_attention";
    }
    if (sliding && !window) {
      throw Error(config.path(), "key 'sliding_window'",
                  fmt::format("a window for layer {}, which is a sliding_attention layer", i),
                  "none, or use_sliding_window false");
    }
    shape.layers[i].window = sliding ? *window : 0;
  }
}

void read_common_window(const ConfigReader& config, std::optional<int64_t> absent, ModelShape& shape) {
  const bool is_absent = config.find("sliding_window") == nullptr;
  const auto window = is_absent ? absent : config.optional_int("sliding_window", 1, INT32_MAX);
  for (LayerShape& layer : shape.layers)
    layer.window = window.value_or(0);
}

void read_expert_counts(const ConfigReader& config, const char* key, const char* other_key,
                        ModelShape& shape) {
  const Json* other = config.find(other_key);
  const bool has_key = config.find(key) != nullptr;
  shape.experts = config.required_int(has_key || other == nullptr ? key : other_key, 0, kMaxExperts);
  if (other != nullptr && *other != Json(shape.experts)) {
    throw Error(config.path(), fmt::format("key '{}'", other_key),
                fmt::format("{}, as {} says", shape.experts, key), describe(*other));
  }
  shape.top_k = config.required_int("num_experts_per_tok", shape.experts > 0 ? 1 : 0,
                                    std::max<int64_t>(shape.experts, 1));
}

void set_sparse_layers(const std::function<bool(int64_t layer)>& is_sparse, ModelShape& shape) {
  bool any = false;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    shape.layers[i].experts = is_sparse(static_cast<int64_t>(i)) ? shape.experts : 0;
    any = any || shape.layers[i].experts > 0;
  }
  if (!any) shape.experts = shape.top_k = 0;  // the config counts experts that no layer has
}

void read_sparse_steps(const ConfigReader& config, ModelShape& shape) {
  const int64_t step = config.int_or("decoder_sparse_step", 1, 1, kMaxLayers * kMaxLayers);
  const std::vector<int64_t> mlp_only = config.int_list_or("mlp_only_layers", {}, 0, shape.layer_count() - 1);
  set_sparse_layers(
      [&](int64_t i) {
        return (i + 1) % step == 0 && std::find(mlp_only.begin(), mlp_only.end(), i) == mlp_only.end();
      },
      shape);
}

AttentionShape grouped_attention(const ModelShape& shape, size_t index) {
  return {.heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .value_dim = shape.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
          .window = shape.layers[index].window};
}

void require_value(const ConfigReader& config, const char* key, const Json& value) {
  const Json* found = config.find(key);
  if (found == nullptr || *found == value) return;
  throw Error(config.path(), fmt::format("key '{}'", key), value.dump(), describe(*found));
}

}  // namespace switchyard
