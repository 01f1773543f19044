// The paged cache and the steps over it.
#include "engine/kv_cache.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "engine/step.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

ModelShape small_shape() {
  ModelShape shape;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.layers.resize(3);
  return shape;
}

class KvCache : public testing::Test {
 protected:
  ReferenceBackend backend_;
};

TEST_F(KvCache, HasRoomForThePositionsAskedFor) {
  const PagedKvCache cache(backend_, small_shape(), 33, 16);
  EXPECT_EQ(cache.total_blocks(), 3);
  EXPECT_EQ(cache.free_blocks(), 3);
  ASSERT_EQ(cache.layers().size(), 3u);
  EXPECT_EQ(cache.layers()[0].kv_heads, 2);
  EXPECT_EQ(cache.layers()[0].head_dim, 4);
  std::set<const void*> memory;
  for (const KvLayer& layer : cache.layers()) {
    memory.insert(layer.keys);
    memory.insert(layer.values);
  }
  EXPECT_EQ(memory.size(), 6u);
}

TEST_F(KvCache, ASequenceGrowsByWholeBlocksAndReturnsThem) {
  PagedKvCache cache(backend_, small_shape(), 40, 8);
  {
    CachedSequence sequence(cache);
    EXPECT_TRUE(sequence.reserve(1));
    EXPECT_EQ(sequence.blocks().size(), 1u);
    const int32_t first = sequence.blocks()[0];
    EXPECT_TRUE(sequence.reserve(8));
    EXPECT_EQ(sequence.blocks().size(), 1u);
    EXPECT_TRUE(sequence.reserve(17));
    EXPECT_EQ(sequence.blocks().size(), 3u);
    EXPECT_EQ(sequence.blocks()[0], first);
    EXPECT_TRUE(sequence.reserve(2)) << "less than it has";
    EXPECT_EQ(sequence.blocks().size(), 3u);
    sequence.shrink(9);
    EXPECT_EQ(sequence.blocks().size(), 2u);
    EXPECT_EQ(sequence.blocks()[0], first);
    EXPECT_EQ(cache.free_blocks(), 3);
  }
  EXPECT_EQ(cache.free_blocks(), 5);
}

TEST_F(KvCache, AReserveThatFailsChangesNothing) {
  PagedKvCache cache(backend_, small_shape(), 40, 8);
  CachedSequence one(cache);
  CachedSequence other(cache);
  ASSERT_TRUE(one.reserve(20));
  ASSERT_TRUE(other.reserve(8));
  EXPECT_FALSE(other.reserve(25));
  EXPECT_EQ(other.blocks().size(), 1u);
  EXPECT_EQ(cache.free_blocks(), 1);
  EXPECT_TRUE(other.reserve(16));
  EXPECT_EQ(cache.take_block(), std::nullopt);
}

TEST_F(KvCache, MovingASequenceMovesItsBlocks) {
  PagedKvCache cache(backend_, small_shape(), 40, 8);
  CachedSequence one(cache);
  ASSERT_TRUE(one.reserve(16));
  CachedSequence other(std::move(one));
  EXPECT_EQ(other.blocks().size(), 2u);
  CachedSequence third(cache);
  ASSERT_TRUE(third.reserve(24));
  third = std::move(other);
  EXPECT_EQ(third.blocks().size(), 2u);
  EXPECT_EQ(cache.free_blocks(), 3);
}

// Random growing, shrinking and ending: no block has two owners, none is lost.
TEST_F(KvCache, EveryBlockHasOneOwner) {
  PagedKvCache cache(backend_, small_shape(), 160, 4);
  std::mt19937 random(5);
  std::vector<CachedSequence> sequences;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const size_t at = sequences.empty() ? 0 : random() % sequences.size();
    switch (random() % 4) {
      case 0:
        if (sequences.size() < 12) sequences.emplace_back(cache);
        break;
      case 1:
        if (!sequences.empty()) sequences[at].shrink(static_cast<int64_t>(random() % 40));
        break;
      case 2:
        if (!sequences.empty() && random() % 4 == 0) {
          sequences.erase(sequences.begin() + static_cast<int64_t>(at));
        }
        break;
      default: {
        if (sequences.empty()) break;
        const auto length = static_cast<int64_t>(random() % 80);
        const auto before = static_cast<int64_t>(sequences[at].blocks().size());
        const bool fits = cache.blocks_for(length) - before <= cache.free_blocks();
        ASSERT_EQ(sequences[at].reserve(length), fits);
        refused += !fits;
      }
    }
    std::set<int32_t> owned;
    size_t count = 0;
    for (const CachedSequence& sequence : sequences) {
      owned.insert(sequence.blocks().begin(), sequence.blocks().end());
      count += sequence.blocks().size();
    }
    ASSERT_EQ(owned.size(), count) << "a block in two sequences";
    ASSERT_EQ(static_cast<int64_t>(count) + cache.free_blocks(), cache.total_blocks());
    ASSERT_TRUE(owned.empty() || (*owned.begin() >= 0 && *owned.rbegin() < cache.total_blocks()));
  }
  EXPECT_GT(refused, 50) << "the cache was never full";
}

std::vector<int32_t> ids(Backend& backend, const Tensor& tensor) {
  std::vector<int32_t> values(static_cast<size_t>(tensor.elements()));
  backend.copy_to_host(values.data(), tensor.data(), tensor.bytes());
  return values;
}

TEST_F(KvCache, AStepListsTokensPositionsSequencesAndBlocks) {
  PagedKvCache cache(backend_, small_shape(), 64, 4);
  CachedSequence one(cache);
  CachedSequence other(cache);
  ASSERT_TRUE(one.reserve(3));
  ASSERT_TRUE(other.reserve(9));
  StepBuilder step;
  step.add(std::vector<int32_t>{10, 11, 12}, 0, one, Logits::kNone);
  step.add(std::vector<int32_t>{20, 21}, 7, other, Logits::kLast);
  step.add(std::vector<int32_t>{30, 31}, 1, one, Logits::kAll, 2);
  EXPECT_EQ(step.tokens(), 7);
  EXPECT_EQ(step.logit_rows(), 3);

  Arena arena(backend_.memory());
  Context c{.backend = backend_, .arena = arena};
  const Batch batch = step.upload(c, cache);
  EXPECT_THAT(ids(backend_, batch.tokens), ElementsAre(10, 11, 12, 20, 21, 30, 31));
  EXPECT_THAT(ids(backend_, batch.positions), ElementsAre(0, 1, 2, 7, 8, 1, 2));
  EXPECT_THAT(ids(backend_, batch.sequences), ElementsAre(0, 0, 0, 1, 1, 2, 2));
  EXPECT_THAT(ids(backend_, batch.logit_rows), ElementsAre(4, 5, 6));
  EXPECT_EQ(batch.block_table.shape(), (Shape{3, 3}));
  const std::vector<int32_t> table = ids(backend_, batch.block_table);
  EXPECT_EQ(table[0], one.blocks()[0]);
  EXPECT_THAT(std::vector<int32_t>(table.begin() + 3, table.begin() + 6),
              testing::ElementsAreArray(other.blocks()));
  EXPECT_EQ(table[6], one.blocks()[0]);
  // A prompt of 3, one that ends at 9, and one of 2 with a token behind it.
  EXPECT_THAT(batch.rope_lengths, ElementsAre(3, 3, 3, 9, 9, 2, 3));
}

TEST(TokenIds, OutsideTheVocabularyAreRefused) {
  check_token_ids("text", std::vector<int32_t>{0, 9}, 10);
  expect_error(
      [] {
        check_token_ids("text", std::vector<int32_t>{3, 10}, 10);
      },
      "text: token: expected an id in [0, 10), got 10");
  expect_error([] { check_token_ids("text", std::vector<int32_t>{-1}, 10); }, "got -1");
}

}  // namespace
}  // namespace switchyard
