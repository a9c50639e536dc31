"""The shape of a memory answer: base units, intervals with their ends."""

from typing import Final

from capplan.core.memory.sharding import RankMemory
from capplan.core.memory.summary import GpuMemory, MemorySummary, RuleOfThumb
from capplan.core.memory.types import LiveTensor
from capplan.core.trace.types import Affine
from capplan.shapes.common import SIGNED, WORKLOAD
from capplan.shapes.shape import Shape, column, figure, reads
from capplan.units import format_bytes

# fmt: off
_PEAK: Final = (
    figure("peak_allocated_bytes", "estimate.peak_allocated_bytes", "torch.cuda.max_memory_allocated"),
    figure("peak_reserved_bytes", "estimate.peak_reserved_bytes", "torch.cuda.max_memory_reserved"),
    figure("total_bytes", "estimate.total_bytes", "what nvidia-smi shows for the process"),
    figure("parts", "estimate.all_parts"),
    figure("peak_op", "estimate.peak_op"),
    figure("peak_module", "estimate.peak_module"),
)
"""What every answer holds, whichever GPU it is for."""
LARGE_TENSOR: Final = Shape("LargeTensor", LiveTensor, "One tensor that is live at the peak.", (
    figure("label", show=column("made by")),
    figure("shape"),
    figure("size", reads(str, lambda tensor: "×".join(map(str, tensor.shape))), show=column("shape").alone()),
    figure("dtype", reads(str | None, lambda tensor: tensor.dtype or None), show=column("type")),
    figure("size_bytes", show=column("size", format_bytes)),
))
PEAK_TERM: Final = Shape("PeakTerm", Affine, "A line over the batch; live bytes at the peak are the largest of constant + per_sample · batch.", (
    figure("constant_bytes", "constant"),
    figure("per_sample_bytes", "per_sample"),
))
GPU_MEMORY: Final = Shape("GpuMemoryDocument", GpuMemory, "The answer for one GPU.", (
    figure("gpu", "gpu.id"),
    figure("status"),
    figure("available_bytes"),
    figure("max_batch"),
    figure("certain_batch", meaning="largest batch that fits at the upper end of the sizes", default=0),
    figure("min_gpus"),
    *_PEAK,
    figure("advice"),
    figure("notes", "estimate.notes"),
))
RANK_MEMORY: Final = Shape("RankMemoryDocument", RankMemory, "The memory of one rank of several GPUs.", (
    figure("sharding"),
    figure("gpus"),
    figure("batch_per_gpu", "batch"),
    figure("total_bytes"),
    figure("parts"),
))
RULE_OF_THUMB: Final = Shape("RuleOfThumbDocument", RuleOfThumb, "The classic sizing rule, and the ids of the GPUs that it would choose. [bytes]", (
    figure("input_bytes"),
    figure("output_bytes"),
    figure("parameter_bytes"),
    figure("filled_fraction"),
    figure("total_bytes"),
    figure("chosen", reads(tuple[str, ...], lambda rule: tuple(gpu.id for gpu in rule.chosen))),
))
MEMORY_ANSWER: Final = Shape("MemoryDocument", MemorySummary, "What `capplan memory --format json` writes. Figures outside `gpus` are for the first GPU named, or for none.", (
    *SIGNED,
    figure("model", "name"),
    figure("target"),
    figure("workload", WORKLOAD),
    figure("batch", "estimate.batch"),
    *_PEAK,
    figure("largest_tensors", LARGE_TENSOR.at("estimate.largest")),
    figure("live_peak_terms", PEAK_TERM.at("peak_terms"), "live bytes at the peak are the largest of constant + per_sample · batch"),
    figure("max_batch", reads(dict[str, int], lambda answer: {place.gpu.id: place.max_batch for place in answer.gpus}),
        "largest batch that fits, by GPU"),
    figure("gpus", GPU_MEMORY),
    figure("ranks", RANK_MEMORY),
    figure("advice"),
    figure("inference_mode_saves_bytes"),
    figure("index_limit_batch", meaning="largest batch at which every tensor has fewer than 2^31 elements"),
    figure("rule_of_thumb", RULE_OF_THUMB),
    figure("notes"),
))
# fmt: on
