#include "io/chat_template.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace switchyard {
namespace {

const std::string kRoot = SWITCHYARD_SOURCE_DIR;

// A checkpoint folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "chat_template_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  Folder& with(const std::string& file, const std::string& content) {
    std::ofstream(path_ + "/" + file, std::ios::binary) << content;
    return *this;
  }
  ChatTemplate load() const { return ChatTemplate::load(path_).value(); }

 private:
  std::string path_;
};

const OrderedJson kMessages = {{{"role", "user"}, {"content", "Hi<s>"}}};

TEST(ChatTemplate, IsAbsentWhereTheFolderHasNone) {
  Folder folder;
  EXPECT_FALSE(ChatTemplate::load(folder.path()).has_value());
  folder.with("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": null})");
  EXPECT_FALSE(ChatTemplate::load(folder.path()).has_value());
}

TEST(ChatTemplate, TheFileWinsOverTheConfig) {
  Folder folder;
  folder.with("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "config{{ bos_token }}"})");
  EXPECT_EQ(folder.load().render(kMessages).text, "config<s>");
  folder.with("chat_template.jinja", "file{{ bos_token }}");
  EXPECT_EQ(folder.load().render(kMessages).text, "file<s>");
}

TEST(ChatTemplate, SpecialTokensAreTheTemplatesOwn) {
  Folder folder;
  folder.with("tokenizer_config.json", R"({
    "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "unk_token": null,
    "additional_special_tokens": ["<a>", {"content": "<b>"}]})");
  folder.with("chat_template.jinja",
              "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ unk_token is defined }}"
              "{{ additional_special_tokens|join }}");
  const jinja::Rendered out = folder.load().render(kMessages);
  EXPECT_EQ(out.text, "<s>Hi<s></s>False<a><b>");
  EXPECT_EQ(out.from_input, std::string(3, '\0') + std::string(5, '\1') + std::string(15, '\0'));
}

TEST(ChatTemplate, PassesTheVariablesThatTransformersPasses) {
  Folder folder;
  folder.with("chat_template.jinja",
              "{{ tools }} {{ documents }} {{ add_generation_prompt }} {{ x is defined }} {{ x }}");
  EXPECT_EQ(folder.load().render(kMessages).text, "None None True False ");
  ChatOptions options;
  options.add_generation_prompt = false;
  options.tools = OrderedJson::array({1});
  options.extra = {{"x", "y"}, {"documents", {2}}};
  EXPECT_EQ(folder.load().render(kMessages, options).text, "[1] [2] False True y");
}

TEST(ChatTemplate, ChoosesAmongNamedTemplates) {
  Folder folder;
  folder.with("tokenizer_config.json", R"({"chat_template": [
    {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})");
  ChatOptions options;
  EXPECT_EQ(folder.load().render(kMessages, options).text, "plain");
  options.tools = OrderedJson::array({OrderedJson::object()});
  EXPECT_EQ(folder.load().render(kMessages, options).text, "tools");
  folder.with("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "plain"}]})");
  EXPECT_EQ(folder.load().render(kMessages, options).text, "plain");
  folder.with("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  expect_error([&] { folder.load().render(kMessages); },
               "tokenizer_config.json: chat_template: expected a template named 'default', got rag");
}

TEST(ChatTemplate, NamesFileAndKeyOfWhatIsWrong) {
  Folder folder;
  const auto expect_config_error = [&](const std::string& config, const std::string& part) {
    folder.with("tokenizer_config.json", config);
    expect_error([&] { folder.load(); }, "tokenizer_config.json: " + part);
  };
  expect_config_error("[]", "expected an object");
  expect_config_error(R"({"chat_template": 1})", "chat_template: expected a string or a list");
  expect_config_error(R"({"chat_template": [{"name": "a"}]})",
                      "chat_template[0]: expected an object with a string 'template'");
  expect_config_error(R"({"chat_template": [1]})",
                      "chat_template[0]: expected an object with a string 'name'");
  expect_config_error(R"({"chat_template": [{"name": "a", "template": ""}, {"name": "a", "template": ""}]})",
                      "chat_template[1]: expected each name once, got 'a' again");
  expect_config_error(R"({"chat_template": "a\n{% nosuch %}"})", "chat_template: line 2: unknown");
  expect_config_error(R"({"chat_template": [{"name": "a", "template": "{{"}]})",
                      "chat_template 'a': line 1:");
  expect_config_error(R"({"chat_template": "", "bos_token": 1})",
                      "bos_token: expected a string or an object");
  expect_config_error(R"({"chat_template": "", "additional_special_tokens": 1})",
                      "additional_special_tokens: expected a list");
  folder.with("tokenizer_config.json", "{}").with("chat_template.jinja", "\n{{ raise_exception('no') }}");
  expect_error([&] { folder.load().render(kMessages); }, "chat_template.jinja: line 2: template refused: no");
}

TEST(ChatTemplate, RefusesWrongArguments) {
  Folder folder;
  folder.with("chat_template.jinja", "x").with("tokenizer_config.json", R"({"bos_token": "<s>"})");
  ChatOptions options;
  expect_error([&] { folder.load().render(OrderedJson::object()); }, "messages: expected an array");
  options.tools = 1;
  expect_error([&] { folder.load().render(kMessages, options); }, "tools: expected null or an array");
  options.tools = nullptr;
  options.extra = 1;
  expect_error([&] { folder.load().render(kMessages, options); },
               "extra variables: expected null or an object");
  for (const char* key : {"messages", "tools", "bos_token", "add_generation_prompt"}) {
    options.extra = {{key, 1}};
    expect_error([&] { folder.load().render(kMessages, options); },
                 std::string(key) + ": expected a new variable");
  }
}

TEST(ChatTemplate, RendersRealCheckpoints) {
  const OrderedJson messages = {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "U"}}};
  ChatOptions options;
  options.extra = {{"enable_thinking", false}};
  EXPECT_EQ(
      ChatTemplate::load(kRoot + "/tests/data/tokenizers/qwen3")->render(messages, options).text,
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\n\n"
      "</think>\n\n");
  EXPECT_EQ(ChatTemplate::load(kRoot + "/tests/data/tokenizers/deepseek_v3")->render(messages).text,
            "<｜begin▁of▁sentence｜>S<｜User｜>U<｜Assistant｜>");
  EXPECT_EQ(ChatTemplate::load(kRoot + "/models/tiny-qwen2-moe")->render(messages).text,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace switchyard
