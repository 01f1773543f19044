#include "io/gguf_names.h"

#include <charconv>

#include <fmt/core.h>

namespace switchyard {
namespace {

struct Pair {
  std::string_view name;
  std::string_view gguf;
};

constexpr Pair kGlobal[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

constexpr Pair kLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
};

constexpr Pair kExpert[] = {
    {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"},
    {"w1", "ffn_gate"},        {"w3", "ffn_up"},      {"w2", "ffn_down"},
};

constexpr std::string_view kExpertPrefixes[] = {"mlp.experts.", "block_sparse_moe.experts."};

template <size_t N>
std::string_view find(const Pair (&pairs)[N], std::string_view name) {
  for (const Pair& pair : pairs) {
    if (pair.name == name) return pair.gguf;
  }
  return {};
}

// Takes "<prefix><number>." off the front of `text`.
std::optional<int64_t> take_index(std::string_view prefix, std::string_view& text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = text.substr(prefix.size());
  int64_t index = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  if (error != std::errc() || index < 0 || end == rest.data() + rest.size() || *end != '.')
    return std::nullopt;
  text = rest.substr(static_cast<size_t>(end - rest.data()) + 1);
  return index;
}

std::optional<GgufName> expert_name(int64_t layer, std::string_view name, std::string_view suffix) {
  for (const std::string_view prefix : kExpertPrefixes) {
    std::string_view leaf = name;
    const auto expert = take_index(prefix, leaf);
    const std::string_view gguf = expert ? find(kExpert, leaf) : std::string_view();
    if (gguf.empty()) continue;
    return GgufName{fmt::format("blk.{}.{}_exps{}", layer, gguf, suffix), *expert,
                    fmt::format("blk.{}.{}.{}{}", layer, gguf, *expert, suffix)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GgufName> gguf_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view stem = name.substr(0, dot);
  const std::string_view suffix = name.substr(dot);
  if (const std::string_view gguf = find(kGlobal, stem); !gguf.empty()) {
    return GgufName{fmt::format("{}{}", gguf, suffix), -1, ""};
  }
  const auto layer = take_index("model.layers.", stem);
  if (!layer) return std::nullopt;
  if (stem == "mlp.gate" && suffix == ".e_score_correction_bias") {
    return GgufName{fmt::format("blk.{}.exp_probs_b.bias", *layer), -1, ""};
  }
  if (const std::string_view gguf = find(kLayer, stem); !gguf.empty()) {
    return GgufName{fmt::format("blk.{}.{}{}", *layer, gguf, suffix), -1, ""};
  }
  return expert_name(*layer, stem, suffix);
}

}  // namespace switchyard
