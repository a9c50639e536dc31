"""Parts of a model that generates: its encoder, and one step of its decoder with a key-value cache.

Both are steps of `--prepare`. The cache is made inside the call, so that its bytes count as activations; keys and
values of the tokens so far are read by attention as in transformers' `generate`, and copied where it copies them.
"""

from typing import Any

import torch

from capplan.errors import UsageError


def encoder_of(module: torch.nn.Module) -> torch.nn.Module:
    """Keep the encoder of an encoder-decoder, which runs once for an input."""
    take = getattr(module, "get_encoder", None)
    is_pair = getattr(getattr(module, "config", None), "is_encoder_decoder", False)
    if not callable(take) or not is_pair:
        raise UsageError(f"⟨prepare⟩ encoder: {type(module).__name__} is not an encoder-decoder of transformers.")
    return take()  # type: ignore[no-any-return] # transformers is untyped here


def decode_step(*given: Any) -> torch.nn.Module:
    """Run one step of generation behind a cache of decode=TOKENS; an encoder-decoder keeps its decoder alone."""
    *number, module = given
    context = int(number[0]) if number else 256
    config = getattr(module, "config", None)
    if config is None or not hasattr(config, "vocab_size"):
        raise UsageError(f"⟨prepare⟩ decode: {type(module).__name__} is not a language model of transformers.")
    decoder = module.get_decoder() if getattr(config, "is_encoder_decoder", False) else module
    named = type(type(decoder).__name__, (_DecodeStep,), {})  # answers show the class that people know
    step: torch.nn.Module = named(module, context)
    return step


class _DecodeStep(torch.nn.Module):
    """One token for each sequence: `context` tokens before it, and of an encoder-decoder a source that was encoded."""

    def __init__(self, module: Any, context: int) -> None:
        super().__init__()
        self.config = module.config
        self.context = context
        self.is_pair = bool(getattr(self.config, "is_encoder_decoder", False))
        self.inner = module.get_decoder() if self.is_pair else module
        self.head = module.get_output_embeddings() if self.is_pair else None

    def forward(
        self, input_ids: torch.Tensor | None = None, decoder_input_ids: torch.Tensor | None = None, **others: Any
    ) -> torch.Tensor:
        """Return the scores of the token that follows the last one given."""
        tokens = input_ids if decoder_input_ids is None else decoder_input_ids
        if tokens is None or others:
            raise UsageError("⟨prepare⟩ decode: a step takes a token for each sequence: ⟨input⟩ input_ids=int64:Nx1.")
        input_ids = tokens[:, -1:]
        batch, like = input_ids.shape[0], self.inner.get_input_embeddings().weight
        own = self._cache(batch, self.context, like)
        if not self.is_pair:
            made = self.inner(input_ids=input_ids, past_key_values=own, use_cache=True)
            logits: torch.Tensor = made[0]
            return logits
        from transformers.cache_utils import EncoderDecoderCache

        source = int(getattr(self.config, "max_source_positions", self.context))
        cache = EncoderDecoderCache(own, self._cache(batch, source, like))
        cache.is_updated = dict.fromkeys(range(self._layers), True)
        encoded = torch.empty(batch, source, self.config.hidden_size, dtype=like.dtype, device=like.device)
        made = self.inner(
            input_ids=input_ids, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True, return_dict=True
        )
        hidden: torch.Tensor = made.last_hidden_state
        return hidden if self.head is None else self.head(hidden)

    @property
    def _layers(self) -> int:
        return int(self._named("decoder_layers", "num_decoder_layers", "num_hidden_layers", "num_layers"))

    def _named(self, *names: str) -> Any:
        """Return the first of a config's values that is there."""
        for name in names:
            if (value := getattr(self.config, name, None)) is not None:
                return value
        wanted = " or ".join(names)
        raise UsageError(
            f"⟨prepare⟩ decode: the config of {self.config.model_type} has no {wanted}, so that there is no cache of "
            "keys and values to make."
        )

    def _cache(self, batch: int, length: int, like: torch.Tensor) -> Any:
        """Return a cache of keys and values of that many tokens in every layer."""
        from transformers.cache_utils import DynamicCache, DynamicLayer

        heads = int(self._named("decoder_attention_heads", "num_attention_heads", "num_heads"))
        width = getattr(self.config, "d_kv", None) or getattr(self.config, "head_dim", None)
        width = int(width or self._named("d_model", "hidden_size") // heads)
        held = heads if self.is_pair else int(getattr(self.config, "num_key_value_heads", None) or heads)
        cache = DynamicCache()
        cache.layers = []
        for _ in range(self._layers):
            layer: Any = DynamicLayer()  # type: ignore[no-untyped-call] # transformers is untyped here
            layer.lazy_initialization(*self._keys_and_values(batch, held, 1, width, like))
            layer.keys, layer.values = self._keys_and_values(batch, held, length, width, like)
            cache.layers.append(layer)
        return cache

    @staticmethod
    def _keys_and_values(
        batch: int, heads: int, length: int, width: int, like: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tensors without values, which no kernel fills."""
        shape = (batch, heads, length, width)
        return tuple(torch.empty(shape, dtype=like.dtype, device=like.device) for _ in range(2))  # type: ignore[return-value] # two
