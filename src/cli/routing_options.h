// The options that steer the router; docs/moe.md says what they mean.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "engine/routing_policy.h"

namespace switchyard {

struct RouterOptions {
  std::optional<std::string> preset;  // switch, glam or gshard
  std::optional<int64_t> top_k;
  std::optional<double> temperature;
  std::optional<std::string> mask;  // LAYER:EXPERT,EXPERT;LAYER:EXPERT
  std::optional<std::string> bias_file;
  double bias_strength = 1;
  std::optional<int64_t> capacity;
  std::optional<double> capacity_factor;
  std::optional<std::string> overflow;  // drop or reroute

  // Parsing throws CLI::ParseError for options that contradict each other.
  void add_to(CLI::App& app);
  void add_policy_to(CLI::App& app);  // without preset and capacity
  // Throws Error for a file, layer, expert or number that does not fit the model.
  RoutingOptions for_model(Backend& backend, const ModelShape& model) const;

 private:
  void check_usage() const;
};

}  // namespace switchyard
