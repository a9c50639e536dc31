"""What objectives of training add to a job: pairs, models beside the trained one, passes without gradients."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from capplan.errors import UsageError


class WordOfTraining(StrEnum):
    """Words of an option; one that is known but not estimated is refused by its name."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        word = str(value).strip().lower().replace("_", "-")
        if (name := UNMODELLED.get(word)) is not None:
            raise UsageError(f"{name} is not estimated; known are {', '.join(cls)}.")
        if cls is not Objective and word in tuple(Objective):
            raise UsageError(f"{word} is an objective: write ⟨objective⟩ {word}, beside one of {', '.join(cls)}.")


class Objective(WordOfTraining):
    """What a model is trained for: next tokens, or preferences and rewards."""

    SFT = "sft"
    REWARD = "reward"
    DPO = "dpo"
    ORPO = "orpo"
    SIMPO = "simpo"
    GRPO = "grpo"
    PPO = "ppo"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveParts:
    """What an objective adds to a job.

    Attributes:
        sequences: Sequences of a sample: a chosen and a rejected answer are two.
        has_vocabulary: The loss reads logits; otherwise one score of a sequence.
        references: Frozen copies of the trained model. Adapters have theirs under them: the base alone.
        rewards: Frozen models of rewards, as large as the trained one.
        values: Models that are trained beside it, as large as it.
        forwards: Forward passes without gradients of a sample, of models of this size.
        beside: Such a pass runs while the trained model's activations are kept, so that its logits stand beside.
        generates: Samples are generated in every step.
        updates: How often a sample is trained on.
    """

    sequences: int = 1
    has_vocabulary: bool = True
    references: int = 0
    rewards: int = 0
    values: int = 0
    forwards: int = 0
    beside: bool = False
    generates: bool = False
    updates: int = 1
    source: str = ""


OBJECTIVES: Mapping[Objective, ObjectiveParts] = {
    Objective.SFT: ObjectiveParts(),
    Objective.REWARD: ObjectiveParts(
        sequences=2, has_vocabulary=False,
        source="Bradley-Terry on pairs, a score instead of the head (TRL 1.16, reward_trainer.py; read 2026-11-27)",
    ),
    Objective.DPO: ObjectiveParts(
        sequences=2, references=1, forwards=1, beside=True,
        source="arXiv 2305.18290; TRL 1.16, dpo_trainer.py: both answers in one batch, the reference after the "
        "policy's forward pass, and the base under adapters as one; read 2026-11-27",
    ),
    Objective.ORPO: ObjectiveParts(sequences=2, source="arXiv 2403.07691: pairs without a reference; from memory"),
    Objective.SIMPO: ObjectiveParts(sequences=2, source="arXiv 2405.14734: pairs without a reference; from memory"),
    Objective.GRPO: ObjectiveParts(
        forwards=1, generates=True,
        source="arXiv 2402.03300; TRL 1.16, grpo_config.py: beta 0, so no reference, and one update; grpo_trainer.py: "
        "old log-probabilities wherever vLLM generates; rewards by functions; read 2026-11-27",
    ),
    Objective.PPO: ObjectiveParts(
        references=1, rewards=1, values=1, forwards=4, generates=True, updates=4,
        source="arXiv 2203.02155: policy, value, reference and reward model; four updates of a sample as LLaMA-Factory "
        "0.9.5 (ppo_epochs 4; read 2026-11-27) and, from memory, TRL do",
    ),
}  # fmt: skip
"""What each objective adds; KTO, online DPO, distillation and process rewards are not among them."""

UNMODELLED: Mapping[str, str] = {
    "kto": "KTO", "gkd": "distillation", "kd": "distillation", "online-dpo": "online DPO", "rloo": "RLOO", "ipo": "IPO",
    "dora": "DoRA", "galore": "GaLore", "apollo": "APOLLO", "lisa": "LISA", "badam": "BAdam", "oft": "OFT",
    "relora": "ReLoRA", "pissa": "PiSSA", "vera": "VeRA", "loftq": "LoftQ", "freeze": "training of some layers",
    "gptq": "a base in GPTQ", "awq": "a base in AWQ", "ia3": "IA3", "prompt-tuning": "prompt tuning",
    "spectrum": "Spectrum", "soap": "SOAP", "shampoo": "Shampoo", "adam-mini": "Adam-mini", "sophia": "Sophia",
}  # fmt: skip
"""What people name that is not estimated: words of options, and what they are called."""
