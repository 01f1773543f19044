// Loading a quantised checkpoint takes no more memory than its weights, also where codes must be copied into
// another layout. A process of its own, since it measures the process.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "io/safetensors_writer.h"
#include "models/registry.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

#ifdef __has_feature
#define SWITCHYARD_HAS_FEATURE(feature) __has_feature(feature)
#else
#define SWITCHYARD_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SWITCHYARD_HAS_FEATURE(address_sanitizer)
constexpr bool kOwnAllocator = true;  // a sanitizer's, which keeps memory for itself
#else
constexpr bool kOwnAllocator = false;
#endif

// A figure of /proc/self/status, such as VmHWM, the largest resident size so far.
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  ADD_FAILURE() << "no " << key;
  return 0;
}

Json config_json(const Json& quantization) {
  return {{"model_type", "qwen2_moe"},
          {"vocab_size", 64},
          {"hidden_size", 512},
          {"num_attention_heads", 8},
          {"num_hidden_layers", 4},
          {"num_experts", 32},
          {"num_experts_per_tok", 4},
          {"moe_intermediate_size", 1024},
          {"shared_expert_intermediate_size", 1024},
          {"quantization_config", quantization}};
}

// The tensors of a 4-bit matrix [N, K] with one group a row.
std::vector<TensorDeclaration> packed(const std::string& method, const std::string& name, int64_t N,
                                      int64_t K) {
  const std::vector<int64_t> words =
      method == "gptq" ? std::vector<int64_t>{K / 8, N} : std::vector<int64_t>{K, N / 8};
  return {{name + ".qweight", DType::kI32, words},
          {name + ".qzeros", DType::kI32, {1, N / 8}},
          {name + ".scales", DType::kF16, {1, N}}};
}

std::vector<TensorDeclaration> declarations(const std::string& method, const Json& config) {
  ReferenceBackend backend;
  DeclaredWeights declared(DType::kBF16);
  Json plain = config;
  plain.erase("quantization_config");
  const auto model = make_model(ConfigReader(plain, "config.json"), declared, backend);
  std::vector<TensorDeclaration> all;
  for (const Parameter& parameter : model->parameters()) {
    const auto dims = parameter.tensor.shape().dims();
    const std::string suffix = "_proj.weight";
    if (parameter.name.ends_with(suffix)) {
      const std::string name =
          parameter.name.substr(0, parameter.name.size() - std::string(".weight").size());
      for (const TensorDeclaration& part : packed(method, name, dims[0], dims[1]))
        all.push_back(part);
    } else {
      all.push_back({parameter.name, DType::kBF16, {dims.begin(), dims.end()}});
    }
  }
  return all;
}

int64_t write_checkpoint(const TempFolder& folder, const std::string& method, const Json& config) {
  folder.write("config.json", config.dump());
  SafetensorsWriter writer(folder.path("model.safetensors"), declarations(method, config));
  const std::vector<std::byte> piece(1 << 20, std::byte{0x11});
  int64_t total = 0;
  for (const TensorInfo& info : writer.tensors()) {
    for (int64_t left = info.size_bytes; left > 0; left -= std::ssize(piece)) {
      writer.write(info.name, std::span(piece).first(static_cast<size_t>(std::min(left, std::ssize(piece)))));
    }
    total += info.size_bytes;
  }
  writer.finish();
  return total;
}

// How much more than now a process takes at most while it loads the model: a child, whose peak starts anew.
int64_t peak_bytes(const std::string& folder) {
  int ends[2];
  SY_CHECK(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const int64_t before = status_bytes("VmRSS");
    ReferenceBackend backend;
    const auto model = load_model(folder, backend);
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
  if (kOwnAllocator) GTEST_SKIP() << "memory is the sanitizer's here";
  const TempFolder folder;
  Json quantization = {{"quant_method", GetParam()}, {"bits", 4}, {"group_size", -1}, {"sym", false}};
  const int64_t stored = write_checkpoint(folder, GetParam(), config_json(quantization));
  ASSERT_GT(stored, 100'000'000);
  const int64_t peak = peak_bytes(folder.path());
  EXPECT_LE(static_cast<double>(peak), 1.1 * static_cast<double>(stored));
  EXPECT_GE(static_cast<double>(peak), 0.9 * static_cast<double>(stored)) << "nothing was copied?";
}

}  // namespace
}  // namespace switchyard
