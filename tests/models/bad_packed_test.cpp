// Quantised checkpoints whose tensors are incomplete, or contradict each other or the config.
#include <cstring>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "support/editable_checkpoint.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

struct Quantised : EditableCheckpoint {
  explicit Quantised(const std::string& name)
      : EditableCheckpoint(SWITCHYARD_SOURCE_DIR "/tests/data/golden_packed/" + name) {}

  Json& quantization() { return config["quantization_config"]; }
  EditableTensor& tensor(const std::string& leaf) { return tensors.at(kModule + "." + leaf); }
  void erase(const std::string& leaf) { ASSERT_EQ(tensors.erase(kModule + "." + leaf), 1u); }
  void set(const std::string& leaf, size_t index, int32_t value) {
    std::memcpy(tensor(leaf).bytes.data() + index * 4, &value, sizeof value);
  }
  void expect_refused(const std::string& message) {
    ReferenceBackend backend;
    expect_error([&] { load(backend); }, message);
  }
  // Of the tensor's file.
  void expect_refused(const std::string& leaf, const std::string& message) {
    expect_refused(weights_path() + ": tensor '" + kModule + "." + leaf + "': " + message);
  }

  const std::string kModule = "model.layers.0.self_attn.q_proj";
};

TEST(BadPacked, NothingSaysWhatTheCodesMean) {
  Quantised gptq("gptq4_desc_act");
  gptq.config.erase("quantization_config");
  gptq.expect_refused("qweight", "expected a quantization_config that says what it means, got none");
  gptq.quantization() = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  gptq.expect_refused("qweight",
                      "expected a quantization_config that says what it means, got one of method fp8");
  Quantised fp8("fp8_odd");
  fp8.config.erase("quantization_config");
  fp8.expect_refused("weight", "expected a quantization_config that says what it means, got none");
}

TEST(BadPacked, IncompleteSets) {
  for (const auto& [name, leaf] :
       {std::pair{"gptq4_desc_act", "scales"}, std::pair{"gptq4_desc_act", "qzeros"},
        std::pair{"gptq4_desc_act", "g_idx"}, std::pair{"awq4_g32", "qzeros"},
        std::pair{"awq4_g32", "scales"}, std::pair{"compressed_int4_actorder", "weight_scale"},
        std::pair{"compressed_int4_actorder", "weight_shape"},
        std::pair{"compressed_int4_actorder", "weight_g_idx"}, std::pair{"fp8_odd", "weight_scale_inv"}}) {
    SCOPED_TRACE(leaf);
    Quantised checkpoint(name);
    checkpoint.erase(leaf);
    checkpoint.expect_refused(checkpoint.folder() + ": tensor '" + checkpoint.kModule + "." + leaf +
                              "': expected one beside the other tensors of '" + checkpoint.kModule +
                              "', got no such tensor in the checkpoint");
  }
  Quantised checkpoint("gptq4_desc_act");
  checkpoint.erase("qweight");
  checkpoint.expect_refused("tensor '" + checkpoint.kModule + ".weight'");
}

TEST(BadPacked, PlainAndPackedAtOnce) {
  for (const auto& [name, leaf] :
       {std::pair{"gptq4_desc_act", "qweight"}, std::pair{"compressed_int4_actorder", "weight_packed"}}) {
    Quantised checkpoint(name);
    checkpoint.tensors[checkpoint.kModule + ".weight"] = {DType::kBF16, {1}, std::vector<std::byte>(2)};
    checkpoint.expect_refused("weight", std::string("expected none beside ") + leaf + ", got a plain one");
  }
}

TEST(BadPacked, LeftoverTensors) {
  Quantised checkpoint("gptq_mixed");
  checkpoint.tensors["model.layers.1.self_attn.q_proj.g_idx"] = checkpoint.tensor("g_idx");
  checkpoint.expect_refused("'model.layers.1.self_attn.q_proj.g_idx': expected only tensors that the config");
}

TEST(BadPacked, ShapesThatFitNoScheme) {
  Quantised bits("gptq4_desc_act");
  bits.quantization()["bits"] = 8;
  bits.expect_refused(bits.config_path() + ": quantization_config: tensor '" + bits.kModule +
                      "': expected bits and groups that fit a matrix [48, 48], got bias [48], g_idx [48], "
                      "qweight [6, 48], qzeros [3, 6], scales [3, 48]");
  Quantised groups("gptq4_desc_act");
  groups.quantization()["group_size"] = 32;
  groups.expect_refused("expected bits and groups that fit a matrix [48, 48], got");
  Quantised awq("awq4_g32");
  awq.quantization()["group_size"] = 64;
  awq.expect_refused("expected bits and groups that fit a matrix [128, 128], got");
  Quantised symmetric("compressed_int4_actorder");
  symmetric.quantization()["config_groups"]["group_0"]["weights"]["symmetric"] = true;
  symmetric.expect_refused("expected bits and groups that fit a matrix [36, 36], got");
  Quantised width("gptq4_desc_act");
  width.config["moe_intermediate_size"] = 20;  // no multiple of the eight codes of a word
  width.expect_refused("mlp.experts.0.gate_proj': expected bits and groups that fit a matrix [20, 48], got");
  Quantised blocks("fp8_odd");
  blocks.quantization()["weight_block_size"] = {64, 128};
  blocks.expect_refused("weight_scale_inv", "expected shape [3, 2], got [2, 2]");
}

TEST(BadPacked, SchemesThatCannotBeToldApart) {
  Quantised checkpoint("gptq8_g24");  // 40 columns in two groups
  checkpoint.quantization()["dynamic"] = {{"+:.*q_proj", {{"group_size", 32}}}};
  checkpoint.expect_refused(checkpoint.config_path() + ": quantization_config: tensor '" +
                            checkpoint.kModule +
                            "': expected one scheme that fits the tensors' shapes, got several: ");
}

TEST(BadPacked, OtherShapesAndTypes) {
  Quantised zeros("gptq4_desc_act");
  zeros.tensor("qzeros").shape = {6, 3};
  zeros.expect_refused("qzeros", "expected shape [3, 6], got [6, 3]");
  Quantised order("gptq4_desc_act");
  order.tensor("g_idx").shape = {48, 1};
  order.expect_refused("g_idx", "expected shape [48], got [48, 1]");
  Quantised type("gptq4_desc_act");
  type.tensor("scales").dtype = DType::kI16;
  type.expect_refused("scales", "expected dtype F16 or BF16 or F32, got I16");
  Quantised codes("awq4_g32");
  codes.tensor("qweight").dtype = DType::kF32;
  codes.expect_refused("qweight", "expected dtype I32, got F32");
  Quantised compressed("compressed_int4_actorder");
  compressed.tensor("weight_zero_point").shape = {3, 5};
  compressed.expect_refused("weight_zero_point", "expected shape [5, 3], got [3, 5]");
  Quantised dims("compressed_int4_actorder");
  dims.tensor("weight_shape").bytes[0] = std::byte{37};
  dims.expect_refused("weight_shape", "expected 36, 36 by the config, got 37, 36");
}

TEST(BadPacked, GroupsOfColumns) {
  for (const auto& [group, got] :
       {std::pair{-1, "-1"}, std::pair{3, "3"}, std::pair{1 << 30, "1073741824"}}) {
    Quantised checkpoint("gptq4_desc_act");
    checkpoint.set("g_idx", 5, group);
    checkpoint.expect_refused("g_idx", std::string("expected groups below 3, got ") + got + " for column 5");
  }
  Quantised order("gptq4_desc_act");
  order.quantization()["desc_act"] = false;
  order.expect_refused("g_idx",
                       "expected columns in order, as the quantization_config says, got another order");
  Quantised compressed("compressed_int4_actorder");
  compressed.quantization()["config_groups"]["group_0"]["weights"]["actorder"] = "weight";
  compressed.expect_refused("weight_g_idx",
                            "expected columns in order, as the quantization_config says, got another order");
}

TEST(BadPacked, ZeroPointsThatAreNotSymmetric) {
  Quantised asymmetric("gptq4_desc_act");
  asymmetric.quantization()["sym"] = true;
  asymmetric.expect_refused("qzeros", "expected zero points of 8 by sym and checkpoint_format, got others");
  Quantised convention("gptq4_sym_g32");
  convention.quantization()["checkpoint_format"] = "gptq_v2";
  convention.expect_refused("expected zero points of 8 by sym and checkpoint_format, got 7");
}

TEST(BadPacked, ScalesOfAWholeFloatMatrix) {
  Quantised checkpoint("compressed_float8");
  EditableTensor& scale = checkpoint.tensors.at("lm_head.weight_scale");
  ASSERT_EQ(scale.shape, std::vector<int64_t>{1});
  ReferenceBackend backend;
  scale.shape = {};
  EXPECT_NE(checkpoint.load(backend), nullptr);
  scale.shape = {1, 1};
  EXPECT_NE(checkpoint.load(backend), nullptr);
  scale.shape = {2};
  scale.bytes.resize(4);
  checkpoint.expect_refused("tensor 'lm_head': expected bits and groups that fit a matrix [48, 44], got");
  scale.shape = {0};
  scale.bytes.clear();
  checkpoint.expect_refused("tensor 'lm_head': expected bits and groups that fit a matrix [48, 44], got");
}

TEST(BadPacked, FloatsOfAnotherType) {
  Quantised checkpoint("fp8_odd");
  checkpoint.tensor("weight").dtype = DType::kF8E5M2;
  checkpoint.expect_refused("weight", "expected dtype F32, F16 or BF16, got F8_E5M2");
}

}  // namespace
}  // namespace switchyard
