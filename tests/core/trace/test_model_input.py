"""What one sample is, in words."""

from capplan.core.trace.types import Affine, InputTensor, Provenance, Recording, Trace, model_input
from capplan.core.workload import Configuration


def described(target: str, *inputs: tuple[str, tuple[Affine, ...]], exact_batch: int | None = None) -> str:
    recording = Recording(
        configuration=Configuration(),
        modules=(),
        kernels=(),
        ops=(),
        storages=(),
        batches=(2,),
        exact_batch=exact_batch,
    )
    trace = Trace(
        name="net",
        target=target,
        class_name="Net",
        parameters=(),
        inputs=tuple(InputTensor(name="x", dtype=dtype, shape=shape) for dtype, shape in inputs),
        recordings=(recording,),
        provenance=Provenance(capplan_version="0"),
    )
    return str(model_input(trace, recording))


BATCH = Affine(0, 1)
IMAGE = ("float32", (BATCH, Affine(3), Affine(224), Affine(224)))
TOKENS = ("int64", (BATCH, Affine(128)))


def test_a_default_names_its_owner_and_a_size_that_was_asked_for_names_nobody() -> None:
    assert described("torchvision:resnet50", IMAGE) == "3x224x224, torchvision's default"
    assert described("torchvision:resnet50 --input-size 3x224x224", IMAGE) == "3x224x224"
    assert described("hf:bert", TOKENS, TOKENS) == "128 tokens, capplan's default"
    assert described("hf:bert --seq-len 128", TOKENS) == "128 tokens"


def test_the_batch_is_left_out_where_a_recording_holds_at_one_alone() -> None:
    fixed = ("float32", (Affine(8), Affine(3), Affine(32)))
    assert described("net.py:Net", fixed, exact_batch=8) == "3x32"


def test_no_input_is_nothing() -> None:
    assert described("net.py:Net") == ""
