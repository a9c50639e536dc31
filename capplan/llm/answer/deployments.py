"""Find the deployments that words name, and which offers a search knows of their GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capplan.core.gpus.prices import offers_to_plan_with
from capplan.core.gpus.spec import GpuSpec
from capplan.core.power import PowerLaw
from capplan.errors import CapplanError, UsageError
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment, build_deployment
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.fleet.rented import RentedGpu, rented_gpu
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.serving.service import BENCHMARK_SPREAD, Demand
from capplan.llm.core.tensors import count_parameters
from capplan.llm.core.training.search import TrainingOffer
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.catalogue import models_of_equal_size
from capplan.llm.read.sources import find_model
from capplan.specs import Gpus
from capplan.specs.prices import Prices

DEFAULT_CPU = "ryzen-9-7950x"
"""The host's CPU where layers are left to it and none is named: a desktop with two channels of DDR5."""
_WIDER = (2, 4, 8, 16)
_FULLER = 0.85
"""Memory fraction that is proposed where an engine's own default leaves no room, such as SGLang's of many data-parallel
ranks: recipes of DeepSeek-V3 on 64 and more H100 state 0.8 to 0.9."""


class OversizeError(CapplanError):
    """A deployment whose weights or sequences do not fit in memory.

    `tensor` is the least tensor parallelism of the same GPU that holds one request, None where up to 16 do not.
    """

    exit_code = 1

    def __init__(self, message: str, tensor: int | None) -> None:
        super().__init__(message)
        self.tensor = tensor


@dataclass(slots=True)
class Deployments:
    """Finds deployments, each once.

    `assumes_narrow_cache` says that a KV format that is not stated is fp8 where the weights are narrower than 16 bits,
    as in most published runs; otherwise it is 16 bits unless the checkpoint declares fp8. The cap of `power_law` is set
    on every GPU; None leaves them their limits.
    """

    gpus: Gpus
    assumes_narrow_cache: bool = False
    download: bool = False
    power_law: PowerLaw | None = None
    memory: LlmMemoryConstants = field(default_factory=load_llm_memory)
    _models: dict[str, LanguageModel] = field(default_factory=dict)
    _relatives: dict[str, frozenset[str]] = field(default_factory=dict)
    _found: dict[NamedDeployment, ServingDeployment] = field(default_factory=dict)

    def find(self, words: NamedDeployment) -> ServingDeployment:
        """Return a deployment.

        Raises:
            CapplanError: The model, GPU, engine or format is not known, or the model cannot be shared that way.
        """
        if words not in self._found:
            model = self.model(words.model)
            self._found[words] = build_deployment(
                words,
                model=model,
                gpu=self.gpus.find(words.gpu),
                constants=self.memory,
                relatives=self._relatives[words.model],
                assumes_narrow_cache=self.assumes_narrow_cache,
                power_law=self.power_law,
                cpu=self.gpus.find(words.cpu or DEFAULT_CPU) if words.sharding.offload else None,
            )
        return self._found[words]

    def model(self, name: str) -> LanguageModel:
        """Return a model by name, file or folder.

        Raises:
            CapplanError: There is no such model, or it cannot be read.
        """
        if name not in self._models:
            model = self._models[name] = find_model(name, download=self.download)
            self._relatives[name] = models_of_equal_size(count_parameters(model.architecture))
        return self._models[name]

    def demand(
        self,
        words: NamedDeployment,
        *,
        input_len: float,
        output_len: float,
        prefix_fraction: float = 0.0,
        counts_burst: bool = False,
    ) -> Demand:
        """Return what a deployment is asked by clients whose lengths vary as in benchmarks, after a check of its room.

        Args:
            words: The deployment.
            input_len: Mean tokens of a prompt.
            output_len: Mean tokens of an answer.
            prefix_fraction: Share of each prompt that is found in the prefix cache.
            counts_burst: True to count the first requests of all clients, which start at once, in the time to the first
                token, as benchmarks do.

        Raises:
            UsageError: The model handles fewer tokens than the prompt and the answer have.
            OversizeError: Not one sequence fits.
        """
        held_len = input_len * (1.0 - prefix_fraction) + output_len
        return Demand(
            input_len=input_len,
            output_len=output_len,
            capacity=self.room(words, input_len=input_len, output_len=output_len, held_len=held_len),
            spread=BENCHMARK_SPREAD,
            counts_burst=counts_burst,
            prefix_fraction=prefix_fraction,
            loaded_s=self.find(words).loaded_s(input_len * prefix_fraction),
        )

    def room(self, words: NamedDeployment, *, input_len: float, output_len: float, held_len: float) -> float:
        """Return how many sequences a deployment holds, after a check that it holds one and handles its length.

        Args:
            words: The deployment.
            input_len: Tokens of a prompt.
            output_len: Tokens of an answer.
            held_len: Tokens of a request that lie in the cache for it alone.

        Raises:
            UsageError: The model handles fewer tokens than the prompt and the answer have.
            OversizeError: Not one sequence fits.
        """
        deployment, tokens = self.find(words), input_len + output_len
        longest = deployment.model.architecture.max_positions
        if longest is not None and tokens > longest:
            raise UsageError(
                f"{words.model} handles at most {longest} tokens; {tokens:.0f} of prompt and answer are more: "
                "shorten --input-len or --output-len."
            )
        capacity = deployment.sequences_that_fit(held_len)
        if capacity >= 1:
            return capacity
        fuller = replace(words, utilization_fraction=_FULLER)
        if words.utilization_fraction is None and self.find(fuller).sequences_that_fit(held_len) >= 1:
            raise OversizeError(
                f"{words.model} with {tokens:.0f} tokens does not fit on {words.sharding.gpus} × {deployment.gpu.id} "
                f"with what {words.engine} keeps free by default; use --utilization {_FULLER:g} (which holds it).",
                None,
            )
        tensor = self._least_tensor(words, held_len)
        wider = "more GPUs (--tp)" if tensor is None else f"--tp {tensor} (which holds it)"
        raise OversizeError(
            f"{words.model} with {tokens:.0f} tokens does not fit on {words.sharding.gpus} × {deployment.gpu.id}; use "
            f"{wider}, narrower weights or cache, or shorter requests.",
            tensor,
        )

    def _least_tensor(self, words: NamedDeployment, held_len: float) -> int | None:
        for tensor in _WIDER:
            if tensor <= words.sharding.tensor:
                continue
            try:
                wider = self.find(replace(words, sharding=replace(words.sharding, tensor=tensor)))
            except CapplanError:
                continue  # the model cannot be shared that way
            if wider.sequences_that_fit(held_len) >= 1:
                return tensor
        return None


_SEARCHED_SEGMENTS = ("data-centre",)


def on_demand_offers(known: Prices) -> dict[str, tuple[RentedGpu, ...]]:
    """Return the current on-demand offers of every GPU that has some.

    Your own quotes stand before others. Hearsay and offers of third-party hosts count only for a GPU of which nothing
    better is known.

    Args:
        known: All known prices.
    """
    return {gpu: tuple(map(rented_gpu, offers)) for gpu, offers in offers_to_plan_with(known.hourly).items()}


def searched_gpus(gpus: Mapping[str, GpuSpec], rents: Mapping[str, tuple[RentedGpu, ...]]) -> tuple[str, ...]:
    """Return the GPUs that are searched where none is named: those of data centres that can be rented."""
    return tuple(gpu.id for gpu in gpus.values() if gpu.id in rents and str(gpu.segment) in _SEARCHED_SEGMENTS)


def training_offers(known: Prices) -> dict[str, TrainingOffer]:
    """Return the cheapest current on-demand offer of every GPU that has one.

    Args:
        known: All known prices.
    """
    cheapest = {
        gpu: min(offers, key=lambda offer: offer.usd_per_hour) for gpu, offers in on_demand_offers(known).items()
    }
    return {
        gpu: TrainingOffer(
            usd_per_hour=best.usd_per_hour,
            provider=best.words,
            day=best.day,
            machine_gpus=best.machine_gpus,
            country=best.country,
        )
        for gpu, best in cheapest.items()
    }
