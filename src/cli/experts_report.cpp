#include "cli/experts_report.h"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"

namespace switchyard {
namespace {

// "3 12 %, 7 9 %, ...": the three busiest experts with their share of the layer's assignments.
std::string busiest(const std::vector<int64_t>& hits, int64_t assignments) {
  std::vector<size_t> order(hits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return hits[a] > hits[b]; });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i) {
    const double share = 100.0 * static_cast<double>(hits[order[i]]) / static_cast<double>(assignments);
    parts.push_back(fmt::format("#{} {:.0f} %", order[i], share));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string figures_text(const LoadFigures& f) {
  return fmt::format("{:>11} {:>9.4f} {:>9.3f} {:>9.2f} {:>5} {:>8.2f}", f.assignments, f.load_std,
                     f.load_variance, f.max_over_mean, f.dead_experts, f.entropy_bits);
}

std::string effects_summary(const RoutingStatistics& statistics) {
  const auto line = [](const std::string& layer, const auto& dropped, const auto& rerouted,
                       const auto& changed) {
    return fmt::format("{:<6} {:>11} {:>9} {:>17}\n", layer, dropped, rerouted, changed);
  };
  const auto line_of = [&](const std::string& layer, const RoutingEffects& e) {
    return line(layer, e.dropped, e.rerouted, e.policy_changed);
  };
  const RoutingEffects total = statistics.total_effects();
  if (total.dropped + total.rerouted + total.policy_changed == 0) return "";
  std::string text = "\n";
  text += line("layer", "dropped", "rerouted", "changed by policy");
  for (const auto& [layer, effects] : statistics.effects())
    text += line_of(std::to_string(layer), effects);
  return text + line_of("all", total);
}

}  // namespace

std::string experts_by_token(const std::vector<GeneratedToken>& tokens, const Tokenizer& tokenizer) {
  std::string text = "experts by token, best first, layer by layer\n";
  for (const GeneratedToken& token : tokens) {
    text += fmt::format("{:<14}", printable(tokenizer.decode(std::vector{token.sampled.id}, false), 12));
    for (const auto& choice : token.experts) {
      text += fmt::format(" | {}: {}", choice.layer, fmt::join(choice.expert_ids, " "));
    }
    text += "\n";
  }
  return text;
}

std::string load_summary(const RoutingStatistics& statistics) {
  std::string text = fmt::format("{:<6} {:>11} {:>9} {:>9} {:>9} {:>5} {:>8}  {}\n", "layer", "assignments",
                                 "load_std", "variance", "max/mean", "dead", "entropy", "busiest experts");
  for (const auto& [layer, hits] : statistics.hits()) {
    const LoadFigures f = load_figures(hits);
    text += fmt::format("{:<6} {}  {}\n", layer, figures_text(f), busiest(hits, f.assignments));
  }
  return text + fmt::format("{:<6} {}\n", "mean", figures_text(statistics.mean_over_layers())) +
         effects_summary(statistics);
}

Json experts_json(const GeneratedToken& token) {
  Json layers = Json::object();
  for (const auto& choice : token.experts)
    layers[std::to_string(choice.layer)] = choice.expert_ids;
  return layers;
}

Json load_json(const RoutingStatistics& statistics) {
  Json layers = Json::object();
  for (const auto& [layer, hits] : statistics.hits()) {
    const LoadFigures f = load_figures(hits);
    layers[std::to_string(layer)] = {{"hits", hits},
                                     {"load_std", f.load_std},
                                     {"load_variance", f.load_variance},
                                     {"max_over_mean", f.max_over_mean},
                                     {"dead_experts", f.dead_experts},
                                     {"entropy_bits", f.entropy_bits}};
  }
  for (const auto& [layer, effects] : statistics.effects()) {
    layers[std::to_string(layer)].update({{"dropped", effects.dropped},
                                          {"rerouted", effects.rerouted},
                                          {"policy_changed", effects.policy_changed}});
  }
  return layers;
}

}  // namespace switchyard
