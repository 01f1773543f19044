// Models from GGUF files that another program wrote, against transformers with the same (dequantised)
// weights.
#include <filesystem>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/golden.h"
#include "support/model_runner.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

std::string data_path(const std::string& name) {
  return SWITCHYARD_SOURCE_DIR "/tests/data/gguf/" + name;
}

// The files with logits beside them.
std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path(""))) {
    const std::string stem = entry.path().stem();
    if (entry.path().extension() == ".safetensors" && stem != "blocks") names.push_back(stem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GgufModel : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, GgufModel, testing::ValuesIn(models()),
                         [](const auto& instance) { return instance.param; });

TEST_P(GgufModel, GivesTheLogitsOfTransformers) {
  const auto reference = read_reference(data_path(GetParam() + ".safetensors"));
  const auto sequences = sequences_of(reference.at("input_ids"));
  const double tolerance = GetParam().ends_with("_mixed") ? 2e-4 : 1e-4;
  for (const BackendUnderTest& under_test : backends_under_test()) {
    const auto backend = under_test.make();
    const auto model = load_model(data_path(GetParam() + ".gguf"), *backend);
    EXPECT_LE(largest_difference(all_logits(*backend, *model, sequences), reference.at("logits").values),
              tolerance)
        << under_test.name;
  }
}

// A file with some bytes changed to others of the same length.
class EditedGguf {
 public:
  explicit EditedGguf(const std::string& name) : bytes_(read_file(data_path(name), 1 << 20)) {}

  EditedGguf& replace(const std::string& from, const std::string& to) {
    SY_CHECK(from.size() == to.size() && bytes_.find(from) != std::string::npos, "{}", from);
    bytes_.replace(bytes_.find(from), from.size(), to);
    return *this;
  }

  void expect_refused(const std::string& part) {
    const std::string path = folder_.write("m.gguf", bytes_);
    const auto backend = backends_under_test().front().make();
    expect_error([&] { load_model(path, *backend); }, path + ": " + part);
  }

 private:
  TempFolder folder_;
  std::string bytes_;
};

EditedGguf edited(const std::string& name = "qwen2moe_f32.gguf") {
  return EditedGguf(name);
}

TEST(GgufRefusals, TensorsByTheirNamesInTheFile) {
  edited()
      .replace("blk.1.attn_q.weight", "blk.1.attn_x.weight")
      .expect_refused(
          "tensor 'blk.1.attn_q.weight': expected shape [32, 32] by the metadata, got no such tensor in the "
          "file");
  edited()
      .replace("blk.1.ffn_gate_exps.weight", "blk.1.ffn_gote_exps.weight")
      .expect_refused(
          "tensor 'blk.1.ffn_gate_exps.weight': expected shape [16, 32] by the metadata, got no such tensor");
  edited("qwen2moe_split.gguf")
      .replace("blk.0.ffn_up.5.weight", "blk.0.ffn_up.7.weight")
      .expect_refused(
          "tensor 'blk.0.ffn_up_exps.weight': expected shape [16, 32] by the metadata, got no such tensor");
}

TEST(GgufRefusals, MetadataByKey) {
  edited()
      .replace("qwen2moe.context_length", "qwen2moe.context_lengrh")
      .expect_refused("key 'qwen2moe.context_length': expected");
  edited()
      .replace("qwen2moe.rope.freq_base", "qwen2moe.rope.freq_bise")
      .expect_refused("key 'qwen2moe.rope.freq_bise': expected a key that is known for qwen2moe");
  const std::string length("\x08\0\0\0\0\0\0\0", 8);
  edited()
      .replace(length + "qwen2moe", length + "qwen9moe")
      .expect_refused(
          "key 'general.architecture': expected one of: llama, qwen2, qwen2moe, qwen3, qwen3moe, olmoe, "
          "deepseek, "
          "deepseek2, got qwen9moe");
}

}  // namespace
}  // namespace switchyard
