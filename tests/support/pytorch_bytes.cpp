#include "support/pytorch_bytes.h"

#include <fmt/core.h>

namespace switchyard {
namespace {

constexpr int64_t kAlignment = 64;
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kPaddingField = 0x4246;

std::string field(uint16_t id, const std::string& content) {
  return little_endian(id, 2) + little_endian(content.size(), 2) + content;
}

// What local and central header share: version, flags, method, time, date, checksum, sizes.
std::string common_header(const ZipRecord& record, uint64_t bytes, bool zip64) {
  const std::string size = zip64 ? std::string(4, '\xFF') : little_endian(bytes, 4);
  return little_endian(zip64 ? 45 : 20, 2) + little_endian(record.flags, 2) +
         little_endian(record.method, 2) + std::string(8, '\0') + size + size;
}

uint64_t claimed_bytes(const ZipRecord& record) {
  return record.claimed_bytes >= 0 ? static_cast<uint64_t>(record.claimed_bytes) : record.content.size();
}

std::string local_header(const ZipRecord& record, uint64_t at, bool zip64) {
  const uint64_t bytes = claimed_bytes(record);
  std::string extra = zip64 ? field(kZip64Field, little_endian(bytes, 8) + little_endian(bytes, 8)) : "";
  const auto end = static_cast<int64_t>(at + 30 + record.name.size() + extra.size() + 4);
  const int64_t padding = record.padding >= 0 ? record.padding : (kAlignment - end % kAlignment) % kAlignment;
  extra += field(kPaddingField, std::string(static_cast<size_t>(padding), 'Z'));
  return "PK\x03\x04" + common_header(record, bytes, zip64) + little_endian(record.name.size(), 2) +
         little_endian(extra.size(), 2) + record.name + extra;
}

std::string central_header(const ZipRecord& record, uint64_t at, bool zip64) {
  const uint64_t bytes = claimed_bytes(record);
  const std::string extra =
      zip64 ? field(kZip64Field, little_endian(bytes, 8) + little_endian(bytes, 8) + little_endian(at, 8))
            : "";
  return "PK\x01\x02" + little_endian(20, 2) + common_header(record, bytes, zip64) +
         little_endian(record.name.size(), 2) + little_endian(extra.size(), 2) + std::string(10, '\0') +
         (zip64 ? std::string(4, '\xFF') : little_endian(at, 4)) + record.name + extra;
}

std::string end_of_directory(uint64_t count, uint64_t bytes, uint64_t at, bool zip64) {
  if (!zip64) {
    return "PK\x05\x06" + std::string(4, '\0') + little_endian(count, 2) + little_endian(count, 2) +
           little_endian(bytes, 4) + little_endian(at, 4) + std::string(2, '\0');
  }
  const std::string end64 = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) +
                            little_endian(45, 2) + std::string(8, '\0') + little_endian(count, 8) +
                            little_endian(count, 8) + little_endian(bytes, 8) + little_endian(at, 8);
  const std::string locator =
      "PK\x06\x07" + std::string(4, '\0') + little_endian(at + bytes, 8) + little_endian(1, 4);
  return end64 + locator + "PK\x05\x06" + std::string(4, '\0') + std::string(12, '\xFF') +
         std::string(2, '\0');
}

}  // namespace

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>((value >> (8 * i)) & 0xFF);
  return text;
}

std::string zip_bytes(const std::vector<ZipRecord>& records, bool zip64) {
  std::string file;
  std::string directory;
  for (const ZipRecord& record : records) {
    directory += central_header(record, file.size(), zip64);
    file += local_header(record, file.size(), zip64) + record.content;
  }
  const std::string end = end_of_directory(records.size(), directory.size(), file.size(), zip64);
  return file + directory + end;
}

namespace pickled {

std::string text(std::string_view text) {
  return "X" + little_endian(text.size(), 4) + std::string(text);
}

std::string integer(int64_t value) {
  return "\x8A\x08" + little_endian(static_cast<uint64_t>(value), 8);
}

std::string tuple(const std::vector<std::string>& items) {
  std::string all = "(";
  for (const std::string& item : items)
    all += item;
  return all + "t";
}

std::string integers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (const int64_t value : values)
    items.push_back(integer(value));
  return tuple(items);
}

}  // namespace pickled

std::string PickledTensor::pickle() const {
  using namespace pickled;
  const std::string storage = tuple({text("storage"), fmt::format("ctorch\n{}\n", storage_type), text(key),
                                     text("cpu"), integer(storage_elements)}) +
                              "Q";
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple({storage, integer(offset), integers(shape), integers(strides), "\x89", kOrderedDict}) + "R";
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string pickled_dictionary(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string pickle = pickled::kProto + "}(";
  for (const auto& [name, value] : items)
    pickle += pickled::text(name) + value;
  return pickle + "u.";
}

std::vector<ZipRecord> pytorch_records(const std::string& pickle,
                                       const std::map<std::string, std::string>& storages) {
  std::vector<ZipRecord> records = {{"m/data.pkl", pickle}, {"m/byteorder", "little"}};
  for (const auto& [key, content] : storages)
    records.push_back({"m/data/" + key, content});
  records.push_back({"m/version", "3\n"});
  return records;
}

std::string pytorch_bytes(const std::string& pickle, const std::map<std::string, std::string>& storages) {
  return zip_bytes(pytorch_records(pickle, storages));
}

}  // namespace switchyard
