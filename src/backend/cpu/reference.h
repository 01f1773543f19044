// The reference backend: every op as its formula in backend.h reads, one thread, sums in double. It is the
// oracle that every other kernel is tested against, and is meant to be checked by reading.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/activations.h"
#include "backend/cpu/host_memory.h"

namespace switchyard {

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(Activations activations = Activations::kFloat32) : activations_(activations) {}
  Activations activations() const { return activations_; }

  std::string description() const override { return "cpu reference"; }
  Memory& memory() override { return memory_; }

  void copy_from_host(void* device, const void* host, int64_t bytes) override;
  void copy_to_host(void* host, const void* device, int64_t bytes) override;
  void fill_zero(void* device, int64_t bytes) override;
  Tensor place_weight(const Tensor& host) override { return host; }
  std::optional<RoutingFault> take_routing_fault() override;

  // reference.cpp
  void embedding(const EmbeddingArgs&) override;
  void embedding_backward(const EmbeddingBackwardArgs&) override;
  void rms_norm(const RmsNormArgs&) override;
  void rms_norm_backward(const RmsNormBackwardArgs&) override;
  void add(const AddArgs&) override;
  void swiglu(const SwigluArgs&) override;
  void swiglu_backward(const SwigluBackwardArgs&) override;
  void gated_add(const GatedAddArgs&) override;
  void gated_add_backward(const GatedAddBackwardArgs&) override;
  void gather_rows(const GatherRowsArgs&) override;
  void gather_rows_backward(const GatherRowsBackwardArgs&) override;
  void copy_columns(const CopyColumnsArgs&) override;
  void linear(const LinearArgs&) override;
  void linear_backward_input(const LinearBackwardInputArgs&) override;
  void linear_backward_weight(const LinearBackwardWeightArgs&) override;
  void head_linear(const HeadLinearArgs&) override;
  void cross_entropy(const CrossEntropyArgs&) override;
  void cross_entropy_backward(const CrossEntropyBackwardArgs&) override;

  // reference_attention.cpp
  void rope(const RopeArgs&) override;
  void kv_write(const KvWriteArgs&) override;
  void attention(const AttentionArgs&) override;
  void attention_backward(const AttentionBackwardArgs&) override;

  // reference_routing.cpp
  void route(const RouteArgs&) override;
  void route_backward(const RouteBackwardArgs&) override;
  void limit_capacity(const LimitCapacityArgs&) override;
  void routing_sums(const RoutingSumsArgs&) override;
  void balance_loss(const BalanceLossArgs&) override;
  void balance_loss_backward(const BalanceLossBackwardArgs&) override;

  // reference_experts.cpp
  void dispatch_plan(const DispatchPlanArgs&) override;
  void expert_linear(const ExpertLinearArgs&) override;
  void expert_linear_backward_input(const ExpertLinearBackwardInputArgs&) override;
  void expert_linear_backward_weight(const ExpertLinearBackwardWeightArgs&) override;
  void combine(const CombineArgs&) override;
  void combine_backward(const CombineBackwardArgs&) override;

 protected:
  // Fills the row as RouteArgs says for NaN logits, and records the fault, of which the smallest layer, then
  // row is kept.
  void fail_route(const RouteArgs& args, int64_t row);

 private:
  Activations activations_;
  HostMemory memory_;
  std::optional<RoutingFault> routing_fault_;
};

}  // namespace switchyard
