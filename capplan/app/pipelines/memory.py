"""Answer how much memory a pipeline takes: at which moment, with its weights where, and on which GPU it fits."""

from capplan.app.gpus.choice import GpuRequest
from capplan.app.gpus.priced import PriceFilters
from capplan.app.pipelines.answer import PipelineRequest, TracedParts, prepare_pipeline
from capplan.app.plan import PlanContext
from capplan.core.memory.fit import available_memory, judge_fit
from capplan.core.pipelines.memory import PipelineMemory, PipelineMemoryOn, PipelineMoment
from capplan.specs.pipelines.calibration import load_pipeline_calibration


def pipeline_memory(
    request: PipelineRequest, *, batch: int, gpus: GpuRequest | None, utilization_fraction: float
) -> PipelineMemory:
    """Return the memory of a pipeline at a batch.

    Args:
        request: the pipeline and its conditions.
        batch: items made at once.
        gpus: the GPUs to fit it on; None for an unknown one.
        utilization_fraction: the share of usable memory that may be filled.

    Raises:
        UsageError: there is no such pipeline, parameter or GPU.
        TraceError: a part could not be traced.
    """
    context = PlanContext.of(gpus or GpuRequest(), PriceFilters())
    prepared = prepare_pipeline(request, TracedParts(context=context, calibration=load_pipeline_calibration()))
    places = []
    for gpu in context.gpus if gpus is not None else (None,):
        room = None if gpu is None else available_memory(gpu, utilization_fraction=utilization_fraction)
        for each in prepared:
            moments = tuple(
                PipelineMoment(part=name, memory=memory)
                for name, memory in each.moments(batch, gpu, available_bytes=None if room is None else room.expected)
            )
            worst = max((moment.memory for moment in moments), key=lambda memory: memory.total_bytes.expected)
            if gpu is None or room is None:
                places.append(PipelineMemoryOn(gpu=None, offload=each.offload, worst=worst, moments=moments))
                continue
            most = each.largest_batch(gpu, available_bytes=room.expected)
            places.append(
                PipelineMemoryOn(
                    gpu=gpu,
                    offload=each.offload,
                    worst=worst,
                    moments=moments,
                    available_bytes=room.expected,
                    status=judge_fit(worst, available_bytes=room, max_batch=most),
                    max_batch=most,
                )
            )
    return PipelineMemory(
        name=prepared[0].pipeline.name, batch=batch, facts=prepared[0].pipeline_facts, places=tuple(places)
    )
