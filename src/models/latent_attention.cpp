#include "models/latent_attention.h"

#include <vector>

namespace switchyard {
namespace {

// Of q_a_layernorm and kv_a_layernorm: transformers leaves them at their default, whatever rms_norm_eps says.
constexpr float kLatentNormEps = 1e-6f;

}  // namespace

LatentAttention LatentAttention::bind(Binder b, int64_t hidden, const LatentShape& s) {
  LatentAttention block;
  block.shape = s;
  const int64_t q_features = s.heads * s.key_dim();
  if (s.q_rank == 0) {
    block.q_proj = b.linear("q_proj", q_features, hidden, false, Component::kAttention);
  } else {
    block.q_a_proj = b.linear("q_a_proj", s.q_rank, hidden, s.bias, Component::kAttention);
    block.q_a_layernorm = b.tensor("q_a_layernorm.weight", {s.q_rank}, Component::kNorm);
    block.q_b_proj = b.linear("q_b_proj", q_features, s.q_rank, false, Component::kAttention);
  }
  block.kv_a_proj_with_mqa =
      b.linear("kv_a_proj_with_mqa", s.kv_rank + s.rope_dim, hidden, s.bias, Component::kAttention);
  block.kv_a_layernorm = b.tensor("kv_a_layernorm.weight", {s.kv_rank}, Component::kNorm);
  block.kv_b_proj =
      b.linear("kv_b_proj", s.heads * (s.nope_dim + s.value_dim), s.kv_rank, false, Component::kAttention);
  block.o_proj = b.linear("o_proj", hidden, s.heads * s.value_dim, s.bias, Component::kAttention);
  return block;
}

struct LatentAttention::Projected {
  Tensor q_nope;  // [T * H, n]
  Tensor q_rope;  // [T * H, P], rotated
  Tensor latent;  // [T, R]
  Tensor k_rope;  // [T, P], rotated
};

Tensor LatentAttention::forward(Context& c, const Tensor& x, const Batch& batch, const Rope& rotary,
                                int layer) const {
  const LatentShape& s = shape;
  const int64_t T = batch.size();
  Tensor q = shape.q_rank == 0
                 ? linear(c, x, q_proj)
                 : linear(c, rms_norm(c, linear(c, x, q_a_proj), q_a_layernorm, kLatentNormEps), q_b_proj);
  q = q.reshaped({T * s.heads, s.key_dim()});
  const Tensor kv = linear(c, x, kv_a_proj_with_mqa);  // [T, R + P]

  Projected p;
  p.q_nope = columns(c, q, 0, s.nope_dim);
  const Tensor q_rope = columns(c, q, s.nope_dim, s.key_dim()).reshaped({T, s.heads * s.rope_dim});
  p.q_rope = rope(c, q_rope, batch.positions, rotary, s.heads).reshaped({T * s.heads, s.rope_dim});
  p.latent = rms_norm(c, columns(c, kv, 0, s.kv_rank), kv_a_layernorm, kLatentNormEps);
  p.k_rope = rope(c, columns(c, kv, s.kv_rank, s.kv_rank + s.rope_dim), batch.positions, rotary, 1);
  return linear(c, c.tape == nullptr ? absorbed(c, p, batch, layer) : expanded(c, p, batch, layer), o_proj);
}

Tensor LatentAttention::absorbed(Context& c, const Projected& p, const Batch& batch, int layer) const {
  const LatentShape& s = shape;
  const int64_t T = batch.size();
  const int64_t head_rows = s.nope_dim + s.value_dim;
  const HeadRows key_rows{.heads = s.heads, .stride = head_rows, .first = 0, .count = s.nope_dim};
  const HeadRows value_rows{.heads = s.heads, .stride = head_rows, .first = s.nope_dim, .count = s.value_dim};
  const AttentionShape latent_heads{.heads = s.heads,
                                    .kv_heads = 1,
                                    .head_dim = s.kv_rank + s.rope_dim,
                                    .value_dim = s.kv_rank,
                                    .scale = s.scale,
                                    .window = 0};
  const Tensor q_nope = p.q_nope.reshaped({T, s.heads * s.nope_dim});
  const Tensor q_latent = head_linear_transposed(c, q_nope, kv_b_proj, key_rows);  // [T, H * R]
  const Tensor q = concat_columns(c, q_latent.reshaped({T * s.heads, s.kv_rank}), p.q_rope);
  const Tensor k = concat_columns(c, p.latent, p.k_rope);  // [T, R + P]
  const Tensor mixed = attention(c, q.reshaped({T, s.heads * latent_heads.head_dim}), k, {}, batch, layer,
                                 latent_heads);         // [T, H * R]
  return head_linear(c, mixed, kv_b_proj, value_rows);  // [T, H * v]
}

Tensor LatentAttention::expanded(Context& c, const Projected& p, const Batch& batch, int layer) const {
  const LatentShape& s = shape;
  const int64_t T = batch.size();
  const AttentionShape heads{.heads = s.heads,
                             .kv_heads = s.heads,
                             .head_dim = s.key_dim(),
                             .value_dim = s.value_dim,
                             .scale = s.scale,
                             .window = 0};
  std::vector<int32_t> token_of_head;  // the one rotary key goes to every head
  for (int64_t row = 0; row < T * s.heads; ++row)
    token_of_head.push_back(static_cast<int32_t>(row / s.heads));
  const Tensor kv = linear(c, p.latent, kv_b_proj).reshaped({T * s.heads, s.nope_dim + s.value_dim});
  const Tensor k_rope = gather_rows(c, p.k_rope, upload(c, token_of_head));
  const Tensor k = concat_columns(c, columns(c, kv, 0, s.nope_dim), k_rope);
  const Tensor v = columns(c, kv, s.nope_dim, s.nope_dim + s.value_dim);
  const Tensor q = concat_columns(c, p.q_nope, p.q_rope);
  const Shape key_shape{T, s.heads * s.key_dim()};
  return attention(c, q.reshaped(key_shape), k.reshaped(key_shape), v.reshaped({T, s.heads * s.value_dim}),
                   batch, layer, heads);
}

void LatentAttention::visit_linears(const LinearVisitor& visit) {
  for (Linear* layer : {&q_proj, &q_a_proj, &q_b_proj, &kv_a_proj_with_mqa, &kv_b_proj, &o_proj}) {
    if (layer->weight) visit(*layer);
  }
}

}  // namespace switchyard
