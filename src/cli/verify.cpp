#include <cmath>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "engine/trace.h"
#include "io/safetensors.h"

namespace switchyard {
namespace {

struct Options {
  ModelOptions model;
  std::string reference;
  double tolerance = 1e-4;
  bool json = false;
};

struct Row {
  std::string tensor;
  double absolute = 0;  // largest absolute difference; for ids: how many differ
  double relative = 0;  // norm of the difference over the norm of the reference
  bool ids = false;
  bool passed = false;
};

// The name under which `trace` has what a reference calls `name`: references made by hooks on transformers'
// modules call a router's outputs router.<module>.logits, .out0 (weights) and .out1 (ids).
std::string traced_name(const std::string& name) {
  constexpr std::string_view kPrefix = "router.model.layers.";
  if (!name.starts_with(kPrefix)) return name;
  const std::string layer = name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size());
  const std::string leaf = name.substr(name.rfind('.') + 1);
  return fmt::format("router.{}.{}", layer, leaf == "out0" ? "weights" : leaf == "out1" ? "experts" : leaf);
}

std::vector<float> read_floats(const SafetensorsFile& file, const TensorInfo& info) {
  std::vector<float> values(static_cast<size_t>(info.size_bytes / size_bytes(info.dtype)));
  convert_to_f32(info.dtype, file.data(info), static_cast<int64_t>(values.size()), values.data());
  return values;
}

// Rows of a [B, T] tensor of ids.
std::vector<std::vector<int32_t>> read_ids(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr)
    throw Error(file.path(), fmt::format("tensor '{}'", name), "token ids [B, T]", "no such tensor");
  if (info->shape.size() != 2 || (info->dtype != DType::kI32 && info->dtype != DType::kI64)) {
    throw Error(file.path(), fmt::format("tensor '{}'", name), "I32 or I64 in two dimensions",
                fmt::format("{} in {}", switchyard::name(info->dtype), info->shape.size()));
  }
  const std::vector<float> values = read_floats(file, *info);  // ids below 2^24 are exact
  std::vector<std::vector<int32_t>> rows;
  for (int64_t b = 0; b < info->shape[0]; ++b) {
    const auto begin = values.begin() + b * info->shape[1];
    rows.emplace_back(begin, begin + info->shape[1]);
  }
  return rows;
}

Row compare(const std::string& tensor, const std::vector<float>& want, const TracedTensor& got,
            double tolerance) {
  Row row{.tensor = tensor, .ids = !got.ids.empty()};
  if (row.ids) {
    for (size_t i = 0; i < want.size(); ++i)
      row.absolute += static_cast<int32_t>(want[i]) != got.ids[i];
    row.passed = row.absolute == 0;
    return row;
  }
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::fabs(static_cast<double>(want[i]) - got.values[i]);
    if (!(d <= row.absolute)) row.absolute = d;  // a NaN stays
    difference += d * d;
    norm += static_cast<double>(want[i]) * want[i];
  }
  row.relative = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
  row.passed = row.absolute <= tolerance;
  return row;
}

std::optional<Row> compare_greedy(const LoadedModel& loaded, const SafetensorsFile& file) {
  if (file.find("greedy_prompt") == nullptr) return std::nullopt;
  const auto prompts = read_ids(file, "greedy_prompt");
  const auto outputs = read_ids(file, "greedy_output");
  Row row{.tensor = "greedy_output", .ids = true};
  for (size_t b = 0; b < prompts.size() && b < outputs.size(); ++b) {
    const auto count = static_cast<int64_t>(outputs[b].size()) - static_cast<int64_t>(prompts[b].size());
    const auto got =
        greedy_continuation(*loaded.backend, *loaded.model, prompts[b], std::max<int64_t>(count, 0));
    for (size_t i = 0; i < outputs[b].size(); ++i)
      row.absolute += i >= got.size() || got[i] != outputs[b][i];
  }
  row.passed = row.absolute == 0;
  return row;
}

std::vector<Row> verify_all(const Options& o) {
  const auto file = SafetensorsFile::open(o.reference);
  const auto sequences = read_ids(*file, "input_ids");
  const LoadedModel loaded(o.model);
  const auto traced =
      trace(*loaded.backend, *loaded.model, sequences, {.hidden_states = true, .routing = true});
  std::vector<Row> rows;
  for (const TensorInfo& info : file->tensors()) {
    if (info.name == "input_ids" || info.name.starts_with("greedy_")) continue;
    const auto got = traced.find(traced_name(info.name));
    if (got == traced.end()) {
      throw Error(
          o.reference, fmt::format("tensor '{}'", printable(info.name)),
          "logits, hidden_states.N, router.N.{logits,experts,weights}, input_ids or greedy_{prompt,output}",
          "a name that this model does not produce");
    }
    const std::vector<float> want = read_floats(*file, info);
    const size_t have = std::max(got->second.values.size(), got->second.ids.size());
    if (want.size() != have) {
      throw Error(o.reference, fmt::format("tensor '{}'", printable(info.name)),
                  fmt::format("{} elements", have), fmt::format("{}", want.size()));
    }
    rows.push_back(compare(info.name, want, got->second, o.tolerance));
  }
  if (const auto greedy = compare_greedy(loaded, *file)) rows.push_back(*greedy);
  if (rows.empty()) throw Error(o.reference, "", "at least one tensor to compare", "input_ids alone");
  return rows;
}

int verify(const Options& o) {
  const std::vector<Row> rows = verify_all(o);
  int failed = 0;
  for (const Row& row : rows)
    failed += !row.passed;
  if (o.json) {
    Json tensors = Json::array();
    for (const Row& row : rows) {
      tensors.push_back({{"tensor", row.tensor},
                         {row.ids ? "differing_ids" : "max_absolute", row.absolute},
                         {"relative", row.relative},
                         {"passed", row.passed}});
    }
    print_json({{"tolerance", o.tolerance}, {"passed", failed == 0}, {"tensors", tensors}});
  } else {
    std::string text = fmt::format("{:<44} {:>12} {:>12}\n", "tensor", "max abs", "relative");
    for (const Row& row : rows) {
      const std::string absolute =
          row.ids ? fmt::format("{:.0f} differ", row.absolute) : fmt::format("{:.3g}", row.absolute);
      text += fmt::format("{:<44} {:>12} {:>12} {}\n", row.tensor, absolute,
                          row.ids ? "" : fmt::format("{:.3g}", row.relative), row.passed ? "ok" : "FAILED");
    }
    print(text);
  }
  if (failed > 0) {
    std::fprintf(stderr, "switchyard: %s: %d of %zu tensors differ by more than %g\n", o.reference.c_str(),
                 failed, rows.size(), o.tolerance);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

Command verify_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("verify", "Compares with a reference that another implementation wrote");
  o->model.add_to(*command);
  command
      ->add_option("REFERENCE", o->reference,
                   "safetensors file with input_ids [B, T] and what they should give")
      ->required();
  command->add_option("--tolerance", o->tolerance, "Largest absolute difference allowed; ids must be equal")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON document");
  return {command, [o] { return verify(*o); }};
}

}  // namespace switchyard
