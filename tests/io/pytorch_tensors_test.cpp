// Hand-made dictionaries of tensors, right and wrong, without an archive around them.
#include "io/pytorch_tensors.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pytorch_bytes.h"

namespace switchyard {
namespace {

using pickled::integer;
using pickled::integers;
using pickled::text;
using pickled::tuple;

// `pickle` must outlive the result.
std::vector<PytorchTensor> read(std::string_view pickle) {
  return read_pytorch_tensors(std::as_bytes(std::span(pickle)), "data.pkl");
}

void expect_refused(const std::string& pickle, const std::string& message) {
  expect_error([&] { read(pickle); }, "data.pkl: " + message);
}

// One tensor 'a' by its pickle.
void expect_value_refused(const std::string& value, const std::string& message) {
  expect_refused(pickled_dictionary({{"a", value}}), "tensor 'a': expected " + message);
}

const PickledTensor kSix = {.storage_elements = 6, .shape = {2, 3}, .strides = {3, 1}};

void expect_tensor_refused(const PickledTensor& tensor, const std::string& message) {
  expect_value_refused(tensor.pickle(), message);
}

TEST(PytorchTensors, TellsContiguousOnes) {
  const auto tensor = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return PytorchTensor{"a", DType::kF32, std::move(shape), std::move(strides), 0, "0", 0};
  };
  EXPECT_TRUE(is_contiguous(tensor({}, {})));
  EXPECT_TRUE(is_contiguous(tensor({2, 3}, {3, 1})));
  EXPECT_TRUE(is_contiguous(tensor({2, 1, 3}, {3, 99, 1})));
  EXPECT_TRUE(is_contiguous(tensor({2, 0}, {7, 7})));
  EXPECT_TRUE(is_contiguous(tensor({1}, {0})));
  EXPECT_FALSE(is_contiguous(tensor({2, 3}, {1, 2})));
  EXPECT_FALSE(is_contiguous(tensor({2, 3}, {4, 1})));
  EXPECT_FALSE(is_contiguous(tensor({3}, {0})));
  EXPECT_FALSE(is_contiguous(tensor({3}, {2})));
  EXPECT_EQ(elements(tensor({2, 3, 4}, {12, 4, 1})), 24);
  EXPECT_EQ(elements(tensor({}, {})), 1);
}

TEST(PytorchTensors, RefusesViewsOutsideTheStorage) {
  const auto refuse = [](int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides,
                         const std::string& message) {
    PickledTensor tensor = kSix;
    tensor.offset = offset;
    tensor.shape = std::move(shape);
    tensor.strides = std::move(strides);
    expect_tensor_refused(tensor, message);
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::string outside = "a view within the 6 elements of the storage, got size [";
  refuse(1, {2, 3}, {3, 1}, outside + "2, 3], stride [3, 1] from element 1");
  refuse(6, {}, {}, outside + "], stride [] from element 6");
  refuse(7, {0}, {1}, outside + "0], stride [1] from element 7");
  refuse(0, {7}, {1}, outside);
  refuse(0, {2}, {6}, outside);
  refuse(0, {3}, {kHuge}, outside);
  refuse(0, {3, 2}, {3, kHuge}, outside);
  refuse(0, {2, 2}, {kHuge, kHuge}, outside);
  refuse(INT64_MAX, {2}, {1}, outside);
  refuse(0, {kHuge}, {0}, "a size below 2^63 bytes, got size [4611686018427387904]");
  refuse(0, {kHuge, 0}, {0, 0}, "a size below 2^63 bytes");
  refuse(0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}, "a size below 2^63 bytes");
  refuse(-1, {2}, {1}, "storage offset of 0 or more, got -1");
  refuse(0, {-2}, {1}, "size of 0 or more, got -2");
  refuse(0, {2}, {-1}, "stride of 0 or more, got -1");
  refuse(0, {2}, {}, "1 strides for 1 dimensions, got 0");
  refuse(0, {}, {1}, "0 strides for 0 dimensions, got 1");
  refuse(0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1),
         "size as a tuple of at most 8, got a tuple of 9");
}

TEST(PytorchTensors, RefusesStorages) {
  PickledTensor tensor = kSix;
  tensor.storage_elements = 5;
  expect_tensor_refused(tensor, "a view within the 5 elements of the storage");
  tensor.storage_elements = -6;
  expect_tensor_refused(tensor, "storage size of 0 or more, got -6");
  tensor.storage_elements = INT64_MAX;
  expect_tensor_refused(tensor, "a storage below 2^63 bytes, got 9223372036854775807 elements");
  tensor = kSix;
  tensor.storage_type = "ComplexFloatStorage";
  expect_refused(pickled_dictionary({{"a", tensor.pickle()}}), "byte ");
}

TEST(PytorchTensors, RefusesOtherCalls) {
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n";
  const std::string type = "ctorch\nFloatStorage\n";
  const auto storage = [&](const std::string& kind, const std::string& storage_type, const std::string& key) {
    return tuple({kind, storage_type, key, text("cpu"), integer(6)}) + "Q";
  };
  const std::string good = storage(text("storage"), type, text("0"));
  const std::string no_hooks = pickled::kOrderedDict;
  const auto call = [&](const std::string& from, const std::string& requires_grad, const std::string& hooks) {
    return rebuild + tuple({from, integer(0), integers({6}), integers({1}), requires_grad, hooks}) + "R";
  };
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n" + tuple({call(good, "\x88", no_hooks), "\x88", no_hooks}) + "R";
  EXPECT_EQ(read(pickled_dictionary({{"a", call(good, "\x88", no_hooks)}, {"b", parameter}})).size(), 2u);
  expect_value_refused(call(good, "N", no_hooks), "requires_grad as True or False, got None");
  expect_value_refused(call(good, "\x89", "}NNs"), "no backward hooks, got a dictionary of 1");
  expect_value_refused(call(good, "\x89", "N"), "no backward hooks, got None");
  expect_value_refused(call("N", "\x89", no_hooks), "a storage, got None");
  expect_value_refused(call(storage(text("module"), type, text("0")), "\x89", no_hooks),
                       "a storage, got 'module'");
  expect_value_refused(call(storage("N", type, text("0")), "\x89", no_hooks),
                       "a text in the storage, got None");
  expect_value_refused(call(storage(text("storage"), "N", text("0")), "\x89", no_hooks),
                       "a typed storage, got None");
  expect_value_refused(call(storage(text("storage"), "ctorch\nfloat8_e5m2\n", text("0")), "\x89", no_hooks),
                       "a typed storage, got torch.float8_e5m2");
  expect_value_refused(call(storage(text("storage"), type, "N"), "\x89", no_hooks),
                       "a text in the storage, got None");
  expect_value_refused(rebuild + tuple({good, integer(0)}) + "R",
                       "6 arguments of a plain tensor, got a tuple of 2");
  expect_value_refused(rebuild + tuple({good, integer(0), integer(6), integers({1}), "\x89", no_hooks}) + "R",
                       "size as a tuple of at most 8, got 6");
  expect_value_refused(
      rebuild + tuple({good, integer(0), tuple({"N"}), integers({1}), "\x89", no_hooks}) + "R",
      "size of 0 or more, got None");
  expect_value_refused("ctorch._utils\n_rebuild_parameter\n" + tuple({"N", "\x89", no_hooks}) + "R",
                       "a tensor, as in a flat dictionary of them, got None");
  expect_value_refused("ctorch._utils\n_rebuild_parameter\n" + tuple({call(good, "\x89", no_hooks)}) + "R",
                       "3 arguments of a parameter, got a tuple of 1");
  expect_value_refused(type + ")R",
                       "a tensor, as in a flat dictionary of them, got a call of torch.FloatStorage");
  expect_value_refused("}", "a tensor, as in a flat dictionary of them, got a dictionary of 0");
}

// Types without a storage type of their own come as one more argument, and count their storage in bytes.
TEST(PytorchTensors, ReadsTypesThatAreArguments) {
  const auto call = [](const std::string& storage_type, int64_t storage_elements, const std::string& dtype) {
    const std::string storage =
        tuple({text("storage"), storage_type, text("0"), text("cpu"), integer(storage_elements)}) + "Q";
    return "ctorch._utils\n_rebuild_tensor_v3\n" +
           tuple({storage, integer(0), integers({3}), integers({1}), "\x89", pickled::kOrderedDict, dtype}) +
           "R";
  };
  const std::string untyped = "ctorch.storage\nUntypedStorage\n";
  const std::string uint16 = "ctorch\nuint16\n";
  const std::string pickle = pickled_dictionary({{"a", call(untyped, 6, uint16)}});
  const std::vector<PytorchTensor> tensors = read(pickle);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].dtype, DType::kU16);
  EXPECT_EQ(tensors[0].storage_bytes, 6);
  expect_value_refused(call(untyped, 5, uint16), "a view within the 2 elements of the storage");
  expect_value_refused(call("ctorch\nFloatStorage\n", 6, uint16),
                       "torch.storage.UntypedStorage, got torch.FloatStorage");
  expect_value_refused(call(untyped, 6, "N"), "a dtype, got None");
  expect_value_refused(call(untyped, 6, untyped), "a dtype, got torch.storage.UntypedStorage");
}

TEST(PytorchTensors, RefusesOtherRoots) {
  expect_refused(pickled::kProto + "N.", "expected a dictionary of tensors, got None");
  expect_refused(pickled::kProto + "}K\x01Ns.", "expected tensor names as keys, got 1");
  const std::string six = kSix.pickle();
  expect_refused(pickled_dictionary({{"a", six}, {"a", six}}),
                 "tensor 'a': expected each name once, got the same name again");
}

}  // namespace
}  // namespace switchyard
