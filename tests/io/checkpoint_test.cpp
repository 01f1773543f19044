#include "io/checkpoint.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "io/checkpoint_index.h"
#include "support/expect_error.h"
#include "support/pytorch_bytes.h"
#include "support/safetensors_bytes.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

constexpr const char* kIndex = "model.safetensors.index.json";

// A file of one-byte tensors with these names.
std::string shard(const std::vector<std::string>& names) {
  std::string header;
  for (size_t i = 0; i < names.size(); ++i) {
    header += fmt::format(R"({}"{}": {{"dtype": "U8", "shape": [1], "data_offsets": [{}, {}]}})",
                          i == 0 ? "" : ", ", names[i], i, i + 1);
  }
  return safetensors_bytes("{" + header + "}", std::string("0123456789").substr(0, names.size()));
}

// Two shards, 1 with a and b, 2 with c; the index is given.
struct Sharded : TempFolder {
  explicit Sharded(std::string_view index) {
    write("1.safetensors", shard({"a", "b"}));
    write("2.safetensors", shard({"c"}));
    write(kIndex, index);
  }
};

constexpr const char* kGoodIndex =
    R"({"metadata": {"total_size": 3},
        "weight_map": {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}})";

void expect_open_error(const TempFolder& folder, const std::string& part) {
  expect_error([&] { Checkpoint::open(folder.path()); }, part);
}

TEST(Checkpoint, OpensShards) {
  const Sharded folder(kGoodIndex);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(checkpoint.total_bytes(), 3);
  EXPECT_EQ(checkpoint.files().size(), 2u);
  EXPECT_TRUE(checkpoint.notes().empty());
  EXPECT_EQ(*checkpoint.tensor("b").data, std::byte{'1'});
  EXPECT_EQ(checkpoint.tensor("c").file, folder.path("2.safetensors"));
  EXPECT_EQ(checkpoint.find("d"), nullptr);
  expect_error([&] { checkpoint.tensor("d"); },
               folder.path() + ": expected a tensor 'd', got no such tensor in the checkpoint");
}

TEST(Checkpoint, ViewsOutliveTheCheckpoint) {
  const Sharded folder(kGoodIndex);
  auto checkpoint = std::make_unique<Checkpoint>(Checkpoint::open(folder.path()));
  const Checkpoint::View view = checkpoint->tensor("c");
  checkpoint.reset();
  EXPECT_EQ(*view.data, std::byte{'0'});
  EXPECT_EQ(view.size_bytes, 1);
}

TEST(Checkpoint, ReadsModelSafetensorsBeforeTheIndexAndSaysSo) {
  const Sharded folder(kGoodIndex);
  folder.write("model.safetensors", shard({"x"}));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("x"));
  EXPECT_THAT(checkpoint.notes(), ElementsAre(testing::HasSubstr("both model.safetensors and model.safe")));
}

TEST(Checkpoint, SaysWhatItLookedFor) {
  const TempFolder folder;
  expect_error([&] { Checkpoint::open(folder.path("none")); },
               folder.path("none") + ": expected a model folder, got nothing there");
  expect_error([&] { Checkpoint::open(folder.write("file", "x")); }, "expected a model folder, got a file");
  expect_open_error(folder,
                    "expected model.safetensors or model.safetensors.index.json or pytorch_model.bin or "
                    "pytorch_model.bin.index.json, got none of them");
  folder.write("training_args.bin", "x");
  folder.write("model.gguf", "x");
  expect_open_error(folder, "got model.gguf, training_args.bin, which is not read");
}

// A dictionary of one-byte tensors with these names, element i being '0' + i.
std::string pytorch_shard(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> items;
  std::map<std::string, std::string> storages;
  for (const std::string& name : names) {
    items.emplace_back(name, PickledTensor{"ByteStorage", name, 1, 0, {1}, {1}}.pickle());
    storages[name] = std::string(1, static_cast<char>('0' + storages.size()));
  }
  return pytorch_bytes(pickled_dictionary(items), storages);
}

TEST(Checkpoint, ReadsPytorchFilesAfterSafetensors) {
  const TempFolder folder;
  const auto names = [&] { return Checkpoint::open(folder.path()).names(); };
  folder.write("a.bin", pytorch_shard({"in_shard", "in_shard_too"}));
  folder.write("pytorch_model.bin.index.json",
               R"({"weight_map": {"in_shard": "a.bin", "in_shard_too": "a.bin"}})");
  EXPECT_THAT(names(), ElementsAre("in_shard", "in_shard_too"));
  EXPECT_EQ(*Checkpoint::open(folder.path()).tensor("in_shard_too").data, std::byte{'1'});
  folder.write("pytorch_model.bin", pytorch_shard({"in_bin"}));
  EXPECT_THAT(names(), ElementsAre("in_bin"));
  folder.write("1.safetensors", shard({"in_safetensors_shard"}));
  folder.write(kIndex, R"({"weight_map": {"in_safetensors_shard": "1.safetensors"}})");
  EXPECT_THAT(names(), ElementsAre("in_safetensors_shard"));
  folder.write("model.safetensors", shard({"in_safetensors"}));
  EXPECT_THAT(names(), ElementsAre("in_safetensors"));
  EXPECT_THAT(
      Checkpoint::open(folder.path()).notes(),
      ElementsAre(
          testing::HasSubstr("both model.safetensors and model.safetensors.index.json are present: model."),
          testing::HasSubstr("both model.safetensors and pytorch_model.bin are present"),
          testing::HasSubstr("both model.safetensors and pytorch_model.bin.index.json are present")));
}

TEST(Checkpoint, ChecksPytorchShards) {
  const TempFolder folder;
  folder.write("a.bin", pytorch_shard({"a", "b"}));
  const auto with_index = [&](const std::string& map) {
    folder.write("pytorch_model.bin.index.json", R"({"weight_map": {)" + map + "}}");
  };
  with_index(R"("a": "a.bin")");
  expect_open_error(folder,
                    "a.bin: expected only the tensors that pytorch_model.bin.index.json maps to it, got "
                    "tensor 'b', which is not in the index");
  with_index(R"("a": "a.bin", "b": "a.safetensors")");
  expect_open_error(folder, "tensor 'b': expected the plain name of a .bin file in this folder, got ");
}

TEST(Checkpoint, NotesTensorsThatWereCopied) {
  const TempFolder folder;
  const PickledTensor transposed = {"ByteStorage", "0", 6, 0, {3, 2}, {1, 3}};
  folder.write("pytorch_model.bin",
               pytorch_bytes(pickled_dictionary({{"t", transposed.pickle()}}), {{"0", "012345"}}));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(std::memcmp(checkpoint.tensor("t").data, "031425", 6), 0);
  EXPECT_THAT(
      checkpoint.notes(),
      ElementsAre(testing::HasSubstr("1 tensors of 6 bytes are not contiguous and were copied into memory")));
}

TEST(Checkpoint, DoesNotSkipADanglingLink) {
  const Sharded folder(kGoodIndex);
  std::filesystem::create_symlink("/no/such/blob", folder.path("model.safetensors"));
  expect_open_error(folder, "model.safetensors: expected a readable file, got No such file");
}

TEST(Checkpoint, RefusesMissingShards) {
  const Sharded folder(
      R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors", "c": "3.safetensors"}})");
  expect_open_error(folder, folder.path("3.safetensors") + ": expected a readable file, got No such file");
}

TEST(Checkpoint, RefusesMissingTensors) {
  const Sharded folder(R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors",
                                          "d": "2.safetensors"}})");
  expect_open_error(folder, folder.path("2.safetensors") + ": expected tensor 'd', which " + kIndex +
                                " maps to it, got no such tensor in the file");
}

TEST(Checkpoint, RefusesLeftoverTensors) {
  const Sharded folder(R"({"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}})");
  expect_open_error(folder, folder.path("1.safetensors") + ": expected only the tensors that " + kIndex +
                                " maps to it, got tensor 'b', which is not in the index");
}

TEST(Checkpoint, RefusesATensorInTwoShards) {
  const Sharded folder(kGoodIndex);
  folder.write("2.safetensors", shard({"c", "a"}));
  expect_open_error(folder, "2.safetensors: expected only the tensors that " + std::string(kIndex) +
                                " maps to it, got tensor 'a', which the index maps to 1.safetensors");
}

TEST(Checkpoint, NotesAWrongTotalSize) {
  const Sharded folder(R"({"metadata": {"total_size": 4},
      "weight_map": {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  ASSERT_EQ(checkpoint.notes().size(), 1u);
  EXPECT_NE(checkpoint.notes()[0].find("metadata.total_size says 4 bytes, the tensors have 3"),
            std::string::npos);
}

TEST(Checkpoint, SaysThatAShardWasCut) {
  const Sharded folder(kGoodIndex);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_NO_THROW(checkpoint.verify_unchanged());
  std::filesystem::resize_file(folder.path("2.safetensors"), 10);
  expect_error([&] { checkpoint.verify_unchanged(); }, "2.safetensors: expected the");
}

TEST(CheckpointIndex, RefusesBrokenIndexes) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    SCOPED_TRACE(text);
    expect_error([&] { parse_checkpoint_index(text, "i.json", ".safetensors"); }, "i.json: " + part);
  };
  refuse("[]", "expected an object with 'weight_map', got []");
  refuse("{}", "expected a key 'weight_map', got an object of 0 keys");
  refuse("{", "byte 2: expected valid JSON");
  refuse(R"({"weight_map": {}})",
         "weight_map: expected an object from tensor to file name, got an object of 0");
  refuse(R"({"weight_map": []})", "weight_map: expected an object from tensor to file name, got []");
  refuse(R"({"weight_map": {"a": "1.safetensors"}, "x": 1})",
         "expected only the keys 'weight_map' and 'metadata', got 'x'");
  refuse(R"({"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}})",
         "key 'a': expected each key once");
  refuse(R"({"weight_map": {"a": "1.safetensors"}, "metadata": 3})", "metadata: expected an object, got 3");
  for (const char* size : {"-1", "1.5", "1e30", "\"3\"", "18446744073709551615", "null"}) {
    refuse(
        fmt::format(R"({{"weight_map": {{"a": "1.safetensors"}}, "metadata": {{"total_size": {}}}}})", size),
        "metadata.total_size: expected a number of bytes, got ");
  }
  for (const char* name : {R"("")", R"("../1.safetensors")", R"("/1.safetensors")", R"("a/1.safetensors")",
                           R"("..")", R"("a\\1.safetensors")", R"("1.bin")", R"(".safetensors")",
                           R"("1.safetensors\u0000.safetensors")", "3", "null"}) {
    refuse(fmt::format(R"({{"weight_map": {{"a": {}}}}})", name),
           "tensor 'a': expected the plain name of a .safetensors file in this folder, got ");
  }
}

TEST(CheckpointIndex, ReadsAnIntegralFloatAsTotalSize) {
  EXPECT_EQ(
      parse_checkpoint_index(R"({"weight_map": {"a": "1.safetensors"}, "metadata": {"total_size": 3e9}})",
                             "i", ".safetensors")
          .total_size_bytes,
      3'000'000'000);
}

TEST(Checkpoint, OpensTheGoldenFolders) {
  const std::string golden = SWITCHYARD_SOURCE_DIR "/tests/data/golden/";
  const Checkpoint single = Checkpoint::open(golden + "qwen2_moe");
  EXPECT_EQ(single.files().size(), 1u);
  EXPECT_EQ(single.tensor("lm_head.weight").dtype, DType::kF32);
  EXPECT_THAT(single.tensor("lm_head.weight").shape, ElementsAre(160, 32));

  const Checkpoint sharded = Checkpoint::open(golden + "qwen2_moe_bf16_sharded");
  EXPECT_EQ(sharded.files().size(), 6u);
  EXPECT_EQ(sharded.total_bytes(), 287'232);
  EXPECT_EQ(sharded.tensor("lm_head.weight").dtype, DType::kBF16);

  EXPECT_EQ(Checkpoint::open(golden + "qwen2_moe_top2_norm_sparse_step").find("lm_head.weight"), nullptr);
  EXPECT_NE(Checkpoint::open(SWITCHYARD_SOURCE_DIR "/models/tiny-qwen2-moe").find("model.norm.weight"),
            nullptr);
}

}  // namespace
}  // namespace switchyard
