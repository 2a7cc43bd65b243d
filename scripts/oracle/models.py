"""Small model folders for the server-argument run: only what a config says, no weights.

Field values are those of well-known public checkpoints of each architecture; a variant name follows the
architecture where the quantisation of the checkpoint matters.
"""

from __future__ import annotations

import json
import os
from typing import Any

_FP8 = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}
_DEEPSEEK_V3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "rope_theta": 10000,
    "rms_norm_eps": 1e-6,
    "num_nextn_predict_layers": 1,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "quantization_config": _FP8,
}
_QWEN3_MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
_GLM4_MOE: dict[str, Any] = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "hidden_size": 5120,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 92,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "n_routed_experts": 160,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 3,
    "partial_rotary_factor": 0.5,
    "use_qk_norm": True,
    "attention_bias": True,
    "vocab_size": 151552,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000,
    "rms_norm_eps": 1e-5,
    "num_nextn_predict_layers": 1,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}

MODELS: dict[str, dict[str, Any]] = {
    "DeepseekV3ForCausalLM": _DEEPSEEK_V3,
    "DeepseekV32ForCausalLM": _DEEPSEEK_V3
    | {
        "architectures": ["DeepseekV32ForCausalLM"],
        "model_type": "deepseek_v32",
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 2048,
    },
    "DeepseekV4ForCausalLM": _DEEPSEEK_V3
    | {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "hidden_size": 4096,
        "intermediate_size": 2048,
        "num_hidden_layers": 43,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "num_experts_per_tok": 6,
        "n_group": 8,
        "scoring_func": "sqrtsoftplus",
        "routed_scaling_factor": 1.5,
        "first_k_dense_replace": 0,
        "q_lora_rank": 1024,
        "o_lora_rank": 1024,
        "o_groups": 8,
        "qk_nope_head_dim": 448,
        "v_head_dim": 512,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 512,
        "sliding_window": 128,
        "window_size": 128,
        "compress_ratios": [0, 0] + [4, 128] * 20 + [4, 0],
        "compress_rope_theta": 160000,
        "n_hash_layers": 3,
        "num_hash_layers": 3,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-6,
        "swiglu_limit": 10.0,
        "quantization_config": _FP8 | {"scale_fmt": "ue8m0"},
    },
    "GlmMoeDsaForCausalLM": _DEEPSEEK_V3
    | {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "hidden_size": 6144,
        "intermediate_size": 12288,
        "num_hidden_layers": 78,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "n_group": 1,
        "topk_group": 1,
        "q_lora_rank": 2048,
        "qk_nope_head_dim": 192,
        "v_head_dim": 256,
        "index_head_dim": 128,
        "index_n_heads": 32,
        "index_topk": 2048,
        "vocab_size": 154880,
        "max_position_embeddings": 202752,
    },
    "Glm4MoeForCausalLM": _GLM4_MOE,
    "Glm4MoeForCausalLM.fp8": _GLM4_MOE
    | {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "quantization_status": "compressed",
            "ignore": ["lm_head"],
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {
                        "num_bits": 8,
                        "type": "float",
                        "strategy": "channel",
                        "symmetric": True,
                        "dynamic": False,
                    },
                    "input_activations": {
                        "num_bits": 8,
                        "type": "float",
                        "strategy": "token",
                        "symmetric": True,
                        "dynamic": True,
                    },
                }
            },
        }
    },
    "GptOssForCausalLM": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "experts_per_token": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 18,
        "swiglu_limit": 7.0,
        "attention_bias": True,
        "vocab_size": 201088,
        "max_position_embeddings": 131072,
        "rope_theta": 150000,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        },
    },
    "Qwen3MoeForCausalLM": _QWEN3_MOE,
    "Qwen3MoeForCausalLM.fp8": _QWEN3_MOE | {"quantization_config": _FP8},
    "Qwen3NextForCausalLM": _QWEN3_MOE
    | {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "intermediate_size": 5120,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "partial_rotary_factor": 0.25,
        "max_position_embeddings": 262144,
        "rope_theta": 10000000,
    },
    "LlamaForCausalLM": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rope_theta": 500000,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    },
}


def write(folder: str) -> dict[str, str]:
    """Write one folder per model below ``folder``; returns name -> path."""
    paths = {}
    for name, config in MODELS.items():
        path = os.path.join(folder, name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as out:
            json.dump(config, out)
        with open(os.path.join(path, "generation_config.json"), "w", encoding="utf-8") as out:
            json.dump({}, out)
        paths[name] = path
    return paths
