// A copy of a checkpoint that a test may damage before it is loaded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/registry.h"
#include "support/temp_folder.h"

namespace switchyard {

struct EditableTensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

struct EditableCheckpoint {
  explicit EditableCheckpoint(const std::string& source_folder);

  Json config;
  std::map<std::string, EditableTensor> tensors;

  std::string folder() const { return temp_.path(); }
  std::string config_path() const { return temp_.path("config.json"); }
  std::string weights_path() const { return temp_.path("model.safetensors"); }
  // Writes everything as one safetensors file, and loads it.
  std::unique_ptr<Model> load(Backend& backend, const LoadOptions& options = {}) const;

 private:
  TempFolder temp_;
};

}  // namespace switchyard
