// What the machine can do at best, to hold measurements against.
#pragma once

#include "backend/cpu/isa.h"
#include "base/thread_pool.h"

namespace switchyard {

// Bytes per second that the threads of `pool` read from memory, each from several places at once. `data` must
// be much larger than the caches. The best of several passes.
double read_bandwidth(ThreadPool& pool, const std::byte* data, int64_t bytes);

// float32 operations per second of independent multiply-adds in registers, two operations each, with the
// vectors of `isa`. The best of several runs. 0 for kGeneric, which has no peak of its own.
double multiply_add_peak(ThreadPool& pool, Isa isa);

}  // namespace switchyard
