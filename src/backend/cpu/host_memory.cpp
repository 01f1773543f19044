#include "backend/cpu/host_memory.h"

#include <cstdlib>

#include "base/error.h"

namespace switchyard {

std::byte* HostMemory::allocate(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
  if (data == nullptr) {
    throw Error("host memory", "", fmt::format("{} bytes more", bytes), "a refusal by the system");
  }
  return static_cast<std::byte*>(data);
}

void HostMemory::release(std::byte* data, int64_t) {
  std::free(data);
}

}  // namespace switchyard
