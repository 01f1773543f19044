#include "models/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/ranges.h>

#include "base/error.h"

namespace switchyard {
namespace {

// Tensors that older checkpoints carry although they are no parameters: the rotary frequencies follow from
// the config. transformers ignores them too.
bool is_derived_buffer(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// FNV-1a, so that a tensor's random weights depend on its name and not on the order of binding.
uint64_t hash(const std::string& text) {
  uint64_t value = 14695981039346656037u;
  for (const unsigned char byte : text)
    value = (value ^ byte) * 1099511628211u;
  return value;
}

}  // namespace

std::string_view name(Component component) {
  switch (component) {
    case Component::kEmbedding:
      return "embedding";
    case Component::kAttention:
      return "attention";
    case Component::kRouter:
      return "router";
    case Component::kExperts:
      return "experts";
    case Component::kSharedExperts:
      return "shared experts";
    case Component::kDense:
      return "dense feed-forward";
    case Component::kNorm:
      return "norms";
    case Component::kOutput:
      return "output";
  }
  return "";
}

Tensor CheckpointWeights::weight(const std::string& name, const Shape& shape) {
  if (checkpoint_->find(name) == nullptr) {
    throw Error(checkpoint_->folder(), tensor_item(name),
                fmt::format("shape {} by the config", to_string(shape)), "no such tensor in the checkpoint");
  }
  const Checkpoint::View view = checkpoint_->tensor(name);
  if (!std::ranges::equal(view.shape, shape.dims())) {
    throw Error(view.file, tensor_item(name), fmt::format("shape {} by the config", to_string(shape)),
                fmt::format("[{}]", fmt::join(view.shape, ", ")));
  }
  if (!is_weight_dtype(view.dtype)) {
    throw Error(view.file, tensor_item(name), "dtype F32, F16 or BF16",
                std::string(switchyard::name(view.dtype)));
  }
  used_.push_back(name);
  return Tensor::external(view.data, view.dtype, shape, view.keep_alive);
}

void CheckpointWeights::leave_unused(const std::string& prefix, const std::string& reason) {
  unused_.push_back({prefix, reason});
}

bool CheckpointWeights::is_unused(const std::string& name) {
  for (Unused& unused : unused_) {
    if (!name.starts_with(unused.prefix)) continue;
    ++unused.tensors;
    unused.bytes += checkpoint_->find(name)->size_bytes;
    return true;
  }
  return false;
}

Weight CheckpointWeights::matrix(const std::string& name, int64_t rows, int64_t cols) {
  auto packed = load_packed_matrix(*checkpoint_, quantization_, name, rows, cols, elements_);
  if (!packed) return weight(name + ".weight", {rows, cols});
  used_.insert(used_.end(), packed->tensors.begin(), packed->tensors.end());
  return Weight(std::move(packed->matrix));
}

void CheckpointWeights::finish() {
  std::sort(used_.begin(), used_.end());
  for (const std::string& tensor : checkpoint_->names()) {
    if (std::binary_search(used_.begin(), used_.end(), tensor) || is_derived_buffer(tensor)) continue;
    if (is_unused(tensor)) continue;
    throw Error(checkpoint_->tensor(tensor).file, tensor_item(tensor), "only tensors that the config implies",
                "one that the model has no use for");
  }
  for (const Unused& unused : unused_) {
    if (unused.tensors == 0) continue;
    notes_.push_back(fmt::format("{}: {} tensors {}* ({:.2f} GB): {}", checkpoint_->folder(), unused.tensors,
                                 unused.prefix, static_cast<double>(unused.bytes) / 1e9, unused.reason));
  }
}

Tensor DeclaredWeights::weight(const std::string&, const Shape& shape) {
  return Tensor::external(nullptr, dtype_, shape, nullptr);
}

Tensor RandomWeights::weight(const std::string& name, const Shape& shape) {
  SY_CHECK(is_weight_dtype(dtype_), "random weights of {}", switchyard::name(dtype_));
  const auto bytes = static_cast<size_t>(shape.elements() * size_bytes(dtype_));
  auto memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
  // A linear congruential step per element: fast enough for gigabytes, and quality is of no concern here.
  uint64_t state = seed_ ^ hash(name);
  const bool is_vector = shape.rank() == 1;
  const float amplitude = is_vector ? 0.1f : std::sqrt(3.0f / static_cast<float>(shape[shape.rank() - 1]));
  const float center = is_vector ? 1.0f : 0.0f;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float unit = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;  // [-1, 1)
    const float value = center + amplitude * unit;
    if (dtype_ == DType::kF32) {
      reinterpret_cast<float*>(memory.get())[i] = value;
    } else {
      reinterpret_cast<uint16_t*>(memory.get())[i] =
          dtype_ == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    }
  }
  const void* data = memory.get();
  return Tensor::external(data, dtype_, shape, std::move(memory));
}

Binder Binder::scope(const std::string& prefix) const {
  Binder scoped = *this;
  scoped.prefix_ += prefix;
  return scoped;
}

Tensor Binder::tensor(const std::string& name, const Shape& shape, Component component) {
  const std::string full_name = prefix_ + name;
  Tensor placed = backend_.place_weight(source_.weight(full_name, shape));
  parameters_.push_back(
      {full_name, component, placed, placed.elements(), placed.bytes(), switchyard::name(placed.dtype())});
  return placed;
}

Tensor Binder::float_vector(const std::string& name, int64_t size, Component component) {
  const Tensor stored = source_.weight(prefix_ + name, {size});
  Tensor host = stored;
  if (stored.dtype() != DType::kF32 && stored.data() != nullptr) {
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(size));
    convert_to_f32(stored.dtype(), stored.data(), size, values->data());
    const float* data = values->data();
    host = Tensor::external(data, DType::kF32, {size}, std::move(values));
  }
  Tensor placed = backend_.place_weight(host);
  parameters_.push_back(
      {prefix_ + name, component, placed, size, stored.bytes(), switchyard::name(stored.dtype())});
  return placed;
}

Weight Binder::matrix(const std::string& name, int64_t rows, int64_t cols, Component component) {
  const std::string full_name = prefix_ + name;
  Weight placed = place(source_.matrix(full_name, rows, cols));
  parameters_.push_back(
      {full_name + ".weight", component, placed.plain, rows * cols, placed.bytes(), format_name(placed)});
  return placed;
}

Weight Binder::place(const Weight& host) {
  if (host.packed == nullptr) return backend_.place_weight(host.plain);
  PackedMatrix parts = *host.packed;
  for (Tensor* part : {&parts.data, &parts.scales, &parts.zeros, &parts.group_of_column}) {
    if (*part) *part = backend_.place_weight(*part);
  }
  return Weight(std::move(parts));
}

Linear Binder::linear(const std::string& name, int64_t out_features, int64_t in_features, bool bias,
                      Component component) {
  Linear linear;
  linear.name = prefix_ + name;
  linear.weight = matrix(name, out_features, in_features, component);
  if (bias) linear.bias = tensor(name + ".bias", {out_features}, component);
  return linear;
}

void Binder::check_copy(const std::string& name, const Weight& original) {
  const std::string full_name = prefix_ + name;
  if (!source_.has(full_name)) return;
  if (!original.plain) {
    throw Error(source_.place_of(full_name), tensor_item(full_name),
                "absent, since the config ties it to a packed matrix", "a tensor");
  }
  const Tensor copy = source_.weight(full_name, original.plain.shape());
  std::vector<std::byte> bytes(static_cast<size_t>(original.bytes()));
  backend_.copy_to_host(bytes.data(), original.plain.data(), original.bytes());
  if (copy.dtype() != original.plain.dtype() || std::memcmp(copy.data(), bytes.data(), bytes.size()) != 0) {
    throw Error(source_.place_of(full_name), tensor_item(full_name),
                "a copy of the tensor that the config ties it to", "other values");
  }
}

}  // namespace switchyard
