#include "tokenizer/test_tokenizers.h"

#include <cstdlib>
#include <filesystem>

#include <lzma.h>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr int64_t kMaxBytes = int64_t{64} << 20;

std::string unpack_xz(const std::string& path) {
  const std::string packed = read_file(path, kMaxBytes);
  std::string out(static_cast<size_t>(kMaxBytes), '\0');
  uint64_t memory_limit = UINT64_MAX;
  size_t in_at = 0;
  size_t out_at = 0;
  const lzma_ret result = lzma_stream_buffer_decode(
      &memory_limit, 0, nullptr, reinterpret_cast<const uint8_t*>(packed.data()), &in_at, packed.size(),
      reinterpret_cast<uint8_t*>(out.data()), &out_at, out.size());
  SY_CHECK(result == LZMA_OK, "{}: lzma error {}", path, static_cast<int>(result));
  out.resize(out_at);
  return out;
}

GoldenTokenizer published(const std::string& name, const std::string& folder) {
  const std::string path = folder + "/tokenizer.json.xz";
  const std::string golden = folder + "/golden.json";
  return {name, Tokenizer::parse(unpack_xz(path), path), parse_json(read_file(golden, kMaxBytes), golden)};
}

std::string data(const std::string& name) {
  return SWITCHYARD_SOURCE_DIR "/tests/data/tokenizers/" + name;
}

void add_synthetic(std::vector<GoldenTokenizer>& all) {
  const std::string path = data("synthetic.json");
  const Json file = parse_json(read_file(path, kMaxBytes), path);
  for (const Json& one : file.at("cases")) {
    Json document = one.at("tokenizer");
    for (const auto& shared : file.at("bases").at(one.at("base").get<std::string>()).items()) {
      if (!document["model"].contains(shared.key())) document["model"][shared.key()] = shared.value();
    }
    const std::string name = one.at("name");
    all.push_back({name, Tokenizer::parse(document.dump(), name), one.at("golden")});
  }
}

std::string llama2_folder() {
  const char* given = std::getenv("SWITCHYARD_LLAMA2_TOKENIZER");
  if (given != nullptr) return given;
  const std::string shared = SWITCHYARD_SOURCE_DIR "/../shared/tokenizers/llama2";
  return std::filesystem::exists(shared) ? shared : "";
}

std::vector<GoldenTokenizer> load_all() {
  std::vector<GoldenTokenizer> all;
  all.push_back(published("qwen3", data("qwen3")));
  all.push_back(published("deepseek_v3", data("deepseek_v3")));
  const std::string golden = data("byte_fallback/golden.json");
  all.push_back({"byte_fallback", Tokenizer::load(data("byte_fallback")),
                 parse_json(read_file(golden, kMaxBytes), golden)});
  add_synthetic(all);
  if (has_llama2()) all.push_back(published("llama2", llama2_folder()));
  return all;
}

}  // namespace

const std::vector<GoldenTokenizer>& golden_tokenizers() {
  static const std::vector<GoldenTokenizer> all = load_all();
  return all;
}

const Tokenizer& golden_tokenizer(const std::string& name) {
  for (const GoldenTokenizer& one : golden_tokenizers()) {
    if (one.name == name) return one.tokenizer;
  }
  SY_CHECK(false, "no tokenizer '{}'", name);
  std::abort();
}

bool has_llama2() {
  return !llama2_folder().empty();
}

const Json& value_or(const Json& entry, const char* key, const char* otherwise) {
  return entry.contains(key) ? entry.at(key) : entry.at(otherwise);
}

Json small_document(const Json& parts) {
  Json document = Json::parse(R"({
    "version": "1.0",
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, " ": 3, "ab": 4, "abc": 5},
              "merges": ["a b", ["ab", "c"]]}
  })");
  document.merge_patch(parts);
  return document;
}

Tokenizer small_tokenizer(const Json& parts) {
  return Tokenizer::parse(small_document(parts).dump(), "t");
}

}  // namespace switchyard
