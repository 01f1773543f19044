#include "ops/attention.h"

#include "base/error.h"
#include "ops/tape.h"

namespace switchyard {

Tensor rope(Context& c, const Tensor& x, const Tensor& positions, const Rope& rope, int64_t heads) {
  Dim T{"T"}, HA{"heads*A"};
  check_shape("rope", "x", x, {&T, &HA});
  check_shape("rope", "positions", positions, {&T});
  const int64_t head_dim = HA.value / heads;
  Dim sets{"sets"}, pairs{"A/2", head_dim / 2};
  check_shape("rope", "inverse_frequencies", rope.inverse_frequencies, {&sets, &pairs});
  if (rope.set_of_row) check_shape("rope", "set_of_row", rope.set_of_row, {&T});
  SY_CHECK(rope.set_of_row || sets.value == 1, "rope: {} sets for rows that name none", sets.value);
  const auto args = [=](const float* from, float direction, float* to) -> RopeArgs {
    return {.x = from,
            .positions = positions.i32(),
            .inverse_frequencies = rope.inverse_frequencies.f32(),
            .set_of_row = rope.set_of_row ? rope.set_of_row.i32() : nullptr,
            .attention_factor = rope.attention_factor,
            .direction = direction,
            .interleaved = rope.interleaved,
            .rows = T.value,
            .heads = heads,
            .head_dim = head_dim,
            .out = to};
  };
  Tensor out = make_result(c, x.shape(), {&x});
  c.backend.rope(args(x.f32(), 1.0f, out.f32()));
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      const Tensor rotated = Tensor::empty(b.arena, DType::kF32, out.shape());
      b.backend.rope(args(d_out, -1.0f, rotated.f32()));
      float* d_x = gradient(b, x);
      b.backend.add({.a = d_x, .b = rotated.f32(), .scale = 1.0f, .count = rotated.elements(), .out = d_x});
    });
  }
  return out;
}

namespace {

// Keys and values of the step itself as a cache of blocks of one position: block i holds row i.
KvLayer own_kv(const Tensor& k, const Tensor& v, const AttentionShape& shape) {
  return {.keys = k.mutable_data(),
          .values = v.mutable_data(),
          .dtype = DType::kF32,
          .block_size = 1,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .value_dim = shape.value_dim};
}

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v, const Batch& batch,
                  const AttentionShape& shape) {
  Dim T{"T", batch.size()};
  Dim HA{"H*A", shape.heads * shape.head_dim};
  Dim GA{"G*A", shape.kv_heads * shape.head_dim};
  Dim GB{"G*B", shape.kv_heads * shape.value_dim};
  check_shape("attention", "q", q, {&T, &HA});
  check_shape("attention", "k", k, {&T, &GA});
  if (v) check_shape("attention", "v", v, {&T, &GB});
}

// Attention over the tokens of the step alone, with its backward.
Tensor attention_within_step(Context& c, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Batch& batch, const AttentionShape& shape) {
  SY_CHECK(v && batch.own_rows, "attention with a tape needs values and a batch made for {}", "training");
  const int64_t T = batch.size();
  Tensor out = make_result(c, {T, shape.heads * shape.value_dim}, {&q, &k, &v});
  const Tensor log_sum_exp = Tensor::empty(c.arena, DType::kF32, {T, shape.heads});
  StepRows rows = batch.rows();
  rows.block_table = batch.own_rows.i32();
  rows.max_blocks = batch.own_rows.dim(1);
  c.backend.attention({.q = q.f32(),
                       .kv = own_kv(k, v, shape),
                       .step = rows,
                       .heads = shape.heads,
                       .scale = shape.scale,
                       .window = shape.window,
                       .out = out.f32(),
                       .log_sum_exp = log_sum_exp.f32()});
  if (!is_taped(c, out)) return out;
  c.tape->record(out, [=, positions = batch.positions](Context& b, const float* d_out) {
    b.backend.attention_backward({.q = q.f32(),
                                  .k = k.f32(),
                                  .v = v.f32(),
                                  .out = out.f32(),
                                  .log_sum_exp = log_sum_exp.f32(),
                                  .positions = positions.i32(),
                                  .rows = T,
                                  .heads = shape.heads,
                                  .kv_heads = shape.kv_heads,
                                  .head_dim = shape.head_dim,
                                  .value_dim = shape.value_dim,
                                  .scale = shape.scale,
                                  .window = shape.window,
                                  .d_out = d_out,
                                  .d_q = gradient(b, q),
                                  .d_k = gradient(b, k),
                                  .d_v = gradient(b, v)});
  });
  return out;
}

}  // namespace

Tensor attention(Context& c, const Tensor& q, const Tensor& k, const Tensor& v, const Batch& batch, int layer,
                 const AttentionShape& shape) {
  check_shapes(q, k, v, batch, shape);
  if (c.tape != nullptr) return attention_within_step(c, q, k, v, batch, shape);
  const KvLayer& kv = batch.kv(layer);
  SY_CHECK(kv.kv_heads == shape.kv_heads && kv.head_dim == shape.head_dim && kv.value_dim == shape.value_dim,
           "attention: a cache of {} heads of {} and {}", kv.kv_heads, kv.head_dim, kv.value_dim);
  SY_CHECK(static_cast<bool>(v) == (kv.values != nullptr), "attention: a cache {} values",
           v ? "without" : "with");
  Tensor out = Tensor::empty(c.arena, DType::kF32, {batch.size(), shape.heads * shape.value_dim});
  c.backend.kv_write({.kv = kv, .step = batch.rows(), .keys = k.f32(), .values = v ? v.f32() : nullptr});
  c.backend.attention({.q = q.f32(),
                       .kv = kv,
                       .step = batch.rows(),
                       .heads = shape.heads,
                       .scale = shape.scale,
                       .window = shape.window,
                       .out = out.f32(),
                       .log_sum_exp = nullptr});
  return out;
}

namespace {

Tensor head_product(Context& c, const Tensor& x, const Weight& w, const HeadRows& rows, bool transposed) {
  Dim T{"T"}, in{"heads*in", rows.heads * (transposed ? rows.count : w.cols())};
  check_shape("head_linear", "x", x, {&T, &in});
  SY_CHECK(w.rows() == rows.heads * rows.stride && rows.first + rows.count <= rows.stride,
           "head_linear: {} rows for {} heads of {}", w.rows(), rows.heads, rows.stride);
  Tensor out =
      Tensor::empty(c.arena, DType::kF32, {T.value, rows.heads * (transposed ? w.cols() : rows.count)});
  c.backend.head_linear({.x = x.f32(),
                         .weight = w.matrix(),
                         .rows = T.value,
                         .heads = rows.heads,
                         .head_rows = rows.stride,
                         .first_row = rows.first,
                         .rows_used = rows.count,
                         .transposed = transposed,
                         .out = out.f32()});
  return out;
}

}  // namespace

// With a LoRA the weight is W + scale b a, and b's rows belong to heads as W's do.
Tensor head_linear(Context& c, const Tensor& x, const Linear& w, const HeadRows& rows) {
  SY_CHECK(c.tape == nullptr && !w.bias, "head_linear has no {}", w.bias ? "bias" : "backward");
  Tensor out = head_product(c, x, w.weight, rows, false);
  if (!w.lora) return out;
  const int64_t T = x.dim(0);
  const Tensor x_by_head = x.reshaped({T * rows.heads, w.weight.cols()});
  const Tensor low = linear(c, x_by_head, {.weight = w.lora->a, .bias = {}, .lora = {}});
  const Tensor low_rows = low.reshaped({T, rows.heads * low.dim(1)});
  return add(c, out, head_product(c, low_rows, w.lora->b, rows, false), w.lora->scale);
}

Tensor head_linear_transposed(Context& c, const Tensor& x, const Linear& w, const HeadRows& rows) {
  SY_CHECK(c.tape == nullptr && !w.bias, "head_linear has no {}", w.bias ? "bias" : "backward");
  Tensor out = head_product(c, x, w.weight, rows, true);
  if (!w.lora) return out;
  const Tensor low = head_product(c, x, w.lora->b, rows, true);  // [T, H * R]
  const int64_t R = w.lora->a.dim(0);
  const HeadRows all{.heads = 1, .stride = R, .first = 0, .count = R};
  const Tensor low_by_head = low.reshaped({x.dim(0) * rows.heads, R});
  const Tensor update = head_product(c, low_by_head, w.lora->a, all, true);
  return add(c, out, update.reshaped(out.shape()), w.lora->scale);
}

}  // namespace switchyard
