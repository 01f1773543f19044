// What a product does with its activations before it multiplies them.
#pragma once

#include <cstdint>

namespace switchyard {

enum class Activations : uint8_t {
  // As they are: a product is that of backend.h.
  kFloat32,
  // Rounded for weights whose products the processor then computes many times faster: to 8 bits in groups of
  // 32 (rounded_rows.h) where the weight is in panels, to bfloat16 where the weight is bfloat16 and the
  // processor multiplies such numbers. Other weights, embeddings and gradients take them as they are.
  kRounded,
};

}  // namespace switchyard
