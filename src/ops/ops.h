// Device-neutral ops on rows: shape check, forward, and with a tape the record of the backward pass. Formulas
// stand at each op's arguments in backend/backend.h.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ops/context.h"

namespace switchyard {

// A low-rank update of a Linear: y += scale * (x a^T) b^T.
struct Lora {
  Tensor a;  // [R, K]
  Tensor b;  // [N, R]
  float scale = 1.0f;
};

// y = x weight^T + bias (+ lora). Models never mention LoRA: it lives here.
struct Linear {
  Weight weight;  // [N, K]
  Tensor bias;    // [N] or absent
  std::optional<Lora> lora;
  std::string name = {};  // in the checkpoint, such as "model.layers.0.self_attn.q_proj"
};

Tensor embedding(Context& c, const Tensor& ids, const Weight& table);                // [T], [V, D] -> [T, D]
Tensor rms_norm(Context& c, const Tensor& x, const Tensor& weight, float eps);       // [T, D], [D] -> [T, D]
Tensor linear(Context& c, const Tensor& x, const Linear& w);                         // [T, K] -> [T, N]
Tensor add(Context& c, const Tensor& a, const Tensor& b, float scale = 1.0f);        // a + scale * b
Tensor swiglu(Context& c, const Tensor& gate, const Tensor& up);                     // silu(gate) * up
Tensor gated_add(Context& c, const Tensor& a, const Tensor& b, const Tensor& gate);  // a + sigmoid(gate) * b
Tensor gather_rows(Context& c, const Tensor& x, const Tensor& index);                // x[index]
Tensor columns(Context& c, const Tensor& x, int64_t begin, int64_t end);             // x[:, begin:end]
Tensor concat_columns(Context& c, const Tensor& a, const Tensor& b);  // [T, N], [T, M] -> [T, N + M]

// Mean over rows with target >= 0 of the negative log likelihood. [T, V], [T] -> [1]
Tensor cross_entropy(Context& c, const Tensor& logits, const Tensor& targets);

// A temporary with the given values on the device.
Tensor upload(Context& c, std::span<const int32_t> values);
Tensor upload(Context& c, std::span<const float> values);

}  // namespace switchyard
