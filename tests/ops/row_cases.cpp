// Ops on rows and elements, and the loss.
#include <fmt/format.h>

#include "ops/op_case.h"

namespace switchyard {
namespace {

constexpr int64_t kRowCounts[] = {0, 1, 2, 3, 5, 31, 33, 64};
constexpr int64_t kColCounts[] = {1, 20, 31, 36, 64, 192, 257};
constexpr DType kWeightTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

std::vector<int32_t> ids(int64_t count, int64_t limit) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<int32_t>((i * 7 + 3) % limit));
  return out;
}

OpCase embedding_case(int64_t rows, int64_t cols, DType dtype) {
  return {fmt::format("embedding_{}_{}x{}", name(dtype), rows, cols), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            constexpr int64_t V = 17;
            float* out = d.float_output(r.count() * cols);
            d.backend().embedding({d.matrix(uniform(1, V * cols), V, cols, dtype),
                                   d.ints(row_slice(ids(rows, V), r.begin, r.end, 1)), r.count(), out});
            return {{"out", d.read(out, r.count() * cols), 0}};
          }};
}

OpCase rms_norm_case(int64_t rows, int64_t cols, DType dtype) {
  return {fmt::format("rms_norm_{}_{}x{}", name(dtype), rows, cols), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const std::vector<float> x = uniform(2, rows * cols, -3, 3);
            float* out = d.float_output(r.count() * cols);
            d.backend().rms_norm({d.floats(row_slice(x, r.begin, r.end, cols)),
                                  d.weights(uniform(3, cols), dtype), dtype, r.count(), cols, 1e-6f, out});
            return {{"out", d.read(out, r.count() * cols), sum_tolerance(cols)}};
          }};
}

OpCase add_case(int64_t rows, int64_t cols) {
  return {fmt::format("add_{}x{}", rows, cols), rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            float* a = d.floats(row_slice(uniform(4, rows * cols), r.begin, r.end, cols));
            const float* b = d.floats(row_slice(uniform(5, rows * cols), r.begin, r.end, cols));
            float* out = d.float_output(r.count() * cols);
            d.backend().add({a, b, 0.3f, r.count() * cols, out});
            d.backend().add({a, b, -2.0f, r.count() * cols, a});  // in place
            return {{"out", d.read(out, r.count() * cols), 0x1p-23},
                    {"in place", d.read(a, r.count() * cols), 0x1p-23}};
          }};
}

OpCase swiglu_case(int64_t rows, int64_t cols) {
  return {fmt::format("swiglu_{}x{}", rows, cols), rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t count = r.count() * cols;
            const float* gate = d.floats(row_slice(uniform(6, rows * cols, -30, 30), r.begin, r.end, cols));
            const float* up = d.floats(row_slice(uniform(7, rows * cols), r.begin, r.end, cols));
            float* out = d.float_output(count);
            d.backend().swiglu({gate, up, count, out});
            return {{"out", d.read(out, count), kExpTolerance}};
          }};
}

OpCase swiglu_backward_case(int64_t rows, int64_t cols) {
  return {fmt::format("swiglu_backward_{}x{}", rows, cols), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t count = r.count() * cols;
            const auto part = [&](uint32_t seed, float size) {
              return d.floats(row_slice(uniform(seed, rows * cols, -size, size), r.begin, r.end, cols));
            };
            const SwigluArgs forward{part(8, 5), part(9, 1), count, nullptr};
            float* d_gate = part(10, 1);
            float* d_up = part(11, 1);
            d.backend().swiglu_backward({forward, part(12, 1), d_gate, d_up});
            d.backend().swiglu_backward({forward, part(12, 1), nullptr, nullptr});
            return {{"d_gate", d.read(d_gate, count), kExpTolerance},
                    {"d_up", d.read(d_up, count), kExpTolerance}};
          }};
}

OpCase gated_add_case(int64_t rows, int64_t cols) {
  return {fmt::format("gated_add_{}x{}", rows, cols), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            float* out = d.float_output(r.count() * cols);
            d.backend().gated_add({d.floats(row_slice(uniform(13, rows * cols), r.begin, r.end, cols)),
                                   d.floats(row_slice(uniform(14, rows * cols), r.begin, r.end, cols)),
                                   d.floats(row_slice(uniform(15, rows, -8, 8), r.begin, r.end, 1)),
                                   r.count(), cols, out});
            return {{"out", d.read(out, r.count() * cols), kExpTolerance}};
          }};
}

OpCase gather_rows_case(int64_t rows, int64_t cols) {
  return {fmt::format("gather_rows_{}x{}", rows, cols), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            constexpr int64_t kSource = 9;
            float* out = d.float_output(r.count() * cols);
            std::vector<int32_t> index = ids(rows, kSource);
            if (rows > 4) index[3] = -1;
            d.backend().gather_rows({d.floats(uniform(16, kSource * cols)),
                                     d.ints(row_slice(index, r.begin, r.end, 1)), r.count(), cols, out});
            return {{"out", d.read(out, r.count() * cols), 0}};
          }};
}

OpCase copy_columns_case(int64_t rows, int64_t cols, bool accumulate) {
  return {fmt::format("copy_columns_{}x{}{}", rows, cols, accumulate ? "_accumulate" : ""), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t x_stride = cols + 3;
            const int64_t out_stride = cols + 2;  // the two columns beside it stay as they are
            float* out = d.floats(row_slice(uniform(21, rows * out_stride), r.begin, r.end, out_stride));
            d.backend().copy_columns(
                {.x = d.floats(row_slice(uniform(22, rows * x_stride), r.begin, r.end, x_stride)) + 1,
                 .x_stride = x_stride,
                 .rows = r.count(),
                 .cols = cols,
                 .accumulate = accumulate,
                 .out = out + 1,
                 .out_stride = out_stride});
            return {{"out", d.read(out, r.count() * out_stride), 0}};
          }};
}

// Every third row does not count.
std::vector<int32_t> targets(int64_t rows, int64_t vocab) {
  std::vector<int32_t> out = ids(rows, vocab);
  for (size_t t = 2; t < out.size(); t += 3)
    out[t] = -100;
  return out;
}

OpCase cross_entropy_case(int64_t rows, int64_t vocab) {
  return {fmt::format("cross_entropy_{}x{}", rows, vocab), rows, false,
          [=](Device& d, Rows) -> std::vector<Output> {
            float* lse = d.float_output(rows);
            float* loss = d.float_output(1);
            const CrossEntropyArgs forward{d.floats(uniform(17, rows * vocab, -20, 20)),
                                           d.ints(targets(rows, vocab)),
                                           rows,
                                           vocab,
                                           lse,
                                           loss};
            d.backend().cross_entropy(forward);
            float* d_logits = d.floats(uniform(18, rows * vocab));
            d.backend().cross_entropy_backward({forward, d.floats({0.7f}), d_logits});
            return {{"log_sum_exp", d.read(lse, rows), kExpTolerance},
                    {"loss", d.read(loss, 1), kExpTolerance},
                    // the log-sum-exp, up to 20, was rounded to float32
                    {"d_logits", d.read(d_logits, rows * vocab), 4 * kExpTolerance}};
          }};
}

}  // namespace

std::vector<OpCase> row_cases() {
  std::vector<OpCase> cases;
  for (const int64_t rows : kRowCounts) {
    for (const int64_t cols : kColCounts) {
      cases.push_back(add_case(rows, cols));
      cases.push_back(swiglu_case(rows, cols));
      cases.push_back(swiglu_backward_case(rows, cols));
      cases.push_back(gated_add_case(rows, cols));
      cases.push_back(gather_rows_case(rows, cols));
      cases.push_back(copy_columns_case(rows, cols, false));
      cases.push_back(copy_columns_case(rows, cols, true));
      cases.push_back(cross_entropy_case(rows, cols));
    }
  }
  for (const DType dtype : kWeightTypes) {
    for (const int64_t cols : kColCounts) {
      for (const int64_t rows : {0, 1, 5, 33}) {
        cases.push_back(embedding_case(rows, cols, dtype));
        cases.push_back(rms_norm_case(rows, cols, dtype));
      }
    }
  }
  // Enough work for several threads.
  cases.push_back(add_case(65, 4099));
  cases.push_back(swiglu_case(65, 4099));
  cases.push_back(rms_norm_case(65, 4099, DType::kBF16));
  cases.push_back(cross_entropy_case(17, 20011));
  return cases;
}

}  // namespace switchyard
