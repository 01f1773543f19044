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

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from gguf import quants
from safetensors.numpy import save_file
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
        if name.endswith("experts.gate_proj.weight"):
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
    writer.add_file_type(0)


def make_model(name, model, arch, kind_of, add_keys, permuted=False, split_experts=False, tokens=None):
    """One file and its logits. kind_of(gguf name) gives each tensor's type."""
    config = model.config
    writer = gguf.GGUFWriter(DATA / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    add_shape(writer, config)
    add_keys(writer, config)
    (tokens or add_no_tokenizer)(writer)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    weights = split_fused({key: value.float().numpy() for key, value in model.state_dict().items()})
    stored_weights = {}
    for key, values in weights.items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, suffix = key.rpartition(".")
        target = names.get_name(stem)
        assert target is not None, key
        if permuted and stem.endswith((".q_proj", ".k_proj")):
            values = permute(values, config.num_attention_heads if stem.endswith(".q_proj") else config.num_key_value_heads)
        values = np.ascontiguousarray(values.squeeze())
        kind = kind_of(target) if values.ndim > 1 else Type.F32
        stored = encode(values, kind)
        if split_experts and target.endswith("_exps"):
            for i, expert in enumerate(stored):
                add_tensor(writer, f"{target.removesuffix('_exps')}.{i}.{suffix}", expert, kind)
        else:
            add_tensor(writer, f"{target}.{suffix}", stored, kind)
        values = decode(stored, kind)
        if permuted and stem.endswith((".q_proj", ".k_proj")):
            heads = config.num_attention_heads if stem.endswith(".q_proj") else config.num_key_value_heads
            back = np.argsort(permute(np.arange(values.shape[0]), heads))
            values = values[back]
        stored_weights[key] = values.reshape(weights[key].shape)
    finish(writer)
    model.load_state_dict({key: torch.from_numpy(np.ascontiguousarray(v)) for key, v in fuse(stored_weights).items()},
                          strict=not config.tie_word_embeddings)
    ids = torch.from_numpy(rng.integers(0, config.vocab_size, (2, 24)))
    with torch.no_grad():
        logits = model(ids).logits.float().numpy()
    save_file({"input_ids": ids.numpy(), "logits": logits}, DATA / f"{name}.safetensors")


def add_no_tokenizer(writer):
    writer.add_tokenizer_model("none")


def build(model_class, config_class, **keys):
    torch.manual_seed(2)
    config = config_class(**{"vocab_size": VOCAB, "max_position_embeddings": 128, "rope_theta": 10000.0,
                             "initializer_range": 0.1, **keys})
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
    tokens, types = [f"[PAD{i}]" for i in range(size)], [gguf.TokenType.UNUSED] * size
    for token, i in ids.items():
        tokens[i], types[i] = token, gguf.TokenType.NORMAL
        if model["byte_fallback"] and len(token) == 6 and token.startswith("<0x"):
            types[i] = gguf.TokenType.BYTE
    for token in published["added_tokens"]:
        types[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
        if token["content"] == model["unk_token"]:
            types[token["id"]] = gguf.TokenType.UNKNOWN
    if model["byte_fallback"]:
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores(keys.pop("scores"))
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
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
