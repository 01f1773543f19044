#include "models/decoder.h"

#include <fmt/format.h>

namespace switchyard {

Tensor Decoder::forward(Context& c, const Batch& batch) const {
  const auto observe = [&](int index, const Tensor& x) {
    if (c.observer != nullptr) c.observer->on_hidden_state(index, x);
  };
  const Rope rope = rope_.for_step(c, batch);
  Tensor x = embedding(c, batch.tokens, embed_tokens_);  // [T, D]
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    observe(i, x);
    const Layer& w = layers_[static_cast<size_t>(i)];
    Tensor h = rms_norm(c, x, w.input_layernorm, eps_);
    x = add(c, x, attend(c, w.self_attn, h, batch, rope, i));
    h = rms_norm(c, x, w.post_attention_layernorm, eps_);
    x = add(c, x, feed_forward(c, w.mlp, h, batch, i));
  }
  x = rms_norm(c, x, norm_, eps_);
  observe(static_cast<int>(layers_.size()), x);
  return linear(c, gather_rows(c, x, batch.logit_rows), lm_head_);  // [M, V]
}

void Decoder::visit_linears(const LinearVisitor& visit) {
  for (Layer& layer : layers_) {
    switchyard::visit_linears(layer.self_attn, visit);
    switchyard::visit_linears(layer.mlp, visit);
  }
  visit(lm_head_);
}

Decoder::Decoder(const DecoderConfig& config, WeightSource& source, Backend& backend,
                 const LoadOptions& options, const BindBlocks& bind_blocks)
    : Model(backend), eps_(config.rms_norm_eps) {
  shape_ = config.shape;
  const ModelShape& s = shape_;
  Binder b(source, backend, arena_, parameters_);
  rope_ = RotaryEmbedding::bind(b, config.rope, config.rope_shape, options.rope_precision);
  shape_.constant_rope_length = rope_.constant_length();
  embed_tokens_ = b.matrix("model.embed_tokens", s.vocab, s.hidden, Component::kEmbedding);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    Binder layer = b.scope(fmt::format("model.layers.{}.", i));
    const auto norm = [&](const char* name) {
      return layer.tensor(fmt::format("{}.weight", name), {s.hidden}, Component::kNorm);
    };
    DecoderBlocks blocks = bind_blocks(layer, i);
    layers_.push_back({.input_layernorm = norm("input_layernorm"),
                       .self_attn = std::move(blocks.self_attn),
                       .post_attention_layernorm = norm("post_attention_layernorm"),
                       .mlp = std::move(blocks.mlp)});
  }
  norm_ = b.tensor("model.norm.weight", {s.hidden}, Component::kNorm);
  lm_head_ = bind_output(b, embed_tokens_, s.tied_embeddings);
}

}  // namespace switchyard
