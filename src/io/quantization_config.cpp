#include "io/quantization_config.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/ranges.h>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr const char* kKey = "quantization_config";
constexpr int64_t kMaxGroup = int64_t{1} << 31;
constexpr size_t kMaxSchemes = 4096;

// Keys of every method that say how the codes were found, or which implementation to compute with.
constexpr std::array kAlwaysHarmless = {"backend", "batch_size", "dataset", "meta", "tokenizer"};

constexpr std::array kGptqHarmless = {"act_group_aware",
                                      "block_name_to_quantize",
                                      "cache_block_outputs",
                                      "damp_auto_increment",
                                      "damp_percent",
                                      "disable_exllama",
                                      "exllama_config",
                                      "lm_head",
                                      "max_input_length",
                                      "model_file_base_name",
                                      "model_name_or_path",
                                      "model_seqlen",
                                      "module_name_preceding_first_block",
                                      "modules_in_block_to_quantize",
                                      "mse",
                                      "pad_token_id",
                                      "parallel_packing",
                                      "static_groups",
                                      "true_sequential",
                                      "use_cuda_fp16",
                                      "use_exllama"};

constexpr std::array kAwqHarmless = {"do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse",
                                     "modules_to_not_convert"};

constexpr std::array kFp8Harmless = {"dequantize", "ignored_layers", "modules_to_convert",
                                     "modules_to_not_convert"};

constexpr std::array kCompressedHarmless = {
    "dequantize",     "global_compression_ratio", "ignore", "quantization_status",
    "run_compressed", "use_optimized_inference",  "version"};

constexpr std::array kWeightsHarmless = {"observer", "observer_kwargs", "scale_dtype", "zp_dtype"};

// One object inside the config, whose place stands in every message.
class Section {
 public:
  Section(const Json& value, const std::string& path, std::set<std::string> ignored_keys = {})
      : reader(value, path), ignored_(std::move(ignored_keys)) {}

  // A key that has one value, or none of several.
  template <typename T>
  void require(const std::string& key, bool holds, const std::string& expected, const T& got) const {
    if (!holds) throw Error(reader.path(), key, expected, fmt::format("{}", got));
  }
  // A key that may only be absent, null or `neutral`.
  void require_neutral(const std::string& key, const Json& neutral) const {
    const Json* value = reader.find(key);
    if (value == nullptr || value->is_null() || *value == neutral) return;
    throw Error(reader.path(), key, fmt::format("{} (nothing else is supported)", neutral.dump()),
                describe(*value));
  }
  void finish(std::span<const char* const> harmless) {
    ignored_.insert(harmless.begin(), harmless.end());
    reader.finish(ignored_);
  }

  ConfigReader reader;

 private:
  std::set<std::string> ignored_;
};

MatrixFormat int_format(const Section& s, const std::string& key, int64_t bits) {
  s.require(key, bits == 4 || bits == 8, "4 or 8 bits", bits);
  return bits == 4 ? MatrixFormat::kInt4Groups : MatrixFormat::kInt8Groups;
}

// group_size: -1 stands for one group a row.
int64_t group_cols(const Section& s, int64_t group_size) {
  s.require("group_size", group_size != 0, "-1 or at least 1", group_size);
  return std::max<int64_t>(group_size, 0);
}

std::string lower(std::string text) {
  for (char& c : text)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// The newer and the older spelling of one key.
std::string either_string(const Section& s, const char* key, const char* older, const std::string& absent) {
  const auto newer_value = s.reader.optional_string(key);
  const auto older_value = s.reader.optional_string(older);
  if (newer_value && older_value) {
    s.require(older, lower(*newer_value) == lower(*older_value),
              fmt::format("'{}', as {} says", printable(*newer_value), key), printable(*older_value));
  }
  return lower(newer_value ? *newer_value : older_value.value_or(absent));
}

// ---- gptq -----------------------------------------------------------------------------------------------

PackedScheme gptq_scheme(const Section& s, const PackedScheme& base) {
  PackedScheme scheme = base;
  const int64_t bits = base.format == MatrixFormat::kInt4Groups ? 4 : 8;
  scheme.format = int_format(s, "bits", s.reader.int_or("bits", bits, 1, 32));
  const int64_t group = base.cols_per_group == 0 ? -1 : base.cols_per_group;
  scheme.cols_per_group = group_cols(s, s.reader.int_or("group_size", group, -1, kMaxGroup));
  scheme.symmetric = s.reader.bool_or("sym", base.symmetric);
  scheme.any_order = s.reader.bool_or("desc_act", base.any_order);
  return scheme;
}

// Overrides for the modules whose names match a regular expression: "+:<regex>" or "<regex>" with keys of the
// config, "-:<regex>" for modules that stay plain.
void read_gptq_overrides(const Section& s, QuantizationConfig& out) {
  const Json* overrides = s.reader.find("dynamic");
  if (overrides == nullptr || overrides->is_null()) return;
  s.require("dynamic", overrides->is_object() && overrides->size() < kMaxSchemes,
            fmt::format("an object of less than {} rules", kMaxSchemes), describe(*overrides));
  for (const auto& [rule, keys] : overrides->items()) {
    if (rule.starts_with("-:")) continue;
    Section section(keys, fmt::format("{}: dynamic '{}'", s.reader.path(), printable(rule)));
    out.schemes.push_back(gptq_scheme(section, out.schemes.front()));
    section.finish(kGptqHarmless);
  }
}

void read_gptq(Section& s, QuantizationConfig& out) {
  const std::string format = either_string(s, "checkpoint_format", "format", "gptq");
  s.require("checkpoint_format", format == "gptq" || format == "gptq_v2", "gptq or gptq_v2",
            printable(format));
  out.zeros_less_one = format == "gptq";
  s.require_neutral("pack_dtype", "int32");
  s.require_neutral("is_marlin_format", false);
  const PackedScheme defaults{.format = int_format(s, "bits", s.reader.required_int("bits", 1, 32)),
                              .cols_per_group = 128,
                              .symmetric = true};
  out.schemes = {gptq_scheme(s, defaults)};
  read_gptq_overrides(s, out);
  s.finish(kGptqHarmless);
}

// ---- awq ------------------------------------------------------------------------------------------------

void read_awq(Section& s, QuantizationConfig& out) {
  const std::string version = either_string(s, "version", "format", "gemm");
  s.require("version", version == "gemm", "gemm (no other layout is supported)", printable(version));
  s.require("backend", s.reader.string_or("backend", "") != "llm-awq", "a layout of version gemm", "llm-awq");
  s.require_neutral("zero_point", true);
  const int64_t bits = s.reader.int_or("bits", 4, 1, 32);
  s.require("bits", bits == 4, "4 bits", bits);
  const int64_t group = group_cols(s, s.reader.int_or("group_size", 128, -1, kMaxGroup));
  out.schemes = {{.format = MatrixFormat::kInt4Groups, .cols_per_group = group}};
  // transformers 5 writes the keys of its GPTQ class as well; sym and desc_act mean nothing here.
  s.reader.find("sym");
  s.reader.find("desc_act");
  std::vector<const char*> harmless(kGptqHarmless.begin(), kGptqHarmless.end());
  harmless.insert(harmless.end(), kAwqHarmless.begin(), kAwqHarmless.end());
  s.finish(harmless);
}

// ---- fp8 ------------------------------------------------------------------------------------------------

void read_fp8(Section& s, QuantizationConfig& out) {
  s.require_neutral("fmt", "e4m3");
  s.require_neutral("expert_dtype", "fp8");
  const std::string activations = s.reader.string_or("activation_scheme", "dynamic");
  s.require("activation_scheme", activations == "dynamic", "dynamic (fixed scales clip activations)",
            printable(activations));
  // Says to which powers activation scales are rounded, and that those of weights are powers of two already.
  const std::string scales = s.reader.string_or("scale_fmt", "float");
  s.require("scale_fmt", scales == "float" || scales == "ue8m0", "float or ue8m0", printable(scales));
  const auto block = s.reader.optional_int_list("weight_block_size", 1, kMaxGroup);
  s.require("weight_block_size", block && block->size() == 2, "rows and columns of a block",
            block ? fmt::format("{} numbers", block->size()) : "none");
  out.schemes = {{.format = MatrixFormat::kF8E4M3Groups,
                  .rows_per_group = (*block)[0],
                  .cols_per_group = (*block)[1],
                  .symmetric = true}};
  s.finish(kFp8Harmless);
}

// ---- compressed-tensors ---------------------------------------------------------------------------------

void read_strategy(const Section& s, PackedScheme& scheme) {
  const bool is_float = scheme.format == MatrixFormat::kF8E4M3Groups;
  const std::string strategy = s.reader.required_string("strategy");
  const auto group = s.reader.optional_int("group_size", -1, kMaxGroup);
  const auto block = s.reader.optional_int_list("block_structure", 1, kMaxGroup);
  s.require("group_size", strategy == "group" || !group || *group == -1,
            fmt::format("none with strategy {}", printable(strategy)), group.value_or(0));
  s.require("block_structure", strategy == "block" || !block,
            fmt::format("none with strategy {}", printable(strategy)), "one");
  if (strategy == "group" && !is_float) {
    s.require("group_size", group.has_value(), "a size with strategy group", "none");
    scheme.cols_per_group = group_cols(s, *group);
  } else if (strategy == "block" && is_float) {
    s.require("block_structure", block && block->size() == 2, "rows and columns of a block", "none");
    scheme.rows_per_group = (*block)[0];
    scheme.cols_per_group = (*block)[1];
  } else if (strategy == "tensor" && is_float) {
    scheme.rows_per_group = 0;
  } else {
    s.require("strategy", strategy == "channel", is_float ? "channel, block or tensor" : "group or channel",
              printable(strategy));
  }
}

bool is_group_order(const Section& s) {
  const Json* order = s.reader.find("actorder");
  if (order == nullptr || order->is_null()) return false;
  if (order->is_boolean()) return order->get<bool>();
  for (const char* in_place : {"weight", "static"}) {
    if (*order == in_place) return false;
  }
  s.require("actorder", *order == "group" || *order == "dynamic", "null, weight or group", describe(*order));
  return true;
}

PackedScheme read_compressed_weights(const Json& weights, const std::string& path,
                                     const std::string& format) {
  Section s(weights, path);
  const int64_t bits = s.reader.int_or("num_bits", 8, 1, 64);
  PackedScheme scheme{.format = MatrixFormat::kF8E4M3Groups};
  if (format == "float-quantized") {
    s.require_neutral("type", "float");
    s.require("num_bits", bits == 8, "8 bits", bits);
  } else {
    s.require_neutral("type", "int");
    scheme.format = int_format(s, "num_bits", bits);
  }
  scheme.symmetric = s.reader.bool_or("symmetric", true);
  s.require("symmetric", scheme.symmetric || format != "float-quantized", "true for float codes", "false");
  s.require_neutral("dynamic", false);
  read_strategy(s, scheme);
  scheme.any_order = is_group_order(s);
  s.finish(kWeightsHarmless);
  return scheme;
}

// Activations with scales found at run time, or none.
void check_activations(const Section& group, const char* key) {
  const Json* activations = group.reader.find(key);
  if (activations == nullptr || activations->is_null()) return;
  const bool dynamic =
      activations->is_object() && activations->contains("dynamic") && (*activations)["dynamic"] == true;
  group.require(key, dynamic, "null, or dynamic true (fixed scales clip activations)",
                describe(*activations));
}

void read_compressed(Section& s, QuantizationConfig& out) {
  const std::string common_format = s.reader.required_string("format");
  s.require_neutral("kv_cache_scheme", nullptr);
  s.require_neutral("sparsity_config", Json::object());
  s.require_neutral("transform_config", Json::object());
  s.require_neutral("moe_sparsity_config", nullptr);
  const Json* groups = s.reader.find("config_groups");
  s.require("config_groups",
            groups != nullptr && groups->is_object() && !groups->empty() && groups->size() < kMaxSchemes,
            fmt::format("an object of 1 to {} groups", kMaxSchemes - 1),
            groups != nullptr ? describe(*groups) : "no such key");
  for (const auto& [name, group] : groups->items()) {
    const std::string path = fmt::format("{}: config_groups '{}'", s.reader.path(), printable(name));
    Section section(group, path);
    const std::string format = section.reader.optional_string("format").value_or(common_format);
    section.require("format", format == "pack-quantized" || format == "float-quantized",
                    "pack-quantized or float-quantized", printable(format));
    check_activations(section, "input_activations");
    section.require_neutral("output_activations", nullptr);
    const Json* weights = section.reader.find("weights");
    section.require("weights", weights != nullptr && !weights->is_null(), "how weights are quantised",
                    "nothing");
    out.schemes.push_back(read_compressed_weights(*weights, path + ": weights", format));
    section.finish(std::array{"targets"});
  }
  s.finish(kCompressedHarmless);
}

// ---------------------------------------------------------------------------------------------------------

struct Method {
  QuantizationMethod method;
  std::string_view name;
  void (*read)(Section&, QuantizationConfig&);
};
constexpr Method kMethods[] = {
    {QuantizationMethod::kGptq, "gptq", read_gptq},
    {QuantizationMethod::kAwq, "awq", read_awq},
    {QuantizationMethod::kFp8, "fp8", read_fp8},
    {QuantizationMethod::kCompressedTensors, "compressed-tensors", read_compressed}};

// "quantization_config.<key>" without what is before the key.
std::set<std::string> inner_keys(const std::set<std::string>& keys) {
  const std::string prefix = std::string(kKey) + ".";
  std::set<std::string> inner(kAlwaysHarmless.begin(), kAlwaysHarmless.end());
  for (const std::string& key : keys) {
    if (key.starts_with(prefix)) inner.insert(key.substr(prefix.size()));
  }
  return inner;
}

}  // namespace

std::string_view name(QuantizationMethod method) {
  return kMethods[static_cast<size_t>(method)].name;
}

std::optional<QuantizationConfig> read_quantization_config(const ConfigReader& config,
                                                           const std::set<std::string>& ignored_keys) {
  const Json* json = config.find(kKey);
  if (json == nullptr || json->is_null()) return std::nullopt;
  Section section(*json, config.path() + ": " + kKey, inner_keys(ignored_keys));
  const std::string method = section.reader.required_string("quant_method");
  for (const Method& known : kMethods) {
    if (known.name != method) continue;
    QuantizationConfig result{.path = section.reader.path(), .method = known.method, .schemes = {}};
    known.read(section, result);
    return result;
  }
  std::vector<std::string_view> names;
  for (const Method& known : kMethods)
    names.push_back(known.name);
  throw Error(section.reader.path(), "quant_method", fmt::format("one of: {}", fmt::join(names, ", ")),
              printable(method));
}

}  // namespace switchyard
