#include <fmt/ranges.h>

#include "backend/cpu/reference.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "models/accounting.h"

namespace switchyard {
namespace {

struct Options {
  ModelOptions model;
  bool config_only = false;
  bool json = false;
  double bandwidth = 0;  // GB/s; 0: a row of common values
};

struct Precision {
  const char* name;
  double bits;  // per parameter, scales of quantised groups of 32 included
};
constexpr Precision kPrecisions[] = {{"f32", 32}, {"bf16", 16}, {"fp8", 8}, {"int8", 8.5}, {"int4", 4.5}};
constexpr int64_t kBatches[] = {1, 8, 32, 128};
constexpr double kBandwidths[] = {50, 100, 400, 1000, 3350, 4800};  // GB/s: desktop and server memory, GPUs

std::string human(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string human_bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

int64_t sparse_layers(const ModelShape& s) {
  int64_t count = 0;
  for (const LayerShape& layer : s.layers)
    count += layer.experts > 0;
  return count;
}

int64_t windowed_layers(const ModelShape& s) {
  int64_t count = 0;
  for (const LayerShape& layer : s.layers)
    count += layer.window > 0;
  return count;
}

Json shape_json(const ModelShape& s) {
  return {{"layers", s.layer_count()},
          {"sparse_layers", sparse_layers(s)},
          {"windowed_layers", windowed_layers(s)},
          {"hidden_size", s.hidden},
          {"attention_heads", s.heads},
          {"key_value_heads", s.kv_heads},
          {"head_dim", s.head_dim},
          {"vocab_size", s.vocab},
          {"max_positions", s.max_positions},
          {"tied_embeddings", s.tied_embeddings}};
}

Json report_json(const Model& model, const Accounting& a) {
  const ModelShape& s = model.shape();
  Json components = Json::object();
  for (size_t i = 0; i < kComponents; ++i) {
    if (a.by_component[i].total == 0) continue;
    components[std::string(name(static_cast<Component>(i)))] = {{"total", a.by_component[i].total},
                                                                {"active", a.by_component[i].active}};
  }
  Json bytes = Json::object();
  for (const Precision& p : kPrecisions)
    bytes[p.name] = static_cast<double>(a.sum.total) * p.bits / 8;
  Json steps = Json::array();
  for (const int64_t batch : kBatches) {
    steps.push_back({{"sequences", batch},
                     {"distinct_experts", expected_distinct_experts(s.experts, s.top_k, batch)},
                     {"parameters_read", parameters_read_per_step(model, a, batch)}});
  }
  return {{"family", s.family},
          {"shape", shape_json(s)},
          {"routing",
           {{"experts", s.experts},
            {"experts_per_token", s.top_k},
            {"expert_width", s.expert_width},
            {"shared_expert_width", s.shared_width},
            {"scores", s.sigmoid_scores ? "sigmoid" : "softmax"},
            {"groups", s.n_group},
            {"groups_per_token", s.topk_group},
            {"norm_topk_prob", s.normalize_weights}}},
          {"parameters",
           {{"total", a.sum.total},
            {"active", a.sum.active},
            {"active_ratio", a.sum.active / static_cast<double>(a.sum.total)},
            {"by_component", components}}},
          {"bytes", bytes},
          {"kv_bytes_per_token",
           {{"f32", s.kv_bytes_per_token(DType::kF32)}, {"bf16", s.kv_bytes_per_token(DType::kBF16)}}},
          {"decode_steps", steps}};
}

std::string routing_text(const ModelShape& s) {
  if (s.experts == 0) return "";
  std::string text = fmt::format("routing      top {} of {} experts of width {}, {} scores, weights {}\n",
                                 s.top_k, s.experts, s.expert_width, s.sigmoid_scores ? "sigmoid" : "softmax",
                                 s.normalize_weights ? "renormalised" : "as they are");
  if (s.topk_group < s.n_group) {
    text += fmt::format("             from the best {} of {} groups\n", s.topk_group, s.n_group);
  }
  if (s.shared_width > 0) {
    text += fmt::format("             and a shared expert of width {}{}\n", s.shared_width,
                        s.shared_gate ? " with a sigmoid gate" : "");
  }
  return text;
}

std::string shape_text(const ModelShape& s) {
  std::string text = fmt::format("family       {}\n", s.family);
  text += fmt::format("layers       {} ({} with experts, {} with a sliding window)\n", s.layer_count(),
                      sparse_layers(s), windowed_layers(s));
  text += fmt::format("width        hidden {}, {} heads of {}, {} key/value heads\n", s.hidden, s.heads,
                      s.head_dim, s.kv_heads);
  text +=
      fmt::format("vocabulary   {}{}\n", s.vocab, s.tied_embeddings ? ", output tied to the embedding" : "");
  text += fmt::format("positions    {}\n", s.max_positions);
  if (s.kv.values_in_keys) {
    text += fmt::format("cache        one latent of {} and one rotary key of {} for all heads of a layer\n",
                        s.kv.value_dim, s.kv.key_dim - s.kv.value_dim);
  }
  return text + routing_text(s);
}

std::string formats_text(const Accounting& a) {
  std::string text;
  for (const auto& [format, matrices] : a.matrices_by_format)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", matrices, format);
  return fmt::format("matrices     {}\n", text);
}

std::string parameters_text(const Accounting& a) {
  std::string text = fmt::format("\n{:<20} {:>12} {:>16}\n", "parameters", "total", "active per token");
  for (size_t i = 0; i < kComponents; ++i) {
    const ParameterCount& c = a.by_component[i];
    if (c.total == 0) continue;
    text += fmt::format("{:<20} {:>12} {:>16}\n", name(static_cast<Component>(i)),
                        human(static_cast<double>(c.total)), human(c.active));
  }
  return text + fmt::format("{:<20} {:>12} {:>16}   {:.1f} % active\n", "all",
                            human(static_cast<double>(a.sum.total)), human(a.sum.active),
                            100 * a.sum.active / static_cast<double>(a.sum.total));
}

std::string memory_text(const Model& model, const Accounting& a) {
  std::string text = fmt::format("\n{:<20}", "memory");
  for (const Precision& p : kPrecisions)
    text += fmt::format(" {:>10}", p.name);
  text += fmt::format("\n{:<20}", "weights");
  for (const Precision& p : kPrecisions) {
    text += fmt::format(" {:>10}", human_bytes(static_cast<double>(a.sum.total) * p.bits / 8));
  }
  const ModelShape& s = model.shape();
  text += fmt::format("\n{:<20} {:>10} {:>10}\n", "cache per token",
                      human_bytes(static_cast<double>(s.kv_bytes_per_token(DType::kF32))),
                      human_bytes(static_cast<double>(s.kv_bytes_per_token(DType::kBF16))));
  return text;
}

std::string steps_text(const Model& model, const Accounting& a, double bandwidth) {
  const ModelShape& s = model.shape();
  std::vector<double> bandwidths(std::begin(kBandwidths), std::end(kBandwidths));
  if (bandwidth > 0) bandwidths = {bandwidth};
  std::string text =
      "\nA decode step reads at least this, and memory of a given speed allows at most so many tokens/s";
  text += fmt::format("\n{:>10} {:>9} {:>12} {:>12}", "sequences", "experts", "bytes bf16", "bytes int4");
  for (const double gbps : bandwidths)
    text += fmt::format(" {:>9}", fmt::format("{:g} GB/s", gbps));
  text += "  (bf16)\n";
  for (const int64_t batch : kBatches) {
    const double read = parameters_read_per_step(model, a, batch);
    text += fmt::format("{:>10} {:>9.1f} {:>12} {:>12}", batch,
                        expected_distinct_experts(s.experts, s.top_k, batch), human_bytes(read * 2),
                        human_bytes(read * 4.5 / 8));
    for (const double gbps : bandwidths) {
      const double rate = static_cast<double>(batch) * gbps * 1e9 / (read * 2);
      text += fmt::format(" {:>9.{}f}", rate, rate < 100 ? 1 : 0);
    }
    text += "\n";
  }
  return text;
}

Json tokenizer_json(const ModelFiles& files) {
  if (!files.has_tokenizer()) return nullptr;
  return {{"vocab_size", load_tokenizer(files).vocab_size()}};
}

int inspect(const Options& o) {
  const auto files = ModelFiles::open(o.model.path);
  const ConfigReader config = files->config();
  ReferenceBackend backend;  // shapes only: nothing is computed
  Json document;
  std::unique_ptr<Model> model;
  Json checkpoint_report = nullptr;
  std::string checkpoint_text;
  const LoadOptions options = o.model.load_options();
  if (o.config_only) {
    read_quantization_config(config, options.ignored_keys);
    DeclaredWeights declared(config.dtype().value_or(DType::kBF16));
    model = make_model(config, declared, backend, options);
  } else {
    const ModelFiles::Weights weights = files->weights(config, options.ignored_keys, Elements::kHeaders);
    model = make_model(config, *weights.source, backend, options);
    for (const std::string& note : weights.all_notes())
      print_error(fmt::format("note: {}\n", note));
    checkpoint_report = {{"files", weights.files}, {"tensors", weights.tensors}, {"bytes", weights.bytes}};
    checkpoint_text =
        fmt::format("checkpoint   {} tensors in {} file(s), {}: every one as the config says\n",
                    weights.tensors, weights.files, human_bytes(static_cast<double>(weights.bytes)));
  }
  const GenerationConfig generation = files->generation_config(model->shape().vocab);
  const Json tokenizer = tokenizer_json(*files);
  const Accounting accounting = account(*model);
  if (o.json) {
    document = report_json(*model, accounting);
    document["checkpoint"] = checkpoint_report;
    document["formats"] = o.config_only ? Json(nullptr) : Json(accounting.matrices_by_format);
    document["tokenizer"] = tokenizer;
    document["end_token_ids"] = generation.eos_token_ids;
    print_json(document);
    return 0;
  }
  std::string text = shape_text(model->shape()) + checkpoint_text;
  if (!o.config_only) text += formats_text(accounting);
  text += tokenizer.is_null() ? "tokenizer    none in this model\n"
                              : fmt::format("tokenizer    {} tokens, end of text: {}\n",
                                            tokenizer["vocab_size"].get<int64_t>(),
                                            fmt::join(generation.eos_token_ids, ", "));
  print(text + parameters_text(accounting) + memory_text(*model, accounting) +
        steps_text(*model, accounting, o.bandwidth));
  return 0;
}

}  // namespace

Command inspect_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect",
                                         "Shows shapes, routing, parameters and memory; checks every "
                                         "tensor's name and shape; reads headers only");
  o->model.add_to(*command);
  command->add_flag("--config-only", o->config_only, "Needs nothing but config.json");
  CLI::Option* json = command->add_flag("--json", o->json, "One JSON document");
  command->add_option("--bandwidth", o->bandwidth, "Memory bandwidth in GB/s for the table of decode speed")
      ->check(is_number(1e-3))
      ->excludes(json);
  return {command, [o] { return inspect(*o); }};
}

}  // namespace switchyard
