// Arbitrary quantisation configs and tensors: an Error, or a matrix all of whose elements can be decoded.
//
// The input is a JSON object and, after its first NUL, data: {"quantization_config": {...}, "rows": 16,
// "cols": 32, "tensors": {"qweight": ["I32", [4, 16]], ...}}. Tensors take their elements from the data in
// turn, again from its start when it is used up.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "io/packed/packed_matrix.h"
#include "support/safetensors_bytes.h"

namespace {

using namespace switchyard;

constexpr int64_t kMaxElements = 1 << 14;
constexpr size_t kMaxTensors = 8;

struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() /
             ("switchyard_fuzz_packed_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

struct Declaration {
  std::string leaf;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t bytes;
};

// Conversions of the library would take a number of any size and form.
int64_t size_of(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(kMaxElements)) {
    throw Error("input", "size", "a small integer", describe(value));
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

// In the order of the file: the largest elements first, so that every tensor is aligned.
std::vector<Declaration> declared(const Json& tensors) {
  std::vector<Declaration> declarations;
  for (const auto& [leaf, type] : tensors.items()) {
    const auto dtype = dtype_from_name(type.at(0).get<std::string>());
    std::vector<int64_t> shape;
    int64_t elements = 1;
    for (const Json& dim : type.at(1)) {
      elements *= shape.emplace_back(size_of(dim));
      if (elements > kMaxElements) throw Error("input", leaf, "a small shape", "a large one");
    }
    if (!dtype || shape.size() > 3) throw Error("input", leaf, "a type and a shape", "another thing");
    declarations.push_back({leaf, *dtype, std::move(shape), elements * size_bytes(*dtype)});
  }
  if (declarations.size() > kMaxTensors) throw Error("input", "tensors", "a few", "many");
  std::stable_sort(declarations.begin(), declarations.end(), [](const Declaration& a, const Declaration& b) {
    return size_bytes(a.dtype) > size_bytes(b.dtype);
  });
  return declarations;
}

void write(const std::string& path, const Json& tensors, std::string_view data) {
  Json header = Json::object();
  int64_t end = 0;
  for (const Declaration& d : declared(tensors)) {
    header["m." + d.leaf] = {
        {"dtype", name(d.dtype)}, {"shape", d.shape}, {"data_offsets", {end, end + d.bytes}}};
    end += d.bytes;
  }
  std::string elements(static_cast<size_t>(end), '\0');
  for (size_t i = 0; i < elements.size() && !data.empty(); ++i)
    elements[i] = data[i % data.size()];
  std::ofstream(path, std::ios::binary) << safetensors_bytes(header.dump(), elements);
}

void decode_all(const Matrix& matrix) {
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r)
    decode_row(matrix, r, 0, matrix.cols, row.data());
}

void load(const Json& input, std::string_view data) {
  static const Folder folder;
  const auto config = read_quantization_config(ConfigReader(input, "input"));
  const int64_t rows = size_of(input.at("rows"));
  const int64_t cols = size_of(input.at("cols"));
  if (rows == 0 || cols == 0) return;
  write(folder.path / "model.safetensors", input.at("tensors"), data);
  const Checkpoint checkpoint = Checkpoint::open(folder.path);
  load_packed_matrix(checkpoint, config, "m", rows, cols, Elements::kHeaders);
  if (const auto loaded = load_packed_matrix(checkpoint, config, "m", rows, cols)) {
    decode_all(loaded->matrix.matrix());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  try {
    load(parse_json(input.substr(0, end), "input"), input.substr(std::min(end + 1, input.size())));
  } catch (const Error&) {
  } catch (const Json::exception&) {  // the input's frame, which no program reads
  }
  return 0;
}
