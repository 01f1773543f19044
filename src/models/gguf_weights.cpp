#include "models/gguf_weights.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "base/error.h"
#include "io/gguf_config.h"

namespace switchyard {
namespace {

// Converters drop dimensions of 1.
std::vector<int64_t> squeezed(std::span<const int64_t> dims) {
  std::vector<int64_t> kept;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(kept), [](int64_t dim) { return dim != 1; });
  return kept;
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  return text.replace(text.find(part), part.size(), by);
}

std::vector<float> decoded(const GgufFile& file, const GgufTensor& tensor) {
  const int64_t cols = tensor.cols();
  const int64_t rows = tensor.size_bytes / tensor.row_bytes();
  const Matrix matrix{
      .data = file.data(tensor), .dtype = tensor.dtype, .rows = rows, .cols = cols, .format = tensor.format};
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (int64_t row = 0; row < rows; ++row)
    decode_row(matrix, row, 0, cols, values.data() + row * cols);
  return values;
}

}  // namespace

GgufWeights::GgufWeights(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {
  const Json config = gguf_config(*file_);
  permuted_ = gguf_permutes_rows(gguf_architecture(*file_));
  heads_ = config["num_attention_heads"];
  kv_heads_ = config["num_key_value_heads"];
}

Tensor GgufWeights::weight(const std::string& name, const Shape& shape) {
  const Rows rows = find(name, shape);
  if (rows.tensor->format != MatrixFormat::kPlain) {
    throw Error(file_->path(), tensor_item(rows.tensor->name), "F32, F16 or BF16",
                std::string(switchyard::name(rows.tensor->format)));
  }
  return Tensor::external(rows.data, rows.tensor->dtype, shape, rows.keep_alive);
}

Weight GgufWeights::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const std::string full_name = name + ".weight";
  const auto gguf = gguf_name(full_name);
  if (gguf && is_split_kv_b(*gguf)) return join_kv_b(*gguf, {rows, cols});
  const Rows found = find(full_name, {rows, cols});
  if (found.tensor->format == MatrixFormat::kPlain) {
    return Tensor::external(found.data, found.tensor->dtype, {rows, cols}, found.keep_alive);
  }
  return Weight(PackedMatrix{
      .format = found.tensor->format,
      .rows = rows,
      .cols = cols,
      .data = Tensor::external(found.data, DType::kU8, {rows, found.tensor->row_bytes()}, found.keep_alive),
      .scales = {},
      .zeros = {},
      .group_of_column = {}});
}

bool GgufWeights::has(const std::string& name) const {
  const auto gguf = gguf_name(name);
  return gguf && (file_->find(gguf->tensor) != nullptr || file_->find(gguf->own_tensor) != nullptr);
}

GgufWeights::Rows GgufWeights::find(const std::string& name, const Shape& shape) {
  const auto gguf = gguf_name(name);
  if (!gguf)
    throw Error(file_->path(), tensor_item(name), "a tensor", "a name that GGUF files have none for");
  const GgufTensor* merged = file_->find(gguf->tensor);
  const GgufTensor* tensor = merged != nullptr ? merged : file_->find(gguf->own_tensor);
  if (tensor == nullptr) {
    throw Error(file_->path(), tensor_item(gguf->tensor),
                fmt::format("shape {} by the metadata", to_string(shape)), "no such tensor in the file");
  }
  ++used_[tensor];
  const int64_t rows = shape.elements() / shape[shape.rank() - 1];
  if (tensor != merged || gguf->expert < 0) {
    check_shape(*tensor, tensor->shape, shape);
    return in_order(name, {tensor, file_->data(*tensor), rows, file_});
  }
  check_shape(*tensor, std::span(tensor->shape).subspan(1), shape);
  if (gguf->expert >= tensor->shape[0]) {
    throw Error(file_->path(), tensor_item(tensor->name), fmt::format("an expert {}", gguf->expert),
                fmt::format("{} experts", tensor->shape[0]));
  }
  return {tensor, file_->data(*tensor) + gguf->expert * rows * tensor->row_bytes(), rows, file_};
}

void GgufWeights::check_shape(const GgufTensor& tensor, std::span<const int64_t> dims,
                              const Shape& shape) const {
  if (squeezed(dims) == squeezed(shape.dims())) return;
  throw Error(file_->path(), tensor_item(tensor.name),
              fmt::format("shape {} by the metadata", to_string(shape)),
              fmt::format("[{}]", fmt::join(dims, ", ")));
}

// Row 2i + s of a head is row s * A/2 + i of the checkpoint's head of A rows.
GgufWeights::Rows GgufWeights::in_order(const std::string& name, Rows rows) const {
  const bool is_q = name.find(".q_proj.") != std::string::npos;
  const bool is_k = name.find(".k_proj.") != std::string::npos;
  if (!permuted_ || (!is_q && !is_k)) return rows;
  const bool is_bias = name.ends_with(".bias");
  const int64_t count = is_bias ? rows.tensor->cols() : rows.count;
  const int64_t bytes = is_bias ? size_bytes(rows.tensor->dtype) : rows.tensor->row_bytes();
  const int64_t head_rows = count / (is_q ? heads_ : kv_heads_);
  const auto copy = std::make_shared_for_overwrite<std::byte[]>(static_cast<size_t>(count * bytes));
  for (int64_t row = 0; row < count; ++row) {
    const int64_t head = row / head_rows * head_rows;
    const int64_t half = (row - head) / (head_rows / 2);
    const int64_t i = (row - head) % (head_rows / 2);
    std::memcpy(copy.get() + row * bytes, rows.data + (head + 2 * i + half) * bytes,
                static_cast<size_t>(bytes));
  }
  rows.data = copy.get();
  rows.keep_alive = copy;
  return rows;
}

bool GgufWeights::is_split_kv_b(const GgufName& name) const {
  return name.tensor.ends_with(".attn_kv_b.weight") && file_->find(name.tensor) == nullptr &&
         file_->find(replaced(name.tensor, "attn_kv_b", "attn_k_b")) != nullptr;
}

// kv_b_proj [H * (N + B), R] from k_b [H, R, N] and v_b [H, B, R], where N is the width of a key without its
// rotary part, B that of a value, R the rank.
Tensor GgufWeights::join_kv_b(const GgufName& name, const Shape& shape) {
  const auto part = [&](const char* leaf) -> const GgufTensor& {
    const std::string part_name = replaced(name.tensor, "attn_kv_b", leaf);
    const GgufTensor* found = file_->find(part_name);
    if (found == nullptr || found->shape.size() != 3 || found->shape[0] != heads_) {
      throw Error(file_->path(), tensor_item(part_name), fmt::format("a tensor [{}, ., .]", heads_),
                  found == nullptr ? "none" : fmt::format("[{}]", fmt::join(found->shape, ", ")));
    }
    ++used_[found];
    return *found;
  };
  const GgufTensor& k_b = part("attn_k_b");
  const GgufTensor& v_b = part("attn_v_b");
  const int64_t rank = shape[1];
  const int64_t key_dim = k_b.shape[2];
  const int64_t value_dim = v_b.shape[1];
  const Shape k_shape{heads_, rank, shape[0] / heads_ - value_dim};
  check_shape(k_b, k_b.shape, k_shape);
  check_shape(v_b, v_b.shape, {heads_, value_dim, rank});
  const std::vector<float> keys = decoded(*file_, k_b);
  const std::vector<float> values = decoded(*file_, v_b);
  const auto joined = std::make_shared_for_overwrite<float[]>(static_cast<size_t>(shape.elements()));
  float* out = joined.get();
  for (int64_t head = 0; head < heads_; ++head) {
    for (int64_t n = 0; n < key_dim; ++n) {
      for (int64_t r = 0; r < rank; ++r)
        *out++ = keys[static_cast<size_t>((head * rank + r) * key_dim + n)];
    }
    out = std::copy_n(values.begin() + head * value_dim * rank, value_dim * rank, out);
  }
  return Tensor::external(joined.get(), DType::kF32, shape, joined);
}

void GgufWeights::finish() {
  for (const GgufTensor& tensor : file_->tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;  // part of the config
    const auto found = used_.find(&tensor);
    const bool merged = tensor.name.find("_exps.") != std::string::npos;
    if (found != used_.end() && (!merged || found->second == tensor.shape[0])) continue;
    throw Error(file_->path(), tensor_item(tensor.name), "only tensors that the metadata implies",
                found == used_.end()
                    ? "one that the model has no use for"
                    : fmt::format("{} experts where it has {}", tensor.shape[0], found->second));
  }
}

}  // namespace switchyard
