#include "io/packed/matrix_tensors.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"

namespace switchyard {

bool MatrixTensors::has(std::string_view leaf, DType dtype) const {
  const TensorInfo* info = checkpoint_.find(full_name(leaf));
  return info != nullptr && info->dtype == dtype;
}

const std::vector<int64_t>& MatrixTensors::shape(std::string_view leaf) const {
  const TensorInfo* info = checkpoint_.find(full_name(leaf));
  if (info == nullptr) {
    throw Error(checkpoint_.folder(), tensor_item(full_name(leaf)),
                fmt::format("one beside the other tensors of '{}'", printable(name_)),
                "no such tensor in the checkpoint");
  }
  return info->shape;
}

Checkpoint::View MatrixTensors::to_copy(std::string_view leaf, std::initializer_list<DType> dtypes,
                                        const Shape& shape) {
  if (!std::ranges::equal(this->shape(leaf), shape.dims())) {
    refuse(leaf, fmt::format("shape {}", to_string(shape)),
           fmt::format("[{}]", fmt::join(this->shape(leaf), ", ")));
  }
  const Checkpoint::View view = checkpoint_.tensor(full_name(leaf));
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
    std::vector<std::string_view> names;
    for (const DType dtype : dtypes)
      names.push_back(switchyard::name(dtype));
    refuse(leaf, fmt::format("dtype {}", fmt::join(names, " or ")),
           std::string(switchyard::name(view.dtype)));
  }
  used_.push_back(full_name(leaf));
  copied_.push_back(full_name(leaf));
  return view;
}

Tensor MatrixTensors::in_place(std::string_view leaf, std::initializer_list<DType> dtypes,
                               const Shape& shape) {
  const Checkpoint::View view = to_copy(leaf, dtypes, shape);
  copied_.pop_back();
  return Tensor::external(view.data, view.dtype, shape, view.keep_alive);
}

void MatrixTensors::release_copied() {
  for (const std::string& tensor : copied_)
    checkpoint_.release_pages(tensor);
  copied_.clear();
}

PackedScheme MatrixTensors::scheme(const QuantizationConfig& config,
                                   const std::function<bool(const PackedScheme&)>& fits) const {
  std::optional<PackedScheme> found;
  for (PackedScheme s : config.schemes) {
    if (s.rows_per_group == 0) s.rows_per_group = rows_;
    if (s.cols_per_group == 0) s.cols_per_group = cols_;
    if (!fits(s)) continue;
    if (!found) found = s;
    const bool same_groups = s.rows_per_group == found->rows_per_group &&
                             s.cols_per_group == found->cols_per_group && s.format == found->format;
    if (!same_groups) {
      throw Error(config.path, tensor_item(name_), "one scheme that fits the tensors' shapes",
                  fmt::format("several: {}", shapes()));
    }
    // What only some of them promise is not promised.
    found->symmetric = found->symmetric && s.symmetric;
    found->any_order = found->any_order || s.any_order;
  }
  if (!found) {
    throw Error(config.path, tensor_item(name_),
                fmt::format("bits and groups that fit a matrix [{}, {}]", rows_, cols_), shapes());
  }
  return *found;
}

std::string MatrixTensors::shapes() const {
  std::string text;
  for (const std::string& tensor : checkpoint_.names_under(name_ + ".")) {
    text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ", printable(tensor.substr(name_.size() + 1)),
                        fmt::join(checkpoint_.find(tensor)->shape, ", "));
  }
  return text;
}

void MatrixTensors::refuse(std::string_view leaf, const std::string& expected, const std::string& got) const {
  throw Error(checkpoint_.tensor(full_name(leaf)).file, tensor_item(full_name(leaf)), expected, got);
}

}  // namespace switchyard
