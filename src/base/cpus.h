// How many processors this process may use.
#pragma once

#include <string_view>

namespace switchyard {

// The processors of the affinity mask, but no more than the quota of any cgroup (version 2) around the
// process, rounded up. At least 1.
int usable_cpus();

// The quota in processors, rounded up, of the text of a cgroup's cpu.max ("200000 100000" is 2); 0 for no
// limit ("max 100000"). Text that is neither is no limit that the kernel would enforce, so 0 as well.
int cpus_of_quota(std::string_view cpu_max);

}  // namespace switchyard
