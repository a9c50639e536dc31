"""Graph breaks: by TorchDynamo's documented defaults, values read by Python and sizes that hang on values."""

from capplan.core.compiled.rewrite import fuse_recording
from capplan.core.compiled.roles import graph_break_notes
from capplan.core.trace.types import Role
from tests.core.compiled.fusion_cases import Tape


def chain(*names):
    tape = Tape()
    data = tape.tensor(1, 64, role=Role.INPUT)
    for name in names:
        data = tape.call(name, (data,), 1, 64)
    return tape.recording(data)


def names(recording):
    return [recording.kernels[op.kernel].name.partition(".")[2] for op in recording.ops]


def test_a_chain_is_one_kernel_and_breaks_nowhere():
    recording = chain("relu", "tanh", "exp")
    assert names(fuse_recording(recording)) == ["fused"]
    assert graph_break_notes(recording) == ()


def test_what_reads_values_parts_the_kernels_around_it():
    recording = chain("relu", "tanh", "nonzero", "exp", "relu")
    assert names(fuse_recording(recording)) == ["fused", "nonzero", "fused"]
    (told,) = graph_break_notes(recording)
    assert told.startswith("1 graph break by aten.nonzero in ")


def test_kernels_of_two_pieces_share_no_read():
    # Both sides of the break read the same input over the same elements; one graph would read it once.
    tape = Tape()
    data = tape.tensor(1, 64, role=Role.INPUT)
    first = tape.call("relu", (data,), 1, 64)
    tape.call("nonzero", (data,), 1, 64)
    second = tape.call("tanh", (data,), 1, 64)
    total = tape.call("add", (first, second), 1, 64)
    assert names(fuse_recording(tape.recording(total))) == ["fused", "nonzero", "fused"]
