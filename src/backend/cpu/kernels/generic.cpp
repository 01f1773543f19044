// The kernels for any processor.
#include "backend/cpu/kernels/ints_generic.h"
// The kernels are written in terms of the Vec and the Ints above.
#include "backend/cpu/kernels/table.h"

namespace switchyard {

const Kernels kGenericKernels = make_kernels(Isa::kGeneric);

}  // namespace switchyard
