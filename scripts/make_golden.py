#!/usr/bin/env python3
"""Makes golden folders under tests/data/golden with transformers as the independent implementation: small random
checkpoints with hidden states, routing, logits, losses, gradients and greedy continuations, in float32 arithmetic.

    make_golden.py OUT_DIR [CASE...]          needs torch, transformers >= 5 and safetensors

Weights are loaded back with from_pretrained before the reference is computed, so that what a user of transformers
gets is what is compared with. (Casting a whole model with .to(bfloat16) also rounds its rotary frequencies.)
"""
import json
import math
import os
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

BASE = dict(model_type="qwen2_moe", vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False, num_experts=8,
            num_experts_per_tok=4, moe_intermediate_size=16, shared_expert_intermediate_size=24, norm_topk_prob=False,
            decoder_sparse_step=1, router_aux_loss_coef=0.01,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0))

CASES = {
    # name: (changes to BASE, dtype of the checkpoint, tokens per sequence)
    "qwen2_moe_sliding": (dict(num_hidden_layers=5, use_sliding_window=True, sliding_window=6, max_window_layers=3,
                               num_experts=4, num_experts_per_tok=2), "float32", 24),
    "qwen2_moe_60_experts": (dict(num_experts=60, moe_intermediate_size=8), "bfloat16", 24),
    "qwen2_moe_65_experts_odd": (dict(num_experts=65, num_experts_per_tok=3, hidden_size=36, head_dim=20,
                                      num_attention_heads=7, num_key_value_heads=1, moe_intermediate_size=7,
                                      shared_expert_intermediate_size=9, vocab_size=97, qkv_bias=False), "float32", 17),
    "qwen2_moe_top1": (dict(num_experts_per_tok=1), "float32", 16),
    "qwen2_moe_all_experts": (dict(num_experts=5, num_experts_per_tok=5, norm_topk_prob=True), "float32", 16),
    "qwen2_moe_bf16": (dict(num_experts=16, num_experts_per_tok=8), "bfloat16", 48),
}


def add_rope_cases():
    """Every rope type, in sequences that are longer than the original ones. The greedy continuations, from 12 tokens
    to 36, pass from the original length to longer ones."""
    small = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=12,
                 vocab_size=64)
    types = {
        "linear": (dict(factor=4.0), 64),
        "dynamic": (dict(factor=4.0), 16),
        "yarn": (dict(factor=4.0, original_max_position_embeddings=16), 64),
        "llama3": (dict(factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16), 64),
        "longrope": (dict(short_factor=[1.0, 1.1, 1.3, 1.5], long_factor=[1.5, 2.5, 4.0, 6.0],
                          original_max_position_embeddings=16), 64),
    }
    for name, (parameters, max_positions) in types.items():
        rope = dict(rope_type=name, rope_theta=100.0, **parameters)
        CASES[f"qwen2_moe_{name}"] = (dict(small, rope_parameters=rope, max_position_embeddings=max_positions),
                                      "bfloat16", 40)


add_rope_cases()


def add_family_cases():
    """What the families have beside their plain forms: windows, biases, groups, yarn, odd sizes."""
    common = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2,
                  pad_token_id=0, tie_word_embeddings=False)
    plain = dict(rope_type="default", rope_theta=10000.0)
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=16, beta_fast=32,
                beta_slow=1)
    latent = dict(common, num_key_value_heads=4, kv_lora_rank=20, qk_rope_head_dim=6, qk_nope_head_dim=10,
                  v_head_dim=14, moe_intermediate_size=12, first_k_dense_replace=1, num_hidden_layers=3)
    cases = {
        "mistral": dict(common, model_type="mistral", sliding_window=6, head_dim=20, rope_parameters=plain),
        "mixtral_sliding": dict(common, model_type="mixtral", sliding_window=5, num_local_experts=3,
                                num_experts_per_tok=2, rope_parameters=plain),
        "qwen2_mixed_layers": dict(common, model_type="qwen2", num_hidden_layers=4, use_sliding_window=True,
                                   sliding_window=5, max_window_layers=2, rope_parameters=plain),
        "qwen3_bias": dict(common, model_type="qwen3", head_dim=20, attention_bias=True, tie_word_embeddings=True,
                           rope_parameters=plain),
        "llama_bias": dict(common, model_type="llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                           rope_parameters=plain),
        "qwen3_moe_yarn_odd": dict(common, model_type="qwen3_moe", hidden_size=36, head_dim=20, num_attention_heads=7,
                                   num_key_value_heads=1, num_experts=60, num_experts_per_tok=5,
                                   moe_intermediate_size=5, norm_topk_prob=True, decoder_sparse_step=1,
                                   num_hidden_layers=3, mlp_only_layers=[1], rope_parameters=yarn),
        "olmoe_norm": dict(common, model_type="olmoe", num_experts=6, num_experts_per_tok=3, intermediate_size=10,
                           norm_topk_prob=True, rope_parameters=plain),
        "deepseek_v2_groups": dict(latent, model_type="deepseek_v2", q_lora_rank=18, n_routed_experts=12,
                                   num_experts_per_tok=4, n_shared_experts=2, n_group=4, topk_group=2,
                                   topk_method="group_limited_greedy", routed_scaling_factor=4.0,
                                   rope_parameters=dict(yarn, mscale=1.0, mscale_all_dim=0.707)),
        "deepseek_v3_yarn": dict(latent, model_type="deepseek_v3", q_lora_rank=None, n_routed_experts=15,
                                 num_experts_per_tok=5, n_shared_experts=1, n_group=3, topk_group=2,
                                 routed_scaling_factor=2.5, norm_topk_prob=True, rope_interleave=True,
                                 num_nextn_predict_layers=0,
                                 rope_parameters=dict(yarn, mscale=1.0, mscale_all_dim=1.0)),
    }
    for name, config in cases.items():
        CASES[name] = (config, "bfloat16", 24)


add_family_cases()


def initialise(model, seed):
    """Random weights of a size that keeps activations near one and routing decided."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                p.copy_(1 + 0.2 * noise)
            elif p.ndim == 1:
                p.copy_(0.3 * noise)
            elif name.endswith("gate.weight"):
                p.copy_(1.6 * noise / math.sqrt(p.shape[-1]))
            elif "embed" in name:
                p.copy_(0.7 * noise)
            else:
                p.copy_(1.2 * noise / math.sqrt(p.shape[-1]))
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.copy_(0.2 * torch.randn(b.shape, generator=generator))


def write_old_dialect(path):
    """config.json as it was spelled before transformers 5."""
    config = json.load(open(path))
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    config["transformers_version"] = "4.40.1"
    json.dump(config, open(path, "w"), indent=2)


def reference(model, ids):
    """All that a forward pass shows, the losses, and the gradients of the total loss."""
    router = {}
    hooks = [m.register_forward_hook(lambda _, __, out, n=n: router.__setitem__(n, out))
             for n, m in model.named_modules() if n.endswith(".mlp.gate")]
    out = model(input_ids=ids, labels=ids, output_hidden_states=True)
    aux_loss = None
    if hasattr(model.config, "router_aux_loss_coef"):  # else the loss is the cross-entropy alone
        out = model(input_ids=ids, labels=ids, output_hidden_states=True, output_router_logits=True)
        aux_loss = out.aux_loss
    for hook in hooks:
        hook.remove()
    tensors = {"input_ids": ids.int(), "logits": out.logits.detach()}
    for i, h in enumerate(out.hidden_states):
        tensors[f"hidden_states.{i}"] = h.detach()
    for name, (logits, weights, experts) in router.items():
        tensors[f"router.{name}.logits"] = logits.detach()
        tensors[f"router.{name}.out0"] = weights.detach()
        tensors[f"router.{name}.out1"] = experts.int()
    cross_entropy = torch.nn.functional.cross_entropy(out.logits[:, :-1].reshape(-1, out.logits.shape[-1]),
                                                      ids[:, 1:].reshape(-1))
    meta = {"transformers": transformers.__version__, "loss_total": float(out.loss), "cross_entropy": float(cross_entropy)}
    if aux_loss is not None:
        meta |= {"aux_loss": float(aux_loss), "router_aux_loss_coef": model.config.router_aux_loss_coef}
    model.zero_grad(set_to_none=True)
    out.loss.backward()
    grads = {n: p.grad.detach().clone() for n, p in model.named_parameters() if p.grad is not None}
    prompt = ids[:1, :12]
    with torch.no_grad():
        # With the cache: each step's frequencies may depend on the length so far, and cached keys keep theirs.
        generated = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=24, do_sample=False,
                                   eos_token_id=None, pad_token_id=0, use_cache=True, output_logits=True,
                                   return_dict_in_generate=True)
    logits = torch.stack(generated.logits, 1)
    top2 = logits.topk(2, -1).values
    meta["greedy_min_margin"] = float((top2[..., 0] - top2[..., 1]).min())
    tensors["greedy_prompt"] = prompt.int()
    tensors["greedy_output"] = generated.sequences.int()
    return tensors, grads, logits, meta


def contiguous(tensors):
    return {k: v.contiguous().clone() for k, v in tensors.items()}


def make(name, folder, seed):
    changes, dtype, length = CASES[name]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config = AutoConfig.for_model(**(changes if "model_type" in changes else {**BASE, **changes}))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="eager").float()
    initialise(model, seed)
    for p in model.parameters():
        p.data = p.data.to(getattr(torch, dtype))
    model.config.dtype = getattr(torch, dtype)
    model.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    if seed % 2 == 0:
        write_old_dialect(os.path.join(folder, "config.json"))
    ids = torch.randint(3, config.vocab_size, (2, length), generator=torch.Generator().manual_seed(seed))
    tensors, grads, greedy_logits, meta = reference(model, ids)
    save_file(contiguous(tensors), os.path.join(folder, "reference.safetensors"))
    save_file(contiguous(grads), os.path.join(folder, "reference_grads.safetensors"))
    if model.config.rope_parameters["rope_type"] != "default":
        save_file({"greedy_logits": greedy_logits}, os.path.join(folder, "reference_decode.safetensors"))
    json.dump(meta, open(os.path.join(folder, "reference.json"), "w"), indent=1)
    print(name, meta)


if __name__ == "__main__":
    for i, case in enumerate(CASES):
        if len(sys.argv) > 2 and case not in sys.argv[2:]:
            continue
        make(case, os.path.join(sys.argv[1], case), 100 + i)
