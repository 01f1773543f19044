// Memory of one device, and the arena that hands out temporaries from it.
//
// An arena keeps what is returned to it in free lists by size class, so that a decode step, which asks for
// the same sizes in the same order as the one before, touches no allocator. An arena and the tensors it made
// belong to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace switchyard {

// Raw memory of a device, aligned to at least 64 bytes. Throws Error when there is not enough.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void release(std::byte* data, int64_t bytes) = 0;
};

class Arena;

// What a Tensor refers to. Counted by hand, because a node is reused: a step makes and drops hundreds.
struct Storage {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  Arena* arena = nullptr;                  // null: memory that `keep_alive` owns, such as a mapped file
  std::shared_ptr<const void> keep_alive;  // empty for memory of an arena
  Storage* grad = nullptr;  // float32 gradient, one per element of this storage; see ops/tape.h
  bool requires_grad = false;
  int32_t references = 0;
};

class Arena {
 public:
  explicit Arena(Memory& memory) : memory_(memory) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A storage with one reference and uninitialised content. Zero bytes are allowed.
  Storage* allocate(int64_t bytes);
  void give_back(Storage* storage);  // called by the last Tensor that refers to it

  int64_t reserved_bytes() const { return reserved_bytes_; }  // taken from the device, in use or free
  int64_t in_use_bytes() const { return in_use_bytes_; }

 private:
  Memory& memory_;
  std::map<int64_t, std::vector<std::byte*>> free_;  // by size class
  std::vector<Storage*> nodes_;                      // nodes waiting for reuse
  int64_t reserved_bytes_ = 0;
  int64_t in_use_bytes_ = 0;
};

}  // namespace switchyard
