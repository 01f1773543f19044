#include "engine/kv_cache.h"

#include <utility>

#include "base/error.h"

namespace switchyard {

PagedKvCache::PagedKvCache(Backend& backend, const ModelShape& shape, int64_t positions, int64_t block_size)
    : arena_(backend.memory()),
      block_size_(block_size),
      total_blocks_((positions + block_size - 1) / block_size) {
  SY_CHECK(positions > 0 && block_size > 0, "a cache of {} positions in blocks of {}", positions, block_size);
  const KvShape& kv = shape.kv;
  const auto allocate = [&](int64_t dim) {
    const Shape blocks{total_blocks_, kv.heads, block_size, dim};
    return memory_.emplace_back(Tensor::empty(arena_, DType::kF32, blocks)).mutable_data();
  };
  for (int64_t layer = 0; layer < shape.layer_count(); ++layer) {
    layers_.push_back({.keys = allocate(kv.key_dim),
                       .values = kv.values_in_keys ? nullptr : allocate(kv.value_dim),
                       .dtype = DType::kF32,
                       .block_size = block_size,
                       .kv_heads = kv.heads,
                       .head_dim = kv.key_dim,
                       .value_dim = kv.value_dim});
  }
  for (int64_t block = total_blocks_ - 1; block >= 0; --block)
    free_.push_back(static_cast<int32_t>(block));
}

std::optional<int32_t> PagedKvCache::take_block() {
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  return block;
}

void PagedKvCache::return_block(int32_t block) {
  free_.push_back(block);
}

CachedSequence::~CachedSequence() {
  release();
}

CachedSequence::CachedSequence(CachedSequence&& other) noexcept
    : cache_(other.cache_), blocks_(std::exchange(other.blocks_, {})) {}

CachedSequence& CachedSequence::operator=(CachedSequence&& other) noexcept {
  release();
  cache_ = other.cache_;
  blocks_ = std::exchange(other.blocks_, {});
  return *this;
}

bool CachedSequence::reserve(int64_t length) {
  const int64_t missing = cache_->blocks_for(length) - static_cast<int64_t>(blocks_.size());
  if (missing > cache_->free_blocks()) return false;
  for (int64_t i = 0; i < missing; ++i)
    blocks_.push_back(*cache_->take_block());
  return true;
}

void CachedSequence::shrink(int64_t length) {
  while (static_cast<int64_t>(blocks_.size()) > cache_->blocks_for(length)) {
    cache_->return_block(blocks_.back());
    blocks_.pop_back();
  }
}

void CachedSequence::release() {
  shrink(0);
}

}  // namespace switchyard
