"""Text: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture
from capplan.probe.transformers.completions import quotient_of

ARCHITECTURES = {
    "blt": Architecture(inputs=("input_ids",)),
    "canine": Architecture(inputs=("input_ids",)),
    "dbrx": Architecture(completions={"attn_config.rope_theta": 500000.0, "attn_config.clip_qkv": 8}),
    "deepseek_v2": Architecture(completions={"num_experts_per_tok": 2, "n_routed_experts": 8}),
    "diffusion_gemma": Architecture(
        completions={
            "text_config.num_experts": 128,
            "text_config.top_k_experts": 8,
            "text_config.moe_intermediate_size": 704,
        }
    ),
    "dots1": Architecture(completions={"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6}),
    "esm": Architecture(completions={"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32}),
    "hunyuan_v1_dense": Architecture(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "hunyuan_v1_moe": Architecture(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "lfm2_moe": Architecture(
        completions={
            "layer_types": lambda content: [
                "full_attention" if layer % 4 == 2 else "conv" for layer in range(content["num_hidden_layers"])
            ]
        }
    ),
    "ministral": Architecture(completions={"head_dim": quotient_of("hidden_size", "num_attention_heads")}),
    "nemotron": Architecture(completions={"num_key_value_heads": 8}),
    "reformer": Architecture(inputs=("input_ids",)),
    "roc_bert": Architecture(inputs=("input_ids", "input_shape_ids", "input_pronunciation_ids")),
    "xmod": Architecture(inputs=("input_ids", "lang_ids")),
}
