// The numbers that GGUF gives to element types.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/matrix.h"

namespace switchyard {

struct GgufType {
  uint32_t id;
  std::string_view name;
  bool supported;
  MatrixFormat format = MatrixFormat::kPlain;
  DType dtype = DType::kF32;
};

const GgufType* find_gguf_type(uint32_t id);  // nullptr: no such number

}  // namespace switchyard
