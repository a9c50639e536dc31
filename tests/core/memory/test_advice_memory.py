"""Advice: each saving is the difference of two estimates, and only what changes the answer is given."""

from dataclasses import replace

from capplan.core.memory.advice import Alternative, advise, configurations_for_advice
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.types import UNCALIBRATED, FitStatus
from capplan.core.numbers import Interval
from capplan.core.trace.types import Affine
from capplan.core.workload import Configuration, Precision, Training, Variant, Workload
from tests.core.small_recordings import chain

MIB = 2**20


def with_half():
    trace = chain(40 * MIB, 40 * MIB)
    full = trace.recordings[0]
    halved = tuple(replace(s, size_bytes=Affine(0, s.size_bytes.per_sample // 2)) for s in full.storages)
    half = replace(full, configuration=Configuration(variant=Variant.HALF), storages=halved)
    return replace(trace, recordings=(full, half))


def model(trace):
    return MemoryModel(trace=trace, workload=Workload(), calibration=UNCALIBRATED)


def test_half_precision_saves_what_the_two_recordings_differ_by():
    # batch 10: two storages of 400 MiB against two of 200 MiB
    (advice,) = advise(model(with_half()), batch=10, gpu=None, available_bytes=None)
    assert advice.saved_bytes == 400 * MIB
    assert advice.status is None


def test_what_does_not_make_it_fit_is_left_out():
    asked = model(with_half())
    # 800 MiB and a context of up to 1024 do not fit 1500 for certain; 400 and 1024 do
    found = advise(asked, batch=10, gpu=None, available_bytes=Interval.exact(1500 * MIB))
    assert [each.status for each in found] == [FitStatus.FITS, FitStatus.FITS]
    assert {each.change.split()[0] for each in found} == {"convert", "batch"}
    assert advise(asked, batch=10, gpu=None, available_bytes=Interval.exact(4000 * MIB)) == ()
    # 100 MiB hold not even one sample beside the context
    assert advise(asked, batch=10, gpu=None, available_bytes=Interval.exact(100 * MIB)) == ()


def test_the_greatest_saving_comes_first():
    trace = with_half()
    smaller = Alternative(change="input 3x64x64", trace=chain(10 * MIB, 10 * MIB), workload=Workload())
    found = advise(model(trace), batch=10, gpu=None, available_bytes=None, others=[smaller])
    assert found[0].change == "input 3x64x64"
    assert [each.saved_bytes for each in found] == [600 * MIB, 400 * MIB]


def test_training_asks_for_checkpointing_and_leaner_optimizers():
    wanted = configurations_for_advice(Workload(training=Training()))
    assert any(each.training and each.training.checkpointing for each in wanted)
    assert len({each.training.optimizer for each in wanted if each.training}) == 3
    inference = configurations_for_advice(Workload(precision=Precision.FP16))
    assert all(each.training is None for each in inference)
