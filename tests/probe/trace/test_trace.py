"""What a trace holds of small modules, against what PyTorch itself does."""

import contextlib
import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from capplan.core.ops.flops import kernel_flops, kernel_macs, uncounted
from capplan.core.trace.types import Affine, MemoryFormat, Recording, Role
from capplan.core.workload import Configuration, Layout, Optimizer, Training, Variant
from capplan.errors import TraceError
from capplan.probe.trace.tracer import trace_module
from capplan.probe.trace.training import loss_of, make_optimizer


def feeds(*shape: int, dtype: torch.dtype = torch.float32):
    def make(batch: int, *, device: Any) -> SimpleNamespace:
        made = torch.zeros((batch, *shape), dtype=dtype, device=device)
        return SimpleNamespace(args=(made,), kwargs={}, names=("x",))

    return make


def record(module: nn.Module, *shape: int, dtype: torch.dtype = torch.float32, **configuration: Any) -> Recording:
    made = trace_module(
        module, feeds(*shape, dtype=dtype), name="test", configurations=[Configuration(**configuration)]
    )
    return made.recordings[0]


def names(recording: Recording) -> list[str]:
    return [recording.kernels[op.kernel].name for op in recording.ops]


def dtypes(recording: Recording, name: str) -> list[str]:
    kernels = [recording.kernels[op.kernel] for op in recording.ops]
    return [kernel.outputs[0].dtype for kernel in kernels if kernel.name == name]


def macs(recording: Recording, batch: int = 1) -> int:
    return sum(
        count * kernel_macs(kernel, batch)
        for kernel, count in zip(recording.kernels, recording.calls_per_kernel(), strict=True)
    )


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.first = nn.Linear(32, 128)
        self.second = nn.Linear(128, 32)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(functional.gelu(self.first(self.norm(x))))


def test_ops_carry_their_modules_and_sizes_follow_the_batch():
    recording = record(nn.Sequential(Block(), Block()), 10, 32)
    assert recording.exact_batch is None
    assert recording.backend == "meta"
    assert [recording.modules[op.module] for op in recording.ops[:5]] == ["0.norm", "0.first", "0", "0.second", "0"]
    assert names(recording)[:5] == ["aten.native_layer_norm", "aten.addmm", "aten.gelu", "aten.addmm", "aten.add"]
    hidden = recording.storages[recording.ops[1].writes[0]]
    assert hidden.size_bytes == Affine(0, 10 * 128 * 4)


def test_a_storage_dies_when_its_last_reference_goes():
    recording = record(nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.Tanh()), 8)
    first, relu, second, tanh = recording.ops
    assert relu.writes == relu.reads == first.writes  # in place
    by_birth = {storage.birth: storage for storage in recording.storages if storage.birth >= 0}
    # nn.Sequential holds the first output while the second linear layer runs, and not while tanh does
    assert [by_birth[0].death, by_birth[2].death, by_birth[3].death] == [2, 3, 4]
    assert second.reads[1:] != tanh.reads


def test_views_are_no_ops_but_calls():
    class Views(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(-1).unsqueeze(0)[:, 1:].neg()

    recording = record(Views(), 4)
    assert names(recording) == ["aten.neg"]
    assert recording.ops[0].calls == 4  # view, unsqueeze, slice, neg
    assert recording.storages[recording.ops[0].reads[0]].role is Role.INPUT


def test_half_converts_weights_and_inputs():
    recording = record(Block(), 10, 32, variant=Variant.HALF)
    assert {operand.dtype for kernel in recording.kernels for operand in kernel.inputs} == {"half"}


def test_autocast_casts_weights_at_every_use_and_norms_in_fp32():
    recording = record(nn.Sequential(Block(), nn.Softmax(-1)), 10, 32, variant=Variant.AMP)
    # CUDA's rules: linear layers in 16 bits, layer_norm and softmax in fp32, residual additions promoted
    assert names(recording) == [
        "aten.native_layer_norm",
        *["aten._to_copy"] * 3, "aten.addmm", "aten.gelu",
        *["aten._to_copy"] * 2, "aten.addmm", "aten.add", "aten._softmax",
    ]  # fmt: skip
    assert dtypes(recording, "aten.addmm") == ["half", "half"]
    assert dtypes(recording, "aten.add") == ["float32"]
    casts = [recording.kernels[op.kernel] for op in recording.ops if recording.kernels[op.kernel].name.endswith("copy")]
    assert [kernel.outputs[0].is_weight for kernel in casts] == [False, True, True, True, True]


def test_autocast_rules_are_those_of_torch():
    """PyTorch's own autocast on the CPU agrees with ours wherever the two devices' lists do."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            half = self.linear(x)
            return torch.matmul(half, half.transpose(1, 2)) + half.mean(dim=-1, keepdim=True)

    seen: list[torch.dtype] = []

    class Log(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten.bmm.default or func is torch.ops.aten.addmm.default:
                seen.append(out.dtype)
            return out

    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), Log():
        Mixed()(torch.zeros(2, 4, 16))
    recording = record(Mixed(), 4, 16, variant=Variant.AMP)
    ours = dtypes(recording, "aten.addmm") + dtypes(recording, "aten.bmm")
    assert ours == ["half"] * len(seen)
    assert set(seen) == {torch.bfloat16}


def test_attention_is_one_op_wherever_it_is_called_from():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    fast = record(layer, 16, 64)
    assert names(fast).count("capplan.attention") == 1
    # 16 tokens: 4 · 64² · 16 for the projections, 2 · 64 · 128 · 16 for the rest, 2 · 16² · 64 for attention
    assert macs(fast) == 4 * 64**2 * 16 + 2 * 64 * 128 * 16 + 2 * 16**2 * 64
    autocast = record(layer, 16, 64, variant=Variant.AMP)  # no fast path under autocast
    assert names(autocast).count("capplan.attention") == 1
    assert macs(autocast) == macs(fast)


def test_an_lstm_is_one_op():
    recording = record(nn.LSTM(32, 64, batch_first=True), 10, 32)
    assert names(recording).count("capplan.rnn") == 1
    assert macs(recording) == 245_760  # 10 · 4 · 64 · (32 + 64)


def test_a_projection_narrows_an_lstms_states_and_not_its_gates():
    layer = nn.LSTM(8, 32, proj_size=16, batch_first=True)
    recording = record(layer, 10, 8, training=Training())
    [kernel] = [kernel for kernel in recording.kernels if kernel.name == "capplan.rnn"]
    assert kernel.attributes["hidden_size"] == layer.hidden_size
    # four gates, the state before its projection and the cell, of 32 each, for each of 10 steps
    assert kernel.outputs[-1].shape[0].per_sample == 10 * (4 + 2) * 32


def test_lists_of_indices_select_what_they_select_of_values():
    class Selecting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert (x[:, []].shape, x[[]].shape) == ((len(x), 0), (0, 3))  # as numpy and PyTorch do
            assert (x[[slice(1), 2]].shape, x[[[0, 1], [1, 2]]].shape) == ((1,), (2,))  # lists that stand for tuples
            return x[:, [0, 2]]

    assert record(Selecting(), 3).kernels[-1].outputs[0].shape == (Affine(0, 1), Affine(2))


def test_operators_take_their_arguments_by_name_and_by_place():
    class Called(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.softmax(input=x, dim=-1) + torch.log_softmax(x.half(), -1, torch.float32)
            x = x + x.half().softmax(-1, torch.float32) + torch.rms_norm(input=x, normalized_shape=(4,))
            return torch.dropout(input=x, p=0.5, train=False)

    recording = record(Called(), 4)
    found = Counter(names(recording))
    assert (found["aten._softmax"], found["aten._log_softmax"], found["aten._fused_rms_norm"]) == (2, 1, 1)
    assert recording.backend == "meta"


def test_a_sum_is_added_to_a_number_of_the_models():
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift, self.weight = nn.Parameter(torch.empty(())), nn.Parameter(torch.empty(4, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addmm(self.shift, x, self.weight)

    assert macs(record(Shifted(), 4)) == 4 * 5


def test_cudnn_adds_a_bias_after_the_convolution_but_depthwise_kernels_take_it():
    dense = record(nn.Conv2d(3, 8, 3), 3, 16, 16)
    assert names(dense) == ["aten.convolution", "aten.add"]
    depthwise = record(nn.Conv2d(8, 8, 3, groups=8), 8, 16, 16)
    assert names(depthwise) == ["aten.convolution"]


def test_channels_last_stays_channels_last():
    recording = record(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), 3, 16, 16, layout=Layout.NHWC)
    formats = {kernel.outputs[0].memory_format for kernel in recording.kernels}
    assert formats == {MemoryFormat.CHANNELS_LAST}


@pytest.mark.parametrize("convolution", [nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 8, 3, groups=8, bias=False)])
def test_channels_last_filters_of_any_size_draw_their_input_into_their_layout(convolution):
    # CUDA's group norm makes its input row-major; cuDNN takes channels-last where image or filter has it, and filters
    # moved there keep their strides through autocast even where size-1 dimensions make both layouts right.
    norm = nn.GroupNorm(2, 8)
    recording = record(nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), norm, convolution), 3, 16, 16, layout=Layout.NHWC)
    assert names(recording) == [
        "aten.convolution", "aten.clone", "aten.native_group_norm", "aten.clone", "aten.convolution",
    ]  # fmt: skip
    assert recording.kernels[recording.ops[-1].kernel].outputs[0].memory_format is MemoryFormat.CHANNELS_LAST


def test_a_training_step_makes_gradients_and_states_in_their_phases():
    recording = record(Block(), 10, 32, training=Training(optimizer=Optimizer.ADAMW))
    assert [(phase.name, phase.step) for phase in recording.phases] == [
        (name, step) for step in (1, 2) for name in ("forward", "backward", "optimizer")
    ]
    roles = Counter(storage.role for storage in recording.storages)
    assert roles[Role.PARAMETER] == 6
    assert roles[Role.OPTIMIZER] == 12  # two moments each
    assert roles[Role.GRADIENT] == 12  # two steps
    backward = [op for op in recording.ops if recording.kernels[op.kernel].name == "aten.gelu_backward"]
    assert len(backward) == 2
    # each linear layer: two products of its own size in the backward pass (inputs and weights), three in all
    forward = 2 * 10 * 32 * 128
    assert macs(recording) == 3 * forward  # of one step


def test_checkpointing_recomputes_and_keeps_less():
    module = nn.Sequential(*[Block() for _ in range(4)])
    plain = record(module, 10, 32, training=Training(optimizer=Optimizer.SGD))
    saved = record(module, 10, 32, training=Training(optimizer=Optimizer.SGD, checkpointing=True))
    forward = 4 * 2 * 10 * 32 * 128
    # recomputation runs each block's products again, or stops before the last, which its backward does not need
    assert macs(plain) < macs(saved) <= macs(plain) + 2 * forward
    assert peak_bytes(saved, 8) < peak_bytes(plain, 8)


def peak_bytes(recording: Recording, batch: int) -> int:
    """Sum what was born and not yet freed, op by op."""
    count = len(recording.ops)
    born, freed = [0] * (count + 1), [0] * (count + 1)
    for storage in recording.storages:
        if storage.birth >= 0:
            born[storage.birth] += storage.size_bytes.at(batch)
            freed[storage.death] += storage.size_bytes.at(batch)
    live = peak = 0
    for op in range(count):
        live += born[op]
        peak = max(peak, live)
        live -= freed[op]
    return peak


def real_peak_bytes(run: Callable[[], Tensor]) -> int:
    """Add up PyTorch's own allocator events of a run on the CPU."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = run()
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]  # started
    sizes = [event.nbytes() for event in sorted(events, key=lambda e: e.start_ns()) if event.name() == "[memory]"]
    del kept
    return int(max(np.cumsum(sizes)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.out(functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute on one thread: attention on a CPU allocates a buffer per thread, which no GPU does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "module",
    [nn.Sequential(*[Block() for _ in range(3)]), nn.Sequential(Attention(), Block(), Attention())],
    ids=["mlp", "attention"],
)
def test_the_peak_of_lifetimes_is_what_a_real_allocator_sees(module: nn.Module):
    recording = record(module.eval(), 64, 32)
    for batch in (1, 4, 13):
        x = torch.zeros(batch, 64, 32)
        with torch.no_grad():
            assert peak_bytes(recording, batch) == real_peak_bytes(partial(module, x))


class Tied(nn.Module):
    """Sums gradients of all kinds: of a weight used twice, of views, of residual streams."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(500, 32)
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = self.blocks(x) + self.blocks(x.transpose(0, 1)).transpose(0, 1)
        return functional.linear(x, self.embedding.weight)


@pytest.mark.parametrize("optimizer", [Optimizer.MOMENTUM, Optimizer.ADAMW])
def test_the_peak_of_training_is_what_a_real_allocator_sees(optimizer: Optimizer):
    module = Tied()
    recording = record(module, 16, dtype=torch.int64, training=Training(optimizer=optimizer))
    ids = torch.zeros((4, 16), dtype=torch.int64)
    made = make_optimizer(optimizer, list(module.parameters()))

    def two_steps() -> Tensor:
        for _ in range(2):
            made.zero_grad()
            out = module(ids)
            loss_of(out).backward()
            made.step()
        return out

    # Adam's step counters, four bytes a parameter, live on the host
    assert peak_bytes(recording, 4) == pytest.approx(real_peak_bytes(two_steps), abs=4 * len(list(module.parameters())))


class Meddler(nn.Module):
    """Changes all that a forward can change."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(()))
        self.fails = fails
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.kept = x
        self.seen += 1
        self.linear.weight.requires_grad_(False)
        self.register_buffer("late", torch.zeros(3))
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        torch.set_default_dtype(torch.float64)
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        torch.rand(3)
        self.train()
        if self.fails:
            raise ValueError("meddled")
        return self.norm(self.linear(x)) + torch.rand(4, device=x.device, dtype=x.dtype)


def fingerprint(module: nn.Module) -> Any:
    return (
        {
            key: (value.clone(), value.data_ptr(), value.requires_grad)
            for key, value in module.state_dict(keep_vars=True).items()
        },
        [(name, m.training, len(m._forward_hooks), sorted(m.__dict__)) for name, m in module.named_modules()],
        [parameter.__dict__ for parameter in module.parameters()],
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_default_dtype(),
        torch.backends.cudnn.benchmark,
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cuda"),
        nn.Module.__call__,
        torch.nn.functional.has_torch_function,
    )


def same(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("training", [None, Training()], ids=["inference", "training"])
def test_the_model_is_left_as_found(fails: bool, training: Training | None):
    module = Meddler(fails=fails)
    before = copy.deepcopy(fingerprint(module)[1:]), fingerprint(module)
    expected = pytest.raises(TraceError, match=r"meddled.*Meddler") if fails else contextlib.nullcontext()
    with expected:
        record(module, 4, variant=Variant.AMP, training=training)
    assert same(before[1], fingerprint(module))


def test_a_model_that_returns_nothing_is_told():
    class Silent(nn.Module):
        def forward(self, x: Tensor) -> None:
            print("working")
            x.neg()

    with pytest.raises(TraceError, match="Silent returned nothing"):
        record(Silent(), 4)


def test_what_a_model_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]):
    class Chatty(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            print("hello")
            return x.neg()

    record(Chatty(), 4)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_small_integers_keep_their_values():
    class Positions(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            positions = torch.arange(ids.shape[1], device=ids.device)
            last = int(positions.max().item())
            mask = positions[None, :] <= positions[:, None]
            return torch.zeros(last, device=ids.device).expand(ids.shape[0], last) * float(mask.sum().item())

    recording = record(Positions(), 7, dtype=torch.int64)
    assert recording.assumed_values == ()
    product = next(kernel for kernel in recording.kernels if kernel.name == "aten.mul")
    assert product.outputs[0].shape == (Affine(0, 1), Affine(6))


def test_what_depends_on_data_is_assumed_and_counted():
    class Selects(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0] * 2

    recording = record(Selects(), 4)
    assert [(guess.what, guess.count) for guess in recording.assumed_values] == [("aten.index", 1)]


def test_calls_that_ask_for_a_gpu_are_served():
    class Moves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x.cuda() + torch.ones(4, device="cuda")
            return x.to("cuda:0").neg()

    assert names(record(Moves(), 4)) == ["aten.ones", "aten.add", "aten.neg"]


def test_values_copied_to_the_host_are_assumed_and_counted():
    class Post(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x.neg().cpu().numpy()

    recording = record(Post(), 4)
    assert [(guess.what, guess.count) for guess in recording.assumed_values] == [("values copied to the host", 1)]
    assert names(recording) == ["aten.neg"]


def test_gradients_of_layers_without_products_are_all_known():
    class Rare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv3d(2, 2, 1)
            self.bag = nn.EmbeddingBag(10, 8)

        def forward(self, x: Tensor) -> Tensor:
            x = functional.rrelu(functional.softshrink(functional.hardshrink(self.first(x))), training=True)
            x = functional.adaptive_max_pool3d(x, 4) + functional.interpolate(x, size=4, mode="nearest-exact")
            bags = self.bag(torch.zeros(len(x), 3, dtype=torch.int64, device=x.device))
            return torch.polygamma(1, torch.special.i1e(x)).flatten(1)[:, :8] + bags

    assert uncounted(record(Rare(), 2, 8, 8, 8, training=Training())) == ()


def test_lists_as_indices_keep_their_values():
    class Ends(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            return ids.neg() if 7 in ids[:, [0, -1]] else ids.abs()

    recording = record(Ends(), 5, dtype=torch.int64)  # all zeros: seven is not there
    assert recording.assumed_values == ()
    assert names(recording)[-1] == "aten.abs"


def test_a_model_that_branches_on_the_batch_is_exact_for_one_batch():
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[: x.shape[0] // 2].neg()

    assert record(Halves(), 4).exact_batch == 2
    made = trace_module(Halves(), feeds(4), name="test", exact_batch=9)
    assert made.recordings[0].exact_batch == 9
    assert made.recordings[0].kernels[0].outputs[0].shape == (Affine(4), Affine(4))


def test_the_same_model_gives_the_same_trace():
    first = trace_module(Block(), feeds(10, 32), name="test")
    second = trace_module(Block(), feeds(10, 32), name="test")
    assert first == second


def test_a_registered_formula_counts_a_custom_operator():
    class Product(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.capplan_test.square_product(x)

    with torch.library._scoped_library("capplan_test", "DEF") as library:
        library.define("square_product(Tensor x) -> Tensor")
        library.impl("square_product", torch.empty_like, "Meta")
        unknown = record(Product(), 8)
        assert uncounted(unknown) == ("1 × capplan_test::square_product",)
        # one product of [batch, 8] by [8, 8], two FLOPs per multiply-accumulate
        formulas = {"capplan_test::square_product": lambda call: 2 * call.inputs[0][0] * 8 * 8}
        known = trace_module(Product(), feeds(8), name="test", formulas=formulas).recordings[0]
    assert uncounted(known) == ()
    assert kernel_flops(known.kernels[0], 32) == 32 * 128


class Branching(nn.Module):
    """Goes on by what it computed."""

    def forward(self, x):
        return torch.relu(x) if x.sum() > 0 else x


def test_reading_a_value_is_recorded_since_the_host_waits_for_it():
    assert names(record(Branching(), 8))[:3] == ["aten.sum", "aten.gt", "aten._local_scalar_dense"]


class Cosine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(x, dim=-1)


def test_autocast_computes_norms_in_fp32():
    # linalg_vector_norm is on autocast's list of operators that return fp32 (ATen/autocast_mode.h)
    recording = record(nn.Sequential(nn.Linear(16, 16), Cosine()), 16, variant=Variant.AMP)
    assert dtypes(recording, "aten.linalg_vector_norm") == ["float32"]
    assert dtypes(recording, "aten.div") == ["float32"]
