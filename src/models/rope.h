// A model's rotary positions: which frequencies each row of a step is rotated by.
#pragma once

#include "models/rope_frequencies.h"
#include "models/weights.h"
#include "ops/attention.h"
#include "ops/batch.h"

namespace switchyard {

// What a family says of its rotary positions.
struct RopeShape {
  int64_t rotary_dim;        // R: rotated values of a head, even
  int64_t max_positions;     // max_position_embeddings
  bool interleaved = false;  // pairs (2i, 2i + 1), else (i, i + R/2)
};

class RotaryEmbedding {
 public:
  RotaryEmbedding() = default;

  // `precision`: LoadOptions::rope_precision. Throws Error as rope_frequencies does.
  static RotaryEmbedding bind(Binder& b, const RopeConfig& config, const RopeShape& shape, DType precision);

  // The frequencies of a step, for all its layers: one set, unless the type depends on the length and a row's
  // rope length is above constant_length(). Then one set for each distinct length is made.
  Rope for_step(Context& c, const Batch& batch) const;

  // See ModelShape::constant_rope_length.
  int64_t constant_length() const { return constant_rope_length(config_, shape_.max_positions); }

 private:
  RopeFrequencies frequencies(int64_t length) const;

  RopeConfig config_;
  RopeShape shape_{};
  DType precision_ = DType::kF32;
  Rope constant_;  // up to constant_length()
};

}  // namespace switchyard
