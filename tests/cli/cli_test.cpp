// The commands as users and scripts meet them: exit codes, one-line errors, text and JSON output.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/process.h"
#include "support/safetensors_bytes.h"

namespace switchyard {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kRoot = SWITCHYARD_SOURCE_DIR;
const std::string kTiny = kRoot + "/models/tiny-qwen2-moe";
const std::string kGolden = kRoot + "/tests/data/golden/";

// A folder of its own, removed afterwards.
class Cli : public testing::Test {
 protected:
  Cli() { std::filesystem::create_directories(folder_); }
  ~Cli() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  void copy_tiny() const { std::filesystem::copy(kTiny, folder_); }

 private:
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
};

void expect_refused(const Finished& f, const std::string& part) {
  EXPECT_EQ(f.exit_code, 1) << f.err;
  EXPECT_EQ(f.out, "");
  EXPECT_THAT(f.err, StartsWith("switchyard: "));
  EXPECT_THAT(f.err, HasSubstr(part));
  EXPECT_EQ(std::count(f.err.begin(), f.err.end(), '\n'), 1) << f.err;
}

Json json_of(const Finished& f) {
  EXPECT_EQ(f.exit_code, 0) << f.err;
  return parse_json(f.out, "stdout");
}

TEST_F(Cli, WrongUsageExitsWith2) {
  EXPECT_EQ(run_switchyard({}).exit_code, 2);
  EXPECT_EQ(run_switchyard({"fly"}).exit_code, 2);
  EXPECT_EQ(run_switchyard({"run"}).exit_code, 2);
  EXPECT_EQ(run_switchyard({"run", kTiny, "--no-such-option"}).exit_code, 2);
  EXPECT_EQ(run_switchyard({"run", kTiny, "--threads", "-1"}).exit_code, 2);
  const auto expect_usage = [](std::vector<std::string> args, const std::string& part) {
    const Finished f = run_switchyard(args);
    EXPECT_EQ(f.exit_code, 2) << args.back();
    EXPECT_THAT(f.err, HasSubstr(part));
  };
  for (const char* number : {"", "1e3", "0x10", "9223372036854775808"})
    expect_usage({"run", kTiny, "-p", "x", "--max-tokens", number}, "a 64-bit integer");
  for (const char* number : {"", "-1", "18446744073709551616"})
    expect_usage({"run", kTiny, "-p", "x", "--seed", number}, "an integer from 0 to 2^64 - 1");
  for (const char* number : {"", "nan", "inf", "1e400"})
    expect_usage({"run", kTiny, "-p", "x", "--temperature", number}, "a number");
  expect_usage({"verify", kTiny, "x", "--tolerance", "nan"}, "a number of at least 0, got 'nan'");
  // Options that would have no effect.
  expect_usage({"run", kTiny, "-p", "x", "--logprobs", "2"}, "--json");
  expect_usage({"run", kTiny, "-p", "x", "--raw", "--system", "y"}, "--raw");
  expect_usage({"tokenize", kTiny, "--skip-special"}, "--decode");
  expect_usage({"tokenize", kTiny, "--decode", "--literal"}, "--decode");
  expect_usage({"inspect", kTiny, "--json", "--bandwidth", "1"}, "--json");
  EXPECT_EQ(run_switchyard({"--help"}).exit_code, 0);
  EXPECT_THAT(run_switchyard({"run", "--help"}).out, HasSubstr("--show-experts"));
  EXPECT_THAT(run_switchyard({"--version"}).out, HasSubstr("0."));
}

TEST_F(Cli, BadInputIsOneClearLine) {
  expect_refused(run_switchyard({"run", "/no/such/folder", "-p", "x"}), "/no/such/folder");
  expect_refused(run_switchyard({"inspect", path("")}), "config.json");
  expect_refused(run_switchyard({"inspect", ""}), "expected a model folder");
  expect_refused(run_switchyard({"tokenize", kTiny + "/config.json"}),
                 "expected a model folder or a .gguf file, got another file");
  expect_refused(run_switchyard({"inspect", "a\nb"}), "a\\nb");
  expect_refused(run_switchyard({"inspect", kTiny, "--device", "cuda:0"}), "expected cpu");
  expect_refused(run_switchyard({"run", kTiny, "-p", "x", "--device", "cuda:0"}), "expected cpu");
  expect_refused(run_switchyard({"run", kTiny, "-p", "x", "--temperature", "-1"}), "temperature");
  expect_refused(run_switchyard({"run", kTiny, "-p", "x", "--max-tokens", "100000"}),
                 "context of 2048 tokens");
  expect_refused(run_switchyard({"run", kTiny, "-p", "\xFF"}), "prompt: byte 0: expected valid UTF-8");
  expect_refused(run_switchyard({"run", kTiny, "-p", "x", "--system", "a\xFF"}), "--system: byte 1");
  expect_refused(run_switchyard({"run", kTiny, "--raw", "-p", ""}), "adds no BOS");
  expect_refused(run_switchyard({"run", kGolden + "qwen2_moe", "-p", "x"}), "tokenizer.json");
}

// Whatever was opened first would otherwise be read as stdin.
TEST_F(Cli, AClosedStdinIsAnError) {
  expect_refused(run_switchyard_without_stdin({"run", kTiny, "-p", "-"}), "stdin");
  expect_refused(run_switchyard_without_stdin({"run", kTiny}), "stdin");
  expect_refused(run_switchyard_without_stdin({"tokenize", kTiny}), "stdin");
  EXPECT_EQ(run_switchyard_without_stdin({"inspect", kTiny}).exit_code, 0);
}

TEST_F(Cli, ADanglingLinkIsNotAnAbsentFile) {
  copy_tiny();
  // In this order, each is read before those that are broken already.
  for (const char* name : {"chat_template.jinja", "tokenizer_config.json", "tokenizer.json"}) {
    std::filesystem::remove(path(name));
    std::filesystem::create_symlink("/no/such/file", path(name));
    expect_refused(run_switchyard({"run", path(""), "-p", "x"}), name);
  }
  expect_refused(run_switchyard({"inspect", path("")}), "tokenizer.json");
}

TEST_F(Cli, AnEmptyRawPromptNeedsABosToken) {
  copy_tiny();
  Json tokenizer = parse_json(read_file(kTiny + "/tokenizer.json", 1 << 20), "tokenizer.json");
  const Json bos = {{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {bos, text}},
      {"pair", {bos, text, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens",
       {{"<|im_start|>", {{"id", "<|im_start|>"}, {"ids", {1}}, {"tokens", {"<|im_start|>"}}}}}}};
  write("tokenizer.json", tokenizer.dump());
  const Json answer =
      json_of(run_switchyard({"run", path(""), "--raw", "-p", "", "--max-tokens", "3", "--json"}));
  EXPECT_EQ(answer["prompt_tokens"], 1);
  EXPECT_EQ(answer["tokens"].size(), 3u);
}

TEST_F(Cli, RunSaysWhatItDoesNotFollow) {
  copy_tiny();
  write("generation_config.json", R"({"eos_token_id": 2, "num_beams": 4, "typical_p": 0.5})");
  const Finished f =
      run_switchyard({"run", path(""), "-p", "x", "--max-tokens", "1", "--context", "4096", "--top-k", "5"});
  EXPECT_EQ(f.exit_code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("note: generation_config.json: num_beams = 4 has no effect here\n"));
  EXPECT_THAT(f.err, HasSubstr("typical_p = 0.5 has no effect"));
  EXPECT_THAT(f.err, HasSubstr("note: at temperature 0 --top-k"));
  EXPECT_THAT(f.err, HasSubstr("note: 4096 positions, but the model was trained for 2048"));
}

TEST_F(Cli, CommandsSayWhichWeightsTheyRead) {
  copy_tiny();
  write("pytorch_model.bin", "x");
  const std::string note = "pytorch_model.bin are present: model.safetensors is read";
  EXPECT_THAT(run_switchyard({"inspect", path("")}).err, HasSubstr(note));
  EXPECT_THAT(run_switchyard({"run", path(""), "-p", "x", "--max-tokens", "1"}).err, HasSubstr(note));
}

TEST_F(Cli, WeightsThatAreNotNumbersGiveNoFigures) {
  copy_tiny();
  std::fstream weights(path("model.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-2, std::ios::end);  // the last element of the final norm, bfloat16
  weights << "\xC0\x7F";             // NaN
  weights.close();
  expect_refused(run_switchyard({"run", path(""), "-p", "x"}), "the weights are broken");
  expect_refused(run_switchyard({"perplexity", path(""), write("text", "a volcano")}),
                 "the weights are broken");
}

TEST_F(Cli, AnEmptyChatTemplateIsNamed) {
  copy_tiny();
  write("chat_template.jinja", "");
  expect_refused(run_switchyard({"run", path(""), "-p", "x"}), "chat template: expected at least one token");
}

TEST_F(Cli, InspectChecksAndCounts) {
  const Finished text = run_switchyard({"inspect", kTiny});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("top 4 of 16 experts"));
  const Json report = json_of(run_switchyard({"inspect", kTiny, "--json"}));
  EXPECT_EQ(report["family"], "qwen2_moe");
  EXPECT_EQ(report["parameters"]["total"], 7372224);
  EXPECT_EQ(report["shape"]["sparse_layers"], 6);
  EXPECT_EQ(report["end_token_ids"], Json({2, 0}));
  EXPECT_EQ(report["tokenizer"]["vocab_size"], 4096);
}

TEST_F(Cli, InspectCountsTheFormatsOfAMixedCheckpoint) {
  const std::string mixed = kRoot + "/tests/data/golden_packed/gptq_mixed";
  EXPECT_THAT(run_switchyard({"inspect", mixed}).out, HasSubstr("matrices     12 BF16, 8 int4, 24 int8\n"));
  const Json report = json_of(run_switchyard({"inspect", mixed, "--json"}));
  EXPECT_EQ(report["formats"], Json({{"BF16", 12}, {"int4", 8}, {"int8", 24}}));
  EXPECT_TRUE(json_of(run_switchyard({"inspect", mixed, "--config-only", "--json"}))["formats"].is_null());
  const Json plain = json_of(run_switchyard({"inspect", kTiny, "--json"}));
  EXPECT_EQ(plain["formats"].size(), 1u);
  EXPECT_TRUE(plain["formats"].contains("BF16"));
}

TEST_F(Cli, InspectNeedsOnlyTheConfigWhenAsked) {
  write("config.json", read_file(kTiny + "/config.json", 1 << 20));
  const Json report = json_of(run_switchyard({"inspect", path(""), "--config-only", "--json"}));
  EXPECT_EQ(report["parameters"]["total"], 7372224);
  EXPECT_TRUE(report["checkpoint"].is_null());
  expect_refused(run_switchyard({"inspect", path("")}), "model.safetensors");
}

TEST_F(Cli, RunAnswersAsTheReferenceDoes) {
  const Json references =
      parse_json(read_file(kTiny + "/greedy_reference.json", 1 << 20), "greedy_reference.json");
  const Json& reference = references[0];
  const size_t prompt_tokens = reference["prompt_ids"].size();
  const Json answer = json_of(run_switchyard(
      {"run", kTiny, "-p", reference["prompt"], "--json", "--show-experts", "--logprobs", "2"}));
  EXPECT_EQ(answer["prompt_tokens"], prompt_tokens);
  EXPECT_EQ(answer["finish_reason"], "stop");
  std::vector<int> ids;
  std::string text;
  for (const Json& token : answer["tokens"]) {
    ids.push_back(token["id"]);
    text += token["text"];
    EXPECT_EQ(token["experts"].size(), 6u);
    EXPECT_EQ(token["experts"]["0"].size(), 4u);
    EXPECT_EQ(token["top_logprobs"][0]["id"], token["id"]);
    EXPECT_FLOAT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]);
  }
  const std::vector<int> want = reference["output_ids"];
  EXPECT_EQ(ids, std::vector<int>(want.begin() + static_cast<int64_t>(prompt_tokens), want.end()));
  EXPECT_EQ(answer["text"], text);

  const Finished streamed = run_switchyard({"run", kTiny, "-p", reference["prompt"]});
  EXPECT_EQ(streamed.out, text + "\n");
}

TEST_F(Cli, RunShowsWhichExpertsAnswered) {
  const Finished f = run_switchyard({"run", kTiny, "-p", "volcano?", "--show-experts", "--max-tokens", "3"});
  EXPECT_EQ(f.exit_code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr(" | 0: "));
  EXPECT_THAT(f.out, HasSubstr("load_std"));
}

TEST_F(Cli, RunStopsWhereAsked) {
  const Json whole = json_of(run_switchyard({"run", kTiny, "-p", "volcano?", "--json"}));
  const std::string text = whole["text"];
  ASSERT_GT(text.size(), 12u);
  const std::string stop = text.substr(6, 3);
  const Json stopped = json_of(run_switchyard({"run", kTiny, "-p", "volcano?", "--json", "--stop", stop}));
  EXPECT_EQ(stopped["text"], text.substr(0, text.find(stop)));
  const Json cut = json_of(run_switchyard({"run", kTiny, "-p", "volcano?", "--json", "--max-tokens", "2"}));
  EXPECT_EQ(cut["tokens"].size(), 2u);
  EXPECT_EQ(cut["finish_reason"], "length");
}

TEST_F(Cli, SampledTextRepeatsWithItsSeedAndWithAnyThreads) {
  const auto sample = [](const std::string& seed, const std::string& threads) {
    return run_switchyard({"run", kTiny, "--raw", "-p", "The ", "--max-tokens", "20", "--temperature", "1",
                           "--seed", seed, "--threads", threads})
        .out;
  };
  EXPECT_EQ(sample("1", "1"), sample("1", "2"));
  EXPECT_NE(sample("1", "1"), sample("2", "1"));
}

// "<|im_end|>" typed by a user is text: more tokens than the one control token, and the turn does not end
// there.
TEST_F(Cli, ControlTokensInUserTextStayText) {
  const auto tokens = [](const std::string& prompt) -> int {
    return json_of(
        run_switchyard({"run", kTiny, "-p", prompt, "--json", "--max-tokens", "1"}))["prompt_tokens"];
  };
  EXPECT_GT(tokens("a<|im_end|>"), tokens("a") + 3);
}

TEST_F(Cli, ChatKeepsTheConversation) {
  const Finished chat = run_switchyard({"run", kTiny}, "volcano?\nriver?\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_THAT(chat.out, StartsWith(run_switchyard({"run", kTiny, "-p", "volcano?"}).out));
  EXPECT_EQ(std::count(chat.out.begin(), chat.out.end(), '\n'), 2);
}

// A greedy text that goes on to its last permitted token when nobody stops it.
TEST_F(Cli, AnInterruptEndsTheAnswerInOrder) {
  const Finished f =
      run_switchyard({"run", kTiny, "--raw", "-p", "1 2 3 4", "--max-tokens", "2000", "--temperature", "0"},
                     "", [](int pid) { kill(pid, SIGINT); });
  EXPECT_EQ(f.exit_code, 130) << f.err;
  EXPECT_THAT(f.err, HasSubstr("first token after"));
}

TEST_F(Cli, AClosedPipeIsAnError) {
  const Finished f = run_switchyard_without_reader({"run", kTiny, "-p", "volcano?"});
  EXPECT_EQ(f.exit_code, 1);
  EXPECT_THAT(f.err, HasSubstr("stdout"));
}

TEST_F(Cli, TokenizeBothWays) {
  const Finished ids = run_switchyard({"tokenize", kTiny}, "What is this?\n<|im_end|>\n");
  EXPECT_THAT(ids.out, HasSubstr("]\n[2]\n"));
  EXPECT_EQ(run_switchyard({"tokenize", kTiny, "--decode"}, ids.out).out, "What is this?\n<|im_end|>\n");
  EXPECT_EQ(run_switchyard({"tokenize", kTiny, "--decode", "--skip-special", "--json"}, "[2]").out, "\"\"\n");
  EXPECT_NE(run_switchyard({"tokenize", kTiny, "--literal"}, "<|im_end|>\n").out, "[2]\n");
  const Finished whole = run_switchyard({"tokenize", kTiny, "--whole"}, "a\nb\n");
  EXPECT_EQ(std::count(whole.out.begin(), whole.out.end(), '\n'), 1);
  expect_refused(run_switchyard({"tokenize", kTiny, "--decode"}, "[99999999]"), "99999999");
  expect_refused(run_switchyard({"tokenize", kTiny, "--decode"}, "{}"), "expected a JSON array of token ids");
}

TEST_F(Cli, LogitsAreWhatVerifyExpects) {
  const std::string tokens = write("tokens.json", "[[5, 6, 7, 8], [9, 10, 11, 12]]");
  const std::string output = path("out.safetensors");
  const std::string model = kGolden + "qwen2_moe";
  const Finished f =
      run_switchyard({"logits", model, "--tokens", tokens, "--output", output, "--hidden-states"});
  EXPECT_EQ(f.exit_code, 0) << f.err;
  EXPECT_GT(std::filesystem::file_size(output), 2u * 4 * 160 * 4);
  expect_refused(
      run_switchyard({"logits", model, "--tokens", write("bad.json", "[[1], [2, 3]]"), "--output", output}),
      "bad.json: expected sequences of equal length 1");
  expect_refused(
      run_switchyard({"logits", model, "--tokens", write("big.json", "[[160]]"), "--output", output}),
      "big.json: token: expected an id in [0, 160), got 160");
  expect_refused(run_switchyard({"logits", model, "--tokens", write("no.json", "7"), "--output", output}),
                 "a list of lists");
  expect_refused(run_switchyard({"logits", model, "--tokens", tokens, "--output", "/no/such/folder/x"}),
                 "/no/such");

  // What the output is made from is never replaced.
  expect_refused(run_switchyard({"logits", model, "--tokens", tokens, "--output", tokens}),
                 "another file than --tokens");
  copy_tiny();
  const std::string weights = path("model.safetensors");
  const auto bytes = std::filesystem::file_size(weights);
  expect_refused(run_switchyard({"logits", path(""), "--tokens", tokens, "--output", weights}),
                 "an output outside the checkpoint folder");
  EXPECT_EQ(std::filesystem::file_size(weights), bytes);
  expect_refused(run_switchyard({"logits", model, "--tokens", tokens, "--output", "/dev/null"}),
                 "a regular file or a new one");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Cli, VerifyComparesWithAnotherImplementation) {
  const std::string model = kGolden + "qwen2_moe";
  const std::string reference = model + "/reference.safetensors";
  const Finished good = run_switchyard({"verify", model, reference});
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("greedy_output"));
  EXPECT_EQ(json_of(run_switchyard({"verify", model, reference, "--json"}))["passed"], true);

  const Finished strict = run_switchyard({"verify", model, reference, "--tolerance", "0"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.out, HasSubstr("FAILED"));
  EXPECT_THAT(strict.err, HasSubstr("tensors differ by more than 0"));
  expect_refused(run_switchyard({"verify", model, model + "/model.safetensors"}), "input_ids");

  // transformers' DeepSeek routers give a token's experts in any order.
  const std::string unsorted = kGolden + "deepseek_v3";
  EXPECT_EQ(run_switchyard({"verify", unsorted, unsorted + "/reference.safetensors"}).exit_code, 0);

  // A reference whose rotary frequencies were rounded agrees only when ours are rounded too.
  const std::string cast = kGolden + "qwen2_moe_bf16_sharded";
  EXPECT_EQ(run_switchyard({"verify", cast, cast + "/reference.safetensors"}).exit_code, 1);
  EXPECT_EQ(
      run_switchyard({"verify", cast, cast + "/reference.safetensors", "--rope-precision", "bf16"}).exit_code,
      0);
}

// References that a model cannot be compared with are errors, never agreement.
TEST_F(Cli, VerifyRefusesReferencesOfAnotherForm) {
  const std::string ids = R"("input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]})";
  const auto entry = [](const std::string& name, const std::string& dtype, const std::string& shape,
                        int bytes) {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[8,{}]}})", name, dtype, shape,
                       8 + bytes);
  };
  const auto verify_refused = [&](const std::string& entries, const std::string& data,
                                  const std::string& part) {
    SCOPED_TRACE(entries);
    const std::string file = write("reference.safetensors", safetensors_bytes("{" + entries + "}", data));
    expect_refused(run_switchyard({"verify", kGolden + "qwen2_moe", file}), part);
  };
  const auto refused = [&](const std::string& other, int bytes, const std::string& part) {
    verify_refused(ids + "," + other, little_endian_64(5) + std::string(static_cast<size_t>(bytes), '\0'),
                   part);
  };
  refused(entry("logits", "F32", "[160]", 640), 640, "expected shape [1, 1, 160], got [160]");
  refused(entry("logits", "I32", "[1,1,160]", 640), 640, "expected floating-point numbers, got I32");
  refused(entry("router.0.experts", "F32", "[1,4]", 16), 16, "expected I32 or I64, got F32");
  refused(entry("greedy_other", "I32", "[1,1]", 4), 4, "a name that this model does not produce");
  refused(entry("greedy_output", "I32", "[1,1]", 4), 4, "tensor 'greedy_prompt': expected token ids");
  verify_refused(R"("input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]})",
                 little_endian_64(1ull << 40), "tensor 'input_ids': expected ids, got 1099511627776");
  verify_refused(R"("input_ids":{"dtype":"I64","shape":[1000000000000,0],"data_offsets":[0,0]})", "",
                 "at least one, got [1000000000000, 0]");
  verify_refused(ids, little_endian_64(5), "at least one tensor to compare");

  const std::string prompt = R"("greedy_prompt":{"dtype":"I64","shape":[1,1],"data_offsets":[8,16]})";
  const std::string output = R"("greedy_output":{"dtype":"I64","shape":[1,1],"data_offsets":[16,24]})";
  verify_refused(ids + "," + prompt + "," + output,
                 little_endian_64(5) + little_endian_64(5) + little_endian_64(5),
                 "tensor 'greedy_output': expected [1, n] with n above 1");
}

TEST_F(Cli, PerplexityOfAText) {
  const std::string text =
      write("text.txt", "a volcano is a mountain that opens downward to a reservoir of molten rock.");
  const Json result = json_of(run_switchyard({"perplexity", kTiny, text, "--json"}));
  EXPECT_EQ(result["scored_tokens"].get<int>() + 1, result["tokens"].get<int>());
  EXPECT_GT(result["nll"], 0.5);
  EXPECT_LT(result["nll"], 5.0);
  expect_refused(run_switchyard({"perplexity", kTiny, write("empty.txt", "")}), "at least 2 tokens");
  expect_refused(run_switchyard({"perplexity", kTiny, write("binary", "a\xFF")}),
                 "binary: byte 1: expected valid UTF-8");
  expect_refused(run_switchyard({"perplexity", kTiny, text, "--window", "8", "--stride", "9"}),
                 "window of 8 tokens");
  EXPECT_THAT(run_switchyard({"perplexity", kTiny, text, "--window", "4096"}).err, Not(HasSubstr("note")));
}

TEST_F(Cli, RunSteersTheRouter) {
  const auto run_with = [](std::vector<std::string> options) {
    std::vector<std::string> args{"run",          kTiny, "-p",     "What is water?",
                                  "--max-tokens", "3",   "--json", "--show-experts"};
    args.insert(args.end(), options.begin(), options.end());
    return json_of(run_switchyard(args));
  };
  const Json own = run_with({});
  EXPECT_EQ(own.at("tokens")[0].at("experts").at("0").size(), 4u);
  EXPECT_FALSE(own.at("load").at("0").contains("dropped"));
  const Json one = run_with({"--routing", "switch"});
  EXPECT_EQ(one.at("tokens")[0].at("experts").at("5").size(), 1u);
  EXPECT_GT(one.at("load").at("0").at("policy_changed"), 0);
  EXPECT_EQ(one.at("tokens"), run_with({"--top-k-experts", "1"}).at("tokens"));
  const Json masked = run_with({"--expert-mask", "*:3,4;0:5"});
  for (const auto& [layer, load] : masked.at("load").items()) {
    EXPECT_EQ(load.at("hits")[3], 0) << layer;
    EXPECT_EQ(load.at("hits")[4], 0) << layer;
  }
  EXPECT_EQ(masked.at("load").at("0").at("hits")[5], 0);
  const std::string bias = write("bias.json", R"({"2": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,9]})");
  const Json biased = run_with({"--expert-bias", bias, "--expert-bias-strength", "2"});
  EXPECT_EQ(biased.at("tokens")[0].at("experts").at("2")[0], 15);
  const Json limited = run_with({"--expert-capacity", "4", "--overflow", "reroute"});
  EXPECT_GT(limited.at("load").at("0").at("rerouted"), 0);
  const Finished text = run_switchyard({"run", kTiny, "-p", "What is water?", "--max-tokens", "2",
                                        "--show-experts", "--routing", "gshard", "--capacity-factor", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("changed by policy"));
}

TEST_F(Cli, RouterOptionsThatDoNotFitAreRefused) {
  const auto run_with = [](std::vector<std::string> options) {
    std::vector<std::string> args{"run", kTiny, "-p", "x", "--max-tokens", "1"};
    args.insert(args.end(), options.begin(), options.end());
    return run_switchyard(args);
  };
  expect_refused(run_with({"--top-k-experts", "17"}), "expected 1 to 16, got 17");
  expect_refused(run_with({"--router-temperature", "0"}), "temperature");
  for (const char* mask : {"0", "0:", ":1", "a:1", "0:x", "0:1,", "0:1;", "0:1:2", "0:1;;1:2"})
    expect_refused(run_with({"--expert-mask", mask}), "--expert-mask: expected LAYER:EXPERT");
  expect_refused(run_with({"--expert-mask", "6:1"}), "layer 6: expected a layer in [0, 6)");
  expect_refused(run_with({"--expert-mask", "0:16"}), "experts in [0, 16), got 16");
  expect_refused(run_with({"--expert-mask", "0:0,1,2,3,4,5,6,7,8,9,10,11,12"}), "at least 4 allowed experts");
  expect_refused(run_with({"--expert-bias", path("none.json")}), "none.json");
  for (const char* bias :
       {"[]", R"({"x": [1]})", R"({"0": 1})", R"({"0": ["a"]})", R"({"0": []})", R"({"00": [1]})"})
    expect_refused(run_with({"--expert-bias", write("bias.json", bias)}), "bias.json");
  expect_refused(run_with({"--expert-bias", write("bias.json", R"({"0": [1, 2]})")}),
                 "each of 16 experts, got 2");
  expect_refused(run_with({"--expert-capacity", "0"}), "expert capacity: expected 1");
  expect_refused(run_with({"--capacity-factor", "0"}), "capacity factor");

  const auto expect_usage = [&](std::vector<std::string> options, const std::string& part) {
    const Finished f = run_with(options);
    EXPECT_EQ(f.exit_code, 2) << f.err;
    EXPECT_THAT(f.err, HasSubstr(part));
  };
  expect_usage({"--expert-mask", ""}, "--expert-mask: expected a text");
  expect_usage({"--routing", "hash"}, "switch");
  expect_usage({"--overflow", "drop"}, "needs --expert-capacity or --capacity-factor");
  expect_usage({"--routing", "switch", "--overflow", "drop"}, "needs --expert-capacity");
  expect_usage({"--routing", "switch", "--top-k-experts", "2"}, "2 contradicts --routing switch, which is 1");
  expect_usage({"--routing", "glam", "--capacity-factor", "2"}, "has no capacity");
  expect_usage({"--routing", "gshard", "--expert-capacity", "9"}, "contradicts --routing gshard");
  expect_usage({"--routing", "gshard", "--capacity-factor", "1.5"},
               "1.5 contradicts --routing gshard, which is 2");
  expect_usage({"--expert-capacity", "9", "--capacity-factor", "2"}, "--capacity-factor");
  expect_usage({"--expert-bias-strength", "2"}, "--expert-bias");
}

TEST_F(Cli, CalibrateCapacitySuggestsOne) {
  const std::string text =
      write("text.txt", "Water is a liquid. Fire is hot. A river carries water to the sea. ");
  const Json whole = json_of(run_switchyard({"calibrate-capacity", kTiny, text, "--json"}));
  EXPECT_EQ(whole.at("step_tokens"), whole.at("tokens"));
  EXPECT_EQ(whole.at("layers").size(), 6u);
  int64_t largest = 0;
  for (const auto& [layer, l] : whole.at("layers").items()) {
    EXPECT_EQ(l.at("suggested_capacity"), (l.at("largest_load").get<int64_t>() * 12 + 9) / 10) << layer;
    largest = std::max(largest, l.at("largest_load").get<int64_t>());
  }
  EXPECT_EQ(whole.at("largest_load"), largest);
  const Finished table = run_switchyard({"calibrate-capacity", kTiny, text, "--window", "8"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("in steps of up to 8, 4 of 16 experts each"));
  expect_refused(run_switchyard({"calibrate-capacity", kTiny, path("none.txt")}), "none.txt");
}

}  // namespace
}  // namespace switchyard
