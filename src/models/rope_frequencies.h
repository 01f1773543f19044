// Frequencies of rotary positions (RoPE, Su et al. 2021, arXiv 2104.09864) for every type that config.json
// may name. With b = theta and R the rotated values of a head, pair i < R/2 turns by position * f[i]:
//   default   f[i] = b^(-2i/R)
//   linear    f[i] / factor: position interpolation (Chen et al. 2023, arXiv 2306.15595)
//   dynamic   "dynamic NTK" (as in Peng et al. 2023, arXiv 2309.00071, appendix B): in a sequence of n >
//             max_positions tokens b grows by (factor * n / max_positions - (factor - 1))^(R / (R - 2))
//   yarn      YaRN (arXiv 2309.00071): pairs that turn more than beta_fast times within the original length
//             keep f[i], those that turn less than beta_slow times get f[i] / factor, a ramp between them
//   llama3    (Llama 3.1): the same idea by wavelength, with a ramp that is linear in the frequency
//   longrope  LongRoPE (Ding et al. 2024, arXiv 2402.13753): f[i] / short_factor[i], and f[i] /
//   long_factor[i]
//             in a sequence longer than the original length
// All in float32 and in the order in which transformers computes it (modeling_rope_utils.py).
#pragma once

#include <cstdint>
#include <vector>

#include "io/rope_config.h"

namespace switchyard {

struct RopeFrequencies {
  std::vector<float> inverse;     // [R/2], radians per position
  float attention_factor = 1.0f;  // cos and sin are multiplied by it (yarn, longrope)
};

// What a model of `max_positions` (max_position_embeddings) uses in a sequence of `length` tokens; the length
// matters above constant_rope_length only. `rotary_dim`: R, even. Throws Error for parameters that do not
// fit R or that give no finite numbers.
RopeFrequencies rope_frequencies(const RopeConfig& rope, int64_t rotary_dim, int64_t max_positions,
                                 int64_t length);

// The longest sequence whose frequencies are those of all shorter ones: max_positions for `dynamic`, the
// original length for `longrope`, INT64_MAX for the other types.
int64_t constant_rope_length(const RopeConfig& rope, int64_t max_positions);

// DeepSeek-V2 and -V3 scale the scores of attention, besides cos and sin, where yarn's `mscale_all_dim` is
// given and not 0: `scale` * (0.1 * mscale_all_dim * ln(factor) + 1)^2 (yarn_apply_mscale in transformers'
// modeling_deepseek_v2.py and _v3.py). The other families do not.
double deepseek_attention_scale(const RopeConfig& rope, double scale);

// Throws Error for a partial_rotary_factor other than 1. For families that rotate whole heads: in
// transformers they ignore it (type default) or fail on it. So do qwen2, qwen2_moe, qwen3, qwen3_moe, llama,
// mistral, mixtral, olmoe, and deepseek_v2 and _v3, whose head is the part of qk_rope_head_dim values.
void check_full_rotation(const RopeConfig& rope);

}  // namespace switchyard
