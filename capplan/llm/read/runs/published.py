"""Hold what publishers of measured runs state once for all rows of a table, where a row itself does not."""

_TENSORRT_LLM = "TensorRT-LLM docs"
_TENSORRT_LLM_REQUESTS: dict[tuple[float, float], float] = {
    (128, 128): 30_000,
    (128, 2048): 3_000,
    (128, 4096): 1_500,
    (500, 2000): 3_000,
    (1000, 1000): 3_000,
    (1000, 2000): 1_500,
    (2048, 128): 3_000,
    (2048, 2048): 1_500,
    (5000, 500): 1_500,
    (20000, 2000): 1_000,
}
"""Requests of an offline run by prompt and answer [tokens], from the section on preparing a data set of
TensorRT-LLM's performance overview; quoted from memory, not read again."""


def published_requests(source: str, *, lengths: tuple[float, float]) -> float | None:
    """Return how many requests an offline run of a published table had, None where that is not known.

    Args:
        source: Where the run was published, as the row states it.
        lengths: Mean prompt and answer. [tokens]
    """
    return _TENSORRT_LLM_REQUESTS.get(lengths) if source.startswith(_TENSORRT_LLM) else None
