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

Tensor attention(Context& c, const Tensor& q, const Tensor& k, const Tensor& v, const Batch& batch, int layer,
                 const AttentionShape& shape) {
  Dim T{"T", batch.size()};
  Dim HA{"H*A", shape.heads * shape.head_dim};
  Dim GA{"G*A", shape.kv_heads * shape.head_dim};
  check_shape("attention", "q", q, {&T, &HA});
  check_shape("attention", "k", k, {&T, &GA});
  check_shape("attention", "v", v, {&T, &GA});
  const KvLayer& kv = batch.kv(layer);
  SY_CHECK(kv.kv_heads == shape.kv_heads && kv.head_dim == shape.head_dim,
           "attention: a cache of {} heads of {}", kv.kv_heads, kv.head_dim);

  Tensor out = make_result(c, q.shape(), {&q, &k, &v});
  const bool taped = is_taped(c, out);
  const Tensor log_sum_exp = taped ? Tensor::empty(c.arena, DType::kF32, {T.value, shape.heads}) : Tensor();
  c.backend.kv_write({.kv = kv, .step = batch.rows(), .keys = k.f32(), .values = v.f32()});
  c.backend.attention({.q = q.f32(),
                       .kv = kv,
                       .step = batch.rows(),
                       .heads = shape.heads,
                       .scale = shape.scale,
                       .window = shape.window,
                       .out = out.f32(),
                       .log_sum_exp = taped ? log_sum_exp.f32() : nullptr});
  if (taped) {
    c.tape->record(out, [=, positions = batch.positions](Context& b, const float* d_out) {
      b.backend.attention_backward({.q = q.f32(),
                                    .k = k.f32(),
                                    .v = v.f32(),
                                    .out = out.f32(),
                                    .log_sum_exp = log_sum_exp.f32(),
                                    .positions = positions.i32(),
                                    .rows = T.value,
                                    .heads = shape.heads,
                                    .kv_heads = shape.kv_heads,
                                    .head_dim = shape.head_dim,
                                    .scale = shape.scale,
                                    .window = shape.window,
                                    .d_out = d_out,
                                    .d_q = gradient(b, q),
                                    .d_k = gradient(b, k),
                                    .d_v = gradient(b, v)});
    });
  }
  return out;
}

}  // namespace switchyard
