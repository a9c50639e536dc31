"""A planned training run as the files of platforms that start it."""

from capplan.core.launch_files import LaunchForms, MachinePlace, MachineShare, StartedKind, file_lines
from capplan.llm.core.training.launch import launch_config, nodes_of
from capplan.llm.core.training.plan import PricedTraining
from capplan.units import format_duration


def training_files(priced: PricedTraining, forms: LaunchForms) -> dict[str, str]:
    """Return the files that start a run, by name; none for a framework whose configuration is not written."""
    job, rent, run = priced.job, priced.offer, priced.run
    config = launch_config(job)
    if config is None:
        return {}
    nodes, each = nodes_of(job)
    place = MachinePlace(
        name=f"{job.architecture.name}-{job.framework.name}",
        gpu=priced.gpu_id,
        vendor=priced.estimate.memory.gpu.vendor,
        gpus=each,
        machines=(rent.machines_for(job.layout.gpus) if rent else None) or nodes,
        machine_gpus=each,
        rent=rent,
    )
    image = forms.images.get(f"training-{place.vendor}", forms.images["training"])
    minutes = f"{-(-run.wall_s.high // 60):.0f}" if run else ""
    words = {
        **forms.place_words(place),
        "image": image.name,
        "image_note": f"{image.note} {job.framework.name}",
        "servers": str(nodes),
        "script": f"{file_lines({'train.yaml': config.text})}\n{config.start}" if config.start else config.text,
        "why": f"{job.architecture.name}: {job.layout.words}",
        "time_limit": f"#SBATCH --time={minutes}  # minutes, which one run of twenty exceeds" if minutes else "",
    }
    words["why"] += f", {format_duration(run.wall_s.expected)}" if run else ""
    spread = MachineShare.SPANNED if nodes > 1 else MachineShare.WHOLE
    return forms.written(StartedKind.TRAINING, spread, place, words)
