// Binding a model to its weights. A family declares each tensor once, by name, shape and purpose; the same
// declaration loads a checkpoint, checks one by its headers alone, counts parameters from a config without
// any file, and fills a model with random numbers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "io/checkpoint.h"
#include "io/quantization_config.h"
#include "ops/ops.h"

namespace switchyard {

// What a parameter belongs to, for the arithmetic of `inspect`.
enum class Component { kEmbedding, kAttention, kRouter, kExperts, kSharedExperts, kDense, kNorm, kOutput };
std::string_view name(Component component);

struct Parameter {
  std::string name;  // as in the checkpoint; of a packed matrix as if it were plain
  Component component;
  Tensor tensor;  // absent for a packed matrix, which cannot be trained
  int64_t elements;
  int64_t bytes;  // as stored
};

// Where weights come from.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // A host tensor of exactly this shape, in F32, F16 or BF16. Throws Error when there is none.
  virtual Tensor weight(const std::string& name, const Shape& shape) = 0;
  // The matrix <name>.weight, in whatever format it is kept. Throws Error when there is none.
  virtual Weight matrix(const std::string& name, int64_t rows, int64_t cols) {
    return weight(name + ".weight", {rows, cols});
  }
  virtual bool has(const std::string& name) const = 0;
  // Where a tensor that it has stands, for errors.
  virtual std::string place_of(const std::string& name) const = 0;
  // Tensors whose name starts with `prefix` may be there and are not used; `reason` is for the user.
  virtual void leave_unused(const std::string& /*prefix*/, const std::string& /*reason*/) {}
  // Called when every tensor has been asked for. Throws Error when something is left over.
  virtual void finish() {}
  // What a user should know of tensors that are not used, one line each. Complete after finish().
  virtual std::vector<std::string> notes() const { return {}; }
};

// A checkpoint's tensors, read in place from the mapped files where their layout allows it.
class CheckpointWeights final : public WeightSource {
 public:
  // `quantization`: what its packed matrices mean, if its config says so.
  explicit CheckpointWeights(std::shared_ptr<const Checkpoint> checkpoint,
                             std::optional<QuantizationConfig> quantization = std::nullopt)
      : checkpoint_(std::move(checkpoint)), quantization_(std::move(quantization)) {}
  Tensor weight(const std::string& name, const Shape& shape) override;
  Weight matrix(const std::string& name, int64_t rows, int64_t cols) override;
  bool has(const std::string& name) const override { return checkpoint_->find(name) != nullptr; }
  std::string place_of(const std::string& name) const override { return checkpoint_->tensor(name).file; }
  void leave_unused(const std::string& prefix, const std::string& reason) override;
  void finish() override;
  std::vector<std::string> notes() const override { return notes_; }

 private:
  struct Unused {
    std::string prefix;
    std::string reason;
    int64_t tensors = 0;
    int64_t bytes = 0;
  };
  bool is_unused(const std::string& name);

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::optional<QuantizationConfig> quantization_;
  std::vector<std::string> used_;
  std::vector<Unused> unused_;
  std::vector<std::string> notes_;
};

// Shapes only: tensors without elements, for arithmetic from a config alone.
class DeclaredWeights final : public WeightSource {
 public:
  explicit DeclaredWeights(DType dtype) : dtype_(dtype) {}
  Tensor weight(const std::string& name, const Shape& shape) override;
  bool has(const std::string&) const override { return false; }
  std::string place_of(const std::string&) const override { return "declared weights"; }

 private:
  DType dtype_;
};

// Random weights in host memory: matrices uniform with variance 1 / columns, so that activations keep their
// size; vectors around one. Equal for equal seed, name and shape.
class RandomWeights final : public WeightSource {
 public:
  RandomWeights(DType dtype, uint64_t seed) : dtype_(dtype), seed_(seed) {}  // kF32, kF16 or kBF16
  Tensor weight(const std::string& name, const Shape& shape) override;
  bool has(const std::string&) const override { return false; }
  std::string place_of(const std::string&) const override { return "random weights"; }

 private:
  DType dtype_;
  uint64_t seed_;
};

// Hands out a family's tensors under a name prefix and keeps the list of them.
class Binder {
 public:
  Binder(WeightSource& source, Backend& backend, Arena& arena, std::vector<Parameter>& parameters)
      : source_(source), backend_(backend), arena_(arena), parameters_(parameters) {}

  // The same binder under `prefix` added to every name: scope("model.layers.0.").
  Binder scope(const std::string& prefix) const;

  Tensor tensor(const std::string& name, const Shape& shape, Component component);
  // The same of rank 1, converted to float32 where it is stored otherwise.
  Tensor float_vector(const std::string& name, int64_t size, Component component);
  // <name>.weight [rows, cols]
  Weight matrix(const std::string& name, int64_t rows, int64_t cols, Component component);
  // <name>.weight [out, in] and, with `bias`, <name>.bias [out].
  Linear linear(const std::string& name, int64_t out_features, int64_t in_features, bool bias,
                Component component);

  // For a matrix that is `original` under a second name: where the source has it, it must hold the same
  // elements. Throws Error when it does not.
  void check_copy(const std::string& name, const Weight& original);

  bool has(const std::string& name) const { return source_.has(prefix_ + name); }

  Backend& backend() const { return backend_; }
  Arena& arena() const { return arena_; }  // lives as long as the model

 private:
  Weight place(const Weight& host);  // on the device

  WeightSource& source_;
  Backend& backend_;
  Arena& arena_;
  std::vector<Parameter>& parameters_;
  std::string prefix_;
};

}  // namespace switchyard
