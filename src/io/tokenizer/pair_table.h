// A hash table from pairs of token ids to their merge: the innermost look-up of BPE.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace switchyard {

struct BpeMerge {
  int32_t rank = 0;  // lower merges first
  int32_t merged_id = 0;
};

class PairTable {
 public:
  // Makes room for `count` pairs; call once, before set().
  void reserve(size_t count) { slots_.resize(std::bit_ceil(2 * count + 1)); }

  void set(int32_t left, int32_t right, BpeMerge merge) {
    const uint64_t key = key_of(left, right);
    slots_[slot_of(key)] = {key, merge};
  }

  const BpeMerge* find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    const Slot& slot = slots_[slot_of(key)];
    return slot.key == key ? &slot.merge : nullptr;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair: ids are not negative
  struct Slot {
    uint64_t key = kEmpty;
    BpeMerge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  // Fibonacci hashing; linear probing in a table at most half full.
  size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = ((key ^ key >> 29) * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (slots_[slot].key != key && slots_[slot].key != kEmpty)
      slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1);
};

}  // namespace switchyard
