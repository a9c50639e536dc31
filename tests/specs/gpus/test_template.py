"""`gpus new`: a file that says the same, ready to be changed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.specs import Gpus, load_gpus
from capplan.specs.gpus.template import render_template
from capplan.specs.gpus.validate import validate_specs

Write = Callable[..., Path]


@pytest.mark.parametrize(
    "gpu_id", ["h100-sxm5-80gb", "l4", "mi250x", "rtx-pro-6000-blackwell-max-q", "tpu-v4", "mi308x"]
)
def test_a_template_of_a_gpu_is_that_gpu_under_another_name(gpus: Gpus, write: Write, gpu_id: str) -> None:
    path = write(render_template(gpus.sheets[gpu_id]), "mine.yaml")
    mine, original = load_gpus(overlays=[path])["mine"], gpus[gpu_id]
    assert mine.name == f"{original.name} (mine)"
    # nobody has timed the new card
    changed = {"measured": {}, "id": "mine", "name": mine.name, "aliases": (), "notes": (), "origin": str(path)}
    assert replace(mine, figures={}) == replace(original, figures={}, **changed)
    kinds = {
        key: [source.kind for source in figure.sources]
        for key, figure in original.figures.items()
        if not key.startswith("measured.")
    }
    assert {key: [source.kind for source in figure.sources] for key, figure in mine.figures.items()} == kinds


def test_a_template_of_a_checked_gpu_validates(gpus: Gpus, write: Write) -> None:
    assert "nothing to mend" in validate_specs(write(render_template(gpus.sheets["rtx-4090"]), "mine.yaml"))


def test_an_empty_template_explains_every_key(gpus: Gpus) -> None:
    text = render_template(None)
    for key in ("# memory: {", "  # bf16: {", "# tdp: {", "# sources:"):
        assert key in text
