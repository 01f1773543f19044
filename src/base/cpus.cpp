#include "base/cpus.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace switchyard {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

int cpus_of_affinity() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The folders of this process's cgroup and of those around it, from the line "0::/path" of /proc/self/cgroup.
std::vector<std::string> own_cgroups() {
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> folders;
  std::istringstream lines(read_text("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    folders.push_back(root);
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      folders.push_back(root + path);
  }
  return folders;
}

}  // namespace

int cpus_of_quota(std::string_view cpu_max) {
  std::istringstream in{std::string(cpu_max)};
  int64_t quota = 0;
  int64_t period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<int64_t>((quota - 1) / period + 1, 1, 1 << 15));
}

int usable_cpus() {
  int cpus = std::max(1, cpus_of_affinity());
  for (const std::string& folder : own_cgroups()) {
    const int quota = cpus_of_quota(read_text(folder + "/cpu.max"));
    if (quota > 0) cpus = std::min(cpus, quota);
  }
  return cpus;
}

}  // namespace switchyard
