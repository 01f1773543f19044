// Hand-made PyTorch checkpoints: pickles and zip archives with any content, right or wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace switchyard {

std::string little_endian(uint64_t value, int bytes);

struct ZipRecord {
  std::string name;
  std::string content;
  uint16_t flags = 0;
  uint16_t method = 0;
  int64_t claimed_bytes = -1;  // the size that both headers give; -1: the real one
  int64_t padding = -1;        // bytes before the content; -1: up to a multiple of 64, as torch writes
};

// With zip64, every size and offset stands in zip64 fields, as in archives of more than 4 GiB.
std::string zip_bytes(const std::vector<ZipRecord>& records, bool zip64 = false);

// Opcodes, one after the other.
namespace pickled {
inline const std::string kProto = "\x80\x02";
inline const std::string kOrderedDict = "ccollections\nOrderedDict\n)R";
std::string text(std::string_view text);  // BINUNICODE
std::string integer(int64_t value);       // LONG1 of eight bytes
std::string tuple(const std::vector<std::string>& items);
std::string integers(const std::vector<int64_t>& values);  // a tuple
}  // namespace pickled

struct PickledTensor {
  std::string storage_type = "FloatStorage";
  std::string key = "0";
  int64_t storage_elements = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  std::string pickle() const;  // a call of _rebuild_tensor_v2
};

// Strides of a contiguous tensor.
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape);

// A whole data.pkl: a dictionary of values that are pickles themselves.
std::string pickled_dictionary(const std::vector<std::pair<std::string, std::string>>& items);

// A whole file: data.pkl, version, byteorder, and a storage for each key.
std::vector<ZipRecord> pytorch_records(const std::string& pickle,
                                       const std::map<std::string, std::string>& storages);
std::string pytorch_bytes(const std::string& pickle, const std::map<std::string, std::string>& storages);

}  // namespace switchyard
