#include <filesystem>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/routing_options.h"
#include "engine/step.h"
#include "engine/trace.h"
#include "io/safetensors_writer.h"

namespace switchyard {
namespace {

struct Options {
  ModelOptions model;
  RouterOptions router;
  std::string tokens_file;
  std::string output;
  bool hidden_states = false;
};

std::vector<std::vector<int32_t>> read_tokens(const std::string& path) {
  const Json document = parse_json(read_file(path, 64 << 20), path);
  const auto wrong = [&](const Json& got) {
    return Error(path, "", "a list of lists of token ids", describe(got));
  };
  if (!document.is_array() || document.empty()) throw wrong(document);
  std::vector<std::vector<int32_t>> sequences;
  for (const Json& list : document) {
    if (!list.is_array()) throw wrong(list);
    std::vector<int32_t>& sequence = sequences.emplace_back();
    for (const Json& id : list) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX) throw wrong(id);
      sequence.push_back(id.get<int32_t>());
    }
    const size_t length = sequences.front().size();
    if (length == 0) throw Error(path, "", "at least one token", "an empty sequence");
    if (sequence.size() != length) {
      throw Error(path, "", fmt::format("sequences of equal length {}", length),
                  fmt::format("{}", sequence.size()));
    }
  }
  return sequences;
}

void write(const std::string& path, const std::map<std::string, TracedTensor>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [tensor_name, tensor] : tensors) {
    declarations.push_back({tensor_name, tensor.ids.empty() ? DType::kF32 : DType::kI32, tensor.shape});
  }
  SafetensorsWriter writer(path, declarations);
  for (const TensorInfo& info : writer.tensors()) {
    const TracedTensor& tensor = tensors.at(info.name);
    writer.write(info.name, tensor.ids.empty() ? std::as_bytes(std::span(tensor.values))
                                               : std::as_bytes(std::span(tensor.ids)));
  }
  writer.finish();
}

// Before the work begins: the output replaces what has its name, and must not replace what it is made from.
void check_output(const Options& o) {
  namespace fs = std::filesystem;
  if (o.output.empty()) throw Error("--output", "", "the name of a file", "an empty one");
  std::error_code ignored;  // what does not exist is not the same
  const fs::path folder = fs::path(o.output).parent_path();
  if (fs::equivalent(folder.empty() ? "." : folder, o.model.path, ignored)) {
    throw Error(o.output, "", "an output outside the checkpoint folder", "a file in it");
  }
  if (fs::equivalent(o.output, o.model.path, ignored)) {
    throw Error(o.output, "", "another file than the model", "the same");
  }
  if (fs::equivalent(o.output, o.tokens_file, ignored)) {
    throw Error(o.output, "", "another file than --tokens", "the same");
  }
  const fs::file_status status = fs::status(o.output, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw Error(o.output, "", "a regular file or a new one", "a folder or device");
  }
}

int logits(const Options& o) {
  check_output(o);
  const std::vector<std::vector<int32_t>> sequences = read_tokens(o.tokens_file);
  const LoadedModel loaded(o.model);
  for (const auto& sequence : sequences)
    check_token_ids(o.tokens_file, sequence, loaded.model->shape().vocab);
  note_untrained_positions(*loaded.model, static_cast<int64_t>(sequences.front().size()));
  write(o.output, trace(*loaded.backend, *loaded.model, sequences,
                        {.hidden_states = o.hidden_states,
                         .routing = true,
                         .routed = o.router.for_model(*loaded.backend, loaded.model->shape())}));
  return 0;
}

}  // namespace

Command logits_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("logits", "Writes logits and routing of token sequences to a safetensors file");
  o->model.add_to(*command);
  command
      ->add_option("--tokens", o->tokens_file, "JSON file: a list of lists of token ids, all of one length")
      ->required();
  command->add_option("--output", o->output, "The safetensors file to write")->required();
  o->router.add_to(*command);
  command->add_flag("--hidden-states", o->hidden_states, "Also the hidden states");
  return {command, [o] { return logits(*o); }};
}

}  // namespace switchyard
