// The same weights as safetensors and as a PyTorch file give the same bits.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "io/checkpoint.h"
#include "support/golden.h"
#include "support/model_runner.h"
#include "support/pytorch_bytes.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

std::string storage_type(DType dtype) {
  return dtype == DType::kF32 ? "FloatStorage" : dtype == DType::kF16 ? "HalfStorage" : "BFloat16Storage";
}

// The elements of a matrix, column by column.
std::string transposed(const Checkpoint::View& view) {
  const int64_t element = size_bytes(view.dtype);
  std::string bytes;
  for (int64_t column = 0; column < view.shape[1]; ++column) {
    for (int64_t row = 0; row < view.shape[0]; ++row) {
      bytes.append(reinterpret_cast<const char*>(view.data) + (row * view.shape[1] + column) * element,
                   static_cast<size_t>(element));
    }
  }
  return bytes;
}

// Every tensor in a storage of its own; the matrices of attention stand there as their transposes, and views
// turn them back.
std::string as_pytorch(const Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, std::string>> items;
  std::map<std::string, std::string> storages;
  for (const std::string& name : checkpoint.names()) {
    const Checkpoint::View view = checkpoint.tensor(name);
    const bool turned =
        name.find("_proj.weight") != std::string::npos && name.find("attn") != std::string::npos;
    PickledTensor tensor = {.storage_type = storage_type(view.dtype),
                            .key = std::to_string(items.size()),
                            .storage_elements = view.size_bytes / size_bytes(view.dtype),
                            .shape = view.shape,
                            .strides = row_major_strides(view.shape)};
    if (turned) tensor.strides = {1, view.shape[0]};
    storages[tensor.key] =
        turned ? transposed(view)
               : std::string(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.size_bytes));
    items.emplace_back(name, tensor.pickle());
  }
  return pytorch_bytes(pickled_dictionary(items), storages);
}

TEST(PytorchCheckpoint, GivesTheLogitsOfSafetensors) {
  for (const char* name : {"qwen2_moe", "qwen2_moe_bf16_sharded"}) {
    SCOPED_TRACE(name);
    const std::string golden = golden_root() + name;
    const TempFolder folder;
    folder.write("config.json", read_file(golden + "/config.json", 1 << 20));
    folder.write("pytorch_model.bin", as_pytorch(Checkpoint::open(golden)));
    ReferenceBackend backend;
    const auto sequences = sequences_of(read_reference(golden + "/reference.safetensors").at("input_ids"));
    const std::vector<float> want = all_logits(backend, *load_model(golden, backend), sequences);
    EXPECT_EQ(all_logits(backend, *load_model(folder.path(), backend), sequences), want);
  }
}

}  // namespace
}  // namespace switchyard
