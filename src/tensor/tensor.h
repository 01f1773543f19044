// Tensor: a handle to elements in row-major order on one device. Copying a handle shares the elements; when
// the last handle to memory of an arena goes, the memory returns to the arena. A default-made Tensor is
// "absent" (an optional bias, say) and converts to false.
#pragma once

#include <memory>
#include <utility>

#include "tensor/arena.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace switchyard {

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : Tensor(other.storage_, other.offset_, other.dtype_, other.shape_) {
    retain();
  }
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor other) noexcept {
    swap(other);
    return *this;
  }
  ~Tensor() { drop(); }

  // Uninitialised memory of the arena.
  static Tensor empty(Arena& arena, DType dtype, const Shape& shape);
  // Elements that somebody else owns, such as a mapped file; `keep_alive` is held as long as the tensor.
  static Tensor external(const void* data, DType dtype, const Shape& shape,
                         std::shared_ptr<const void> keep_alive);

  explicit operator bool() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return elements() * size_bytes(dtype_); }
  DType dtype() const { return dtype_; }

  // The elements, on the tensor's device. The typed forms check the dtype.
  const void* data() const;
  void* mutable_data() const;
  float* f32() const;
  int32_t* i32() const;

  // The same elements in another shape; rows [begin, end) of the first dimension. Both share the elements.
  Tensor reshaped(const Shape& shape) const;
  Tensor rows(int64_t begin, int64_t end) const;

  // Whether gradients flow to these elements. See ops/tape.h.
  bool requires_grad() const { return storage_ != nullptr && storage_->requires_grad; }
  void set_requires_grad(bool on) const;

  // The float32 gradient of these elements, in the same shape; absent before attach_grad.
  Tensor grad() const;
  // Gives the whole storage a gradient from `arena` and returns all of it, flat and uninitialised.
  Tensor attach_grad(Arena& arena) const;
  void drop_grad() const;

 private:
  Tensor(Storage* storage, int64_t offset, DType dtype, const Shape& shape)
      : storage_(storage), offset_(offset), dtype_(dtype), shape_(shape) {}
  void swap(Tensor& other) noexcept;
  void retain();
  void drop();

  Storage* storage_ = nullptr;
  int64_t offset_ = 0;  // of the first element, in elements
  DType dtype_ = DType::kF32;
  Shape shape_;
};

}  // namespace switchyard
