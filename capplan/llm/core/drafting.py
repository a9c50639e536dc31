"""What drafts tokens for a language model: which model or head it is, and whether it goes with that model."""

from dataclasses import replace

from capplan.errors import UsageError
from capplan.llm.core.architecture import Architecture, DraftHead
from capplan.llm.core.layers import Attention, DenseMlp, Mixer
from capplan.llm.core.memory import DraftModel
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.serving.asked import Drafter, DrafterKind
from capplan.llm.core.sharding import Sharding, check_sharding

EAGLE3_STATES = 3
"""Hidden states of the model that an EAGLE-3 head starts from: of an early, a middle and a late layer (Li et al., arXiv
2503.01840)."""
_EAGLE3_ROWS = 32_000
"""Tokens that EAGLE-3's heads choose among: `draft_vocab_size` of the authors' and of SpecForge's configurations."""


def draft_model(
    drafter: Drafter | None, model: LanguageModel, sharding: Sharding, *, named: LanguageModel | None
) -> DraftModel | None:
    """Return what drafts beside a model; None for a layer like the model's, for n-grams, and for nothing.

    `named` is the model that the drafter names.
    """
    if drafter is None or drafter.kind in (DrafterKind.HEAD, DrafterKind.NGRAM):
        return None
    found = eagle3_head(model) if named is None else named
    _check(found.architecture, model.architecture)
    expert = sharding.expert if found.architecture.is_moe else 1
    shared = Sharding(tensor=sharding.tensor, data=sharding.data, expert=expert)
    check_sharding(found.architecture, shared)
    return DraftModel(architecture=found.architecture, quantisation=found.own_quantisation, sharding=shared)


def eagle3_head(model: LanguageModel) -> LanguageModel:
    """Return the usual EAGLE-3 head of a dense model: one layer of its widths in 16 bits, with fewer output tokens.

    Its queries, keys and values read the embedding of a token beside the hidden state, and it embeds as the model does.
    """
    architecture = model.architecture
    layer = architecture.layers[architecture.draft_index]
    if not isinstance(layer.mixer, Attention) or not isinstance(layer.mlp, DenseMlp):
        raise UsageError(
            f"EAGLE-3 heads of {architecture.name} have widths that do not follow from its own; name the head's "
            "repository or its config.json as ⟨drafter⟩."
        )
    head = replace(
        architecture,
        name=f"an EAGLE-3 head of {architecture.name}",
        layers=(replace(layer, mixer=joined(replace(layer.mixer, window=None, chunked=False, kv_owner=None))),),
        tied_embeddings=False,
        vision=None,
        vision_note=None,
        draft_layers=0,
        draft_head=DraftHead(fused=EAGLE3_STATES, rows=min(_EAGLE3_ROWS, architecture.vocab_size)),
    )
    return LanguageModel(architecture=head, dtype="bf16", quantisation=None, source=model.source)


def joined(mixer: Mixer | None) -> Mixer | None:
    """Return attention that reads the embedding of a token beside the hidden state, as in EAGLE-3's heads."""
    return replace(mixer, joins_embedding=True) if isinstance(mixer, Attention) else mixer


def _check(drafter: Architecture, model: Architecture) -> None:
    """Raise if a drafter's tokens or hidden states are not those of a model.

    vLLM refuses a draft model of another vocabulary (`verify_equal_vocab_size_if_draft_model` in config/speculative.py
    of github.com/vllm-project/vllm at 002e77c).
    """
    if drafter.draft_head is not None and drafter.hidden_dim != model.hidden_dim:
        raise UsageError(
            f"⟨drafter⟩ {drafter.name} starts from hidden states of {drafter.hidden_dim} elements; those of "
            f"{model.name} have {model.hidden_dim}."
        )
    if drafter.vocab_size != model.vocab_size:
        raise UsageError(
            f"⟨drafter⟩ {drafter.name} has {drafter.vocab_size:,} tokens and {model.name} {model.vocab_size:,}; "
            "engines take a drafter with the same tokens."
        )
