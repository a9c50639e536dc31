"""Count the activations that autograd keeps of a layer and of the loss, on one GPU.

The terms follow what the backward pass of each operator reads, as Korthikanti et al. (arXiv 2205.05198) count them,
with what later models and frameworks changed: grouped queries, gated activations, experts, norms in fp32 outside of
fused kernels, and adapters, whose frozen base keeps no inputs of its linear layers.
"""

from dataclasses import dataclass

from capplan.llm.core.architecture import Layer
from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    DenseMlp,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    ShortConv,
)
from capplan.llm.core.training.job import AttentionImplementation, Compute, Method, Recompute, TrainingJob

_HALF, _SINGLE = 2.0, 4.0
"""Bytes of an element in 16 bits and in fp32."""
_NARROW_INPUTS = {Compute.FP8: 1.0, Compute.MXFP8: 1 + 1 / 32, Compute.NVFP4: 0.5 + 1 / 16}
"""Bytes of an element with its scale: one byte per 32 elements of MXFP8, one per 16 of NVFP4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerActivations:
    """What one layer keeps of one micro-batch on one GPU. [bytes]

    `scores` is the part of `whole` that selective recomputation of the attention core leaves out. `input` is the
    layer's input, which full recomputation keeps alone.
    """

    whole: float
    scores: float
    input: float
    operators: float

    def kept(self, recompute: Recompute) -> float:
        """Return what is kept from the forward to the backward pass. [bytes]"""
        match recompute:
            case Recompute.NONE:
                return self.whole
            case Recompute.ATTENTION:
                return self.whole - self.scores
            case Recompute.OPERATORS:
                return min(self.whole, self.operators)
            case Recompute.FULL:
                return self.input


def interleaved_share(*, stages: int, chunks: int) -> float:
    """Return the activations of the first stage with interleaving, over those of all layers once: 1 + (p − 1)/(p·v).

    Korthikanti et al., section 4.2.3.
    """
    return 1.0 + (stages - 1) / (stages * chunks) if chunks > 1 else 1.0


def layer_activations(layer: Layer, job: TrainingJob) -> LayerActivations:
    """Count what one layer keeps of one micro-batch on one GPU."""
    tokens, hidden, cut = job.micro_tokens, job.architecture.hidden_dim, job.layout.tensor
    outside = cut if job.layout.sequence_parallel else 1
    mixer, scores, mixer_outputs = _mixer(layer, job)
    mlp, mlp_outputs = _mlp(layer, job)
    norms = _norms(layer, job)
    whole = tokens * (norms / outside + (mixer + mlp) / cut) + scores
    outputs = mixer_outputs + mlp_outputs
    return LayerActivations(
        whole=whole,
        scores=scores,
        input=tokens * hidden * (_SINGLE if job.is_widened else _HALF) / outside,
        # Every second matrix product's output, attention's output, and the residual stream that the layer starts from.
        operators=tokens * _HALF * (0.5 * outputs + mixer_outputs / 3) / cut + tokens * hidden * _HALF / outside,
    )


def _input_bytes(job: TrainingJob, targets: tuple[str, ...], *, readers: int = 1) -> float:
    """Return the bytes of an element that linear layers keep of their common input.

    Trained layers keep it in 16 bits, or in their products' narrow format where the framework's linear layers do, and
    frozen ones do not; bitsandbytes' quantised ones do, each a conversion of its own where the input is in fp32.
    Adapters keep their own copy, in their format or after dropout.
    """
    if job.method is Method.FULL:
        return _NARROW_INPUTS.get(job.compute, _HALF) if job.framework.narrows_inputs else _HALF
    adapted = job.framework.adapter_bytes if set(targets) & set(job.adapter.targets) else 0.0
    copies = readers if job.is_widened else 1
    return adapted + (_HALF * copies if job.method is Method.QLORA else 0.0)


def _norms(layer: Layer, job: TrainingJob) -> float:
    """Return the bytes per token that a layer's norms keep, with the outputs that the next linear layers read."""
    hidden = job.architecture.hidden_dim
    # Norms that are not fused keep an fp32 copy of the input, and of the normed value where their weight is trained.
    single = _SINGLE * (1.5 if job.is_adapted else 2.0)
    kept = _HALF if job.framework.fuses_norm or job.compiled else single
    found = 0.0
    if layer.mixer is not None:
        found += kept + _input_bytes(job, ("q", "k", "v"), readers=3)
    if layer.mlp is not None:
        found += kept + _input_bytes(job, ("gate_up",), readers=2)
    return found * hidden


def _mixer(layer: Layer, job: TrainingJob) -> tuple[float, float, float]:
    """Return bytes per token, bytes of score matrices, and elements of matrix products' outputs per token."""
    mixer, hidden = layer.mixer, job.architecture.hidden_dim
    match mixer:
        case None:
            return 0.0, 0.0, 0.0
        case Attention():
            queries = mixer.query_heads * mixer.key_dim
            keys, values = mixer.kv_heads * mixer.key_dim, mixer.kv_heads * mixer.value_dim
            mixed = mixer.query_heads * mixer.value_dim
            read = (queries + mixed) if job.framework.repeats_keys else (keys + values)
            kept = _HALF * (queries + read + mixed) + _SINGLE * mixer.query_heads
            # Attention keeps its output in 16 bits, which a layer that reads it in another format does not share.
            own = _input_bytes(job, ("o",))
            kept += (own if own < _HALF and job.method is Method.FULL else max(0.0, own - _HALF)) * mixed
            scores = _scores(mixer.query_heads, job, mixer.window)
            return kept, scores, queries + keys + values + hidden
        case LatentAttention():
            query_dim = mixer.nope_dim + mixer.rope_dim
            queries = keys = mixer.query_heads * query_dim
            values = mixer.query_heads * mixer.value_dim
            compressed = (mixer.query_rank or 0) + mixer.cached_dim
            rebuilt = mixer.query_heads * (mixer.nope_dim + mixer.value_dim)
            kept = _HALF * (2 * compressed + queries + rebuilt + keys + 2 * values) + _SINGLE * mixer.query_heads
            return kept, _scores(mixer.query_heads, job, None), queries + rebuilt + compressed + hidden
        case CompressedAttention():
            mixed = mixer.query_heads * mixer.head_dim
            made = mixer.query_rank + mixer.head_dim * (1 + (2 * mixer.overlap if mixer.ratio else 0))
            output = mixer.output_groups * mixer.output_rank
            kept = _HALF * (2 * made + 3 * mixed + output) + _SINGLE * mixer.query_heads
            return kept, _scores(mixer.query_heads, job, mixer.window), mixed + made + output + hidden
        case GatedDeltaNet():
            inner = mixer.value_heads * mixer.value_dim
            return _HALF * (2 * mixer.conv_channels + 4 * inner), 0.0, mixer.conv_channels + inner + hidden
        case Mamba2():
            inner = mixer.inner_dim
            return _HALF * (2 * mixer.conv_channels + 4 * inner), 0.0, mixer.conv_channels + inner + hidden
        case ShortConv():  # gates and input, their product, the convolution's output and the gated output
            return _HALF * 6 * mixer.conv_channels, 0.0, 3 * mixer.conv_channels + hidden


def _scores(heads: int, job: TrainingJob, window: int | None) -> float:
    """Return the bytes of the softmax's output, its dropout mask and the masked scores: 5·a·s² per sequence."""
    if job.attention is not AttentionImplementation.EAGER:
        return 0.0
    keys = min(job.sequence_tokens, window) if window else job.sequence_tokens
    return 5.0 * heads * job.micro_tokens * keys / job.layout.tensor


def _mlp(layer: Layer, job: TrainingJob) -> tuple[float, float]:
    """Return bytes per token and elements of matrix products' outputs per token of the MLP or the experts."""
    mlp, hidden = layer.mlp, job.architecture.hidden_dim
    match mlp:
        case None:
            return 0.0, 0.0
        case DenseMlp():
            return _dense(mlp, job)
        case Experts():
            inner = mlp.latent_dim or hidden
            routed = mlp.per_token * (_block(mlp.width, job, gated=mlp.gated) / job.layout.expert_tensor)
            copies = (
                2 * _HALF * inner * mlp.per_token
            )  # the permuted inputs and the outputs that are weighed and summed
            shared = _block(mlp.shared_width, job, gated=mlp.gated) if mlp.shared_width else 0.0
            dense, dense_outputs = (0.0, 0) if mlp.dense is None else _dense(mlp.dense, job)
            outputs = mlp.per_token * ((2 if mlp.gated else 1) * mlp.width + inner) + 3 * mlp.shared_width
            # Routed tokens are spread over all GPUs of a stage: a GPU of a tensor-parallel group has its own share.
            spread = job.layout.tensor if not job.layout.sequence_parallel else 1
            return (routed + copies) * spread + shared + dense, outputs + dense_outputs


def _dense(mlp: DenseMlp, job: TrainingJob) -> tuple[float, int]:
    """Return the same of an ordinary feed-forward block."""
    outputs = (2 if mlp.gated else 1) * mlp.width + job.architecture.hidden_dim
    return _block(mlp.width, job, gated=mlp.gated), outputs


def _block(width: int, job: TrainingJob, *, gated: bool) -> float:
    """Return the bytes per token that a feed-forward block keeps, the input of its last matrix too."""
    fuses = job.framework.fuses_activation or job.compiled
    inputs = 2.0 if gated else 1.0
    between = 1.0 if gated and not fuses else 0.0
    size = _SINGLE if job.is_widened else _HALF
    return (size * (inputs + between) + _input_bytes(job, ("down",))) * width


def logit_elements(job: TrainingJob) -> float:
    """Return the logits of one micro-batch on one GPU of the last stage; few where the loss runs by chunks."""
    vocabulary = job.architecture.vocab_size / job.layout.tensor
    tokens = job.micro_tokens
    if job.framework.keeps_no_logits or not job.parts.has_vocabulary:
        return 0.0
    if job.parts.generates:
        tokens *= job.completion_tokens / job.sequence_tokens  # log-probabilities of the prompt are not needed
    if job.fused_loss or job.framework.fuses_loss:
        tokens = min(tokens, _LOSS_CHUNK_TOKENS)
    if tiles_loss(job):
        tokens, vocabulary = min(tokens, _TILE_TOKENS), min(vocabulary, _TILE_VOCABULARY)
    return tokens * vocabulary


def tiles_loss(job: TrainingJob) -> bool:
    """Return True if the loss computes logits by tiles of some tokens and some of the vocabulary."""
    return job.objective in job.framework.tiles_loss


_TILE_TOKENS, _TILE_VOCABULARY = 4096.0, 32768.0
"""TRL 1.16: TOKEN_CHUNK_SIZE (kernels/chunked_logprob.py), _CHUNKED_LOGPROB_CHUNK_SIZE (trainer/utils.py)."""


_LOSS_CHUNK_TOKENS = 2048.0
"""Tokens whose logits a chunked loss holds at a time, as Liger's and unsloth's kernels choose for common widths."""
