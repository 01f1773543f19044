#include "tensor/arena.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace switchyard {
namespace {

// Size classes in quarter steps between powers of two: at most 25 % is wasted, and shapes that differ by a
// few tokens share blocks.
int64_t size_class(int64_t bytes) {
  constexpr int64_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes - 1)));
  const int64_t quarter = std::max<int64_t>(below / 4, 64);
  return (bytes + quarter - 1) / quarter * quarter;
}

}  // namespace

Arena::~Arena() {
  SY_CHECK(in_use_bytes_ == 0, "{} bytes of an arena outlive it", in_use_bytes_);
  for (const auto& [bytes, blocks] : free_) {
    for (std::byte* block : blocks)
      memory_.release(block, bytes);
  }
  for (Storage* node : nodes_)
    delete node;
}

Storage* Arena::allocate(int64_t bytes) {
  SY_CHECK(bytes >= 0, "allocation of {} bytes", bytes);
  const int64_t rounded = size_class(bytes);
  // What may throw comes first and leaves the arena as it was.
  if (nodes_.empty()) nodes_.push_back(new Storage);
  std::vector<std::byte*>& blocks = free_[rounded];
  if (blocks.empty()) {
    blocks.push_back(memory_.allocate(rounded));
    reserved_bytes_ += rounded;
  }
  Storage* node = nodes_.back();
  nodes_.pop_back();
  node->data = blocks.back();
  blocks.pop_back();
  node->bytes = rounded;
  node->arena = this;
  node->references = 1;
  in_use_bytes_ += rounded;
  return node;
}

void Arena::give_back(Storage* storage) {
  in_use_bytes_ -= storage->bytes;
  free_[storage->bytes].push_back(storage->data);
  *storage = Storage{};
  nodes_.push_back(storage);
}

}  // namespace switchyard
