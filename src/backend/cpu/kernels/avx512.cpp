// The kernels for AVX-512.
#include "backend/cpu/kernels/ints_avx512.h"
// The kernels are written in terms of the Vec and the Ints above.
#include "backend/cpu/kernels/table.h"

namespace switchyard {

const Kernels kAvx512Kernels = make_kernels(Isa::kAvx512);

}  // namespace switchyard
