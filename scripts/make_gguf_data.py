#!/usr/bin/env python3
"""Writes the GGUF files that the tests need, with the `gguf` package as the independent writer and decoder.

  tests/data/gguf/blocks.gguf          one matrix in each element type; blocks.safetensors has its numbers
  tests/data/gguf/<model>.gguf         small random models; <model>.safetensors has input_ids and the logits of
                                       `transformers` (float32) with the dequantised weights
  tests/data/gguf/tokenizer_<pre>.gguf tokenizers without a model; tokenizer_<pre>.json has texts and ids by
                                       `tokenizers`
  tests/fuzz/corpus/gguf/              seeds

Usage: scripts/make_gguf_data.py   (needs torch, transformers, safetensors and gguf; made with gguf 0.19.0)
"""

import json
import pathlib
import types

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from gguf import quants
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from transformers.tokenization_utils_base import generate_merges

import make_tokenizer_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data/gguf"
SEEDS = ROOT / "tests/fuzz/corpus/gguf"
VOCAB = 64
rng = np.random.default_rng(1)

# Bytes of a block, and where its binary16 scales stand, for the types that the package cannot quantise to.
K_TYPES = {Type.Q4_K: (144, [0, 2]), Type.Q5_K: (176, [0, 2]), Type.Q6_K: (210, [208])}


def random_blocks(kind, shape, size):
    """Random bytes with scales that give values of about `size`."""
    bytes_per_block, scales = K_TYPES[kind]
    data = rng.integers(0, 256, (*shape[:-1], shape[-1] // 256, bytes_per_block), dtype=np.uint8)
    largest = {Type.Q4_K: 63 * 8, Type.Q5_K: 63 * 16, Type.Q6_K: 64 * 16}[kind]
    for at in scales:
        scale = (size / largest * rng.uniform(0.5, 1.5, data.shape[:-1])).astype(np.float16)
        data[..., at:at + 2] = scale[..., None].view(np.uint8)
    return data.reshape(*shape[:-1], -1)


def encode(values, kind):
    """The stored form of float32 `values`; random blocks of their size and shape for the K types."""
    if kind in K_TYPES:
        return random_blocks(kind, values.shape, 2 * float(np.abs(values).mean()))
    return quants.quantize(values, kind)


def decode(stored, kind):
    return np.ascontiguousarray(quants.dequantize(stored, kind), dtype=np.float32)


def add_tensor(writer, name, stored, kind):
    if kind in (Type.F32, Type.F16):
        writer.add_tensor(name, stored)
    else:
        writer.add_tensor(name, stored, raw_dtype=kind)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_blocks():
    writer = gguf.GGUFWriter(DATA / "blocks.gguf", "none")
    numbers = {}
    for kind in [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.Q5_K, Type.Q6_K]:
        stored = encode(rng.normal(0, 1, (3, 512)).astype(np.float32), kind)
        add_tensor(writer, kind.name, stored, kind)
        numbers[kind.name] = decode(stored, kind)
    finish(writer)
    save_file(numbers, DATA / "blocks.safetensors")
    (DATA / "blocks.safetensors").chmod(0o644)


def split_fused(weights):
    """The state dict of transformers 5 with the experts of a layer as separate gate, up and down tensors [E, ., .]."""
    out = {}
    for name, tensor in weights.items():
        if name.endswith("experts.gate_up_proj"):
            gate, up = np.split(tensor, 2, axis=1)
            out[name.replace("gate_up_proj", "gate_proj.weight")] = gate
            out[name.replace("gate_up_proj", "up_proj.weight")] = up
        elif name.endswith("experts.down_proj"):
            out[name + ".weight"] = tensor
        else:
            out[name] = tensor
    return out


def fuse(weights):
    out = dict(weights)
    for name in weights:
        if name.endswith(".experts.gate_proj.weight"):
            stem = name.removesuffix("gate_proj.weight")
            out[stem + "gate_up_proj"] = np.concatenate(
                [out.pop(stem + "gate_proj.weight"), out.pop(stem + "up_proj.weight")], axis=1)
            out[stem + "down_proj"] = out.pop(stem + "down_proj.weight")
    return out


def permute(rows, heads):
    """The order of rows that rotates neighbours, from the one that rotates halves."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def add_shape(writer, config):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(0)


def make_model(name, model, arch, kind_of, add_keys, permuted=False, split_experts=False, split_kv=False):
    """One file and its logits. kind_of(gguf name) gives each tensor's type."""
    weights = split_fused({key: value.float().numpy() for key, value in model.state_dict().items()})
    stored = write_model(name, model.config, weights, arch, kind_of, add_keys, permuted, split_experts, split_kv)
    model.load_state_dict({key: torch.from_numpy(np.ascontiguousarray(v)) for key, v in fuse(stored).items()},
                          strict=not model.config.tie_word_embeddings)
    ids = torch.from_numpy(rng.integers(0, model.config.vocab_size, (2, 24)))
    with torch.no_grad():
        logits = model(ids).logits.float().numpy()
    save_logits(name, ids.numpy(), logits)


def save_logits(name, ids, logits):
    save_file({"input_ids": ids, "logits": logits}, DATA / f"{name}.safetensors")
    (DATA / f"{name}.safetensors").chmod(0o644)


def write_model(name, config, weights, arch, kind_of, add_keys, permuted=False, split_experts=False, split_kv=False):
    """The file; returns the weights as it holds them."""
    writer = gguf.GGUFWriter(DATA / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    add_shape(writer, config)
    add_keys(writer, config)
    writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    held = {}
    for key, values in weights.items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, suffix = key.replace("e_score_correction_bias", "e_score_correction.bias").rpartition(".")
        target = names.get_name(stem)
        assert target is not None, key
        heads = config.num_attention_heads if stem.endswith(".q_proj") else config.num_key_value_heads
        turned = permuted and stem.endswith((".q_proj", ".k_proj"))
        shape = values.shape
        values = np.ascontiguousarray(permute(values, heads) if turned else values).squeeze()
        kind = kind_of(target) if values.ndim > 1 else Type.F32
        stored = encode(values, kind)
        if split_experts and target.endswith("_exps"):
            for i, expert in enumerate(stored):
                add_tensor(writer, f"{target.removesuffix('_exps')}.{i}.{suffix}", expert, kind)
        elif split_kv and target.endswith("attn_kv_b"):
            per_head = values.reshape(config.num_attention_heads, -1, values.shape[-1])
            keys, rest = np.split(per_head, [config.qk_nope_head_dim], axis=1)
            writer.add_tensor(target.replace("kv_b", "k_b") + ".weight", np.ascontiguousarray(keys.swapaxes(1, 2)))
            writer.add_tensor(target.replace("kv_b", "v_b") + ".weight", np.ascontiguousarray(rest))
        else:
            add_tensor(writer, f"{target}.{suffix}", stored, kind)
        values = decode(stored, kind)
        if turned:
            values = values[np.argsort(permute(np.arange(values.shape[0]), heads))]
        held[key] = values.reshape(shape)
    finish(writer)
    return held


def build(model_class, config_class, **keys):
    torch.manual_seed(2)
    keys.setdefault("rope_parameters", {"rope_type": "default", "rope_theta": 10000.0})
    config = config_class(**{"vocab_size": VOCAB, "max_position_embeddings": 128, "initializer_range": 0.1, **keys})
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    for key, value in model.state_dict().items():
        if value.ndim == 1:  # norms and biases that matter
            value.add_(torch.randn(value.shape) * 0.1)
    return model


def qwen2_moe(**keys):
    return build(transformers.Qwen2MoeForCausalLM, transformers.Qwen2MoeConfig,
                 **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                    "shared_expert_intermediate_size": 24, "norm_topk_prob": False, "tie_word_embeddings": False, **keys})


def add_qwen2_moe(writer, config):
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def f32(_):
    return Type.F32


def mixed(target):
    """A type for each tensor, so that one small file has them all. Down projections have narrow rows."""
    leaf = target.split(".")[-1]
    return {"token_embd": Type.Q6_K, "output": Type.Q8_0, "attn_q": Type.Q4_K, "attn_k": Type.Q5_K, "attn_v": Type.Q6_K,
            "attn_output": Type.Q4_1, "ffn_gate_inp": Type.F32, "ffn_gate_exps": Type.Q4_K, "ffn_up_exps": Type.Q5_K,
            "ffn_down_exps": Type.Q4_0, "ffn_gate_shexp": Type.BF16, "ffn_up_shexp": Type.F16,
            "ffn_down_shexp": Type.Q8_0}[leaf]


def make_models():
    arch = gguf.MODEL_ARCH
    make_model("qwen2moe_f32", qwen2_moe(), arch.QWEN2MOE, f32, add_qwen2_moe)
    # As older converters wrote it: experts one by one, and no width of them.
    make_model("qwen2moe_split", qwen2_moe(num_hidden_layers=1), arch.QWEN2MOE, f32, add_qwen2_moe_old, split_experts=True)
    wide = {"hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 1, "num_experts": 4,
            "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "initializer_range": 0.05}
    make_model("qwen2moe_mixed", qwen2_moe(**wide), arch.QWEN2MOE, mixed, add_qwen2_moe)
    make_dense_models()
    make_sparse_models()
    make_deepseek_models()


SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "tie_word_embeddings": False}


def add_dense(writer, config):
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_rope_dimension_count(config.head_dim)
    if config.model_type == "qwen3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def add_llama3(writer, config):
    """The rotary factors of Llama 3.1, one for each frequency, as converters compute them."""
    add_dense(writer, config)
    rope = config.rope_parameters
    frequencies = 1 / rope["rope_theta"] ** (np.arange(0, config.head_dim, 2, dtype=np.float32) / config.head_dim)
    factors = []
    for wavelength in 2 * np.pi / frequencies:
        turns = rope["original_max_position_embeddings"] / wavelength
        smooth = np.clip((turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))


def small_blocks(target):
    return {"attn_q": Type.Q8_0, "attn_k": Type.Q4_1, "attn_output": Type.Q4_0}.get(target.split(".")[-1], Type.F32)


def make_dense_models():
    arch, t = gguf.MODEL_ARCH, transformers
    llama3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 32.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    make_model("llama_f32", build(t.LlamaForCausalLM, t.LlamaConfig, **SMALL, rope_parameters=llama3), arch.LLAMA, f32,
               add_llama3, permuted=True)
    tied = {**SMALL, "tie_word_embeddings": True, "attention_bias": True}
    make_model("llama_mixed", build(t.LlamaForCausalLM, t.LlamaConfig, **tied), arch.LLAMA, small_blocks, add_dense,
               permuted=True)
    make_model("qwen2_f32", build(t.Qwen2ForCausalLM, t.Qwen2Config, **SMALL, head_dim=8), arch.QWEN2, f32, add_dense)
    make_model("qwen3_f32", build(t.Qwen3ForCausalLM, t.Qwen3Config, **SMALL, head_dim=16), arch.QWEN3, f32, add_dense)


def add_moe(writer, config):
    writer.add_expert_count(getattr(config, "num_local_experts", None) or config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_feed_forward_length(config.intermediate_size)
    if config.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def make_sparse_models():
    arch, t = gguf.MODEL_ARCH, transformers
    moe = {**SMALL, "num_experts_per_tok": 2, "intermediate_size": 16}
    for name, split in [("mixtral_f32", False), ("mixtral_split", True)]:
        mixtral = build(t.MixtralForCausalLM, t.MixtralConfig, **moe, num_local_experts=4, sliding_window=None)
        make_model(name, mixtral, arch.LLAMA, f32, add_moe, permuted=True, split_experts=split)
    make_model("olmoe_f32", build(t.OlmoeForCausalLM, t.OlmoeConfig, **moe, num_experts=4, norm_topk_prob=False), arch.OLMOE,
               f32, add_moe)
    qwen3 = build(t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig, **moe, num_experts=4, moe_intermediate_size=16, head_dim=16,
                  norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
    make_model("qwen3moe_f32", qwen3, arch.QWEN3MOE, f32, add_moe)


LATENT = {**SMALL, "num_key_value_heads": 4, "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 12,
          "v_head_dim": 10, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1}


def add_deepseek_experts(writer, config):
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)


def add_latent(writer, config):
    add_deepseek_experts(writer, config)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    if config.rope_parameters["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(config.rope_parameters["factor"])
        writer.add_rope_scaling_orig_ctx_len(config.rope_parameters["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])


def add_deepseek2_old(writer, config):
    add_latent(writer, config)
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_key_length(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length(config.v_head_dim)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_norm(True)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def add_deepseek2_new(writer, config):
    """Attention as of one key and value head, the latent."""
    add_latent(writer, config)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)


def make_deepseek_models():
    arch, t = gguf.MODEL_ARCH, transformers
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32,
            "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}
    v2 = build(t.DeepseekV2ForCausalLM, t.DeepseekV2Config, **LATENT, q_lora_rank=None, n_routed_experts=6, n_shared_experts=2,
               routed_scaling_factor=1.5, topk_method="greedy", norm_topk_prob=False, rope_parameters=yarn)
    make_model("deepseek2_v2", v2, arch.DEEPSEEK2, f32, add_deepseek2_new, split_kv=True)
    v3 = build(t.DeepseekV3ForCausalLM, t.DeepseekV3Config, **LATENT, q_lora_rank=28, n_routed_experts=8, n_shared_experts=1,
               routed_scaling_factor=2.5, n_group=4, topk_group=2, norm_topk_prob=True, rope_interleave=True)
    make_model("deepseek2_v3", v3, arch.DEEPSEEK2, f32, add_deepseek2_old)
    # transformers has no class for the first DeepSeek-MoE: its golden folder, in another file format.
    golden = ROOT / "tests/data/golden/deepseek_moe_v1"
    config = types.SimpleNamespace(**json.loads((golden / "config.json").read_text()))
    config.rope_parameters = {"rope_theta": config.rope_theta}
    reference = load_file(golden / "reference.safetensors")
    write_model("deepseek_v1", config, merge_experts(load_file(golden / "model.safetensors")), arch.DEEPSEEK, f32,
                add_deepseek_experts, permuted=True)
    save_logits("deepseek_v1", reference["input_ids"], reference["logits"])


def merge_experts(weights):
    out = {}
    for name, tensor in weights.items():
        prefix, found, rest = name.partition(".experts.")
        if not found:
            out[name] = tensor
            continue
        out.setdefault(f"{prefix}.experts.{rest.partition('.')[2]}", []).append((int(rest.partition(".")[0]), tensor))
    return {name: np.stack([tensor for _, tensor in sorted(value, key=lambda pair: pair[0])])
            if isinstance(value, list) else value for name, value in out.items()}


def add_qwen2_moe_old(writer, config):
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)


def tokenizer_file(pre, published, oracle=None, **keys):
    """Writes the parts of a tokenizer.json as a converter does, and the ids of `oracle` (default: the same)."""
    published = json.loads(json.dumps(published))
    writer = gguf.GGUFWriter(DATA / f"tokenizer_{pre}.gguf", "llama")
    model = published["model"]
    ids = {**model["vocab"], **{token["content"]: token["id"] for token in published["added_tokens"]}}
    size = max(ids.values()) + 1
    tokens, kinds = [f"[PAD{i}]" for i in range(size)], [gguf.TokenType.UNUSED] * size
    for token, i in ids.items():
        tokens[i], kinds[i] = token, gguf.TokenType.NORMAL
        if model["byte_fallback"] and len(token) == 6 and token.startswith("<0x"):
            kinds[i] = gguf.TokenType.BYTE
    for token in published["added_tokens"]:
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
        if token["content"] == model["unk_token"]:
            kinds[token["id"]] = gguf.TokenType.UNKNOWN
    if model["byte_fallback"]:
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores(keys.pop("scores"))
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    for key, value in keys.items():
        getattr(writer, f"add_{key}")(value)
    finish(writer)
    tokenizer = Tokenizer.from_str(json.dumps(oracle or published))
    cases = []
    for text in make_tokenizer_data.TEXTS:
        case = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids,
                "ids_special": tokenizer.encode(text).ids}
        case["decoded"] = tokenizer.decode(case["ids_special"], skip_special_tokens=True)
        cases.append(case)
    (DATA / f"tokenizer_{pre}.json").write_text(json.dumps(cases, ensure_ascii=False, indent=0) + "\n")


def make_tokenizers():
    tiny = ROOT / "models/tiny-qwen2-moe"
    tokenizer_file("qwen2", json.loads((tiny / "tokenizer.json").read_text()), eos_token_id=2, eot_token_id=0,
                   pad_token_id=0, chat_template=(tiny / "chat_template.jinja").read_text())
    make_byte_level_tokenizers()
    make_llama_tokenizer()


def make_byte_level_tokenizers():
    """The published patterns over one small vocabulary."""
    vocab, merges = make_tokenizer_data.byte_level_model()
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    bare = {**level, "use_regex": False}
    digits = {"type": "Digits", "individual_digits": True}
    split = lambda pattern: make_tokenizer_data.split({"Regex": pattern}, "Isolated")
    sequence = lambda *parts: make_tokenizer_data.sequence("pretokenizers", *parts)
    words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    start = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                       {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {"<s>": {"id": "<s>", "ids": [len(vocab)], "tokens": ["<s>"]}}}
    for pre, parts in {
        "gpt-2": {"pre_tokenizer": level},
        "olmo": {"pre_tokenizer": level, "normalizer": {"type": "NFC"}},
        "smollm": {"pre_tokenizer": sequence(digits, level)},
        "llama-bpe": {"pre_tokenizer": sequence(split(words % "{1,3}"), bare), "model": {"ignore_merges": True},
                      "post_processor": start},
    }.items():
        tokens = [("<s>", {"special": True}), ("<think>", {})]
        published = make_tokenizer_data.document(vocab, merges, added_tokens=tokens, decoder=level, **parts)
        tokenizer_file(pre, published, bos_token_id=len(vocab), eos_token_id=0)


def make_llama_tokenizer():
    """Pieces with scores; the merges are transformers' own for them."""
    published = json.loads((make_tokenizer_data.DATA / "byte_fallback/tokenizer.json").read_text())
    vocab = published["model"]["vocab"]
    merged = ["".join(pair) for pair in published["model"]["merges"]]
    score = {piece: -float(i) for i, piece in reversed(list(enumerate(merged)))}
    special = {token["content"] for token in published["added_tokens"]}
    byte = lambda piece: len(piece) == 6 and piece.startswith("<0x")
    normal = {piece: i for piece, i in vocab.items() if piece not in special and not byte(piece)}
    scores = {piece: score.get(piece, -1e5 - i) for piece, i in normal.items()}
    oracle = json.loads(json.dumps(published))
    oracle["model"]["merges"] = [list(pair) for pair in generate_merges(normal, scores)]
    assert len(oracle["model"]["merges"]) > len(merged)
    bos = vocab["<s>"]
    by_id = sorted(vocab, key=vocab.get)
    tokenizer_file("llama", published, oracle, scores=[scores.get(piece, 0.0) for piece in by_id], bos_token_id=bos,
                   eos_token_id=vocab["</s>"])


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    SEEDS.mkdir(parents=True, exist_ok=True)
    make_blocks()
    make_models()
    make_tokenizers()
    for name in ["blocks", "qwen2moe_split", "tokenizer_smollm"]:
        whole = (DATA / f"{name}.gguf").read_bytes()
        (SEEDS / f"{name}.gguf").write_bytes(whole[:8192])


if __name__ == "__main__":
    main()
