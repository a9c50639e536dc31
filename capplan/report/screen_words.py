"""The words on the first screens of `plan`, `estimate`, `llm plan` and `llm train plan`, each with its meaning."""

from collections.abc import Iterable, Mapping
from typing import Final

from capplan.core.latency.types import EVIDENCE_MEANINGS, EVIDENCE_TITLE, EVIDENCE_WORDS
from capplan.errors import UnknownNameError

SCREEN_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "plan, estimate": {
        "Needs": "peak memory of the process on the GPU taken, with its largest parts; CUDA context is what the driver "
        "takes for any program",
        "Take": "the cheapest GPU for a million samples; below it the fastest that has a price, and the one with the "
        "least memory that holds the batch",
        "Rent": "an offer for each GPU taken: provider, machine and region",
        "But": "what to check before you rent or buy a GPU taken; GPUs that would cost less and are not taken, with "
        "the reason",
        "Faster?": "other settings of the same model on the GPU taken; ×1.70 means 1.70 times the throughput",
        "Fits": "how many GPUs hold the batch and run the model, and why the others do not",
        "per batch": "expected time of one batch whose inputs are on the GPU already",
        "90 % within": "nine of ten measured times of models and GPUs that no fit had seen lie in such a range",
        "images/s": "throughput with batches one after another; sequences/s for models of tokens, samples/s otherwise",
        "memory": "what nvidia-smi would show for the process",
        "safe batch": "the largest batch that fits even if every size turns out at its unfavourable end",
        "USD/h": "price of the machine for an hour; \"8 × 8.00\" where eight GPUs are rented together, at 8 USD each",
        "USD/M images": "cost of a million images at full load; with all GPUs of the machine busy where it has several",
        "borderline": "the range of the memory needed contains the limit: it may fit or not",
        "timed: 2.9": "the newest release of PyTorch with which models were timed; the ranges are wider for it",
        "only marketplaces rent it": "no provider of its own machines has an offer; hosts rent out their own cards",
    },
    EVIDENCE_TITLE: {EVIDENCE_WORDS[kind]: meaning for kind, meaning in EVIDENCE_MEANINGS.items()},
    "estimate": {
        "bound": "the shortest time that the printed rates of the GPU allow; no program is faster",
        "limited by": "what most of the time goes to: computing, moving data in GPU memory, or the CPU, which cannot "
        "start kernels as fast as the GPU runs them",
        "knee": "the batch from which doubling it gains less than a tenth of throughput",
        "of bound": "the bound over the expected time of a kernel: 100 % is as fast as the printed rates allow",
    },
    "llm plan": {
        "TTFT": "time to first token: from a request's arrival to its first token",
        "TPOT": "time per output token after the first one",
        "replica": "one copy of the model, with the GPUs that hold it",
        "TP 2": "two GPUs share each layer of a replica (tensor parallel)",
        "Limited": "the limit that is met first as the load grows",
        "90% sure": "the limits hold although times may lie at the slow end of their ranges",
        "Apart": "the best fleet that reads prompts (prefill) and writes tokens (decode) on different GPUs",
        "Mixed": "a fleet of two kinds of GPU that costs less than one kind",
        "Paying": "the cheapest way to pay for this fleet over three years",
        "USD/M out": "cost of a million output tokens, all costs counted on them",
    },
    "llm train plan": {
        "layout": "how the model is shared among GPUs: DP copies it, FSDP and ZeRO spread it, TP shares each layer, PP "
        "puts layers one after another",
        "micro": "sequences that one GPU takes at once",
        "recompute": "what is computed a second time instead of being kept in memory",
        "MFU": "model FLOPs utilization: the useful FLOP/s over the printed peak",
        "fits": "probability that the peak memory stays below what the GPU has",
    },
}  # fmt: skip
"""Words by the screens that use them."""


def explained(asked: Iterable[str] = ()) -> dict[str, dict[str, str]]:
    """Return the words that contain one of those asked for, or all of them, by screen."""
    wanted = [word.casefold() for word in asked]
    found: dict[str, dict[str, str]] = {}
    for screen, words in SCREEN_WORDS.items():
        kept = {
            word: meaning
            for word, meaning in words.items()
            if not wanted or any(each in word.casefold() or each in screen for each in wanted)
        }
        if kept:
            found[screen] = kept
    if not found:
        known = [word for words in SCREEN_WORDS.values() for word in words]
        raise UnknownNameError("word", " ".join(asked), known, hint="`capplan explain` lists all.")
    return found
