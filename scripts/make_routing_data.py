#!/usr/bin/env python3
"""Writes tests/data/routing.json: what the routers of transformers choose, the weights, and the gradient of the logits.

    make_routing_data.py OUT.json          needs torch and transformers >= 5

Each router gets the identity as its matrix, so that its input is its logits. The loss is the weighted sum of the
combination weights, each times a fixed coefficient of its expert.
"""
import json
import sys

import torch
from transformers import DeepseekV2Config, DeepseekV3Config, MixtralConfig, Qwen2MoeConfig
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeTopKRouter

ROWS = 6
E = 12
SIZES = dict(hidden_size=E, num_attention_heads=2, num_key_value_heads=2)


def deepseek(config_class, router_class, top_k, scaling, **more):
    config = config_class(**SIZES, n_routed_experts=E, num_experts_per_tok=top_k, routed_scaling_factor=scaling, **more)
    return router_class(config), dict(top_k=top_k, scaling=scaling)


def v2(**more):
    router, rule = deepseek(DeepseekV2Config, DeepseekV2TopkRouter, 4, 16.0, **more)
    if more["topk_method"] == "group_limited_greedy":
        rule |= dict(n_group=more["n_group"], topk_group=more["topk_group"], group_score="best")
    return router, rule


def v3(bias, **more):
    router, rule = deepseek(DeepseekV3Config, DeepseekV3TopkRouter, 4, 2.5, n_group=4, topk_group=2, **more)
    router.e_score_correction_bias.copy_(torch.tensor(bias))
    rule |= dict(score="sigmoid", selection_bias=bias, n_group=4, topk_group=2, group_score="best_two",
                 normalize=more["norm_topk_prob"], epsilon=1e-20)
    return router, rule


def qwen2(normalize):
    config = Qwen2MoeConfig(**SIZES, num_experts=E, num_experts_per_tok=4, norm_topk_prob=normalize)
    return Qwen2MoeTopKRouter(config), dict(top_k=4, normalize=normalize)


def mixtral():
    config = MixtralConfig(**SIZES, num_local_experts=E, num_experts_per_tok=2)
    return MixtralTopKRouter(config), dict(top_k=2, normalize=True)


SMALL = [0.1, -0.2, 0.05, 0.0, 0.3, -0.1, 0.2, -0.3, 0.15, -0.05, 0.25, -0.15]
CASES = {
    "qwen2_moe": lambda: qwen2(False),
    "qwen2_moe_normalized": lambda: qwen2(True),
    "mixtral": mixtral,
    "deepseek_v2_greedy": lambda: v2(topk_method="greedy"),
    # The router does not look at norm_topk_prob.
    "deepseek_v2_groups": lambda: v2(topk_method="group_limited_greedy", n_group=3, topk_group=2, norm_topk_prob=True),
    "deepseek_v3": lambda: v3(SMALL, norm_topk_prob=True),
    "deepseek_v3_not_normalized": lambda: v3(SMALL, norm_topk_prob=False),
    # Every selection score is negative: an excluded expert that scored 0 would win.
    "deepseek_v3_negative": lambda: v3([b - 1.5 for b in SMALL], norm_topk_prob=True),
}


def run(name, seed):
    router, rule = CASES[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        router.weight.copy_(torch.eye(E))
    logits = (1.5 * torch.randn(ROWS, E, generator=generator)).requires_grad_()
    coefficients = torch.randn(E, generator=generator)
    _, weights, ids = router(logits)
    (weights * coefficients[ids]).sum().backward()
    by_expert = torch.zeros(ROWS, E).scatter(1, ids, weights.detach())  # in whatever order the router chose them
    return dict(rule=rule, logits=logits.tolist(), coefficients=coefficients.tolist(), weights=by_expert.tolist(),
                gradient=logits.grad.tolist())


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")  # a float32 exactly
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return value


def main():
    cases = {}
    for seed, name in enumerate(CASES):
        cases[name] = {key: rounded(value) for key, value in run(name, seed).items()}
    with open(sys.argv[1], "w") as out:
        json.dump(cases, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
