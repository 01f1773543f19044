// The instruction sets that the fast kernels exist for. What a machine has is asked at run time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace switchyard {

enum class Isa : uint8_t {
  kGeneric,    // any processor
  kAvx2,       // x86-64 with AVX2, FMA and F16C
  kAvx512,     // x86-64 with AVX-512 F, BW, VL and DQ
  kAvx512Dot,  // the same with dot products of bytes (VNNI) and of bfloat16
};

std::string_view name(Isa isa);  // "generic", "avx2", "avx512", "avx512dot"

bool machine_has(Isa isa);
std::vector<Isa> isas_of_machine();  // ascending: the last is the fastest

}  // namespace switchyard
