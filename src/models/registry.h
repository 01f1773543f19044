// The families that Switchyard knows, and the way from files to a model.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/config_reader.h"
#include "models/families.h"
#include "models/model.h"
#include "models/model_files.h"

namespace switchyard {

struct Family {
  std::string_view model_type;    // as in config.json
  std::string_view architecture;  // the class in `architectures`
  MakeModel* make;
};

std::span<const Family> families();

// The family that config.json names. Throws Error for an unknown model_type, and for an `architectures` entry
// that is another class than the family's.
const Family& find_family(const ConfigReader& config);

// A model of the config with weights from `source`. Throws Error for anything in either that is not
// understood, missing, left over, or of the wrong shape. `ignored_keys`: config keys that the user has
// declared harmless.
std::unique_ptr<Model> make_model(const ConfigReader& config, WeightSource& source, Backend& backend,
                                  const LoadOptions& options = {});

// The same from files. Reads headers only, and packed matrices whose layout must change: other elements are
// read when a step needs them.
std::unique_ptr<Model> load_model(const ModelFiles& files, Backend& backend, const LoadOptions& options = {});
std::unique_ptr<Model> load_model(const std::string& path, Backend& backend, const LoadOptions& options = {});

}  // namespace switchyard
