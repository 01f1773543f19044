#include "ops/ops.h"

#include "base/error.h"
#include "ops/tape.h"

namespace switchyard {
namespace {

// x weight^T (+ bias)
Tensor matmul(Context& c, const Tensor& x, const Weight& weight, const Tensor& bias) {
  Dim T{"T"}, K{"K", weight.cols()}, N{"N", weight.rows()};
  check_shape("linear", "x", x, {&T, &K});
  if (bias) check_shape("linear", "bias", bias, {&N});
  Tensor out = make_result(c, {T.value, N.value}, {&x, &weight.plain, &bias});
  c.backend.linear({.x = x.f32(),
                    .weight = weight.matrix(),
                    .bias = bias ? bias.data() : nullptr,
                    .bias_dtype = bias.dtype(),
                    .rows = T.value,
                    .out = out.f32()});
  if (!is_taped(c, out)) return out;
  c.tape->record(out, [=](Context& b, const float* d_out) {
    if (float* d_x = gradient(b, x)) {
      b.backend.linear_backward_input(
          {.d_out = d_out, .weight = weight.matrix(), .rows = T.value, .d_x = d_x});
    }
    float* d_weight = gradient(b, weight.plain);
    float* d_bias = gradient(b, bias);
    if (d_weight == nullptr && d_bias == nullptr) return;
    b.backend.linear_backward_weight({.d_out = d_out,
                                      .x = x.f32(),
                                      .rows = T.value,
                                      .out_features = N.value,
                                      .in_features = K.value,
                                      .d_weight = d_weight,
                                      .d_bias = d_bias});
  });
  return out;
}

Tensor upload(Context& c, DType dtype, const void* values, size_t count) {
  Tensor out = Tensor::empty(c.arena, dtype, {static_cast<int64_t>(count)});
  c.backend.copy_from_host(out.mutable_data(), values, out.bytes());
  return out;
}

}  // namespace

Tensor embedding(Context& c, const Tensor& ids, const Weight& table) {
  Dim T{"T"};
  const int64_t D = table.cols();
  check_shape("embedding", "ids", ids, {&T});
  Tensor out = make_result(c, {T.value, D}, {&table.plain});
  c.backend.embedding({.table = table.matrix(), .ids = ids.i32(), .tokens = T.value, .out = out.f32()});
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      b.backend.embedding_backward({.ids = ids.i32(),
                                    .d_out = d_out,
                                    .tokens = T.value,
                                    .hidden = D,
                                    .d_table = gradient(b, table.plain)});
    });
  }
  return out;
}

Tensor rms_norm(Context& c, const Tensor& x, const Tensor& weight, float eps) {
  Dim T{"T"}, D{"D"};
  check_shape("rms_norm", "x", x, {&T, &D});
  check_shape("rms_norm", "weight", weight, {&D});
  Tensor out = make_result(c, x.shape(), {&x, &weight});
  const auto args = [=](float* to) -> RmsNormArgs {
    return {.x = x.f32(),
            .weight = weight.data(),
            .weight_dtype = weight.dtype(),
            .rows = T.value,
            .cols = D.value,
            .eps = eps,
            .out = to};
  };
  c.backend.rms_norm(args(out.f32()));
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      b.backend.rms_norm_backward(
          {.forward = args(nullptr), .d_out = d_out, .d_x = gradient(b, x), .d_weight = gradient(b, weight)});
    });
  }
  return out;
}

Tensor linear(Context& c, const Tensor& x, const Linear& w) {
  Tensor out = matmul(c, x, w.weight, w.bias);
  if (!w.lora) return out;
  const Tensor low = matmul(c, x, w.lora->a, {});  // [T, R]
  return add(c, out, matmul(c, low, w.lora->b, {}), w.lora->scale);
}

Tensor add(Context& c, const Tensor& a, const Tensor& b, float scale) {
  SY_CHECK(a.shape() == b.shape(), "add: {} and {}", to_string(a.shape()), to_string(b.shape()));
  Tensor out = make_result(c, a.shape(), {&a, &b});
  c.backend.add({.a = a.f32(), .b = b.f32(), .scale = scale, .count = a.elements(), .out = out.f32()});
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& context, const float* d_out) {
      const auto accumulate = [&](const Tensor& input, float factor) {
        float* d_input = gradient(context, input);
        if (d_input == nullptr) return;
        context.backend.add(
            {.a = d_input, .b = d_out, .scale = factor, .count = out.elements(), .out = d_input});
      };
      accumulate(a, 1.0f);
      accumulate(b, scale);
    });
  }
  return out;
}

Tensor swiglu(Context& c, const Tensor& gate, const Tensor& up) {
  SY_CHECK(gate.shape() == up.shape(), "swiglu: {} and {}", to_string(gate.shape()), to_string(up.shape()));
  Tensor out = make_result(c, gate.shape(), {&gate, &up});
  const auto args = [=](float* to) -> SwigluArgs {
    return {.gate = gate.f32(), .up = up.f32(), .count = gate.elements(), .out = to};
  };
  c.backend.swiglu(args(out.f32()));
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      b.backend.swiglu_backward(
          {.forward = args(nullptr), .d_out = d_out, .d_gate = gradient(b, gate), .d_up = gradient(b, up)});
    });
  }
  return out;
}

Tensor gated_add(Context& c, const Tensor& a, const Tensor& b, const Tensor& gate) {
  Dim T{"T"}, D{"D"}, one{"1", 1};
  check_shape("gated_add", "a", a, {&T, &D});
  check_shape("gated_add", "b", b, {&T, &D});
  check_shape("gated_add", "gate", gate, {&T, &one});
  Tensor out = make_result(c, a.shape(), {&a, &b, &gate});
  const auto args = [=](float* to) -> GatedAddArgs {
    return {.a = a.f32(), .b = b.f32(), .gate = gate.f32(), .rows = T.value, .cols = D.value, .out = to};
  };
  c.backend.gated_add(args(out.f32()));
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& context, const float* d_out) {
      context.backend.gated_add_backward({.forward = args(nullptr),
                                          .d_out = d_out,
                                          .d_a = gradient(context, a),
                                          .d_b = gradient(context, b),
                                          .d_gate = gradient(context, gate)});
    });
  }
  return out;
}

Tensor gather_rows(Context& c, const Tensor& x, const Tensor& index) {
  Dim M{"M"}, T{"T"}, D{"D"};
  check_shape("gather_rows", "index", index, {&M});
  check_shape("gather_rows", "x", x, {&T, &D});
  Tensor out = make_result(c, {M.value, D.value}, {&x});
  c.backend.gather_rows(
      {.x = x.f32(), .index = index.i32(), .rows = M.value, .cols = D.value, .out = out.f32()});
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      b.backend.gather_rows_backward(
          {.d_out = d_out, .index = index.i32(), .rows = M.value, .cols = D.value, .d_x = gradient(b, x)});
    });
  }
  return out;
}

namespace {

// Copies columns of x into columns of `out`, which make_result has made of it.
void copy_columns(Context& c, const Tensor& x, int64_t from, const Tensor& out, int64_t to, int64_t cols) {
  const int64_t x_stride = x.dim(1);
  const int64_t out_stride = out.dim(1);
  const int64_t rows = x.dim(0);
  c.backend.copy_columns({.x = x.f32() + from,
                          .x_stride = x_stride,
                          .rows = rows,
                          .cols = cols,
                          .accumulate = false,
                          .out = out.f32() + to,
                          .out_stride = out_stride});
  if (!is_taped(c, out) || !x.requires_grad()) return;
  c.tape->record(out, [=](Context& b, const float* d_out) {
    b.backend.copy_columns({.x = d_out + to,
                            .x_stride = out_stride,
                            .rows = rows,
                            .cols = cols,
                            .accumulate = true,
                            .out = gradient(b, x) + from,
                            .out_stride = x_stride});
  });
}

}  // namespace

Tensor columns(Context& c, const Tensor& x, int64_t begin, int64_t end) {
  Dim T{"T"}, N{"N"};
  check_shape("columns", "x", x, {&T, &N});
  SY_CHECK(0 <= begin && begin <= end && end <= N.value, "columns [{}, {}) of {}", begin, end, N.value);
  Tensor out = make_result(c, {T.value, end - begin}, {&x});
  copy_columns(c, x, begin, out, 0, end - begin);
  return out;
}

Tensor concat_columns(Context& c, const Tensor& a, const Tensor& b) {
  Dim T{"T"}, N{"N"}, M{"M"};
  check_shape("concat_columns", "a", a, {&T, &N});
  check_shape("concat_columns", "b", b, {&T, &M});
  Tensor out = make_result(c, {T.value, N.value + M.value}, {&a, &b});
  copy_columns(c, a, 0, out, 0, N.value);
  copy_columns(c, b, 0, out, N.value, M.value);
  return out;
}

Tensor cross_entropy(Context& c, const Tensor& logits, const Tensor& targets) {
  Dim T{"T"}, V{"V"};
  check_shape("cross_entropy", "logits", logits, {&T, &V});
  check_shape("cross_entropy", "targets", targets, {&T});
  Tensor loss = make_result(c, {1}, {&logits});
  const Tensor log_sum_exp = Tensor::empty(c.arena, DType::kF32, {T.value});
  const CrossEntropyArgs args{.logits = logits.f32(),
                              .targets = targets.i32(),
                              .rows = T.value,
                              .vocab = V.value,
                              .log_sum_exp = log_sum_exp.f32(),
                              .loss = loss.f32()};
  c.backend.cross_entropy(args);
  if (is_taped(c, loss)) {
    c.tape->record(loss, [args, logits, targets, log_sum_exp, loss](Context& b, const float* d_loss) {
      b.backend.cross_entropy_backward({.forward = args, .d_loss = d_loss, .d_logits = gradient(b, logits)});
    });
  }
  return loss;
}

Tensor upload(Context& c, std::span<const int32_t> values) {
  return upload(c, DType::kI32, values.data(), values.size());
}

Tensor upload(Context& c, std::span<const float> values) {
  return upload(c, DType::kF32, values.data(), values.size());
}

}  // namespace switchyard
