#include "tensor/tensor.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace switchyard {
namespace {

void release(Storage* storage) {
  if (--storage->references != 0) return;
  if (storage->grad != nullptr) release(std::exchange(storage->grad, nullptr));
  if (storage->arena != nullptr) {
    storage->arena->give_back(storage);
  } else {
    delete storage;
  }
}

}  // namespace

Tensor Tensor::empty(Arena& arena, DType dtype, const Shape& shape) {
  return Tensor(arena.allocate(shape.elements() * size_bytes(dtype)), 0, dtype, shape);
}

Tensor Tensor::external(const void* data, DType dtype, const Shape& shape,
                        std::shared_ptr<const void> keep_alive) {
  auto* storage = new Storage;
  // Weights are read-only by convention of the ops; a mapped file is read-only by the page tables as well.
  storage->data = static_cast<std::byte*>(const_cast<void*>(data));
  storage->bytes = shape.elements() * size_bytes(dtype);
  storage->keep_alive = std::move(keep_alive);
  storage->references = 1;
  return Tensor(storage, 0, dtype, shape);
}

const void* Tensor::data() const {
  return mutable_data();
}

void* Tensor::mutable_data() const {
  SY_CHECK(storage_ != nullptr, "data of an absent tensor");
  return storage_->data + offset_ * size_bytes(dtype_);
}

float* Tensor::f32() const {
  SY_CHECK(dtype_ == DType::kF32, "float32 elements of a {} tensor", name(dtype_));
  return static_cast<float*>(mutable_data());
}

int32_t* Tensor::i32() const {
  SY_CHECK(dtype_ == DType::kI32, "int32 elements of a {} tensor", name(dtype_));
  return static_cast<int32_t*>(mutable_data());
}

Tensor Tensor::reshaped(const Shape& shape) const {
  SY_CHECK(shape.elements() == elements(), "reshape of {} to {}", to_string(shape_), to_string(shape));
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  SY_CHECK(shape_.rank() >= 1 && 0 <= begin && begin <= end && end <= shape_[0], "rows {} to {} of {}", begin,
           end, to_string(shape_));
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::copy(shape_.dims().begin(), shape_.dims().end(), dims.begin());
  const int64_t row_elements = shape_[0] == 0 ? 0 : elements() / shape_[0];
  dims[0] = end - begin;
  Tensor view = *this;
  view.shape_ = Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape_.rank())));
  view.offset_ += begin * row_elements;
  return view;
}

void Tensor::set_requires_grad(bool on) const {
  SY_CHECK(storage_ != nullptr, "gradient of an absent tensor");
  storage_->requires_grad = on;
}

Tensor Tensor::grad() const {
  if (storage_ == nullptr || storage_->grad == nullptr) return {};
  Tensor gradient(storage_->grad, offset_, DType::kF32, shape_);
  gradient.retain();
  return gradient;
}

Tensor Tensor::attach_grad(Arena& arena) const {
  SY_CHECK(storage_ != nullptr && storage_->grad == nullptr, "a tensor gets one gradient");
  const int64_t elements = storage_->bytes / size_bytes(dtype_);
  storage_->grad = arena.allocate(elements * size_bytes(DType::kF32));
  Tensor all(storage_->grad, 0, DType::kF32, {elements});
  all.retain();
  return all;
}

void Tensor::drop_grad() const {
  if (storage_ != nullptr && storage_->grad != nullptr) release(std::exchange(storage_->grad, nullptr));
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(offset_, other.offset_);
  std::swap(dtype_, other.dtype_);
  std::swap(shape_, other.shape_);
}

void Tensor::retain() {
  if (storage_ != nullptr) ++storage_->references;
}

void Tensor::drop() {
  if (storage_ != nullptr) release(std::exchange(storage_, nullptr));
}

}  // namespace switchyard
