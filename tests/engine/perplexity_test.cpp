// Perplexity against its definition, and of the small model against transformers.
#include "engine/perplexity.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/trace.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/tiny_engine.h"

namespace switchyard {
namespace {

const auto kNoProgress = [](int64_t) {};

// By the definition: every token, in the first window that has it behind another token.
Perplexity naive(Backend& backend, const Model& model, const std::vector<int32_t>& tokens,
                 const PerplexityOptions& options) {
  const auto length = static_cast<int64_t>(tokens.size());
  const auto vocab = static_cast<size_t>(model.shape().vocab);
  std::set<int64_t> scored;
  Perplexity result;
  for (int64_t begin = 0; begin < length; begin += options.stride) {
    const int64_t end = std::min(length, begin + options.window);
    const auto logits =
        trace(backend, model, {{tokens.begin() + begin, tokens.begin() + end}}, {.routing = false})
            .at("logits")
            .values;
    for (int64_t target = begin + 1; target < end; ++target) {
      if (!scored.insert(target).second) continue;
      const float* z = &logits[static_cast<size_t>(target - 1 - begin) * vocab];
      double sum = 0;
      for (size_t v = 0; v < vocab; ++v)
        sum += std::exp(static_cast<double>(z[v]));
      result.nll += std::log(sum) - z[tokens[static_cast<size_t>(target)]];
    }
    if (end == length) break;
  }
  result.tokens = static_cast<int64_t>(scored.size());
  result.nll /= static_cast<double>(result.tokens);
  return result;
}

class PerplexityTest : public testing::Test {
 protected:
  CpuBackend backend_{CpuOptions{.threads = 2, .isa = {}}};
  std::unique_ptr<Model> model_ = load_model(golden_root() + "qwen2_moe", backend_);
};

TEST_F(PerplexityTest, IsItsDefinitionForEveryStrideAndLength) {
  std::mt19937 random(3);
  for (const size_t length : {2, 7, 8, 9, 30}) {
    std::vector<int32_t> tokens(length);
    for (int32_t& id : tokens)
      id = static_cast<int32_t>(random() % 160);
    for (int64_t stride = 1; stride <= 8; ++stride) {
      const PerplexityOptions options{.window = 8, .stride = stride};
      const Perplexity want = naive(backend_, *model_, tokens, options);
      const Perplexity got = perplexity(backend_, *model_, tokens, options, kNoProgress);
      EXPECT_EQ(got.tokens, want.tokens) << length << " tokens, stride " << stride;
      EXPECT_NEAR(got.nll / want.nll, 1.0, 1e-12) << length << " tokens, stride " << stride;
      EXPECT_DOUBLE_EQ(got.perplexity(), std::exp(got.nll));
    }
  }
}

TEST_F(PerplexityTest, ScoresEachTokenOnceAndReportsProgress) {
  const std::vector<int32_t> tokens(300, 5);
  std::vector<int64_t> progress;
  const auto keep = [&](int64_t done) { progress.push_back(done); };
  // Longer than the rows of logits that are held at once.
  EXPECT_EQ(perplexity(backend_, *model_, tokens, {.window = 300, .stride = 300}, keep).tokens, 299);
  EXPECT_EQ(progress, std::vector<int64_t>{300});
  progress.clear();
  EXPECT_EQ(perplexity(backend_, *model_, tokens, {.window = 128, .stride = 64}, keep).tokens, 299);
  EXPECT_EQ(progress, (std::vector<int64_t>{128, 192, 256, 300}));
  EXPECT_EQ(perplexity(backend_, *model_, tokens, {.window = 100, .stride = 100}, keep).tokens, 297);
}

TEST_F(PerplexityTest, ImpossibleRequestsAreRefused) {
  const std::vector<int32_t> tokens{1, 2, 3};
  const auto refuse = [&](const std::vector<int32_t>& text, const PerplexityOptions& options,
                          const std::string& part) {
    expect_error([&] { perplexity(backend_, *model_, text, options, kNoProgress); }, part);
  };
  refuse({}, {}, "text: expected at least 2 tokens, got 0");
  refuse({1}, {}, "text: expected at least 2 tokens, got 1");
  refuse(tokens, {.window = 1, .stride = 1}, "window: expected at least 2 tokens, got 1");
  refuse(tokens, {.window = 8, .stride = 9}, "stride: expected 1 to the window of 8 tokens, got 9");
  refuse(tokens, {.window = 8, .stride = 0}, "stride: expected 1 to the window of 8 tokens, got 0");
  refuse({1, 160}, {}, "expected an id in [0, 160), got 160");
}

TEST(TinyPerplexity, OfTheLicenceIsItsDefinition) {
  TinyEngine& engine = shared_tiny_engine();
  std::vector<int32_t> tokens = engine.tokenizer.encode(read_file(SWITCHYARD_SOURCE_DIR "/LICENSE", 1 << 20));
  ASSERT_GT(tokens.size(), 300u);
  tokens.resize(300);
  const PerplexityOptions options{.window = 200, .stride = 90};
  const Perplexity want = naive(*engine.backend, *engine.model, tokens, options);
  const Perplexity got = perplexity(*engine.backend, *engine.model, tokens, options, kNoProgress);
  EXPECT_EQ(got.tokens, 299);
  EXPECT_NEAR(got.nll / want.nll, 1.0, 1e-12);
  EXPECT_LT(got.nll, std::log(4096.0)) << "worse than guessing";
}

// Held-out text of the model's training, which is not part of the repository: {"<domain>": ["<text>", ...]}.
std::string heldout_path() {
  if (const char* path = std::getenv("SWITCHYARD_HELDOUT_TEXT")) return path;
  return SWITCHYARD_SOURCE_DIR "/../shared/models/tiny-qwen2-moe/heldout_text.json";
}

// tests/data/tiny_perplexity.json: by transformers with log-softmax in float64. Of each domain the texts
// joined and cut to the first 6000 tokens, [nll, scored tokens] by window and stride; and of the first text
// alone.
struct Figure {
  const char* domain;
  const char* key;
  PerplexityOptions options;
};
void PrintTo(const Figure& f, std::ostream* out) {
  *out << f.domain << " " << f.key;
}

class TransformersPerplexity : public testing::TestWithParam<Figure> {};
INSTANTIATE_TEST_SUITE_P(
    Figures, TransformersPerplexity,
    testing::Values(Figure{"chat", "w512", {512, 512}}, Figure{"chat", "w512s256", {512, 256}},
                    Figure{"chat", "first", {2048, 2048}}, Figure{"foldoc", "first", {2048, 2048}},
                    Figure{"zhpoems", "w512", {512, 512}}, Figure{"zhpoems", "first", {2048, 2048}}));

TEST_P(TransformersPerplexity, Agrees) {
  constexpr size_t kMaxTokens = 6000;
  constexpr double kTolerance = 1e-5;  // relative
  if (!std::filesystem::exists(heldout_path())) {
    GTEST_SKIP() << "no held-out text at " << heldout_path() << "; set SWITCHYARD_HELDOUT_TEXT";
  }
  const auto& [domain, key, options] = GetParam();
  const Json texts = parse_json(read_file(heldout_path(), 64 << 20), heldout_path()).at(domain);
  const std::string path = SWITCHYARD_SOURCE_DIR "/tests/data/tiny_perplexity.json";
  const Json want = parse_json(read_file(path, 1 << 20), path).at(domain).at(key);
  const bool first_only = std::string(key) == "first";
  std::string text;
  for (const Json& part : texts) {
    text += part.get<std::string>();
    if (first_only) break;
  }
  TinyEngine engine(std::make_unique<CpuBackend>(CpuOptions{.threads = 2, .isa = {}}));
  std::vector<int32_t> tokens = engine.tokenizer.encode(text);
  if (!first_only) tokens.resize(std::min(tokens.size(), kMaxTokens));
  const Perplexity got = perplexity(*engine.backend, *engine.model, tokens, options, kNoProgress);
  EXPECT_EQ(got.tokens, want.at(1).get<int64_t>());
  EXPECT_NEAR(got.nll / want.at(0).get<double>(), 1.0, kTolerance);
}

}  // namespace
}  // namespace switchyard
