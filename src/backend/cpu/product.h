// The forms that the rows of a product take for the kernels of different weights.
#pragma once

#include <cstdint>

#include "backend/cpu/rounded_rows.h"

namespace switchyard {

enum class ProductForm : uint8_t { kFloat32, kBf16, kRounded };

// Which rounded forms the weights of one call need.
struct ProductForms {
  bool bf16 = false;
  bool rounded = false;

  void add(ProductForm form) {
    bf16 |= form == ProductForm::kBf16;
    rounded |= form == ProductForm::kRounded;
  }
};

struct ProductRows {
  const float* x;        // [rows, cols]
  const uint16_t* bf16;  // the same, or null
  RoundedRows rounded;   // the same, or null pointers
};

}  // namespace switchyard
