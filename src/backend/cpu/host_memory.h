// Memory of the host for arenas: 64-byte aligned, so that vectors never straddle cache lines.
#pragma once

#include "tensor/arena.h"

namespace switchyard {

class HostMemory final : public Memory {
 public:
  std::byte* allocate(int64_t bytes) override;
  void release(std::byte* data, int64_t bytes) override;
};

}  // namespace switchyard
