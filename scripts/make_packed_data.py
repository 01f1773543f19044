#!/usr/bin/env python3
"""Makes small quantised Qwen2-MoE checkpoints under tests/data/golden_packed: random codes, scales and zero points,
packed as the definition of each format says, with some dequantised matrices (numpy, float32) and the logits that
transformers gives for the dequantised weights in float32.

    make_packed_data.py OUT_DIR          needs numpy, torch, transformers >= 5 and safetensors
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np

BASE = dict(architectures=["Qwen2MoeForCausalLM"], model_type="qwen2_moe", vocab_size=48, hidden_size=48,
            intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, num_experts=4,
            num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=32, norm_topk_prob=False,
            decoder_sparse_step=1, hidden_act="silu", max_position_embeddings=128, rms_norm_eps=1e-6,
            rope_theta=10000.0, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, use_sliding_window=False,
            router_aux_loss_coef=0.001, torch_dtype="bfloat16")


# ---- numbers and files ------------------------------------------------------------------------------------

def bf16_bits(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bf16(x):
    return (bf16_bits(x).astype(np.uint32) << 16).view(np.float32)


def f8_e4m3(code):
    code = np.asarray(code, np.uint8).astype(np.int64)
    exponent, mantissa = (code >> 3) & 15, code & 7
    size = np.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(code & 0x80, -size, size).astype(np.float32)


class Stored:
    """A tensor as the file holds it, and its value."""

    def __init__(self, dtype, raw, value=None):
        self.dtype, self.raw, self.value = dtype, np.ascontiguousarray(raw), value


def stored(x, dtype):
    x = np.asarray(x, np.float32)
    if dtype == "BF16":
        return Stored(dtype, bf16_bits(x), bf16(x))
    half = {"F16": np.float16, "F32": np.float32}[dtype]
    return Stored(dtype, x.astype(half), x.astype(half).astype(np.float32))


def int32(words):
    return Stored("I32", np.asarray(words, np.uint32).view(np.int32))


def write_safetensors(path, tensors):
    """The largest elements first, so that each tensor is aligned to its elements."""
    order = sorted(tensors, key=lambda name: (-tensors[name].raw.itemsize, name))
    header, offset = {}, 0
    for name in order:
        t = tensors[name]
        header[name] = {"dtype": t.dtype, "shape": list(t.raw.shape), "data_offsets": [offset, offset + t.raw.nbytes]}
        offset += t.raw.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            f.write(tensors[name].raw.tobytes())


# ---- packing: each returns the tensors of one matrix [N, K] and the matrix itself ---------------------------

def pack_fields(codes, axis, bits, order=None):
    """Codes along `axis` to 32-bit words, the first in the lowest bits; a last word is filled with zeros."""
    codes = np.moveaxis(np.asarray(codes, np.uint64), axis, -1)
    per_word = 32 // bits
    padded = np.zeros(codes.shape[:-1] + (-(-codes.shape[-1] // per_word) * per_word,), np.uint64)
    padded[..., :codes.shape[-1]] = codes
    fields = padded.reshape(codes.shape[:-1] + (-1, per_word))
    if order is not None:
        fields = fields[..., order]
    words = sum(fields[..., j] << np.uint64(bits * j) for j in range(per_word))
    return np.moveaxis(words, -1, axis).astype(np.uint32)


def random_codes(rng, rows, cols, groups, bits, symmetric, scale_dtype):
    top = 2 ** bits
    codes = rng.integers(0, top, (rows, cols))
    zeros = np.full((rows, groups), top // 2)
    if not symmetric:
        zeros = rng.integers(top // 4, 3 * top // 4, (rows, groups))
        zeros[rng.random(zeros.shape) < 0.1] = 0
        zeros[rng.random(zeros.shape) < 0.1] = top - 1
    scales = stored(3.2 / top / np.sqrt(cols) * (0.6 + rng.random((rows, groups))), scale_dtype)
    return codes, zeros, scales


def dequantised(codes, zeros, scales, group_of_column):
    difference = (codes - zeros[:, group_of_column]).astype(np.float32)
    return scales[:, group_of_column] * difference


def group_columns(rng, cols, group_size, any_order):
    size = cols if group_size == -1 else group_size
    groups = np.arange(cols) // size
    if any_order:
        rng.shuffle(groups)
    return groups, -(-cols // size)


def gptq(rng, rows, cols, bits=4, group_size=16, symmetric=False, desc_act=False, v2=False, with_g_idx=True,
         scale_dtype="F16"):
    group_of_column, groups = group_columns(rng, cols, group_size, desc_act)
    codes, zeros, scales = random_codes(rng, rows, cols, groups, bits, symmetric, scale_dtype)
    qzeros = pack_fields(zeros.T, 1, bits)
    if not v2:  # every field less one: a subtraction of whole words
        qzeros = (qzeros.astype(np.int64) - (0x11111111 if bits == 4 else 0x01010101)).astype(np.uint32)
    tensors = {"qweight": int32(pack_fields(codes.T, 0, bits)), "qzeros": int32(qzeros),
               "scales": Stored(scales.dtype, scales.raw.T)}
    if with_g_idx:
        tensors["g_idx"] = int32(group_of_column)
    return tensors, dequantised(codes, zeros, scales.value, group_of_column)


def awq(rng, rows, cols, group_size=-1):
    group_of_column, groups = group_columns(rng, cols, group_size, False)
    codes, zeros, scales = random_codes(rng, rows, cols, groups, 4, False, "F16")
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    return ({"qweight": int32(pack_fields(codes.T, 1, 4, order)), "qzeros": int32(pack_fields(zeros.T, 1, 4, order)),
             "scales": Stored(scales.dtype, scales.raw.T)}, dequantised(codes, zeros, scales.value, group_of_column))


def compressed_int(rng, rows, cols, bits=4, group_size=12, symmetric=False, actorder=False):
    group_of_column, groups = group_columns(rng, cols, group_size, actorder)
    codes, zeros, scales = random_codes(rng, rows, cols, groups, bits, symmetric, "BF16")
    tensors = {"weight_packed": int32(pack_fields(codes, 1, bits)), "weight_scale": scales,
               "weight_shape": Stored("I64", np.array([rows, cols], np.int64))}
    if not symmetric:
        tensors["weight_zero_point"] = int32(pack_fields(zeros, 0, bits))
    if actorder:
        tensors["weight_g_idx"] = int32(group_of_column)
    return tensors, dequantised(codes, zeros, scales.value, group_of_column)


def fp8(rng, rows, cols, block=(128, 128), scale="weight_scale_inv", scale_shape=None, scale_dtype="F32"):
    codes = (rng.integers(0, 2, (rows, cols)) << 7 | rng.integers(0x20, 0x40, (rows, cols))).astype(np.uint8)
    shape = (-(-rows // block[0]), -(-cols // block[1]))
    scales = stored((0.6 + rng.random(shape)) * 2 / np.sqrt(cols), scale_dtype)
    spread = np.repeat(np.repeat(scales.value, block[0], 0), block[1], 1)[:rows, :cols]
    raw = scales.raw.reshape(scale_shape) if scale_shape is not None else scales.raw
    return {"weight": Stored("F8_E4M3", codes), scale: Stored(scale_dtype, raw)}, spread * f8_e4m3(codes)


def compressed_float(rng, rows, cols, strategy):
    block = {"channel": (1, cols), "tensor": (rows, cols), "block": (16, 8)}[strategy]
    return fp8(rng, rows, cols, block, "weight_scale", (1,) if strategy == "tensor" else None, "BF16")


def plain(rng, rows, cols):
    t = stored(rng.standard_normal((rows, cols)) * 1.2 / np.sqrt(cols), "BF16")
    return {"weight": t}, t.value


# ---- models -----------------------------------------------------------------------------------------------

def matrices(c):
    """Every linear layer that tools quantise, with its shape."""
    D, A = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
    kv = A * c["num_key_value_heads"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        yield from ((p + "self_attn.q_proj", D, D), (p + "self_attn.k_proj", kv, D), (p + "self_attn.v_proj", kv, D),
                    (p + "self_attn.o_proj", D, D))
        ffns = [(p + f"mlp.experts.{e}.", c["moe_intermediate_size"]) for e in range(c["num_experts"])]
        for prefix, F in ffns + [(p + "mlp.shared_expert.", c["shared_expert_intermediate_size"])]:
            yield from ((prefix + "gate_proj", F, D), (prefix + "up_proj", F, D), (prefix + "down_proj", D, F))
    yield "lm_head", c["vocab_size"], D


def always_plain(rng, c):
    D, A = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
    out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], D)) * 0.7,
           "model.norm.weight": 1 + 0.2 * rng.standard_normal(D)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[p + norm + ".weight"] = 1 + 0.2 * rng.standard_normal(D)
        for leaf, heads in (("q", c["num_attention_heads"]), ("k", c["num_key_value_heads"]),
                            ("v", c["num_key_value_heads"])):
            out[p + f"self_attn.{leaf}_proj.bias"] = 0.3 * rng.standard_normal(heads * A)
        out[p + "mlp.gate.weight"] = 1.6 * rng.standard_normal((c["num_experts"], D)) / np.sqrt(D)
        out[p + "mlp.shared_expert_gate.weight"] = rng.standard_normal((1, D)) / np.sqrt(D)
    return {name: stored(x, "BF16") for name, x in out.items()}


def reference_logits(config, values, ids):
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM
    with tempfile.TemporaryDirectory() as folder:
        save_file({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in values.items()}, folder + "/model.safetensors",
                  metadata={"format": "pt"})
        json.dump({**config, "torch_dtype": "float32"}, open(folder + "/config.json", "w"))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                     experts_implementation="eager").eval()
        with torch.no_grad():
            return model(torch.from_numpy(ids).long()).logits.numpy()


def make(folder, changes, quantization, choose, seed):
    """`choose(name, rows, cols)` gives how a matrix is packed: a function of (rng, rows, cols)."""
    rng = np.random.default_rng(seed)
    config = {**BASE, **changes}
    tensors = always_plain(rng, config)
    values = {name: t.value for name, t in tensors.items()}
    packed = {}
    for name, rows, cols in matrices(config):
        parts, value = choose(name, rows, cols)(rng, rows, cols)
        tensors.update({f"{name}.{leaf}": t for leaf, t in parts.items()})
        values[name + ".weight"] = packed[name + ".weight"] = value
    ids = rng.integers(3, config["vocab_size"], (2, 11)).astype(np.int32)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    json.dump({**config, "quantization_config": quantization}, open(folder + "/config.json", "w"), indent=1)
    write_safetensors(folder + "/model.safetensors", tensors)
    kept = ("layers.0.self_attn.k_proj", "experts.3.down_proj", "experts.1.up_proj", "lm_head")
    write_safetensors(folder + "/dequantised.safetensors",
                      {n: stored(v, "F32") for n, v in packed.items() if any(k in n for k in kept)})
    write_safetensors(folder + "/reference.safetensors", {
        "input_ids": Stored("I32", ids), "logits": Stored("F32", reference_logits(config, values, ids))})
    print(folder, sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)))


def always(pack, **arguments):
    return lambda name, rows, cols: lambda rng, n, k: pack(rng, n, k, **arguments)


def gptq_config(**changes):
    return {"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": False, "sym": False,
            "true_sequential": True, "damp_percent": 0.01, **changes}


def compressed_config(groups, **changes):
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
            "global_compression_ratio": None, "kv_cache_scheme": None, "ignore": [], "config_groups": groups, **changes}


def weights_scheme(targets, weights, activations=None, **changes):
    return {"targets": targets, "input_activations": activations, "output_activations": None,
            "weights": {"dynamic": False, "observer": "minmax", "observer_kwargs": {}, "block_structure": None, **weights},
            **changes}


def mixed_gptq(name, rows, cols):
    """Layer 0 in 4 bits, layer 1 plain but for its experts, all experts in 8 bits; the output matrix packed."""
    if ".experts." in name:
        return lambda rng, n, k: gptq(rng, n, k, bits=8, group_size=8)
    return plain if "layers.1" in name else lambda rng, n, k: gptq(rng, n, k)


def odd_awq(name, rows, cols):
    return awq if rows % 8 == 0 else plain


def mixed_compressed(name, rows, cols):
    if "self_attn" in name:
        return lambda rng, n, k: compressed_int(rng, n, k, bits=8, group_size=-1, symmetric=True)
    return lambda rng, n, k: compressed_int(rng, n, k, bits=4, group_size=-1)


def mixed_float(name, rows, cols):
    strategy = "channel" if "self_attn" in name else "block" if "experts" in name else "tensor"
    return lambda rng, n, k: compressed_float(rng, n, k, strategy)


FLOAT = {"num_bits": 8, "type": "float", "symmetric": True}
PER_TOKEN = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}

CASES = {
    "gptq4_desc_act": ({}, gptq_config(desc_act=True), always(gptq, desc_act=True)),
    "gptq4_v2_whole_rows": ({"hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 1}, gptq_config(group_size=-1, checkpoint_format="gptq_v2"),
                            always(gptq, group_size=-1, v2=True, with_g_idx=False, scale_dtype="BF16")),
    "gptq8_g24": ({"hidden_size": 40, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28},
                  gptq_config(bits=8, group_size=24), always(gptq, bits=8, group_size=24)),
    "gptq_mixed": ({"num_hidden_layers": 2},
                   gptq_config(lm_head=True, dynamic={r"+:.*\.experts\..*": {"bits": 8, "group_size": 8},
                                                      r"-:.*layers\.1\.(self_attn|mlp\.shared).*": {}}), mixed_gptq),
    "awq4_odd": ({"hidden_size": 40, "moe_intermediate_size": 23, "shared_expert_intermediate_size": 33},
                 {"quant_method": "awq", "bits": 4, "group_size": -1, "zero_point": True, "version": "GEMM",
                  "modules_to_not_convert": ["gate", "up_proj", "gate_proj"]}, odd_awq),
    "compressed_int4_actorder": (
        {"hidden_size": 36, "num_attention_heads": 6, "moe_intermediate_size": 14, "shared_expert_intermediate_size": 21,
         "vocab_size": 45},
        compressed_config({"group_0": weights_scheme(["Linear"], {
            "num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": 12,
            "actorder": "group"})}),
        always(compressed_int, actorder=True)),
    "compressed_mixed_channels": (
        {"hidden_size": 44, "num_attention_heads": 2, "moe_intermediate_size": 13},
        compressed_config({
            "group_0": weights_scheme(["re:.*self_attn.*"], {"num_bits": 8, "type": "int", "symmetric": True,
                                                             "strategy": "channel", "group_size": None}),
            "group_1": weights_scheme(["Linear"], {"num_bits": 4, "type": "int", "symmetric": False,
                                                   "strategy": "channel", "group_size": -1, "actorder": "weight"})}),
        mixed_compressed),
    "compressed_float8": (
        {"hidden_size": 44, "num_attention_heads": 2, "moe_intermediate_size": 13},
        compressed_config({
            "group_0": weights_scheme(["re:.*self_attn.*"], {**FLOAT, "strategy": "channel"}, PER_TOKEN),
            "group_1": weights_scheme(["re:.*experts.*"], {**FLOAT, "strategy": "block", "block_structure": [16, 8]},
                                      PER_TOKEN),
            "group_2": weights_scheme(["Linear"], {**FLOAT, "strategy": "tensor"}, PER_TOKEN)},
            format="float-quantized"), mixed_float),
    "fp8_odd": ({"hidden_size": 132, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 36,
                 "num_experts": 3, "num_attention_heads": 6},
                {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
                 "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]},
                lambda name, rows, cols: plain if name == "lm_head" else
                lambda rng, n, k: fp8(rng, n, k, scale_dtype="BF16")),
}


if __name__ == "__main__":
    for i, (case, (changes, quantization, choose)) in enumerate(CASES.items()):
        make(os.path.join(sys.argv[1], case), changes, quantization, choose, 300 + i)
