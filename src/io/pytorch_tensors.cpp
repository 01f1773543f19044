#include "io/pytorch_tensors.h"

#include <array>
#include <optional>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/pickle.h"
#include "io/tensor_file.h"

namespace switchyard {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildTensorOfType = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kUntypedStorage = "torch.storage.UntypedStorage";
constexpr size_t kMaxDimensions = 8;  // weights have up to 5
constexpr size_t kMaxTensors = 1'000'000;

struct TypeRow {
  std::string_view global;
  DType dtype;
};

// Types that have a storage type of their own, and types that torch writes as an argument instead.
constexpr std::array<TypeRow, 10> kStorageTypes = {{{"torch.DoubleStorage", DType::kF64},
                                                    {"torch.FloatStorage", DType::kF32},
                                                    {"torch.HalfStorage", DType::kF16},
                                                    {"torch.BFloat16Storage", DType::kBF16},
                                                    {"torch.LongStorage", DType::kI64},
                                                    {"torch.IntStorage", DType::kI32},
                                                    {"torch.ShortStorage", DType::kI16},
                                                    {"torch.CharStorage", DType::kI8},
                                                    {"torch.ByteStorage", DType::kU8},
                                                    {"torch.BoolStorage", DType::kBool}}};
constexpr std::array<TypeRow, 5> kTypes = {{{"torch.float8_e4m3fn", DType::kF8E4M3},
                                            {"torch.float8_e5m2", DType::kF8E5M2},
                                            {"torch.uint64", DType::kU64},
                                            {"torch.uint32", DType::kU32},
                                            {"torch.uint16", DType::kU16}}};

std::vector<std::string_view> allowed_globals() {
  std::vector<std::string_view> globals = {kRebuildTensor, kRebuildTensorOfType, kRebuildParameter,
                                           kUntypedStorage};
  for (const TypeRow& row : kStorageTypes)
    globals.push_back(row.global);
  for (const TypeRow& row : kTypes)
    globals.push_back(row.global);
  return globals;
}

std::optional<DType> dtype_of(std::string_view global, std::span<const TypeRow> rows) {
  for (const TypeRow& row : rows) {
    if (row.global == global) return row.dtype;
  }
  return std::nullopt;
}

// One tensor of the dictionary.
class TensorReader {
 public:
  TensorReader(const Pickle& pickle, const std::string& where, std::string_view name)
      : pickle_(pickle), where_(where), item_(tensor_item(name)) {
    tensor_.name = name;
  }

  PytorchTensor read(const PickleValue& value) {
    if (value.kind == Kind::kCall && value.text == kRebuildParameter) {
      const auto& arguments = tuple_of(pickle_[value.items[0]], 3, "arguments of a parameter");
      bool_of(pickle_[arguments[1]], "requires_grad");
      check_no_hooks(pickle_[arguments[2]]);
      read_call(pickle_[arguments[0]]);
    } else {
      read_call(value);
    }
    check_view();
    return std::move(tensor_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw Error(where_, item_, expected, got);
  }

  // _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks), and with one
  // more argument, dtype, _rebuild_tensor_v3.
  void read_call(const PickleValue& value) {
    const bool has_type = value.kind == Kind::kCall && value.text == kRebuildTensorOfType;
    if (value.kind != Kind::kCall || (value.text != kRebuildTensor && !has_type)) {
      fail("a tensor, as in a flat dictionary of them", describe(value));
    }
    // An argument more says that the elements are to be conjugated or negated.
    const size_t count = has_type ? 7 : 6;
    const auto& arguments = tuple_of(pickle_[value.items[0]], count, "arguments of a plain tensor");
    read_storage(pickle_[arguments[0]], has_type ? &pickle_[arguments[6]] : nullptr);
    tensor_.first_element = int_of(pickle_[arguments[1]], "storage offset");
    tensor_.shape = ints_of(pickle_[arguments[2]], "size");
    tensor_.strides = ints_of(pickle_[arguments[3]], "stride");
    bool_of(pickle_[arguments[4]], "requires_grad");
    check_no_hooks(pickle_[arguments[5]]);
  }

  // ('storage', type, key, location, number of elements). The location, a device, says nothing about a file.
  void read_storage(const PickleValue& value, const PickleValue* type) {
    if (value.kind != Kind::kPersistent) fail("a storage", describe(value));
    const auto& id = tuple_of(pickle_[value.items[0]], 5, "items of a storage");
    if (text_of(pickle_[id[0]]) != "storage") fail("a storage", describe(pickle_[id[0]]));
    const PickleValue& storage_type = pickle_[id[1]];
    std::optional<DType> dtype;
    int64_t element_bytes = 1;  // of the storage
    if (type == nullptr) {
      if (storage_type.kind == Kind::kGlobal) dtype = dtype_of(storage_type.text, kStorageTypes);
      if (!dtype) fail("a typed storage", describe(storage_type));
      element_bytes = size_bytes(*dtype);
    } else {
      if (storage_type.kind != Kind::kGlobal || storage_type.text != kUntypedStorage) {
        fail(std::string(kUntypedStorage), describe(storage_type));
      }
      if (type->kind == Kind::kGlobal) dtype = dtype_of(type->text, kTypes);
      if (!dtype) fail("a dtype", describe(*type));
    }
    tensor_.dtype = *dtype;
    tensor_.storage_key = text_of(pickle_[id[2]]);
    text_of(pickle_[id[3]]);
    const int64_t count = int_of(pickle_[id[4]], "storage size");
    const auto bytes = checked_mul(count, element_bytes);
    if (!bytes) fail("a storage below 2^63 bytes", fmt::format("{} elements", count));
    tensor_.storage_bytes = *bytes;
  }

  const std::vector<PickleId>& tuple_of(const PickleValue& value, size_t count, std::string_view what) const {
    if (value.kind != Kind::kTuple || value.items.size() != count) {
      fail(fmt::format("{} {}", count, what), describe(value));
    }
    return value.items;
  }

  std::string_view text_of(const PickleValue& value) const {
    if (value.kind != Kind::kText) fail("a text in the storage", describe(value));
    return value.text;
  }

  int64_t int_of(const PickleValue& value, std::string_view what) const {
    if (value.kind != Kind::kInt || value.number < 0) {
      fail(fmt::format("{} of 0 or more", what), describe(value));
    }
    return value.number;
  }

  void bool_of(const PickleValue& value, std::string_view what) const {
    if (value.kind != Kind::kBool) fail(fmt::format("{} as True or False", what), describe(value));
  }

  std::vector<int64_t> ints_of(const PickleValue& value, std::string_view what) const {
    if (value.kind != Kind::kTuple || value.items.size() > kMaxDimensions) {
      fail(fmt::format("{} as a tuple of at most {}", what, kMaxDimensions), describe(value));
    }
    std::vector<int64_t> ints;
    for (const PickleId id : value.items)
      ints.push_back(int_of(pickle_[id], what));
    return ints;
  }

  void check_no_hooks(const PickleValue& value) const {
    if (value.kind != Kind::kDict || !value.items.empty()) fail("no backward hooks", describe(value));
  }

  // The last element of the view lies in the storage.
  void check_view() const {
    if (tensor_.strides.size() != tensor_.shape.size()) {
      fail(fmt::format("{} strides for {} dimensions", tensor_.shape.size(), tensor_.shape.size()),
           fmt::format("{}", tensor_.strides.size()));
    }
    const std::string shape = fmt::format("[{}]", fmt::join(tensor_.shape, ", "));
    std::optional<int64_t> bytes = size_bytes(tensor_.dtype);
    for (const int64_t dim : tensor_.shape) {
      bytes = checked_mul(*bytes, dim);
      if (!bytes) fail("a size below 2^63 bytes", "size " + shape);
    }
    const bool is_empty = *bytes == 0;
    std::optional<int64_t> last = tensor_.first_element - (is_empty ? 1 : 0);
    for (size_t i = 0; i < tensor_.shape.size() && !is_empty && last; ++i) {
      const auto step = checked_mul(tensor_.shape[i] - 1, tensor_.strides[i]);
      last = step ? checked_add(*last, *step) : std::nullopt;
    }
    const int64_t in_storage = tensor_.storage_bytes / size_bytes(tensor_.dtype);
    if (last && *last < in_storage) return;
    fail(fmt::format("a view within the {} elements of the storage", in_storage),
         fmt::format("size {}, stride [{}] from element {}", shape, fmt::join(tensor_.strides, ", "),
                     tensor_.first_element));
  }

  const Pickle& pickle_;
  const std::string& where_;
  const std::string item_;
  PytorchTensor tensor_{};
};

}  // namespace

std::vector<PytorchTensor> read_pytorch_tensors(std::span<const std::byte> pickle, const std::string& where) {
  const Pickle tree = Pickle::parse(pickle, allowed_globals(), where);
  const PickleValue& root = tree.root();
  if (root.kind != Kind::kDict) throw Error(where, "", "a dictionary of tensors", describe(root));
  std::vector<PytorchTensor> tensors;
  std::set<std::string_view> names;
  if (root.items.size() / 2 > kMaxTensors) {
    throw Error(where, "", fmt::format("at most {} tensors", kMaxTensors), describe(root));
  }
  for (size_t i = 0; i < root.items.size(); i += 2) {
    const PickleValue& key = tree[root.items[i]];
    if (key.kind != Kind::kText) throw Error(where, "", "tensor names as keys", describe(key));
    if (!names.insert(key.text).second) {
      throw Error(where, tensor_item(key.text), "each name once", "the same name again");
    }
    tensors.push_back(TensorReader(tree, where, key.text).read(tree[root.items[i + 1]]));
  }
  return tensors;
}

int64_t elements(const PytorchTensor& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.shape)
    count *= dim;
  return count;
}

bool is_contiguous(const PytorchTensor& tensor) {
  if (elements(tensor) == 0) return true;
  int64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

}  // namespace switchyard
