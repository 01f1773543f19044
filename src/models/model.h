// A model: its shape, its parameters, and its one forward function.
#pragma once

#include <cstdint>
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

// What attention keeps of each position, for each of `heads`.
struct KvShape {
  int64_t heads = 0;            // G; 1 for a latent that all query heads share
  int64_t key_dim = 0;          // A
  int64_t value_dim = 0;        // B
  bool values_in_keys = false;  // a value is the first B elements of its key, and only keys are kept

  int64_t elements() const { return heads * (key_dim + (values_in_keys ? 0 : value_dim)); }
};

// What the engine, the statistics and `inspect` need to know of a model. Letters as in tensor/shape.h.
struct ModelShape {
  std::string family;              // model_type
  int64_t vocab = 0;               // V
  int64_t hidden = 0;              // D
  int64_t heads = 0;               // H
  int64_t kv_heads = 0;            // G of the projections
  int64_t head_dim = 0;            // A
  KvShape kv;                      // of a layer's cache
  int64_t max_positions = 0;       // positions the model was trained for
  int64_t experts = 0;             // E of its sparse layers; 0: none is sparse
  int64_t top_k = 0;               // K
  int64_t n_group = 1;             // groups of experts in the routing rule,
  int64_t topk_group = 1;          // of which so many are kept
  int64_t expert_width = 0;        // F
  int64_t shared_width = 0;        // width of the shared expert; 0: none
  bool shared_gate = false;        // whether a sigmoid gate scales the shared expert
  bool normalize_weights = false;  // norm_topk_prob
  bool sigmoid_scores = false;     // of the router, else softmax
  bool tied_embeddings = false;
  double router_aux_loss_coef = 0;  // weight of the balance loss in training
  // Keys of sequences up to this length are rotated alike; those of a longer sequence may fit no other
  // length.
  int64_t constant_rope_length = INT64_MAX;
  std::vector<LayerShape> layers;  // L

  int64_t layer_count() const { return static_cast<int64_t>(layers.size()); }
  int64_t kv_bytes_per_token(DType dtype) const { return layer_count() * kv.elements() * size_bytes(dtype); }
};

using LinearVisitor = std::function<void(Linear& linear)>;

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

  // Says how to check the files that the weights are read from in place.
  void set_weights_check(std::function<void()> verify_unchanged) { check_ = std::move(verify_unchanged); }
  // Throws Error when a file of the weights, if there is one, has changed since it was opened: results mean
  // nothing then.
  void verify_weights() const;

 protected:
  explicit Model(Backend& backend) : arena_(backend.memory()) {}

  Arena arena_;  // first, so that it outlives every tensor from it
  ModelShape shape_;
  std::vector<Parameter> parameters_;

 private:
  std::function<void()> check_;
};

// Throws Error when a router's logits were not numbers in the last step: one that says that the weights
// changed under the model, where that is so, else one that names layer and token.
void check_routing(Backend& backend, const Model& model);

}  // namespace switchyard
