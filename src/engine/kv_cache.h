// The paged key/value cache: memory in blocks of positions, handed to sequences as they grow.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/model.h"

namespace switchyard {

class PagedKvCache {
 public:
  static constexpr int64_t kDefaultBlockSize = 16;  // positions

  // Room for at least `positions` positions in all. Throws Error when the memory is not there.
  PagedKvCache(Backend& backend, const ModelShape& shape, int64_t positions,
               int64_t block_size = kDefaultBlockSize);

  int64_t block_size() const { return block_size_; }
  int64_t total_blocks() const { return total_blocks_; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }
  int64_t blocks_for(int64_t positions) const { return (positions + block_size_ - 1) / block_size_; }
  std::span<const KvLayer> layers() const { return layers_; }

  std::optional<int32_t> take_block();  // nullopt: all are in use
  void return_block(int32_t block);

 private:
  Arena arena_;
  std::vector<Tensor> memory_;  // keys and values of each layer
  std::vector<KvLayer> layers_;
  std::vector<int32_t> free_;
  int64_t block_size_;
  int64_t total_blocks_;
};

// The blocks of one sequence. Returns them when it goes.
class CachedSequence {
 public:
  explicit CachedSequence(PagedKvCache& cache) : cache_(&cache) {}
  ~CachedSequence();
  CachedSequence(CachedSequence&& other) noexcept;
  CachedSequence& operator=(CachedSequence&& other) noexcept;

  // Makes room for positions [0, length). False, and nothing changed, when the cache has not enough blocks.
  bool reserve(int64_t length);
  // Returns the blocks that hold none of the positions [0, length).
  void shrink(int64_t length);
  std::span<const int32_t> blocks() const { return blocks_; }

 private:
  void release();

  PagedKvCache* cache_;
  std::vector<int32_t> blocks_;
};

}  // namespace switchyard
