#!/usr/bin/env python3
"""Makes tests/data/models/rope.json: frequencies, attention factors, rotated vectors and attention scales that
transformers computes for every rope type.

    make_rope_data.py tests/data/models/rope.json          needs torch and transformers >= 5
"""
import json
import sys

import torch
from transformers import DeepseekV2Config, DeepseekV3Config, LlamaConfig
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek_v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek_v3
from transformers.models.llama import modeling_llama as llama

# Published for Phi-3-vision-128k-instruct, to two decimals.
PHI3_SHORT = [1.05, 1.05, 1.05, 1.1, 1.1, 1.1, 1.25, 1.25, 1.4, 1.45, 1.55, 1.85, 1.9] + [2.0] * 19 + [
    2.1, 2.1, 2.2, 2.35, 2.35, 2.35, 2.35, 2.4, 2.4, 2.65, 2.7, 2.9, 2.95, 3.05, 3.05, 3.05]
PHI3_LONG = [1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.3, 1.45, 1.6, 1.65, 1.9, 2.86, 3.69, 5.42, 5.49, 5.49, 9.09, 11.58,
             15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01, 32.35, 32.59, 35.56, 39.95, 53.84, 56.2, 57.95, 59.29,
             59.77, 59.92, 61.19, 61.96, 62.5, 63.37, 63.48, 63.48, 63.66, 63.85, 64.08, 64.76, 64.8, 64.81, 64.81]


def yarn(**more):
    return dict(rope_type="yarn", **more)


DEEPSEEK_V3 = yarn(rope_theta=10000.0, factor=40.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                   original_max_position_embeddings=4096)
DEEPSEEK_V2_LITE = dict(DEEPSEEK_V3, mscale=0.707, mscale_all_dim=0.707)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
PHI3 = dict(rope_type="longrope", rope_theta=10000.0, short_factor=PHI3_SHORT, long_factor=PHI3_LONG,
            original_max_position_embeddings=4096)
SMALL_LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5, 2.0],
                      long_factor=[2.0, 5.0, 9.0], original_max_position_embeddings=32)
DYNAMIC = dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)

# name: (model class, rope_parameters, rotated values of a head, max_position_embeddings, lengths of sequences)
CASES = {
    "default": (llama, dict(rope_type="default", rope_theta=1000000.0), 128, 32768, [1, 100000]),
    "default 20": (llama, dict(rope_type="default", rope_theta=10000.0), 20, 512, [1]),
    "linear": (llama, dict(rope_type="linear", rope_theta=10000.0, factor=2.5), 64, 4096, [1, 9000]),
    "linear 6": (llama, dict(rope_type="linear", rope_theta=500.0, factor=3.0), 6, 64, [1]),
    "dynamic": (llama, DYNAMIC, 64, 2048, [1, 2047, 2048, 2049, 5000, 16384]),
    "dynamic 20": (llama, dict(DYNAMIC, factor=3.7), 20, 100, [99, 101, 150, 777]),
    "dynamic 6": (llama, dict(DYNAMIC, rope_theta=1000000.0), 6, 8, [8, 9, 80]),
    "Qwen2.5 yarn": (llama, yarn(rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768), 128,
                     32768, [1, 100000]),
    "DeepSeek-V3": (deepseek_v3, DEEPSEEK_V3, 64, 163840, [1, 160000]),
    "DeepSeek-V2-Lite": (deepseek_v2, DEEPSEEK_V2_LITE, 64, 163840, [1]),
    "yarn, two mscales": (llama, dict(DEEPSEEK_V3, mscale=1.0, mscale_all_dim=0.8), 64, 163840, [1]),
    "yarn, one mscale": (llama, yarn(rope_theta=10000.0, factor=40.0, mscale=0.5,
                                     original_max_position_embeddings=4096), 64, 163840, [1]),
    "yarn, given attention factor": (llama, dict(DEEPSEEK_V3, attention_factor=1.25), 64, 163840, [1]),
    "yarn, no truncation": (llama, yarn(rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0,
                                        original_max_position_embeddings=4096, truncate=False), 64, 131072, [1]),
    "yarn 20": (llama, yarn(rope_theta=10000.0, factor=4.0, beta_fast=16.0, beta_slow=2.0,
                            original_max_position_embeddings=512), 20, 2048, [1]),
    "yarn 6": (llama, yarn(rope_theta=10000.0, factor=1.0, original_max_position_embeddings=16), 6, 64, [1]),
    "yarn, no ramp": (llama, yarn(rope_theta=10000.0, factor=8.0, original_max_position_embeddings=4), 6, 64, [1]),
    "Llama-3.1-8B": (llama, LLAMA3, 128, 131072, [1, 100000]),
    "llama3 20": (llama, dict(LLAMA3, rope_theta=10000.0, factor=32.0, original_max_position_embeddings=64), 20, 2048,
                  [1]),
    "Phi-3 128k": (llama, PHI3, 96, 131072, [1, 4095, 4096, 4097, 100000]),
    "longrope 6, given factor": (llama, dict(SMALL_LONGROPE, factor=4.0), 6, 64, [1, 33]),
    "longrope 6, given attention factor": (llama, dict(SMALL_LONGROPE, attention_factor=0.75), 6, 64, [32, 33]),
    "longrope 6, not longer": (llama, SMALL_LONGROPE, 6, 32, [32, 33]),
}

# name of a case: (positions, interleaved)
ROTATIONS = {"Llama-3.1-8B": ([0, 1, 100, 5000, 100000], False), "Phi-3 128k": ([0, 7, 100, 5000, 100000], False),
             "Qwen2.5 yarn": ([1, 100, 5000], False), "yarn, one mscale": ([1, 100, 5000], False),
             "dynamic 20": ([0, 100, 5000], False), "DeepSeek-V3": ([0, 1, 100, 5000, 100000], True),
             "DeepSeek-V2-Lite": ([1, 100, 5000], True)}


def short(x):
    """float32 numbers, with the digits that tell them from their neighbours."""
    return [float(f"{v:.9g}") for v in x.flatten().tolist()]


def config_of(family, parameters, rotary_dim, max_positions):
    common = dict(rope_parameters=dict(parameters), max_position_embeddings=max_positions)
    if family is llama:
        return LlamaConfig(hidden_size=2 * rotary_dim, num_attention_heads=2, head_dim=rotary_dim, **common)
    cls = DeepseekV2Config if family is deepseek_v2 else DeepseekV3Config
    return cls(qk_rope_head_dim=rotary_dim, **common)


def embedding(family, config):
    """A fresh module: the one of a model keeps frequencies of the calls before."""
    names = {llama: "LlamaRotaryEmbedding", deepseek_v2: "DeepseekV2RotaryEmbedding",
             deepseek_v3: "DeepseekV3RotaryEmbedding"}
    return getattr(family, names[family])(config)


def frequencies(family, config, length):
    module = embedding(family, config)
    module(torch.zeros(1), torch.arange(length)[None])
    return {"length": length, "inverse_frequencies": short(module.inv_freq),
            "attention_factor": short(torch.tensor(float(module.attention_scaling)))[0]}


def rotation(family, config, rotary_dim, positions, interleaved):
    """A head of sines at each position of one call: its length is the last position + 1."""
    x = short(torch.sin(torch.arange(rotary_dim) * 1.7 + 0.3))
    heads = torch.tensor(x).expand(1, 1, len(positions), rotary_dim)
    if interleaved:  # DeepSeek-V2 leaves pairs where they are; V3 turns them by the same angles, and moves them
        angles = embedding(deepseek_v2, config)(torch.zeros(1), torch.tensor([positions]))
        rotated = deepseek_v2.apply_rotary_emb(heads, heads, angles)[0]
    else:
        angles = embedding(family, config)(torch.zeros(1), torch.tensor([positions]))
        rotated = llama.apply_rotary_pos_emb(heads, heads, *angles)[0]
    return {"interleaved": interleaved, "positions": positions, "x": x, "rotated": [short(r) for r in rotated[0, 0]]}


def make(name):
    family, parameters, rotary_dim, max_positions, lengths = CASES[name]
    config = config_of(family, parameters, rotary_dim, max_positions)
    case = {"name": name, "config": {"rope_parameters": parameters, "max_position_embeddings": max_positions},
            "rotary_dim": rotary_dim, "lengths": [frequencies(family, config, n) for n in lengths]}
    if name in ROTATIONS:
        case["rotation"] = rotation(family, config, rotary_dim, *ROTATIONS[name])
    scale = 192**-0.5
    case["deepseek_scale"] = deepseek_v3.yarn_apply_mscale(config.rope_parameters, scale)
    assert case["deepseek_scale"] == deepseek_v2.yarn_apply_mscale(config.rope_parameters, scale)
    return case


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(make(name)) for name in CASES) + "\n]\n")
