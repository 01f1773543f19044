#include "io/pytorch.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "io/pytorch_tensors.h"
#include "io/zip_directory.h"

namespace switchyard {
namespace {

constexpr std::string_view kStorageFolder = "data/";
constexpr int kOldestVersion = 1;
constexpr int kNewestVersion = 10;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Files that are no archive are told from damaged ones, since their owner can do something about them.
void check_is_archive(std::span<const std::byte> file, const std::string& where) {
  constexpr std::string_view kPickleProtocol = "\x80";
  // The number that torch before 1.6 wrote first: PROTO 2, LONG1 of ten bytes.
  constexpr std::string_view kLegacyMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  const std::string_view text = as_text(file);
  if (!text.starts_with(kPickleProtocol)) return;
  throw Error(where, "", "the zip archive that torch.save writes since torch 1.6",
              text.starts_with(kLegacyMagic)
                  ? "the older format: load it in torch and save it again, best as safetensors"
                  : "a bare pickle");
}

// The records of an archive by their names in its folder.
class Records {
 public:
  Records(std::span<const std::byte> file, const std::string& where)
      : file_(file), where_(where), entries_(read_zip_directory(file, where)) {
    if (entries_.empty()) throw Error(where_, "", "an archive with data.pkl", "an empty archive");
    const std::string& first = entries_.front().name;
    folder_ = first.substr(0, first.find('/') + 1);
    for (const ZipEntry& entry : entries_) {
      if (folder_.empty() || !entry.name.starts_with(folder_)) {
        throw Error(where_, fmt::format("entry '{}'", printable(entry.name)),
                    "every entry in one folder, as torch.save writes", "one outside");
      }
      by_name_[std::string_view(entry.name).substr(folder_.size())] = &entry;
    }
    check_entries();
    check_version();
    check_byte_order();
  }

  const ZipEntry* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found != by_name_.end() ? found->second : nullptr;
  }

  const ZipEntry& get(std::string_view name) const {
    const ZipEntry* entry = find(name);
    if (entry == nullptr) throw Error(where_, "", fmt::format("a record '{}'", printable(name)), "none");
    return *entry;
  }

  std::span<const std::byte> bytes(const ZipEntry& entry) const {
    return file_.subspan(static_cast<size_t>(entry.offset_bytes), static_cast<size_t>(entry.size_bytes));
  }

  // Throws Error unless every storage is among `used`.
  void check_used(const std::set<std::string_view>& used) const {
    for (const auto& [name, entry] : by_name_) {
      if (!name.starts_with(kStorageFolder) || used.contains(name.substr(kStorageFolder.size()))) continue;
      throw Error(where_, record_item(name), "a storage that a tensor uses", "one that none does");
    }
  }

  static std::string record_item(std::string_view name) {
    return fmt::format("record '{}'", printable(name));
  }

 private:
  void check_is_no_program() const {
    for (const auto& [name, entry] : by_name_) {
      if (name == "constants.pkl" || name.starts_with("code/")) {
        throw Error(where_, record_item(name), "a dictionary of tensors, as torch.save writes",
                    "a TorchScript program: save its state_dict() instead");
      }
    }
  }

  void check_entries() const {
    check_is_no_program();
    for (const auto& [name, entry] : by_name_) {
      const bool is_known = name == "data.pkl" || name == "version" || name == "byteorder" ||
                            name.starts_with('.') || name.starts_with(kStorageFolder);
      if (!is_known) throw Error(where_, record_item(name), "only what torch.save writes", "another record");
      if (entry->is_compressed) {
        throw Error(where_, record_item(name), "a stored record, as torch.save writes", "a compressed one");
      }
    }
  }

  void check_version() const {
    const std::string_view text = as_text(bytes(get("version")));
    const std::string_view digits = text.substr(0, text.find('\n'));
    int version = 0;
    for (const char c : digits.substr(0, 3))
      version = c >= '0' && c <= '9' ? 10 * version + (c - '0') : kNewestVersion + 1;
    if (version >= kOldestVersion && version <= kNewestVersion) return;
    throw Error(where_, "version", fmt::format("{} to {}", kOldestVersion, kNewestVersion),
                fmt::format("'{}'", printable(text)));
  }

  void check_byte_order() const {
    const ZipEntry* entry = find("byteorder");
    if (entry == nullptr || as_text(bytes(*entry)) == "little") return;
    throw Error(where_, "byteorder", "little", fmt::format("'{}'", printable(as_text(bytes(*entry)))));
  }

  std::span<const std::byte> file_;
  const std::string& where_;
  std::vector<ZipEntry> entries_;
  std::string folder_;  // with its slash
  std::map<std::string_view, const ZipEntry*> by_name_;
};

// Where the tensor lies in the file, after its storage was found to be as the pickle says.
PytorchView view_of(const PytorchTensor& tensor, const Records& records, const std::string& where) {
  const std::string record = fmt::format("{}{}", kStorageFolder, tensor.storage_key);
  const ZipEntry& storage = records.get(record);
  if (storage.size_bytes != tensor.storage_bytes) {
    throw Error(where, tensor_item(tensor.name),
                fmt::format("{} bytes in {}", tensor.storage_bytes, Records::record_item(record)),
                fmt::format("{}", storage.size_bytes));
  }
  const int64_t element_bytes = size_bytes(tensor.dtype);
  if (storage.size_bytes > 0 && storage.offset_bytes % element_bytes != 0) {
    throw Error(where, Records::record_item(record),
                fmt::format("{} at a multiple of {} bytes in the file", name(tensor.dtype), element_bytes),
                fmt::format("misaligned: byte {}", storage.offset_bytes));
  }
  PytorchView view;
  view.info = {std::string(tensor.name), tensor.dtype, tensor.shape,
               storage.offset_bytes + tensor.first_element * element_bytes, elements(tensor) * element_bytes};
  view.strides = tensor.strides;
  view.is_contiguous = is_contiguous(tensor);
  return view;
}

// Copies are bounded by the file, whatever sizes it claims.
void check_copies(const std::vector<PytorchView>& views, int64_t file_bytes, const std::string& where) {
  int64_t copied = 0;
  for (const PytorchView& view : views) {
    if (view.is_contiguous) continue;
    if (view.info.size_bytes > file_bytes - copied) {
      throw Error(where, tensor_item(view.info.name),
                  fmt::format("views that are not contiguous with at most {} bytes together, as in the file",
                              file_bytes),
                  "more: repeated or expanded elements");
    }
    copied += view.info.size_bytes;
  }
}

// The elements of a strided view in row-major order.
template <typename Element>
void copy_strided(const PytorchView& view, const std::byte* first, std::byte* out) {
  const std::vector<int64_t>& shape = view.info.shape;
  std::vector<int64_t> index(shape.size(), 0);
  const std::byte* in = first;
  for (int64_t left = view.info.size_bytes; left > 0; left -= static_cast<int64_t>(sizeof(Element))) {
    std::memcpy(out, in, sizeof(Element));
    out += sizeof(Element);
    for (size_t i = shape.size(); i-- > 0;) {  // one step on, the last dimension fastest
      const int64_t stride_bytes = view.strides[i] * static_cast<int64_t>(sizeof(Element));
      if (++index[i] < shape[i]) {
        in += stride_bytes;
        break;
      }
      in -= (shape[i] - 1) * stride_bytes;
      index[i] = 0;
    }
  }
}

std::vector<std::byte> copy_of(const PytorchView& view, const std::byte* first) {
  std::vector<std::byte> copy(static_cast<size_t>(view.info.size_bytes));
  switch (size_bytes(view.info.dtype)) {
    case 1:
      copy_strided<uint8_t>(view, first, copy.data());
      break;
    case 2:
      copy_strided<uint16_t>(view, first, copy.data());
      break;
    case 4:
      copy_strided<uint32_t>(view, first, copy.data());
      break;
    default:
      copy_strided<uint64_t>(view, first, copy.data());
  }
  return copy;
}

}  // namespace

std::vector<PytorchView> parse_pytorch(std::span<const std::byte> file, const std::string& where) {
  check_is_archive(file, where);
  const Records records(file, where);
  const std::vector<PytorchTensor> tensors =
      read_pytorch_tensors(records.bytes(records.get("data.pkl")), where + ": data.pkl");
  std::vector<PytorchView> views;
  std::set<std::string_view> used;
  views.reserve(tensors.size());
  for (const PytorchTensor& tensor : tensors) {
    views.push_back(view_of(tensor, records, where));
    used.insert(tensor.storage_key);
  }
  records.check_used(used);
  std::sort(views.begin(), views.end(),
            [](const PytorchView& a, const PytorchView& b) { return a.info.name < b.info.name; });
  check_copies(views, static_cast<int64_t>(file.size()), where);
  return views;
}

PytorchFile::PytorchFile(const std::string& path) : TensorFile(path) {
  std::vector<TensorInfo> tensors;
  for (PytorchView& view : parse_pytorch(file().bytes(), path)) {
    if (!view.is_contiguous) {
      copies_[view.info.name] = copy_of(view, file().data() + view.info.offset_bytes);
      copied_bytes_ += view.info.size_bytes;
    }
    tensors.push_back(std::move(view.info));
  }
  set_tensors(std::move(tensors));
}

std::shared_ptr<const PytorchFile> PytorchFile::open(const std::string& path) {
  return std::shared_ptr<const PytorchFile>(new PytorchFile(path));
}

const std::byte* PytorchFile::data(const TensorInfo& tensor) const {
  const auto copy = copies_.find(tensor.name);
  return copy != copies_.end() ? copy->second.data() : TensorFile::data(tensor);
}

}  // namespace switchyard
