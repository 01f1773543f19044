// Loading packed matrices takes no more memory than they have, also where codes must be copied into another
// layout.
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "io/packed/packed_matrix.h"
#include "io/safetensors_writer.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

#ifdef __has_feature
#define SWITCHYARD_HAS_FEATURE(feature) __has_feature(feature)
#else
#define SWITCHYARD_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    SWITCHYARD_HAS_FEATURE(address_sanitizer) || SWITCHYARD_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitized = true;  // by an allocator that keeps memory for itself
#else
constexpr bool kSanitized = false;
#endif

constexpr int64_t kMatrices = 64;
constexpr int64_t N = 1536;
constexpr int64_t K = 2048;
constexpr int64_t kGroup = 128;

// A figure of /proc/self/status, such as VmHWM, the largest resident size so far.
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  SY_CHECK(false, "no {}", key);
}

std::string matrix_name(int64_t i) {
  return fmt::format("m{}", i);
}

// Asymmetric 4-bit matrices. Returns the bytes of all tensors.
int64_t write_checkpoint(const TempFolder& folder, const std::string& method) {
  std::vector<TensorDeclaration> tensors;
  const bool gptq = method == "gptq";
  for (int64_t i = 0; i < kMatrices; ++i) {
    const std::string name = matrix_name(i);
    tensors.push_back({name + ".qweight", DType::kI32,
                       gptq ? std::vector<int64_t>{K / 8, N} : std::vector<int64_t>{K, N / 8}});
    tensors.push_back({name + ".qzeros", DType::kI32, {K / kGroup, N / 8}});
    tensors.push_back({name + ".scales", DType::kF16, {K / kGroup, N}});
  }
  SafetensorsWriter writer(folder.path("model.safetensors"), tensors);
  std::vector<std::byte> bytes;
  for (int i = 0; i < N * K; ++i)
    bytes.push_back(static_cast<std::byte>(i * 37 % 251));
  int64_t total = 0;
  for (const TensorInfo& info : writer.tensors()) {
    writer.write(info.name, std::span(bytes).first(static_cast<size_t>(info.size_bytes)));
    total += info.size_bytes;
  }
  writer.finish();
  return total;
}

// How much more than now a process takes at most while it loads the matrices: a child, whose peak starts
// anew.
int64_t peak_bytes(const std::string& folder, const std::string& method) {
  int ends[2];
  SY_CHECK(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const int64_t before = status_bytes("VmRSS");
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const Json config = {{"quantization_config",
                          {{"quant_method", method}, {"bits", 4}, {"group_size", kGroup}, {"sym", false}}}};
    const auto quantization = read_quantization_config(ConfigReader(config, "config.json"));
    std::vector<PackedMatrix> loaded;
    for (int64_t i = 0; i < kMatrices; ++i)
      loaded.push_back(load_packed_matrix(checkpoint, quantization, matrix_name(i), N, K)->matrix);
    const int64_t peak = status_bytes("VmHWM") - before;
    _exit(write(ends[1], &peak, sizeof peak) == sizeof peak ? 0 : 1);
  }
  close(ends[1]);
  int64_t peak = -1;
  EXPECT_EQ(read(ends[0], &peak, sizeof peak), static_cast<ssize_t>(sizeof peak));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return peak;
}

class PackedMemory : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Methods, PackedMemory, testing::Values("gptq", "awq"));

TEST_P(PackedMemory, IsThatOfTheWeights) {
  if (kSanitized) GTEST_SKIP() << "memory is the sanitizer's here";
  const TempFolder folder;
  const int64_t stored = write_checkpoint(folder, GetParam());
  ASSERT_GT(stored, 100'000'000);
  const int64_t peak = peak_bytes(folder.path(), GetParam());
  std::printf("%.1f MB stored, %.1f MB at most\n", static_cast<double>(stored) / 1e6,
              static_cast<double>(peak) / 1e6);
  EXPECT_LE(static_cast<double>(peak), 1.1 * static_cast<double>(stored));
  EXPECT_GE(static_cast<double>(peak), 0.9 * static_cast<double>(stored)) << "nothing was copied?";
}

}  // namespace
}  // namespace switchyard
