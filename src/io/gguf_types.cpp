#include "io/gguf_types.h"

namespace switchyard {
namespace {

constexpr GgufType plain(uint32_t id, std::string_view name, DType dtype) {
  return {id, name, true, MatrixFormat::kPlain, dtype};
}
constexpr GgufType blocks(uint32_t id, std::string_view name, MatrixFormat format) {
  return {id, name, true, format, DType::kU8};
}

// The types without an implementation here stand in the list so that errors can name them.
constexpr GgufType kTypes[] = {
    plain(0, "F32", DType::kF32),
    plain(1, "F16", DType::kF16),
    plain(30, "BF16", DType::kBF16),
    blocks(2, "Q4_0", MatrixFormat::kQ4_0),
    blocks(3, "Q4_1", MatrixFormat::kQ4_1),
    blocks(8, "Q8_0", MatrixFormat::kQ8_0),
    blocks(12, "Q4_K", MatrixFormat::kQ4K),
    blocks(13, "Q5_K", MatrixFormat::kQ5K),
    blocks(14, "Q6_K", MatrixFormat::kQ6K),
    {6, "Q5_0", false},
    {7, "Q5_1", false},
    {9, "Q8_1", false},
    {10, "Q2_K", false},
    {11, "Q3_K", false},
    {15, "Q8_K", false},
    {16, "IQ2_XXS", false},
    {17, "IQ2_XS", false},
    {18, "IQ3_XXS", false},
    {19, "IQ1_S", false},
    {20, "IQ4_NL", false},
    {21, "IQ3_S", false},
    {22, "IQ2_S", false},
    {23, "IQ4_XS", false},
    {24, "I8", false},
    {25, "I16", false},
    {26, "I32", false},
    {27, "I64", false},
    {28, "F64", false},
    {29, "IQ1_M", false},
    {34, "TQ1_0", false},
    {35, "TQ2_0", false},
    {39, "MXFP4", false},
};

}  // namespace

const GgufType* find_gguf_type(uint32_t id) {
  for (const GgufType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

}  // namespace switchyard
