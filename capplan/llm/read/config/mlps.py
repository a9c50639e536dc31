"""Build the MLP or the experts of each layer from a model's configuration."""

from capplan.llm.core.layers import DenseMlp, Experts, Mlp
from capplan.llm.read.config.fields import Fields
from capplan.llm.read.config.traits import Traits

_EXPERT_COUNTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "experts_per_token", "top_k_experts", "num_experts_per_token", "moe_k", "moe_topk")
_OF_EXPERTS = (
    *_PER_TOKEN, "moe_intermediate_size", "n_shared_experts", "num_shared_experts", "shared_expert_intermediate_size",
    "first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers",
)  # fmt: skip
"""Fields that decide nothing where a configuration states no number of experts, or one."""


def read_mlps(fields: Fields, traits: Traits, *, layer_count: int) -> list[Mlp | None]:
    """Return the MLP or the experts of every layer.

    Args:
        fields: The (text) configuration.
        traits: What the family fixes.
        layer_count: Number of layers.

    Raises:
        SpecError: A field is missing or absurd.
    """
    if not has_experts(fields):
        fields.understood(*_OF_EXPERTS)
        return [read_dense(fields, traits)] * layer_count
    experts = read_experts(fields, traits)
    routed = _routed_layers(fields, layer_count)
    dense = None if all(routed) else read_dense(fields, traits)
    return [experts if is_routed else dense for is_routed in routed]


def has_experts(fields: Fields) -> bool:
    """Return True if the configuration describes a mixture of experts."""
    count = fields.optional_size(*_EXPERT_COUNTS, least=0) or 0
    return count > 1 and fields.raw("enable_moe_block") is not False


def read_dense(fields: Fields, traits: Traits) -> DenseMlp:
    """Return the ordinary MLP of a layer."""
    hidden = fields.size("hidden_size", "n_embd", "d_model")
    width = fields.optional_size(*traits.mlp_widths)
    if width is None:
        if traits.gated:
            raise fields.error("the configuration has no intermediate_size")
        width = 4 * hidden  # GPT-2, GPT-J and Falcon leave it out where it is four times the hidden width
    stated_bias = fields.flag("mlp_bias", default=fields.flag("bias") or fields.flag("use_bias"))
    return DenseMlp(width=width, gated=traits.gated, bias=stated_bias if traits.mlp_bias is None else traits.mlp_bias)


def read_experts(fields: Fields, traits: Traits) -> Experts:
    """Return the experts of a layer, with the shared ones and the dense part next to them."""
    count, per_token = fields.size(*_EXPERT_COUNTS), fields.size(*_PER_TOKEN)
    if per_token > count:
        raise fields.error(f"{per_token} experts per token are more than the {count} experts")
    width = fields.size("intermediate_size" if traits.plain_expert_width else "moe_intermediate_size")
    fields.understood("moe_intermediate_size")
    beside = read_dense(fields, traits) if fields.flag("enable_moe_block") else None
    hidden = fields.size("hidden_size")
    return Experts(
        count=count,
        per_token=per_token,
        width=width,
        gated=traits.gated,
        bias=traits.expert_bias,
        shared_width=_shared_width(fields, traits, width),
        shared_gate=fields.has("shared_expert_intermediate_size"),
        router_bias=traits.router_bias,
        router_extra=hidden + count if beside else 0,  # Gemma 4: one scale per input and one per expert
        latent_dim=fields.optional_size("moe_latent_size"),
        dense=beside,
    )


def _shared_width(fields: Fields, traits: Traits, width: int) -> int:
    if traits.one_shared_expert:
        return width
    stated = fields.optional_size(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size", least=0
    )
    if stated is not None:
        fields.understood("n_shared_experts", "num_shared_experts")
        return stated
    return (fields.optional_size("n_shared_experts", "num_shared_experts", least=0) or 0) * width


def _routed_layers(fields: Fields, layer_count: int) -> list[bool]:
    """Return which layers are mixtures of experts."""
    kinds = fields.words("mlp_layer_types", length=layer_count, known=("dense", "sparse"))
    if kinds is not None:
        fields.understood("moe_layer_freq", "first_k_dense_replace", "interleave_moe_layer_step", "moe_layers")
        return [kind == "sparse" for kind in kinds]
    marks = fields.sizes("moe_layer_freq", length=layer_count)
    if marks is not None:
        return [mark == 1 for mark in marks]
    chosen = fields.raw("moe_layers")
    if isinstance(chosen, list):
        fields.understood("interleave_moe_layer_step")
        return [index in chosen for index in range(layer_count)]
    if fields.has("interleave_moe_layer_step"):
        step = fields.size("interleave_moe_layer_step")
        return [(index + 1) % step == 0 for index in range(layer_count)]
    if fields.has("decoder_sparse_step"):
        step, dense_only = fields.size("decoder_sparse_step"), fields.raw("mlp_only_layers") or []
        return [(index + 1) % step == 0 and index not in dense_only for index in range(layer_count)]
    first = fields.size("first_k_dense_replace", default=0, least=0)
    step = fields.size("moe_layer_freq", default=1)
    return [index >= first and index % step == 0 for index in range(layer_count)]
