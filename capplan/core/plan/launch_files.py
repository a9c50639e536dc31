"""A plan of any model as the files of platforms that run its container."""

from math import ceil

from capplan.core.launch_files import LaunchForms, MachinePlace, MachineShare, StartedKind, filled
from capplan.core.plan.types import Plan


def model_files(plan: Plan, forms: LaunchForms) -> dict[str, str]:
    """Return the files that start copies of a model for the load, or a run over samples, by name; none for a CPU.

    The container is the user's: its port, and its program, which reads the batch and the precision of the plan.
    """
    fit = plan.best()
    if fit is None or fit.gpu.is_cpu:
        return {}
    together, rent = fit.gpus_together, fit.rent
    copies = ceil((plan.gpus_for_rate(fit) or together) / together)
    shared = max(1, min(rent.instance_gpus // together if rent else 1, copies))
    name, forms_of = plan.model.name, StartedKind.MODEL if plan.job is None else StartedKind.JOB
    place = MachinePlace(
        name=name,
        gpu=fit.gpu.id,
        vendor=fit.gpu.vendor,
        gpus=together,
        machines=plan.machines(fit) or ceil(copies / shared),
        machine_gpus=together * shared,
        rent=rent,
    )
    rate = fit.latency.throughput_per_s.low / fit.latency.gpu_count
    words = {
        **forms.place_words(place),
        "copies": str(copies),
        "in_machine": str(shared),
        "last_in_machine": str(shared - 1),
        "batch": str(fit.batch),
        "precision": plan.workload.precision.value,
        "samples": str(plan.job.samples) if plan.job else "",
        "why": f"{name} at batch {fit.batch}: at least {rate:,.4g} samples/s of each GPU",
    }

    def service(number: int) -> str:
        own = {**forms.container_words(words, number, together), "host_port": str(8000 + number)}
        return filled(forms.parts["model_service"], {**words, **own})

    words["services"] = "\n".join(map(service, range(shared)))
    spread = MachineShare.SHARED if shared > 1 else MachineShare.WHOLE
    return forms.written(forms_of, spread, place, words)
