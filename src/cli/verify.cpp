#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "engine/step.h"
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

// The weights that belong to a router's ids in a reference, and the ids that belong to weights; null where
// the reference has none.
const TensorInfo* beside(const SafetensorsFile& file, const TensorInfo& info, std::string_view leaf,
                         std::string_view other_leaf) {
  const size_t dot = info.name.rfind('.') + 1;
  return info.name.substr(dot) == leaf ? file.find(info.name.substr(0, dot) + std::string(other_leaf))
                                       : nullptr;
}

const TensorInfo* weights_beside(const SafetensorsFile& file, const TensorInfo& ids) {
  const TensorInfo* found = beside(file, ids, "out1", "out0");
  return found != nullptr ? found : beside(file, ids, "experts", "weights");
}

const TensorInfo* ids_beside(const SafetensorsFile& file, const TensorInfo& weights) {
  const TensorInfo* found = beside(file, weights, "out0", "out1");
  return found != nullptr ? found : beside(file, weights, "weights", "experts");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<float> read_floats(const SafetensorsFile& file, const TensorInfo& info) {
  if (!is_floating_point(info.dtype)) {
    throw Error(file.path(), tensor_item(info.name), "floating-point numbers",
                std::string(switchyard::name(info.dtype)));
  }
  std::vector<float> values(static_cast<size_t>(info.size_bytes / size_bytes(info.dtype)));
  convert_to_f32(info.dtype, file.data(info), static_cast<int64_t>(values.size()), values.data());
  return values;
}

std::vector<int32_t> read_ids(const SafetensorsFile& file, const TensorInfo& info) {
  if (info.dtype != DType::kI32 && info.dtype != DType::kI64) {
    throw Error(file.path(), tensor_item(info.name), "I32 or I64", std::string(switchyard::name(info.dtype)));
  }
  std::vector<int32_t> ids;
  const std::byte* data = file.data(info);
  const int64_t step = size_bytes(info.dtype);
  for (int64_t offset = 0; offset < info.size_bytes; offset += step) {
    int64_t id = 0;  // the file is little-endian, and so are the processors this runs on
    std::memcpy(&id, data + offset, static_cast<size_t>(step));
    if (info.dtype == DType::kI32) id = static_cast<int32_t>(id);
    if (id < 0 || id > INT32_MAX)
      throw Error(file.path(), tensor_item(info.name), "ids", fmt::format("{}", id));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// Rows of a [B, T] tensor of ids, both at least 1.
std::vector<std::vector<int32_t>> read_rows(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) throw Error(file.path(), tensor_item(name), "token ids [B, T]", "no such tensor");
  if (info->shape.size() != 2 || info->size_bytes == 0) {
    throw Error(file.path(), tensor_item(name), "token ids [B, T], at least one", shape_text(info->shape));
  }
  const std::vector<int32_t> ids = read_ids(file, *info);
  std::vector<std::vector<int32_t>> rows;
  for (auto row = ids.begin(); row != ids.end(); row += info->shape[1])
    rows.emplace_back(row, row + info->shape[1]);
  return rows;
}

Row compare_ids(const std::string& tensor, const std::vector<int32_t>& want,
                const std::vector<int32_t>& got) {
  Row row{.tensor = tensor, .ids = true};
  for (size_t i = 0; i < want.size(); ++i)
    row.absolute += want[i] != got[i];
  row.passed = row.absolute == 0;
  return row;
}

Row compare_values(const std::string& tensor, const std::vector<float>& want, const std::vector<float>& got,
                   double tolerance) {
  Row row{.tensor = tensor};
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::fabs(static_cast<double>(want[i]) - got[i]);
    if (!(d <= row.absolute)) row.absolute = d;  // a NaN stays
    difference += d * d;
    norm += static_cast<double>(want[i]) * want[i];
  }
  row.relative = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
  row.passed = row.absolute <= tolerance;
  return row;
}

void check_shape_of(const SafetensorsFile& file, const TensorInfo& info, const TracedTensor& got) {
  if (info.shape == got.shape) return;
  throw Error(file.path(), tensor_item(info.name), fmt::format("shape {}", shape_text(got.shape)),
              shape_text(info.shape));
}

// Where the slots of each token's K experts stand in ascending id. References have them in any order: some of
// transformers' routers do not sort what they choose.
std::vector<size_t> by_expert(const std::vector<int32_t>& ids, size_t top_k) {
  std::vector<size_t> order(ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t token = 0; token + top_k <= ids.size(); token += top_k) {
    const auto begin = order.begin() + static_cast<int64_t>(token);
    std::sort(begin, begin + static_cast<int64_t>(top_k),
              [&](size_t a, size_t b) { return ids[a] < ids[b]; });
  }
  return order;
}

template <typename T>
std::vector<T> in_order(const std::vector<T>& values, const std::vector<size_t>& order) {
  std::vector<T> result;
  for (const size_t i : order)
    result.push_back(values[i]);
  return result;
}

// A router's choice: `ids` and, where the reference has them, `weights`, each token's in ascending id.
struct Choice {
  const TensorInfo* ids;
  const TensorInfo* weights;
};

void compare_choice(const SafetensorsFile& file, const Choice& choice, const TracedTensor& experts,
                    const TracedTensor& weights, double tolerance, std::vector<Row>& rows) {
  const auto top_k = static_cast<size_t>(experts.shape.back());
  check_shape_of(file, *choice.ids, experts);
  const std::vector<int32_t> wanted = read_ids(file, *choice.ids);
  const std::vector<size_t> wanted_order = by_expert(wanted, top_k);
  const std::vector<size_t> got_order = by_expert(experts.ids, top_k);
  if (choice.weights != nullptr) {
    check_shape_of(file, *choice.weights, weights);
    rows.push_back(compare_values(choice.weights->name,
                                  in_order(read_floats(file, *choice.weights), wanted_order),
                                  in_order(weights.values, got_order), tolerance));
  }
  rows.push_back(
      compare_ids(choice.ids->name, in_order(wanted, wanted_order), in_order(experts.ids, got_order)));
}

std::optional<Row> compare_greedy(const LoadedModel& loaded, const SafetensorsFile& file) {
  if (file.find("greedy_prompt") == nullptr && file.find("greedy_output") == nullptr) return std::nullopt;
  const auto prompts = read_rows(file, "greedy_prompt");
  const auto outputs = read_rows(file, "greedy_output");
  for (const auto& prompt : prompts)
    check_token_ids(file.path(), prompt, loaded.model->shape().vocab);
  const size_t prompt_length = prompts.front().size();
  if (outputs.size() != prompts.size() || outputs.front().size() <= prompt_length) {
    throw Error(file.path(), tensor_item("greedy_output"),
                fmt::format("[{}, n] with n above {}: each prompt and what follows it", prompts.size(),
                            prompt_length),
                fmt::format("[{}, {}]", outputs.size(), outputs.front().size()));
  }
  const auto count = static_cast<int64_t>(outputs.front().size() - prompt_length);
  Row row{.tensor = "greedy_output", .ids = true};
  for (size_t b = 0; b < prompts.size(); ++b) {
    const auto got = greedy_continuation(*loaded.backend, *loaded.model, prompts[b], count);
    row.absolute += compare_ids(row.tensor, outputs[b], got).absolute;
  }
  row.passed = row.absolute == 0;
  return row;
}

std::vector<Row> verify_all(const Options& o) {
  const auto file = SafetensorsFile::open(o.reference);
  const auto sequences = read_rows(*file, "input_ids");
  const LoadedModel loaded(o.model);
  for (const auto& sequence : sequences)
    check_token_ids(o.reference, sequence, loaded.model->shape().vocab);
  const auto traced =
      trace(*loaded.backend, *loaded.model, sequences, {.hidden_states = true, .routing = true});
  std::vector<Row> rows;
  for (const TensorInfo& info : file->tensors()) {
    if (info.name == "input_ids" || info.name == "greedy_prompt" || info.name == "greedy_output") continue;
    const auto got = traced.find(traced_name(info.name));
    if (got == traced.end()) {
      throw Error(
          o.reference, tensor_item(info.name),
          "logits, hidden_states.N, router.N.{logits,experts,weights}, input_ids or greedy_{prompt,output}",
          "a name that this model does not produce");
    }
    const std::string& name = got->first;
    if (name.ends_with(".experts")) {
      const auto weights = traced.find(name.substr(0, name.rfind('.')) + ".weights");
      compare_choice(*file, {&info, weights_beside(*file, info)}, got->second, weights->second, o.tolerance,
                     rows);
    } else if (!name.ends_with(".weights") || ids_beside(*file, info) == nullptr) {
      check_shape_of(*file, info, got->second);
      rows.push_back(compare_values(info.name, read_floats(*file, info), got->second.values, o.tolerance));
    }  // weights with ids beside them are compared with these
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
      text += fmt::format("{:<44} {:>12} {:>12} {}\n", printable(row.tensor), absolute,
                          row.ids ? "" : fmt::format("{:.3g}", row.relative), row.passed ? "ok" : "FAILED");
    }
    print(text);
  }
  if (failed > 0) {
    print_error(fmt::format("switchyard: {}: {} of {} tensors differ by more than {}\n",
                            printable(o.reference, 4096), failed, rows.size(), o.tolerance));
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
      ->check(is_number(0))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON document");
  return {command, [o] { return verify(*o); }};
}

}  // namespace switchyard
