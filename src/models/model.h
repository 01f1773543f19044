// A model: its shape, its parameters, and its one forward function.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/weights.h"
#include "ops/batch.h"

namespace switchyard {

struct LayerShape {
  int64_t window;   // attention window in tokens; 0: all
  int64_t experts;  // E; 0: a dense feed-forward layer
};

// What the engine, the statistics and `inspect` need to know of a model. Letters as in tensor/shape.h.
struct ModelShape {
  std::string family;              // model_type
  int64_t vocab = 0;               // V
  int64_t hidden = 0;              // D
  int64_t heads = 0;               // H
  int64_t kv_heads = 0;            // G
  int64_t head_dim = 0;            // A
  int64_t max_positions = 0;       // positions the model was trained for
  int64_t experts = 0;             // E of its sparse layers; 0: none is sparse
  int64_t top_k = 0;               // K
  int64_t expert_width = 0;        // F
  int64_t shared_width = 0;        // width of the shared expert; 0: none
  bool normalize_weights = false;  // norm_topk_prob
  bool tied_embeddings = false;
  double router_aux_loss_coef = 0;  // weight of the balance loss in training
  std::vector<LayerShape> layers;   // L

  int64_t layer_count() const { return static_cast<int64_t>(layers.size()); }
  int64_t kv_bytes_per_token(DType dtype) const {
    return layer_count() * 2 * kv_heads * head_dim * size_bytes(dtype);
  }
};

// Gets the name of a linear layer, such as "model.layers.0.self_attn.q_proj", and the layer.
using LinearVisitor = std::function<void(const std::string& name, Linear& linear)>;

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Logits [M, V] of the batch's M logit rows. Writes the step's keys and values to the batch's cache.
  // Afterwards the backend's take_routing_fault must be asked; see check_routing.
  virtual Tensor forward(Context& c, const Batch& batch) const = 0;

  // Visits every linear layer once, routers included, in the order of binding, so that a LoRA can be
  // attached. Routed experts are no linear layers.
  virtual void visit_linears(const LinearVisitor& visit) = 0;

  const ModelShape& shape() const { return shape_; }
  // Every tensor once (a tied output matrix is its embedding), in the order of binding.
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // The checkpoint whose files the weights are read from in place.
  void set_checkpoint(std::shared_ptr<const Checkpoint> checkpoint) { checkpoint_ = std::move(checkpoint); }
  const Checkpoint* checkpoint() const { return checkpoint_.get(); }  // nullptr: weights from no file
  // Throws Error when a file of the checkpoint, if there is one, has changed since it was opened: results
  // mean nothing then.
  void verify_weights() const;

 protected:
  explicit Model(Backend& backend) : arena_(backend.memory()) {}

  Arena arena_;  // first, so that it outlives every tensor from it
  ModelShape shape_;
  std::vector<Parameter> parameters_;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
};

// Throws Error when a router's logits were not numbers in the last step: one that says that the weights
// changed under the model, where that is so, else one that names layer and token.
void check_routing(Backend& backend, const Model& model);

}  // namespace switchyard
