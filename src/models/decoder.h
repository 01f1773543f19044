// The decoder that all families share: pre-norm layers of attention and feed-forward, one final norm, one
// output matrix. A family is a reading of the config and a choice of blocks for each layer; see the family
// files.
#pragma once

#include <functional>

#include "io/rope_config.h"
#include "models/blocks.h"
#include "models/families.h"
#include "models/model.h"
#include "models/rope.h"

namespace switchyard {

// What a family reads from its config for every layer alike.
struct DecoderConfig {
  ModelShape shape;
  float rms_norm_eps = 0;
  RopeConfig rope;
  RopeShape rope_shape{};
};

// The two blocks of a layer.
struct DecoderBlocks {
  AttentionBlock self_attn;
  FeedForward mlp;
};

class Decoder final : public Model {
 public:
  // Binds the blocks of layer `index` of the shape; `layer` stands at "model.layers.<index>.".
  using BindBlocks = std::function<DecoderBlocks(Binder layer, size_t index)>;

  Decoder(const DecoderConfig& config, WeightSource& source, Backend& backend, const LoadOptions& options,
          const BindBlocks& bind_blocks);
  Tensor forward(Context& c, const Batch& batch) const override;
  void visit_linears(const LinearVisitor& visit) override;

 private:
  struct Layer {
    Tensor input_layernorm;  // [D]
    AttentionBlock self_attn;
    Tensor post_attention_layernorm;  // [D]
    FeedForward mlp;
  };

  float eps_;
  RotaryEmbedding rope_;
  Weight embed_tokens_;  // [V, D]
  std::vector<Layer> layers_;
  Tensor norm_;     // [D]
  Linear lm_head_;  // [V, D]
};

}  // namespace switchyard
