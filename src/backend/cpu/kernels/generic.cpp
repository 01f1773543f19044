// The kernels for any processor.
#include "backend/cpu/kernels/vec_generic.h"
// The kernels are written in terms of the Vec above.
#include "backend/cpu/kernels/table.h"

namespace switchyard {

const Kernels kGenericKernels = make_kernels(Isa::kGeneric);

}  // namespace switchyard
