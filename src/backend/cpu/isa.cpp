#include "backend/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace switchyard {
namespace {

constexpr Isa kAll[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Dot};

#if defined(__x86_64__)
bool machine_has_f16c() {
  constexpr unsigned kF16cOfLeaf1Ecx = 1u << 29;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kF16cOfLeaf1Ecx) != 0;
}
#endif

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Dot:
      return "avx512dot";
  }
  return "?";
}

bool machine_has(Isa isa) {
  if (isa == Isa::kGeneric) return true;
#if defined(__x86_64__)
  // These ask whether the system saves the wide registers, too.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && machine_has_f16c();
  if (isa == Isa::kAvx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (isa == Isa::kAvx512) return avx512;
  return avx512 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

std::vector<Isa> isas_of_machine() {
  std::vector<Isa> isas;
  for (const Isa isa : kAll) {
    if (machine_has(isa)) isas.push_back(isa);
  }
  return isas;
}

}  // namespace switchyard
