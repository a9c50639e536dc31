"""Types of the conditions of a sweep: a workload at several batches, or serving a language model to clients."""

from dataclasses import dataclass, replace

from capplan.core.batches import BatchChoice, Batches
from capplan.core.quantisation.schemes import Scheme, find_scheme
from capplan.core.workload import Workload

Value = str | int | float | bool | None
SERVING = "serving"
"""The mode of a served language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The workload, its batches, and the share of usable memory that may be filled.

    `weights` and `activations` are the number formats that linear layers are quantised to; None leaves them as the
    precision says. `energy` asks for power and energy; `power_limit_w` is set on every GPU, None leaves them their own,
    and it asks for energy, too. [W]
    """

    workload: Workload
    batches: Batches
    utilization_fraction: float
    weights: str | None = None
    activations: str | None = None
    energy: bool = False
    power_limit_w: float | None = None

    @property
    def scheme(self) -> Scheme | None:
        """How linear layers are quantised; None where they are not."""
        return find_scheme(self.weights, self.activations)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The batches of a row each; None where each GPU has its own."""
        return self.batches.sizes or (None,)

    def asked(self) -> dict[str, Value]:
        """Return the columns that state the conditions."""
        workload = self.workload
        training = workload.training
        return {
            "precision": workload.precision.value,
            "framework": workload.framework.value,
            "layout": workload.layout.value,
            "mode": workload.configuration.mode.value,
            "optimizer": training.optimizer.value if training else None,
            "checkpointing": training.checkpointing if training else None,
            "accumulate": training.accumulate if training else None,
            "torch_version": "{}.{}".format(*workload.torch_version),
            "host": workload.host.value if workload.host else None,
            "utilization_fraction": self.utilization_fraction,
            "gpus": 1,
            "weights": self.weights,
            "activations": self.activations,
            "power_limit_w": self.power_limit_w,
        }

    def joined(self, other: "AnyConditions") -> "Conditions | None":
        """Return equal conditions with the batches of both; None where these cannot be joined."""
        if not isinstance(other, Conditions):
            return None
        one, two = self.batches, other.batches
        if one == two:
            return self
        if one.choice is not BatchChoice.LISTED or two.choice is not BatchChoice.LISTED:
            return None
        sizes = tuple(sorted({*one.sizes, *two.sizes}))
        return replace(self, batches=Batches(choice=BatchChoice.LISTED, sizes=sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingConditions:
    """A language model served by one replica of `tensor` GPUs: clients at a time, and mean lengths. [tokens]

    `weights` and `kv` are number formats; empty ones stand for the checkpoint's. `energy` and `power_limit_w` are as of
    `Conditions`. [W]
    """

    concurrencies: tuple[int, ...]
    input_len: int = 1024
    output_len: int = 256
    engine: str = "vllm"
    tensor: int = 1
    weights: str = ""
    kv: str = ""
    energy: bool = False
    power_limit_w: float | None = None

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The clients of a row each."""
        return self.concurrencies

    def asked(self) -> dict[str, Value]:
        """Return the columns that state the conditions."""
        return {
            "precision": self.weights or None,
            "framework": self.engine,
            "mode": SERVING,
            "gpus": self.tensor,
            "input_len": self.input_len,
            "output_len": self.output_len,
            "weights": self.weights or None,
            "kv": self.kv or None,
            "power_limit_w": self.power_limit_w,
        }

    def joined(self, other: "AnyConditions") -> "ServingConditions | None":
        """Return equal conditions with the clients of both; None where the other are not of serving."""
        if not isinstance(other, ServingConditions):
            return None
        return replace(self, concurrencies=tuple(sorted({*self.concurrencies, *other.concurrencies})))


AnyConditions = Conditions | ServingConditions
