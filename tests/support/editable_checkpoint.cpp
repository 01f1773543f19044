#include "support/editable_checkpoint.h"

#include "io/checkpoint.h"
#include "io/safetensors_writer.h"

namespace switchyard {

EditableCheckpoint::EditableCheckpoint(const std::string& source_folder)
    : config(parse_json(read_file(source_folder + "/config.json", kMaxConfigBytes), source_folder)) {
  const Checkpoint checkpoint = Checkpoint::open(source_folder);
  for (const std::string& name : checkpoint.names()) {
    const Checkpoint::View view = checkpoint.tensor(name);
    tensors[name] = {view.dtype, view.shape, {view.data, view.data + view.size_bytes}};
  }
}

std::unique_ptr<Model> EditableCheckpoint::load(Backend& backend, const LoadOptions& options) const {
  temp_.write("config.json", config.dump(1));
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors)
    declarations.push_back({name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(weights_path(), declarations);
  for (const TensorInfo& info : writer.tensors())
    writer.write(info.name, tensors.at(info.name).bytes);
  writer.finish();
  return load_model(folder(), backend, options);
}

}  // namespace switchyard
