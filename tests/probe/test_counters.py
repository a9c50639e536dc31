import warnings
from importlib import metadata

import pytest
import torch
from torch import nn

from capplan.core.ops.counters import CounterComparison, own_shares
from capplan.core.ops.flops import kernel_macs
from capplan.core.workload import Configuration
from capplan.probe import counters
from capplan.probe.counters import compare_counters, count_with_others
from capplan.probe.inputs.grammar import InputSpec, parse_input, parse_request
from capplan.probe.inputs.tensors import SpecInputs
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target
from tests.seen import at_least

pytestmark = pytest.mark.zoo


def find(words: str, **options: object) -> Target:
    return load_target(words, request=parse_request(**options))  # type: ignore[arg-type]


def bare(builder: type[nn.Module], *specs: InputSpec) -> Target:
    return Target(name="net", words="net", library="file", builder=builder, inputs=SpecInputs(specs=specs))


def compare(target: Target) -> tuple[int, dict[str, CounterComparison]]:
    """Our MACs at batch 1, and each counter's comparison."""
    trace = trace_target(target)
    recording = trace.recording(Configuration())
    ours = sum(kernel_macs(recording.kernels[op.kernel], 1) for op in recording.ops)
    found = compare_counters(target, trace, recording, batch=1)
    return ours, {comparison.count.counter: comparison for comparison in found}


def test_thops_published_alexnet_figure_is_reproduced() -> None:
    thop, fvcore, own = count_with_others(find("torchvision:alexnet"), batch=1)
    # published for thop at 224 by 224; it adds 18,432 for the adaptive pooling to 714,188,480
    assert (thop.macs, thop.params) == (714_206_912, 61_100_840)
    # fvcore 0.1.5's own views, as reported with it
    assert fvcore.by_operator == {"conv": 655_566_528, "adaptive_avg_pool2d": 9_216, "linear": 58_621_952}
    assert {key: fvcore.by_module[key] for key in ("", "features", "avgpool", "classifier")} == {
        "": 714_197_696, "features": 655_566_528, "avgpool": 9_216, "classifier": 58_621_952,
    }  # fmt: skip
    assert own.macs == 714_188_480


def test_differences_add_up_and_are_told_by_module_class() -> None:
    ours, found = compare(find("torchvision:vit_b_16"))
    assert ours == 17_563_828_224
    for comparison in found.values():
        assert comparison.count.macs is not None
        assert ours + sum(difference.amount for difference in comparison.macs) == comparison.count.macs
    thop = found["thop"]
    missed = "misses addmm and scaled_dot_product_attention in 12 MultiheadAttention"
    assert [(difference.amount, difference.cause) for difference in thop.macs] == [
        # 12 layers of 4·768² projections at 197 tokens, and 2·197²·768 of attention
        (-12 * (4 * 768**2 * 197 + 2 * 197**2 * 768), missed),
        # thop's four operations for each of 197·768 values in 25 norms
        (25 * 4 * 197 * 768, "adds 25 LayerNorm"),
    ]  # fmt: skip
    assert thop.count.params is not None
    assert 86_567_656 + sum(difference.amount for difference in thop.params) == thop.count.params
    assert any("parameters of 1 VisionTransformer" in difference.cause for difference in thop.params)


def test_fvcores_skipped_attention_is_named() -> None:
    ours, found = compare(find("hf:bert"))
    assert ours == 11_174_215_680
    fvcore = found["fvcore"]
    assert fvcore.count.skipped["scaled_dot_product_attention"] == 12
    # 12 layers of 2·128²·768
    missed = -12 * 2 * 128**2 * 768
    assert (missed, "misses scaled_dot_product_attention in 12 BertSelfAttention") in [
        (difference.amount, difference.cause) for difference in fvcore.macs
    ]
    # on the CPU torch's counter has no formula for fused attention (pytorch#195460)
    assert ours + missed == found["torch.utils.flop_counter"].count.macs


class Upsampler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 16, 4, stride=2, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x)


def test_thops_transposed_convolution_is_told_four_times_too_large() -> None:
    ours, found = compare(bare(Upsampler, parse_input("8x16x16")))
    # 16·16 places of 8·16·4·4 multiply-accumulates
    assert ours == 256 * 2048
    assert [difference.cause for difference in found["thop"].macs] == ["counts 4 of convolution in 1 ConvTranspose2d"]


class ByKeyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, *, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.layer(x)}


def test_keyword_only_inputs_are_counted_by_all() -> None:
    ours, found = compare(bare(ByKeyword, parse_input("x=4")))
    assert ours == 20
    assert {comparison.count.macs for comparison in found.values()} == {20}
    assert found["fvcore"].count.by_module["layer"] == 20


class Holder(nn.Module):
    """A model whose only part is called as the wrapper calls a model that is fed by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)


def test_a_models_own_part_called_model_keeps_its_path() -> None:
    _, found = compare(bare(Holder, parse_input("4")))
    for name in ("thop", "fvcore"):
        [comparison] = [each for key, each in found.items() if key.startswith(name)]
        assert comparison.count.by_module == {"": 20, "model": 20, "model.0": 20}  # 4 x 5 MACs
        assert (comparison.macs, comparison.params) == ((), ())


class Fragile(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_meta:
            raise RuntimeError("only on paper")
        return x + 1


def test_a_counter_that_fails_says_why() -> None:
    for count in at_least(2, count_with_others(bare(Fragile, parse_input("3")), batch=1)):
        assert count.macs is None
        assert "only on paper" in (count.failure or "")


def test_a_model_too_large_to_be_made_is_not_made() -> None:
    target = find("hf:llama", arg=["num_hidden_layers=32"])
    for count in at_least(2, count_with_others(target, batch=1)):
        assert "needs real weights" in (count.failure or "")


@pytest.mark.nightly
def test_the_counters_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count_with_others(find("torchvision:alexnet"), batch=1)


@pytest.mark.nightly
def test_the_distribution_that_owns_the_module_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_with_others(find("torchvision:alexnet"), batch=1)[0].version == metadata.version("thop")
    monkeypatch.setattr(counters, "packages_distributions", lambda: {"thop": ["thop", "ultralytics-thop"]})
    count = count_with_others(find("torchvision:alexnet"), batch=1)[0]
    assert count.counter == "thop (module of thop and ultralytics-thop)"
    import thop

    assert count.version == thop.__version__


def test_a_module_keeps_what_its_children_have_not() -> None:
    assert own_shares({"": 10, "a": 6, "a.b": 2, "c": 4}) == {"": 0, "a": 4, "a.b": 2, "c": 4}
