#include "io/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/checkpoint_index.h"
#include "io/pytorch.h"
#include "io/safetensors.h"

namespace switchyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSafetensorsSuffix = ".safetensors";
constexpr std::string_view kPytorchSuffix = ".bin";

// In the order of preference.
struct WeightsName {
  const char* name;
  std::string_view suffix;  // of the file, or of the shards of an index
  bool is_index;
};
constexpr std::array<WeightsName, 4> kWeightsNames = {
    {{"model.safetensors", kSafetensorsSuffix, false},
     {"model.safetensors.index.json", kSafetensorsSuffix, true},
     {"pytorch_model.bin", kPytorchSuffix, false},
     {"pytorch_model.bin.index.json", kPytorchSuffix, true}}};

constexpr int64_t kMaxIndexBytes = 100'000'000;

// Weight files that are not read, for the message about a folder without those that are.
std::string other_weight_files(const std::string& folder) {
  std::set<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    for (const char* other : {".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx"}) {
      if (extension == other) found.insert(it->path().filename().string());
    }
  }
  std::string list;
  for (const std::string& name : found) {
    if (!list.empty()) list += ", ";
    list += printable(name);
    if (list.size() > 200) return list + ", ...";
  }
  return list;
}

[[noreturn]] void no_weights(const std::string& folder) {
  std::string expected;
  for (const WeightsName& weights : kWeightsNames)
    expected += fmt::format("{}{}", expected.empty() ? "" : " or ", weights.name);
  const std::string others = other_weight_files(folder);
  throw Error(folder, "", expected,
              others.empty() ? "none of them" : fmt::format("{}, which is not read", others));
}

// Each shard holds exactly the tensors that the index maps to it.
void check_shard(const TensorFile& shard, const std::string& shard_name,
                 const std::vector<std::string>& mapped, const CheckpointIndex& index,
                 const std::string& index_name) {
  for (const TensorInfo& tensor : shard.tensors()) {
    const auto it = index.shard_of.find(tensor.name);
    if (it != index.shard_of.end() && it->second == shard_name) continue;
    throw Error(shard.path(), "", fmt::format("only the tensors that {} maps to it", index_name),
                it == index.shard_of.end()
                    ? fmt::format("tensor '{}', which is not in the index", printable(tensor.name))
                    : fmt::format("tensor '{}', which the index maps to {}", printable(tensor.name),
                                  printable(it->second)));
  }
  for (const std::string& name : mapped) {
    if (shard.find(name) == nullptr) {
      throw Error(shard.path(), "",
                  fmt::format("tensor '{}', which {} maps to it", printable(name), index_name),
                  "no such tensor in the file");
    }
  }
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& folder) {
  check_is_folder(folder);
  Checkpoint checkpoint(folder);
  std::vector<WeightsName> found;
  for (const WeightsName& weights : kWeightsNames) {
    if (path_exists((fs::path(folder) / weights.name).string())) found.push_back(weights);
  }
  if (found.empty()) no_weights(folder);
  for (size_t i = 1; i < found.size(); ++i) {
    checkpoint.notes_.push_back(
        fmt::format("{}: both {} and {} are present: {} is read, as transformers does", folder, found[0].name,
                    found[i].name, found[0].name));
  }
  if (found[0].is_index) {
    checkpoint.add_shards(found[0].name, found[0].suffix);
  } else {
    checkpoint.add_file((fs::path(folder) / found[0].name).string());
  }
  checkpoint.sort_entries();
  return checkpoint;
}

void Checkpoint::add_file(const std::string& path) {
  if (path.ends_with(kPytorchSuffix)) {
    const auto file = PytorchFile::open(path);
    if (file->copied_tensors() > 0) {
      notes_.push_back(
          fmt::format("{}: {} tensors of {} bytes are not contiguous and were copied into memory", path,
                      file->copied_tensors(), file->copied_bytes()));
    }
    files_.push_back(file);
  } else {
    files_.push_back(SafetensorsFile::open(path));
  }
  for (const TensorInfo& tensor : files_.back()->tensors()) {
    entries_.push_back({&tensor, files_.size() - 1});
    const auto total = checked_add(total_bytes_, tensor.size_bytes);
    if (!total) throw Error(path, "", "tensors of less than 2^63 bytes together", "more");
    total_bytes_ = *total;
  }
}

void Checkpoint::add_shards(const std::string& index_name, std::string_view shard_suffix) {
  const std::string index_path = (fs::path(folder_) / index_name).string();
  const CheckpointIndex index =
      parse_checkpoint_index(read_file(index_path, kMaxIndexBytes), index_path, shard_suffix);
  std::map<std::string, std::vector<std::string>> tensors_of;
  for (const auto& [tensor, shard] : index.shard_of)
    tensors_of[shard].push_back(tensor);
  for (const auto& [shard, tensors] : tensors_of) {
    add_file((fs::path(folder_) / shard).string());
    check_shard(*files_.back(), shard, tensors, index, index_name);
  }
  if (index.total_size_bytes && *index.total_size_bytes != total_bytes_) {
    // Published indexes are known to be wrong here, and every shard has been checked tensor by tensor.
    notes_.push_back(fmt::format("{}: metadata.total_size says {} bytes, the tensors have {}", index_path,
                                 *index.total_size_bytes, total_bytes_));
  }
}

void Checkpoint::sort_entries() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.info->name < b.info->name; });
}

const Checkpoint::Entry* Checkpoint::find_entry(std::string_view name) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const Entry& e, std::string_view n) { return e.info->name < n; });
  return found != entries_.end() && found->info->name == name ? &*found : nullptr;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const Entry* entry = find_entry(name);
  return entry != nullptr ? entry->info : nullptr;
}

Checkpoint::View Checkpoint::tensor(std::string_view name) const {
  const Entry* entry = find_entry(name);
  if (entry == nullptr) {
    throw Error(folder_, "", fmt::format("a tensor '{}'", printable(name)),
                "no such tensor in the checkpoint");
  }
  const auto& file = files_[entry->file];
  return {entry->info->dtype, entry->info->shape, file->data(*entry->info), entry->info->size_bytes, file,
          file->path()};
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const Entry& entry : entries_)
    names.push_back(entry.info->name);
  return names;
}

std::vector<std::string> Checkpoint::names_under(std::string_view prefix) const {
  std::vector<std::string> names;
  auto entry = std::lower_bound(entries_.begin(), entries_.end(), prefix,
                                [](const Entry& e, std::string_view p) { return e.info->name < p; });
  for (; entry != entries_.end() && entry->info->name.starts_with(prefix); ++entry)
    names.push_back(entry->info->name);
  return names;
}

void Checkpoint::release_pages(std::string_view name) const {
  const Entry* entry = find_entry(name);
  SY_CHECK(entry != nullptr, "pages of tensor '{}', which is not there", name);
  const TensorFile& file = *files_[entry->file];
  const std::byte* data = file.data(*entry->info);
  const bool in_place = data == file.file().data() + entry->info->offset_bytes;  // else a copy in memory
  if (in_place) file.file().release_pages(data, entry->info->size_bytes);
}

void Checkpoint::verify_unchanged() const {
  for (const auto& file : files_)
    file->file().verify_unchanged();
}

}  // namespace switchyard
