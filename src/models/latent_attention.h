// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads are
// linear in one latent vector of R elements per position, and only that latent and one rotary key of P
// elements are cached.
//
// With n the part of a head's query and key without position and W_K [H, n, R], W_V [H, v, R] the two halves
// of kv_b_proj, a head's score is
//   q_n . (W_K c) + q_p . k_p  =  (q_n W_K) . c + q_p . k_p,   and its output   sum p W_V c  =  W_V (sum p
//   c).
// Training takes the left form, with heads expanded; inference takes the right one, the absorbed form,
// always: so a token's bits do not depend on whether it came in a prompt or one by one.
#pragma once

#include <optional>

#include "models/model.h"
#include "models/weights.h"
#include "ops/attention.h"
#include "ops/batch.h"

namespace switchyard {

struct LatentShape {
  int64_t heads;      // H
  int64_t nope_dim;   // n: elements of a head's key without position (qk_nope_head_dim)
  int64_t rope_dim;   // P: elements with position (qk_rope_head_dim)
  int64_t value_dim;  // v: elements of a head's value (v_head_dim)
  int64_t kv_rank;    // R: of the cached latent (kv_lora_rank)
  int64_t q_rank;     // of the query's latent (q_lora_rank); 0: queries are projected directly
  float scale;        // of the scores
  bool bias;          // of q_a_proj, kv_a_proj_with_mqa and o_proj

  int64_t key_dim() const { return nope_dim + rope_dim; }
  KvShape kv() const { return {1, kv_rank + rope_dim, kv_rank, true}; }
};

struct LatentAttention {
  Linear q_proj;              // [H * (n + P), D], absent with q_rank
  Linear q_a_proj;            // [q_rank, D], and so on, absent without q_rank
  Tensor q_a_layernorm;       // [q_rank]
  Linear q_b_proj;            // [H * (n + P), q_rank]
  Linear kv_a_proj_with_mqa;  // [R + P, D]
  Tensor kv_a_layernorm;      // [R]
  Linear kv_b_proj;           // [H * (n + v), R]: each head's W_K rows, then its W_V rows
  Linear o_proj;              // [D, H * v]
  LatentShape shape;

  static LatentAttention bind(Binder b, int64_t hidden, const LatentShape& shape);
  Tensor forward(Context& c, const Tensor& x, const Batch& batch, const Rope& rope, int layer) const;
  void visit_linears(const LinearVisitor& visit);

 private:
  struct Projected;
  Tensor absorbed(Context& c, const Projected& p, const Batch& batch, int layer) const;
  Tensor expanded(Context& c, const Projected& p, const Batch& batch, int layer) const;
};

}  // namespace switchyard
