// Tokenizers and chat templates in GGUF files, against `tokenizers`.
#include "io/gguf_tokenizer.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "io/gguf_pre_tokenizer.h"
#include "io/tokenizer/tokenizer.h"
#include "models/model_files.h"
#include "support/expect_error.h"
#include "support/gguf_bytes.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

std::string data_path(const std::string& name) {
  return SWITCHYARD_SOURCE_DIR "/tests/data/gguf/tokenizer_" + name;
}

Tokenizer tokenizer_of(const std::string& path) {
  const auto files = ModelFiles::open(path);
  return Tokenizer::parse(files->tokenizer_json(), files->tokenizer_place());
}

class GgufTokenizer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, GgufTokenizer,
                         testing::Values("qwen2", "gpt-2", "olmo", "smollm", "llama-bpe", "llama"));

TEST_P(GgufTokenizer, GivesTheIdsOfTokenizers) {
  const Tokenizer tokenizer = tokenizer_of(data_path(std::string(GetParam()) + ".gguf"));
  const std::string path = data_path(std::string(GetParam()) + ".json");
  for (const Json& golden : parse_json(read_file(path, 1 << 20), path)) {
    const auto text = golden["text"].get<std::string>();
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special_tokens = true});
    EXPECT_EQ(ids, golden["ids_special"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer.encode(text), golden["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer.decode(ids, true), golden["decoded"].get<std::string>()) << text;
  }
}

TEST(GgufTokenizerFile, HoldsChatTemplateAndEndsOfText) {
  const auto files = ModelFiles::open(data_path("qwen2.gguf"));
  const auto chat = files->chat_template();
  const auto original = ChatTemplate::load(SWITCHYARD_SOURCE_DIR "/models/tiny-qwen2-moe");
  ASSERT_TRUE(chat);
  const OrderedJson messages = OrderedJson::parse(R"([{"role": "user", "content": "Hello"}])");
  EXPECT_EQ(chat->render(messages).text, original->render(messages).text);
  const GenerationConfig generation = files->generation_config(4096);
  EXPECT_EQ(generation.eos_token_ids, (std::vector<int32_t>{2, 0}));
  EXPECT_FALSE(generation.do_sample);
  EXPECT_FALSE(ModelFiles::open(data_path("llama.gguf"))->chat_template());
  expect_error([&] { files->generation_config(2); }, "qwen2.gguf: key 'eos_token_id': expected");
}

// The published patterns that no data has, over a vocabulary without merges: they compile, and cut no text
// short.
TEST(GgufTokenizerFile, EveryKnownPatternLoads) {
  const auto file = GgufFile::open(data_path("gpt-2.gguf"));
  Json document = gguf_tokenizer(*file);
  for (const char* name :
       {"default", "deepseek-r1-qwen", "llama3", "llama-v3", "tekken", "deepseek-llm", "deepseek-v3"}) {
    const GgufPreTokenizer pre = gguf_pre_tokenizer(name, "f.gguf");
    document["normalizer"] = pre.normalizer;
    document["pre_tokenizer"] = pre.pre_tokenizer;
    const Tokenizer tokenizer = Tokenizer::parse(document.dump(), name);
    const std::string text = "Größe, 編組站 12345 don't\r\n  x!\n";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text) << name;
  }
  expect_error([] { gguf_pre_tokenizer("pig-latin", "f.gguf"); },
               "f.gguf: key 'tokenizer.ggml.pre': expected one of: default, gpt-2");
}

// A tokenizer of the given lists, each as the bytes of a value.
struct Lists {
  std::string model = "gpt2";
  std::vector<std::string> tokens = {"a", "b", "ab"};
  std::vector<int32_t> types = {1, 1, 1};
  std::vector<float> scores = {0, 0, 0};
  std::vector<std::string> more_pairs = {};

  void expect_refused(const std::string& part) const {
    std::string texts = gguf_number(8) + gguf_number<uint64_t>(tokens.size());
    for (const std::string& token : tokens)
      texts += gguf_string(token);
    std::vector<std::string> pairs = {gguf_pair("tokenizer.ggml.model", 8, gguf_string(model)),
                                      gguf_pair("tokenizer.ggml.tokens", 9, texts),
                                      gguf_pair("tokenizer.ggml.token_type", 9, list(5, types)),
                                      gguf_pair("tokenizer.ggml.scores", 9, list(6, scores))};
    pairs.insert(pairs.end(), more_pairs.begin(), more_pairs.end());
    const TempFolder folder;
    const std::string path = folder.write("m.gguf", gguf_bytes(pairs, {}, 0));
    expect_error([&] { tokenizer_of(path); }, path + ": " + part);
  }

 private:
  template <typename Number>
  static std::string list(uint32_t type, const std::vector<Number>& numbers) {
    std::string bytes = gguf_number(type) + gguf_number<uint64_t>(numbers.size());
    for (const Number number : numbers)
      bytes += gguf_number(number);
    return bytes;
  }
};

TEST(GgufTokenizerFile, RefusesWhatDoesNotFitTogether) {
  const std::string no_merges =
      gguf_pair("tokenizer.ggml.merges", 9, gguf_number(8) + gguf_number<uint64_t>(0));
  Lists{.model = "unigram"}.expect_refused("key 'tokenizer.ggml.model': expected gpt2 or llama, got unigram");
  Lists{}.expect_refused("key 'tokenizer.ggml.merges': expected a list of strings, got none");
  Lists{.types = {1, 1}, .more_pairs = {no_merges}}.expect_refused(
      "key 'tokenizer.ggml.token_type': expected one for each of 3 tokens, got 2");
  Lists{.tokens = {"a", "b", "a"}, .more_pairs = {no_merges}}.expect_refused(
      "key 'tokenizer.ggml.tokens': expected each token once, got 'a' again");
  Lists{.more_pairs = {no_merges, gguf_pair("tokenizer.ggml.add_eos_token", 7, std::string(1, '\1'))}}
      .expect_refused(
          "key 'tokenizer.ggml.eos_token_id': expected an id, since the token is to be added, got none");
  Lists{.more_pairs = {no_merges, gguf_pair("tokenizer.ggml.add_bos_token", 7, std::string(1, '\1')),
                       gguf_pair("tokenizer.ggml.bos_token_id", 4, gguf_number(3))}}
      .expect_refused("key 'tokenizer.ggml.bos_token_id': expected a token id below 3, got integer 3");
  Lists{.model = "llama"}.expect_refused(
      "key 'tokenizer.ggml.token_type': expected a token for the unknown, type 2");
  Lists{.model = "llama", .types = {2, 1, 1}, .scores = {0, 0}}.expect_refused(
      "key 'tokenizer.ggml.scores': expected one for each of 3 tokens, got 2");
  Lists{.model = "llama", .tokens = {"a", "b", std::string(257, 'b')}, .types = {2, 1, 1}}.expect_refused(
      "key 'tokenizer.ggml.tokens': expected pieces of at most 256 bytes, got 257 bytes");
}

// A folder with one GGUF file stands for it; with safetensors weights, or several, it does not.
TEST(GgufFolder, StandsForItsOnlyFile) {
  const TempFolder folder;
  const std::string bytes = read_file(data_path("smollm.gguf"), 1 << 20);
  folder.write("one.gguf", bytes);
  EXPECT_TRUE(ModelFiles::open(folder.path())->has_tokenizer());
  folder.write("two.gguf", bytes);
  expect_error([&] { ModelFiles::open(folder.path()); },
               "expected a folder with one .gguf file, or the name of one of them, got one.gguf, two.gguf");
  folder.write("model.safetensors", "");
  EXPECT_FALSE(ModelFiles::open(folder.path())->has_tokenizer());
  expect_error([&] { ModelFiles::open(folder.path("model.safetensors")); },
               "expected a model folder or a .gguf file, got another file");
  expect_error([&] { ModelFiles::open(folder.path("none.gguf")); },
               "expected a model folder or a .gguf file, got nothing there");
}

}  // namespace
}  // namespace switchyard
