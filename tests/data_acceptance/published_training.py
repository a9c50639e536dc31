"""Public runs of training that nothing was fitted to: what they took, and whether they ran, with their sources.

Settings that a source does not state are those of its recipe. `python -m tests.data_acceptance.published_training`
prints each beside its estimate, and the shares that lie within the intervals.
"""

from dataclasses import dataclass
from typing import Any

from capplan.llm.core.training.frameworks import States
from capplan.llm.core.training.job import Compute, Method, Offloaded, OptimizerRecipe, Recompute, Shard
from capplan.llm.core.training.memory import MemoryScope
from capplan.llm.core.training.objective import Objective
from capplan.llm.core.training.plan import PricedTraining
from capplan.verbs.llm.train_job import LlmTrainEstimateQuestion, answer_llm_train_estimate
from capplan.verbs.statement.local import LocalContext

GIB = 2**30
LLAMA_8B, LLAMA_70B, LLAMA_2_70B = "llama-3.1-8b-instruct", "llama-3.1-70b-instruct", "llama-2-70b"
A100, H100 = "a100-sxm4-80gb", "h100-sxm5-80gb"
FULL, NO_RECOMPUTE, OPERATORS = Recompute.FULL, Recompute.NONE, Recompute.OPERATORS


@dataclass(frozen=True)
class Published:
    """A public run: `speed` is tokens per second and GPU, `peak_gib` what the source read of memory.

    `runs` says whether it ran or ended out of memory; None where the source's GPU is another: torchtitan's H100s have
    96 GB of HBM2e (arXiv 2410.06511, section 3).
    """

    name: str
    source: str
    asked: dict[str, Any]
    speed: float | None = None
    peak_gib: float | None = None
    scope: MemoryScope = MemoryScope.RESERVED
    runs: bool | None = True


def _asked(model: str, gpu: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "gpu": gpu, **more}


def _tune(**more: Any) -> dict[str, Any]:
    shared = {"framework": "torchtune", "seq_len": 2048, "micro_batch": 2, "recompute": FULL, "rank": 8}
    return _asked(LLAMA_8B, "rtx-4090", **{**shared, **more})


def _titan(gpus: int, **more: Any) -> dict[str, Any]:
    shared = {"framework": "torchtitan", "framework_version": "0.0.2", "seq_len": 8192, "recompute": OPERATORS}
    return _asked(more.pop("model", LLAMA_8B), more.pop("gpu", H100), gpu_count=gpus, **{**shared, **more})


def _fms(model: str, **more: Any) -> dict[str, Any]:
    shared = {"framework": "hf-trainer", "targets": ("attention",), "seq_len": 4096, "recompute": FULL}
    return _asked(model, A100, **{**shared, **more})


_TUNE = "pytorch/torchtune README 0.3"
_TITAN = "pytorch/torchtitan docs/performance.md, 2024-12, and arXiv 2410.06511"
_FMS = "foundation-model-stack/fms-acceleration scripts/benchmarks/refs/a100_80gb.csv"
_LORA, _QLORA = {"method": Method.LORA}, {"method": Method.QLORA}
_TWO = {"gpu_count": 2, "shard": Shard.ZERO3}
_OLD_TRL = {"framework": "trl", "framework_version": "0.8"}  # sources of 2024
_GUIDE = {**_OLD_TRL, "recompute": FULL, "shard": Shard.ZERO3, "seq_len": 3072, **_QLORA}
# axolotl's examples of QLoRA page the optimizer's states
_YI = {"framework": "axolotl", "optimizer": OptimizerRecipe.PAGED_ADAMW_8BIT, **_QLORA}

CASES = (
    Published(
        "8B full on a 4090", _TUNE,
        _tune(optimizer=OptimizerRecipe.PAGED_ADAMW_8BIT, optimizer_in_backward=True), 1650, 18.9,
    ),
    Published("8B LoRA on a 4090", _TUNE, _tune(**_LORA), 3083, 16.2),
    Published("8B QLoRA on a 4090", _TUNE, _tune(**_QLORA), 2413, 7.4),
    Published(
        "70B full, offloaded", _TUNE,
        _asked(LLAMA_70B, A100, framework="torchtune", seq_len=2048, micro_batch=2, gpu_count=8, recompute=FULL,
               offload=(Offloaded.OPTIMIZER, Offloaded.PARAMETERS)), 1568 / 8, 13.9,
    ),
    Published(
        "8B on 8 H100, eager", _TITAN, _titan(8, framework="fsdp2", framework_version=None, micro_batch=2), 5762, 82.4,
        runs=None,
    ),
    Published("8B on 8 H100", _TITAN, _titan(8, micro_batch=2), 6667, 77.0, runs=None),
    Published("8B on 8 H100, fp8", _TITAN, _titan(8, precision=Compute.FP8, micro_batch=2), 8532, 76.8, runs=None),
    Published("8B on 128 H100", _TITAN, _titan(128, micro_batch=2), 6514, 62.0, runs=None),
    Published(
        "8B, 32k", _TITAN, _titan(8, precision=Compute.FP8, seq_len=32768, recompute=FULL), 3890, 83.9,
        runs=None,
    ),
    Published(
        "8B, 64k", _TITAN, _titan(8, precision=Compute.FP8, seq_len=65536, cp=2, recompute=FULL), 2540, 84.2,
        runs=None,
    ),
    Published(
        "8B, 128k", _TITAN, _titan(8, precision=Compute.FP8, seq_len=131072, cp=4, recompute=FULL), 1071, 84.0,
        runs=None,
    ),
    Published(
        "70B on 256 H100", _TITAN,
        _titan(256, model=LLAMA_70B, precision=Compute.FP8, tp=8, micro_batch=16, recompute=FULL), 829, 71.9, runs=None,
    ),
    Published(
        "405B on 512 H100", _TITAN,
        _titan(512, model="llama-3.1-405b-instruct", precision=Compute.FP8, tp=8, pp=8, accumulate=32,
               recompute=FULL), 100, 82.5, runs=None,
    ),
    Published(
        "8B on 32 H200", "pytorch/torchtitan benchmarks, H200, 2025-06",
        _titan(32, gpu="h200-sxm-141gb", framework_version=None, precision=Compute.FP8, micro_batch=2), 10938, 47.96,
    ),
    Published("Mistral LoRA", _FMS, _fms("mistral-7b", micro_batch=4, **_LORA), 3598, 24.3, MemoryScope.ALLOCATED),
    Published(
        "Mistral LoRA on two", _FMS, _fms("mistral-7b", micro_batch=2, **_LORA, **_TWO), 2996, 14.1,
        MemoryScope.ALLOCATED,
    ),
    Published(
        "Mistral QLoRA, prepared", _FMS, _fms("mistral-7b", **_OLD_TRL, micro_batch=4, **_QLORA), 2749, 21.3,
        MemoryScope.ALLOCATED,
    ),
    Published("Mistral QLoRA", _FMS, _fms("mistral-7b", micro_batch=4, **_QLORA), 3429, 14.8, MemoryScope.ALLOCATED),
    Published(
        "Mixtral QLoRA, prepared", _FMS, _fms("mixtral-8x7b", **_OLD_TRL, micro_batch=4, **_QLORA), 1397, 43.2,
        MemoryScope.ALLOCATED,
    ),
    Published("Mixtral QLoRA", _FMS, _fms("mixtral-8x7b", micro_batch=4, **_QLORA), 1764, 33.7, MemoryScope.ALLOCATED),
    Published(
        "70B QLoRA on two", _FMS, _fms(LLAMA_2_70B, micro_batch=2, **_QLORA, **_TWO), 421, 43.3, MemoryScope.ALLOCATED,
    ),
    Published(
        "Mistral full on two", _FMS, _fms("mistral-7b", micro_batch=2, states=States.PURE, **_TWO), 2698, 34.2,
        MemoryScope.ALLOCATED,
    ),
    Published("70B QLoRA, 4 sequences", _FMS, _fms(LLAMA_2_70B, **_OLD_TRL, micro_batch=4, **_QLORA), runs=False),
    Published("70B QLoRA, 8 sequences", _FMS, _fms(LLAMA_2_70B, **_OLD_TRL, micro_batch=8, **_QLORA), runs=False),
    Published("70B LoRA on two", _FMS, _fms(LLAMA_2_70B, micro_batch=2, **_LORA, **_TWO), runs=False),
    Published("Mixtral LoRA", _FMS, _fms("mixtral-8x7b", micro_batch=4, **_LORA), runs=False),
    Published("Mixtral full on two", _FMS, _fms("mixtral-8x7b", micro_batch=2, **_TWO), runs=False),
    Published(
        "Mixtral QLoRA on 2 × 24 GB, shared", "axolotl issue 998",
        _asked("mixtral-8x7b", "rtx-3090", gpu_count=2, shard=Shard.ZERO3, framework="axolotl", **_QLORA), runs=False,
    ),
    Published(
        "Mixtral QLoRA on 2 × 24 GB", "axolotl issue 998",
        _asked("mixtral-8x7b", "rtx-3090", gpu_count=2, shard=Shard.NONE, framework="axolotl", **_QLORA), runs=False,
    ),
    Published(
        "GLM-4-9B QLoRA, 10,240 tokens", "LLaMA-Factory issue 4772",
        _asked("glm-4-9b-0414", A100, framework="llama-factory", seq_len=10240, **_QLORA), None, 67,
        MemoryScope.DEVICE,
    ),
    Published(
        "LongLoRA 7B, 8,192 tokens", "arXiv 2309.12307, table 12",
        _asked("llama-2-7b", A100, gpu_count=8, shard=Shard.ZERO2, framework="deepspeed", seq_len=8192, rank=8,
               targets=("attention",), recompute=FULL, **_LORA), None, 23.9,
    ),
    Published(
        "7B LoRA of preferences", "superkaiba/explore-persona-space issue 36; its release of TRL is not known",
        _asked("qwen2.5-7b-instruct", H100, framework="trl", seq_len=2048, objective=Objective.DPO, **_LORA),
        None, 17.8,
    ),
    Published(
        "70B QLoRA under 48 GB", "unsloth, requirements page",
        _asked("llama-3.3-70b-instruct", "rtx-a6000", framework="unsloth", seq_len=512,
               optimizer=OptimizerRecipe.ADAMW_8BIT, **_QLORA), None, 41,
    ),
    Published(
        "8B QLoRA in 8 GB", "unsloth, requirements page",
        _asked(LLAMA_8B, "rtx-3070", framework="unsloth", seq_len=512, optimizer=OptimizerRecipe.ADAMW_8BIT, **_QLORA),
    ),
    Published(
        "70B QLoRA on 2 × 40 GB", "Hugging Face PEFT, FSDP-QLoRA guide",
        _asked("llama-3-70b-instruct", "a100-sxm4-40gb", gpu_count=2, **_GUIDE),
    ),
    Published(
        "70B QLoRA on 4 × 24 GB, offloaded", "philschmid.de, FSDP-QLoRA guide",
        _asked("llama-3-70b-instruct", "a10g", gpu_count=4, offload=(Offloaded.PARAMETERS,), **_GUIDE), None, 22,
        MemoryScope.DEVICE,
    ),
    Published(
        "34B QLoRA, 1,400 tokens", "axolotl issue 1127", _asked("yi-1.5-34b-chat", "rtx-3090-ti", seq_len=1400, **_YI),
    ),
    Published(
        "34B QLoRA, 600 tokens", "axolotl issue 1127", _asked("yi-1.5-34b-chat", "rtx-3090-ti", seq_len=600, **_YI),
    ),
)  # fmt: skip


def estimated(case: Published) -> PricedTraining:
    """Return capplan's answer to a case."""
    return answer_llm_train_estimate(LlmTrainEstimateQuestion(**case.asked), LocalContext())


@dataclass(frozen=True)
class Judged:
    """A case beside its estimate."""

    case: Published
    answer: PricedTraining

    @property
    def peak_gib(self) -> float:
        """Return the estimated peak of the kind that the source read."""
        return self.answer.estimate.memory.outlook.peak(self.case.scope) / GIB

    @property
    def peak_is_inside(self) -> bool | None:
        """Return whether the published peak lies within the interval."""
        if self.case.peak_gib is None:
            return None
        peak = self.answer.estimate.memory.peak
        ratio = self.case.peak_gib / self.peak_gib
        return peak.low / peak.expected <= ratio <= peak.high / peak.expected

    @property
    def speed_is_inside(self) -> bool | None:
        """Return whether the published speed lies within the interval."""
        if self.case.speed is None:
            return None
        speed = self.answer.estimate.tokens_per_s_per_gpu
        return speed.low <= self.case.speed <= speed.high

    @property
    def verdict_is_right(self) -> bool | None:
        """Return whether the more probable outcome is what happened."""
        if self.case.runs is None:
            return None
        return (self.answer.fit_probability >= 0.5) is self.case.runs


def judged() -> list[Judged]:
    """Return all cases beside their estimates."""
    return [Judged(case, estimated(case)) for case in CASES]


def share(flags: list[bool | None]) -> str:
    """Return how many of those that are known are true."""
    known = [flag for flag in flags if flag is not None]
    return f"{sum(known)} of {len(known)}"


def main() -> None:
    """Print every case, and the shares."""
    found = judged()
    for item in found:
        memory, speed = item.answer.estimate.memory, item.answer.estimate.tokens_per_s_per_gpu
        case = item.case
        peak = (
            ""
            if case.peak_gib is None
            else f"peak {case.peak_gib:5.1f} / {item.peak_gib:5.1f} {item.peak_is_inside!s:5}"
        )
        rate = (
            ""
            if case.speed is None
            else f"tokens/s {case.speed:6.0f} / {speed.expected:6.0f} {item.speed_is_inside!s:5}"
        )
        outcome = {None: "", True: "right", False: "WRONG"}[item.verdict_is_right]
        verdict = f"fits {item.answer.fit_probability:4.0%} {outcome}"
        spread = f"×{memory.peak.high / memory.peak.expected:.2f} ×{speed.high / speed.expected:.2f}"
        print(
            f"{case.name:36} {peak:26} {rate:30} {verdict} {spread} {memory.evidence}, {item.answer.estimate.evidence}"
        )
    print("peaks inside", share([item.peak_is_inside for item in found]))
    print("speeds inside", share([item.speed_is_inside for item in found]))
    print("verdicts right", share([item.verdict_is_right for item in found]))


if __name__ == "__main__":
    main()
