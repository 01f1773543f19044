#include "models/rope.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace switchyard {

RotaryEmbedding RotaryEmbedding::bind(Binder& b, const RopeConfig& config, const RopeShape& shape,
                                      DType precision) {
  RotaryEmbedding rotary;
  rotary.config_ = config;
  rotary.shape_ = shape;
  rotary.precision_ = precision;
  rotary.frequencies(INT32_MAX);  // throws now, so that no step will
  const RopeFrequencies shortest = rotary.frequencies(1);
  rotary.constant_ = {.inverse_frequencies = Tensor::empty(b.arena(), DType::kF32, {1, shape.rotary_dim / 2}),
                      .set_of_row = {},
                      .attention_factor = shortest.attention_factor,
                      .interleaved = shape.interleaved};
  const Tensor& device = rotary.constant_.inverse_frequencies;
  b.backend().copy_from_host(device.mutable_data(), shortest.inverse.data(), device.bytes());
  return rotary;
}

Rope RotaryEmbedding::for_step(Context& c, const Batch& batch) const {
  const int64_t limit = constant_length();
  if (limit == INT64_MAX) return constant_;
  SY_CHECK(static_cast<int64_t>(batch.rope_lengths.size()) == batch.size(), "{} rope lengths for {} rows",
           batch.rope_lengths.size(), batch.size());
  if (std::ranges::all_of(batch.rope_lengths, [&](int32_t length) { return length <= limit; })) {
    return constant_;
  }
  // Of longrope's lengths all above the limit are alike.
  const int64_t longest = config_.type == "longrope" ? limit + 1 : INT64_MAX;
  std::map<int64_t, int32_t> set_of_length;
  std::vector<int32_t> set_of_row;
  std::vector<float> sets;
  for (const int32_t row_length : batch.rope_lengths) {
    const int64_t length = std::clamp<int64_t>(row_length, limit, longest);
    const auto [set, is_new] = set_of_length.try_emplace(length, static_cast<int32_t>(set_of_length.size()));
    if (is_new) {
      const std::vector<float> inverse = frequencies(length).inverse;
      sets.insert(sets.end(), inverse.begin(), inverse.end());
    }
    set_of_row.push_back(set->second);
  }
  Rope rope = constant_;
  rope.inverse_frequencies =
      upload(c, sets).reshaped({static_cast<int64_t>(set_of_length.size()), shape_.rotary_dim / 2});
  rope.set_of_row = upload(c, set_of_row);
  return rope;
}

RopeFrequencies RotaryEmbedding::frequencies(int64_t length) const {
  RopeFrequencies result = rope_frequencies(config_, shape_.rotary_dim, shape_.max_positions, length);
  // A model that is cast as a whole rounds what it holds; dynamic's longer ones are computed anew, in
  // float32.
  const bool held = config_.type != "dynamic" || length <= constant_length();
  if (precision_ == DType::kBF16 && held) {
    for (float& frequency : result.inverse)
      frequency = bf16_to_f32(f32_to_bf16(frequency));
  }
  return result;
}

}  // namespace switchyard
