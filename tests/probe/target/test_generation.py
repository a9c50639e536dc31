"""`--new-tokens`: a model's own generation as prefill and decoding steps; `--grad`: gradients on in inference."""

from pathlib import Path

import pytest
from torch import Tensor, nn

import capplan
from capplan.core.memory.summary import MemorySummary
from capplan.core.ops.flops import kernel_macs
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

LLAMA = (
    "num_hidden_layers=2", "hidden_size=64", "intermediate_size=96", "num_attention_heads=4", "num_key_value_heads=2",
    "vocab_size=1000",
)  # fmt: skip


def macs(words: str, **asked: object) -> int:
    target = load_target(words, request=ModelRequest(words=words, **asked).parse())  # type: ignore[arg-type]
    recording = trace_target(target).recordings[0]
    counts = recording.calls_per_kernel()
    return sum(count * kernel_macs(kernel, 1) for kernel, count in zip(recording.kernels, counts, strict=True))


@pytest.mark.parametrize("new_tokens", [1, 2, 6])
def test_generation_is_prefill_and_a_step_for_each_further_token(new_tokens: int) -> None:
    """Layers run on the prompt of 10 and on all new tokens but the last; the head on the last token of each pass.

    A layer: queries and output of 64·64, keys and values of 64·32, three projections of 64·96. Attention reads the
    whole cache: 10 queries by 10 keys in the prefill, then one query by 11, 12, ... keys, 64 wide, twice.
    """
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96
    attention = 2 * 64 * (10 * 10 + sum(10 + step for step in range(1, new_tokens)))
    expected = 2 * (layer * (10 + new_tokens - 1) + attention) + new_tokens * 64 * 1000
    assert macs("hf:llama", arg=LLAMA, seq_len=10, new_tokens=new_tokens) == expected


def test_an_encoder_runs_once_for_all_new_tokens() -> None:
    """T5 with one layer on each side, 32 wide, four heads of 8: the decoder begins with a start token of its own."""
    sizes = (
        "num_layers=1", "num_decoder_layers=1", "d_model=32", "d_ff=64", "num_heads=4", "d_kv=8", "vocab_size=100"
    )  # fmt: skip
    encoder = 12 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 32 * 12 * 12
    tokens = 3
    own = tokens * 4 * 32 * 32 + 2 * 32 * (1 + 2 + 3)
    cross = tokens * 2 * 32 * 32 + 12 * 2 * 32 * 32 + tokens * 2 * 32 * 12  # its keys and values are made once
    head = tokens * (2 * 32 * 64 + 32 * 100)
    assert macs("hf:t5", arg=sizes, seq_len=12, new_tokens=tokens) == encoder + own + cross + head


def test_a_decoding_step_takes_one_token_however_long_the_text_is() -> None:
    """Behind a cache of 10: one query by 11 keys; a layer's products as above, and the head once."""
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96
    expected = 2 * (layer + 2 * 64 * 11) + 64 * 1000
    assert macs("hf:llama", arg=LLAMA, prepare=("decode=10",)) == expected
    assert macs("hf:llama", arg=LLAMA, prepare=("decode=10",), seq_len=1) == expected


def test_a_decoding_step_of_a_pair_takes_its_decoders_token() -> None:
    """T5 of one decoder layer, 32 wide, behind 6 tokens of its own and 6 of the source, whose keys are made already."""
    sizes = (
        "num_layers=1", "num_decoder_layers=1", "d_model=32", "d_ff=64", "num_heads=4", "d_kv=8", "vocab_size=100",
        "architectures=['T5ForConditionalGeneration']",
    )  # fmt: skip
    own, cross = 4 * 32 * 32 + 2 * 32 * 7, 2 * 32 * 32 + 2 * 32 * 6
    assert macs("hf:t5", arg=sizes, prepare=("decode=6",)) == own + cross + 2 * 32 * 64 + 32 * 100


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mamba", "mamba has no decoder_attention_heads or num_attention_heads"),
        ("whisper", "⟨input⟩ input_ids=int64:Nx1"),
    ],
)
def test_models_without_such_a_step_are_refused(model: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        macs(f"hf:{model}", prepare=("decode=6",))


OWN = """
import torch

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.linear(x)

    @torch.no_grad()
    def generate(self, x, max_new_tokens):
        for _ in range(max_new_tokens):
            x = torch.cat([x, self(x[:, -1:])], 1)
        return x

class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.small = Small()

    def forward(self, x):
        return self.small(x)

class Other(Small):
    def generate(self, x, steps):
        return x
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(OWN)
    return tmp_path / "net.py"


def test_a_generate_of_ones_own_is_run(own: Path) -> None:
    assert macs(f"{own}:Small", inputs=("Nx5x16",), new_tokens=7) == 7 * 16 * 16
    notes = capplan.analyze(f"{own}:Small", inputs=["Nx5x16"], new_tokens=7).analysis.trace.provenance.notes
    assert any("generate 7 new tokens, greedy: prefill" in note and "6 decoding steps" in note for note in notes)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Whole", "Whole has no method generate; its part small has: name a function that returns that"),
        ("Other", "generate takes no max_new_tokens, but x, steps"),
    ],
)
def test_what_cannot_generate_is_refused(own: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        macs(f"{own}:{name}", inputs=("Nx5x16",), new_tokens=7)


def test_generation_is_not_trained(own: Path) -> None:
    with pytest.raises(UsageError, match="new_tokens is about inference"):
        capplan.memory(f"{own}:Small", inputs=["Nx5x16"], new_tokens=7, train=True)
    with pytest.raises(UsageError, match="⟨new-tokens⟩ 0 must be from 1 to 4,096"):
        macs(f"{own}:Small", inputs=("Nx5x16",), new_tokens=0)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


def test_gradients_that_are_left_on_keep_activations() -> None:
    """At the last layer's product its output is alive, and one input without gradients, all seven with them."""
    asked = {"inputs": ["64"], "batch": 1024}
    plain = capplan.memory(Deep(), **asked)  # type: ignore[arg-type]
    kept = capplan.memory(Deep(), grad=True, **asked)  # type: ignore[arg-type]
    one = 1024 * 64 * 4
    assert [_activation_bytes(answer) for answer in (plain, kept)] == [2 * one, 8 * one]
    notes = capplan.analyze(Deep(), grad=True, inputs=["64"]).analysis.trace.provenance.notes
    assert any("gradients are on in inference" in note for note in notes)


def _activation_bytes(answer: MemorySummary) -> float:
    (part,) = [part for part in answer.estimate.parts if part.name == "activations"]
    return part.size_bytes.expected
