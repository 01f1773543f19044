// The kernels for AVX-512 with dot products of bytes (VNNI) and of bfloat16.
#include "backend/cpu/kernels/ints_avx512.h"
// The kernels are written in terms of the Vec and the Ints above.
#include "backend/cpu/kernels/dot_bf16.h"
#include "backend/cpu/kernels/table.h"

namespace switchyard {
namespace {

constexpr Kernels with_bf16(Kernels kernels) {
  kernels.dot_bf16 = dot_bf16;
  kernels.round_bf16 = round_bf16;
  return kernels;
}

}  // namespace

const Kernels kAvx512DotKernels = with_bf16(make_kernels(Isa::kAvx512Dot));

}  // namespace switchyard
