// The kernels for AVX2, FMA and F16C.
#include "backend/cpu/kernels/ints_avx2.h"
// The kernels are written in terms of the Vec and the Ints above.
#include "backend/cpu/kernels/table.h"

namespace switchyard {

const Kernels kAvx2Kernels = make_kernels(Isa::kAvx2);

}  // namespace switchyard
