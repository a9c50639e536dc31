"""Make token ids for transformers models."""

from typing import Any

from capplan.core.trace.affine import Affine
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec

DEFAULT_SEQ_LEN = 128


def token_spec(config: Any, request: InputRequest, *, name: str = "input_ids") -> InputSpec:
    """Return token ids: `--seq-len` of them, or as many as the model has positions."""
    vocabulary = vocab_size(config)
    return InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(sequence(config, request))), high=vocabulary)


def vocab_size(config: Any) -> int:
    """Return how many token ids a config's text part knows."""
    for part in (text_part(config), config):
        for key in ("vocab_size", "text_vocab_size", "src_vocab_size"):
            if isinstance(size := getattr(part, key, None), int):
                return size
    return 100


def sequence(config: Any, request: InputRequest) -> int:
    """Return tokens per sequence: `--seq-len`, or `DEFAULT_SEQ_LEN` if the positions suffice."""
    if request.seq_len is not None:
        return request.seq_len
    limits = [
        getattr(text_part(config), key, None)
        for key in ("max_position_embeddings", "max_target_positions", "n_positions")
    ]
    return min([DEFAULT_SEQ_LEN, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])


def text_part(config: Any) -> Any:
    """Return the config's text part; of an encoder and a decoder of text, the encoder, which takes the input."""
    encoder = getattr(config, "text_encoder", None)
    return config.get_text_config() if encoder is None else encoder


def plain_token(config: Any) -> int:
    """Return a token id that means nothing special to the config."""
    special = [
        value
        for part in (config, text_part(config))
        if part
        for key, value in vars(part).items()
        if key.endswith(_TOKEN_KEYS)
    ]
    flat = {item for value in special for item in (value if isinstance(value, list) else [value])}
    return next(token for token in range(5, 1000) if token not in flat)


_TOKEN_KEYS = ("token_id", "token_index", "patch_id")
