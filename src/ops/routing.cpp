#include "ops/routing.h"

#include <utility>

#include "base/error.h"
#include "ops/ops.h"
#include "ops/tape.h"

namespace switchyard {
namespace {

void check_rule(const RoutingRule& rule, int64_t experts) {
  SY_CHECK(experts <= kMaxRoutedExperts, "route: {} experts, at most {}", experts, kMaxRoutedExperts);
  SY_CHECK(rule.n_group >= 1 && experts % rule.n_group == 0, "route: {} experts in {} groups", experts,
           rule.n_group);
  SY_CHECK(rule.topk_group >= 1 && rule.topk_group <= rule.n_group, "route: {} of {} groups", rule.topk_group,
           rule.n_group);
  const int64_t eligible = rule.topk_group * (experts / rule.n_group);
  SY_CHECK(rule.top_k >= 1 && rule.top_k <= eligible, "route: {} of {} experts", rule.top_k, eligible);
  if (rule.selection_bias) {
    const Tensor& bias = rule.selection_bias;
    SY_CHECK(bias.dtype() == DType::kF32 && bias.elements() == experts,
             "a selection bias {} {} for {} experts", name(bias.dtype()), to_string(bias.shape()), experts);
  }
}

// The arguments of the model's own rule, without outputs.
RouteArgs route_args(const Tensor& logits, const RoutingRule& rule, int layer) {
  return {.logits = logits.f32(),
          .rows = logits.dim(0),
          .experts = logits.dim(1),
          .top_k = rule.top_k,
          .slots = rule.top_k,
          .score = rule.score,
          .selection_bias = rule.selection_bias ? rule.selection_bias.f32() : nullptr,
          .groups = rule.n_group,
          .kept_groups = rule.topk_group,
          .group_score = rule.group_score,
          .normalize = rule.normalize,
          .epsilon = rule.epsilon,
          .scaling = rule.scaling,
          .layer = layer,
          .probabilities = nullptr,
          .expert_ids = nullptr,
          .weights = nullptr};
}

// The choice without the policies that `args` has.
Tensor own_choice(Context& c, RouteArgs args) {
  const Tensor probabilities = Tensor::empty(c.arena, DType::kF32, {args.rows, args.experts});
  const Tensor weights = Tensor::empty(c.arena, DType::kF32, {args.rows, args.top_k});
  Tensor ids = Tensor::empty(c.arena, DType::kI32, {args.rows, args.top_k});
  args.slots = args.top_k;
  args.policies = nullptr;
  args.policy_of_row = nullptr;
  args.probabilities = probabilities.f32();
  args.selection = nullptr;
  args.expert_ids = ids.i32();
  args.weights = weights.f32();
  c.backend.route(args);
  return ids;
}

// Takes from the routing that `args` gave what the experts have no room for.
void limit_capacity(Context& c, const RouteArgs& args, const Capacity& capacity, Routing& routing) {
  const Tensor ids = Tensor::empty(c.arena, DType::kI32, routing.expert_ids.shape());
  const Tensor weights = Tensor::empty(c.arena, DType::kF32, routing.weights.shape());
  c.backend.limit_capacity({.expert_ids = args.expert_ids,
                            .weights = args.weights,
                            .rows = args.rows,
                            .experts = args.experts,
                            .slots = args.slots,
                            .capacity = capacity_limit(capacity, args.rows, args.slots, args.experts),
                            .selection = args.selection,
                            .probabilities = args.probabilities,
                            .normalize = args.normalize,
                            .epsilon = args.epsilon,
                            .scaling = args.scaling,
                            .limited_ids = ids.i32(),
                            .limited_weights = weights.f32()});
  routing.chosen_ids = std::exchange(routing.expert_ids, ids);
  routing.weights = weights;
}

void record_backward(Context& c, const RouteArgs& args, const Routing& routing, const Tensor& logits) {
  // The arguments point into the handles, which are kept with them.
  c.tape->record([args, routing, logits](Context& b) {
    const float* d_weights = arrived_gradient(routing.weights);
    const float* d_probabilities = arrived_gradient(routing.probabilities);
    if (d_weights == nullptr && d_probabilities == nullptr) return;
    b.backend.route_backward({.forward = args,
                              .d_weights = d_weights,
                              .d_probabilities = d_probabilities,
                              .d_logits = gradient(b, logits)});
  });
}

}  // namespace

Routing route(Context& c, const Tensor& logits, const RoutingRule& rule, const Batch& batch, int layer) {
  Dim T{"T"}, E{"E"};
  check_shape("route", "logits", logits, {&T, &E});
  check_rule(rule, E.value);
  const RoutingControl& control = batch.routing;
  const bool own_rule = !control.policy_of_row && !control.capacity;
  SY_CHECK(own_rule || c.tape == nullptr, "routing policies and capacity with a {}", "tape");
  RouteArgs args = route_args(logits, rule, layer);
  Tensor selection;
  if (control.policy_of_row) {
    SY_CHECK(control.policy_of_row.dim(0) == T.value, "policies of {} rows for {}",
             control.policy_of_row.dim(0), T.value);
    args.slots = control.slots(rule.top_k);
    args.policies = static_cast<const RoutePolicy*>(control.policy_table.data());
    args.policy_of_row = control.policy_of_row.i32();
  }
  if (control.capacity && control.capacity->overflow == Overflow::kReroute) {
    selection = Tensor::empty(c.arena, DType::kF32, logits.shape());
    args.selection = selection.f32();
  }
  Routing routing{.probabilities = make_result(c, logits.shape(), {&logits}),
                  .expert_ids = Tensor::empty(c.arena, DType::kI32, {T.value, args.slots}),
                  .weights = make_result(c, {T.value, args.slots}, {&logits})};
  args.probabilities = routing.probabilities.f32();
  args.expert_ids = routing.expert_ids.i32();
  args.weights = routing.weights.f32();
  c.backend.route(args);
  if (is_taped(c, routing.weights)) record_backward(c, args, routing, logits);
  if (control.capacity) limit_capacity(c, args, *control.capacity, routing);
  if (c.observer != nullptr) {
    if (args.policies != nullptr) routing.own_ids = own_choice(c, args);
    c.observer->on_route(layer, logits, routing);
  }
  return routing;
}

DispatchPlan plan_dispatch(Context& c, const Routing& routing) {
  const int64_t T = routing.expert_ids.dim(0);
  const int64_t K = routing.expert_ids.dim(1);
  DispatchPlan plan{.offsets = Tensor::empty(c.arena, DType::kI32, {routing.experts() + 1}),
                    .token_of_row = Tensor::empty(c.arena, DType::kI32, {T * K}),
                    .row_of_slot = Tensor::empty(c.arena, DType::kI32, {T, K})};
  c.backend.dispatch_plan({.expert_ids = routing.expert_ids.i32(),
                           .rows = T,
                           .experts = routing.experts(),
                           .top_k = K,
                           .offsets = plan.offsets.i32(),
                           .token_of_row = plan.token_of_row.i32(),
                           .row_of_slot = plan.row_of_slot.i32()});
  return plan;
}

Tensor dispatch(Context& c, const Tensor& x, const DispatchPlan& plan) {
  Dim T{"T"}, D{"D"}, K{"K"};
  check_shape("dispatch", "x", x, {&T, &D});
  check_shape("dispatch", "plan", plan.row_of_slot, {&T, &K});
  Tensor out = make_result(c, {T.value * K.value, D.value}, {&x});
  c.backend.gather_rows({.x = x.f32(),
                         .index = plan.token_of_row.i32(),
                         .rows = T.value * K.value,
                         .cols = D.value,
                         .out = out.f32()});
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      b.backend.combine({.y = d_out,
                         .weights = nullptr,
                         .row_of_slot = plan.row_of_slot.i32(),
                         .rows = T.value,
                         .top_k = K.value,
                         .cols = D.value,
                         .accumulate = true,
                         .out = gradient(b, x)});
    });
  }
  return out;
}

ExpertMatrices::ExpertMatrices(Backend& backend, Arena& arena, std::vector<Weight> weights)
    : weights_(std::move(weights)) {
  SY_CHECK(!weights_.empty(), "experts without a {}", "weight");
  std::vector<Matrix> table;
  for (const Weight& weight : weights_) {
    SY_CHECK(weight.rows() == out_features() && weight.cols() == in_features(),
             "an expert of shape [{}, {}] among others of [{}, {}]", weight.rows(), weight.cols(),
             out_features(), in_features());
    table.push_back(weight.matrix());
  }
  const auto bytes = static_cast<int64_t>(table.size() * sizeof(Matrix));
  table_ = Tensor::empty(arena, DType::kU8, {bytes});
  backend.copy_from_host(table_.mutable_data(), table.data(), bytes);
}

bool ExpertMatrices::any_requires_grad() const {
  for (const Weight& weight : weights_) {
    if (weight.requires_grad()) return true;
  }
  return false;
}

namespace {

// A device array of E gradient pointers, null for frozen experts.
Tensor gradient_table(Context& c, const ExpertMatrices& weights) {
  std::vector<float*> pointers;
  for (const Weight& weight : weights.weights())
    pointers.push_back(gradient(c, weight.plain));
  const auto bytes = static_cast<int64_t>(pointers.size() * sizeof(float*));
  Tensor table = Tensor::empty(c.arena, DType::kU8, {bytes});
  c.backend.copy_from_host(table.mutable_data(), pointers.data(), bytes);
  return table;
}

}  // namespace

Tensor expert_linear(Context& c, const Tensor& x, const ExpertMatrices& weights, const DispatchPlan& plan) {
  Dim P{"P"}, K{"K'", weights.in_features()};
  check_shape("expert_linear", "x", x, {&P, &K});
  SY_CHECK(weights.count() == plan.experts(), "{} experts, a plan for {}", weights.count(), plan.experts());
  Tensor out = make_result(c, {P.value, weights.out_features()}, {&x});
  const bool train = c.tape != nullptr && weights.any_requires_grad();
  if (train) out.set_requires_grad(true);
  c.backend.expert_linear({.x = x.f32(),
                           .weights = weights.table(),
                           .offsets = plan.offsets.i32(),
                           .experts = weights.count(),
                           .rows = P.value,
                           .out_features = weights.out_features(),
                           .in_features = K.value,
                           .out = out.f32()});
  if (!is_taped(c, out)) return out;
  c.tape->record(out, [=](Context& b, const float* d_out) {
    if (float* d_x = gradient(b, x)) {
      b.backend.expert_linear_backward_input({.d_out = d_out,
                                              .weights = weights.table(),
                                              .offsets = plan.offsets.i32(),
                                              .experts = weights.count(),
                                              .rows = P.value,
                                              .out_features = weights.out_features(),
                                              .in_features = K.value,
                                              .d_x = d_x});
    }
    if (!train) return;
    const Tensor d_weights = gradient_table(b, weights);
    b.backend.expert_linear_backward_weight({.d_out = d_out,
                                             .x = x.f32(),
                                             .offsets = plan.offsets.i32(),
                                             .experts = weights.count(),
                                             .rows = P.value,
                                             .out_features = weights.out_features(),
                                             .in_features = K.value,
                                             .d_weights = static_cast<float* const*>(d_weights.data())});
  });
  return out;
}

Tensor combine(Context& c, const Tensor& y, const Tensor& weights, const DispatchPlan& plan) {
  Dim P{"P"}, D{"D"}, T{"T"}, K{"K"};
  check_shape("combine", "y", y, {&P, &D});
  check_shape("combine", "weights", weights, {&T, &K});
  check_shape("combine", "plan", plan.row_of_slot, {&T, &K});
  Tensor out = make_result(c, {T.value, D.value}, {&y, &weights});
  const auto args = [=](float* to) -> CombineArgs {
    return {.y = y.f32(),
            .weights = weights.f32(),
            .row_of_slot = plan.row_of_slot.i32(),
            .rows = T.value,
            .top_k = K.value,
            .cols = D.value,
            .accumulate = false,
            .out = to};
  };
  c.backend.combine(args(out.f32()));
  if (is_taped(c, out)) {
    c.tape->record(out, [=](Context& b, const float* d_out) {
      b.backend.combine_backward({.forward = args(nullptr),
                                  .d_out = d_out,
                                  .d_y = gradient(b, y),
                                  .d_weights = gradient(b, weights)});
    });
  }
  return out;
}

namespace {

// The loss of one window of routed tokens: `routings` pooled, times `scale`, added to `loss`.
void add_balance_loss(Context& c, std::span<const Routing> routings, float scale, const Tensor& loss) {
  const int64_t E = routings.front().experts();
  const Tensor sums = Tensor::empty(c.arena, DType::kF32, {2, E});  // hits, then probability sums
  c.backend.fill_zero(sums.mutable_data(), sums.bytes());
  float* hits = sums.f32();
  int64_t total_rows = 0;
  for (const Routing& r : routings) {
    SY_CHECK(r.experts() == E, "a balance loss over layers of {} and {} experts", E, r.experts());
    c.backend.routing_sums({.probabilities = r.probabilities.f32(),
                            .expert_ids = r.expert_ids.i32(),
                            .rows = r.expert_ids.dim(0),
                            .experts = E,
                            .top_k = r.expert_ids.dim(1),
                            .hits = hits,
                            .probability_sums = hits + E});
    total_rows += r.expert_ids.dim(0);
  }
  c.backend.balance_loss({.hits = hits,
                          .probability_sums = hits + E,
                          .experts = E,
                          .total_rows = total_rows,
                          .scale = scale,
                          .loss = loss.f32()});
  if (!is_taped(c, loss)) return;
  // The hits are counts: only the probabilities carry a gradient (Fedus et al. 2021, section 2.2).
  c.tape->record(loss, [=, kept = std::vector<Routing>(routings.begin(), routings.end())](
                           Context& b, const float* d_loss) {
    for (const Routing& r : kept) {
      float* d_probabilities = gradient(b, r.probabilities);
      if (d_probabilities == nullptr) continue;
      b.backend.balance_loss_backward({.hits = sums.f32(),
                                       .rows = r.expert_ids.dim(0),
                                       .experts = E,
                                       .total_rows = total_rows,
                                       .scale = scale,
                                       .d_loss = d_loss,
                                       .d_probabilities = d_probabilities});
    }
  });
}

}  // namespace

Tensor balance_loss(Context& c, std::span<const Routing> routings, BalanceLoss kind) {
  SY_CHECK(!routings.empty(), "a balance loss without a {}", "routing");
  Tensor loss = make_result(c, {1}, {});
  for (const Routing& r : routings) {
    if (c.tape != nullptr && r.probabilities.requires_grad()) loss.set_requires_grad(true);
  }
  c.backend.fill_zero(loss.mutable_data(), loss.bytes());
  if (kind == BalanceLoss::kPooled) {
    add_balance_loss(c, routings, 1.0f, loss);
  } else {
    for (size_t i = 0; i < routings.size(); ++i) {
      add_balance_loss(c, routings.subspan(i, 1), 1.0f / static_cast<float>(routings.size()), loss);
    }
  }
  return loss;
}

}  // namespace switchyard
