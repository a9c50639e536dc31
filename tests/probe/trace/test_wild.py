"""Ways of writing a model that people use and zoos do not, each as a small module of its own."""

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from capplan.core.ops.flops import kernel_macs, uncounted
from capplan.core.trace.types import HALF, Trace
from capplan.core.workload import Configuration, Training, Variant
from capplan.errors import TraceError
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.libraries import import_torchvision
from capplan.probe.inputs.tensors import FunctionInputs
from capplan.probe.trace.tracer import trace_module

LINEAR_MACS = 16 * 16
"""Multiply-accumulates a sample of a linear layer from 16 to 16."""


def feeds(*shape: int) -> Callable[..., SimpleNamespace]:
    def make(batch: int, *, device: Any) -> SimpleNamespace:
        return SimpleNamespace(args=(torch.zeros((batch, *shape), device=device),), kwargs={}, names=("x",))

    return make


def trace(module: nn.Module, *shape: int, training: bool = False) -> Trace:
    configuration = Configuration(training=Training() if training else None)
    return trace_module(module, feeds(*shape), name="test", configurations=[configuration])


def macs(made: Trace, batch: int = 1) -> int:
    recording = made.recordings[0]
    counts = recording.calls_per_kernel()
    return sum(n * kernel_macs(kernel, batch) for kernel, n in zip(recording.kernels, counts, strict=True))


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_compiled_and_scripted_parts_are_traced_as_what_they_hold() -> None:
    with model_code("building"):

        @torch.compile(mode="max-autotune")
        def activate(x: Tensor) -> Tensor:
            return functional.gelu(x)

        class Compiled(Two):
            def __init__(self) -> None:
                super().__init__()
                self.a = torch.compile(self.a, dynamic=True)
                self.b = torch.jit.trace(torch.jit.script(self.b), torch.zeros(2, 16))

            @torch.compile
            def forward(self, x: Tensor) -> Tensor:
                return activate(self.b(self.a(x)))

        module = torch.compile(Compiled())
        module.compile()
    made = trace(module, 16)
    assert made.class_name == "Compiled"
    assert [kernel.name for kernel in made.recordings[0].kernels] == ["aten.addmm", "aten.gelu"]
    assert macs(made) == 2 * LINEAR_MACS
    assert torch.compile is not inspect.unwrap(module_code_compile())


def module_code_compile() -> Any:
    with model_code("looking"):
        return torch.compile


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_module_compiled_before_is_unwrapped() -> None:
    made = trace(torch.compile(nn.Sequential(nn.Linear(16, 16), nn.ReLU())), 16)
    assert (made.class_name, macs(made)) == ("Sequential", LINEAR_MACS)
    assert made.parameters[0].names == ("0.weight",)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_lazy_layers_get_their_sizes_from_the_inputs() -> None:
    module = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(10))
    made = trace(module, 3, 8, 8)
    # 8 · 3 · 3 · 3 + 8; twice 8; 8 · 6 · 6 · 10 + 10
    assert made.parameter_count == 224 + 16 + 2890
    assert macs(made) == 6 * 6 * 8 * 27 + 288 * 10
    assert made.recordings[0].exact_batch is None


class Cond(Two):
    """One branch has one linear layer, the other two."""

    def __init__(self, predicate: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.predicate = predicate

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(self.predicate(x), self.a, lambda x: self.b(self.a(x)), (x,))


@pytest.mark.parametrize(
    ("predicate", "layers"),
    [(lambda x: x.shape[0] > 1, 1), (lambda x: torch.tensor(1) > 1, 2), (lambda x: torch.ones(3).sum() > 2, 1)],
)
def test_the_branch_that_the_inputs_take_is_recorded(predicate: Callable[[Tensor], Any], layers: int) -> None:
    made = trace(Cond(predicate), 16)
    assert (macs(made), made.recordings[0].assumed_values) == (layers * LINEAR_MACS, ())


def test_a_branch_that_depends_on_data_is_that_of_a_run_and_told_with_its_line() -> None:
    made = trace(Cond(lambda x: x.sum() > 0), 16)
    # the input is zeros, whose sum is not above zero: the second branch, of two layers
    assert (macs(made), made.recordings[0].assumed_values) == (2 * LINEAR_MACS, ())
    line = inspect.getsourcelines(Cond.forward)[1] + 1
    [note] = made.provenance.notes
    assert note.startswith(f"what hangs on data at test_wild.py:{line} is that of a run on the CPU")


def test_a_branch_is_assumed_where_the_model_cannot_be_run() -> None:
    def refuse(x: Tensor) -> Tensor:
        if not x.is_cuda:
            raise RuntimeError("only on the device")
        return x.sum() > 0

    made = trace(Cond(refuse), 16)
    assert macs(made) == LINEAR_MACS
    assert [(each.what, each.count) for each in made.recordings[0].assumed_values] == [("torch.cond taken as true", 1)]
    assert made.provenance.notes[0].startswith("assumed: torch.cond taken as true at test_wild.py")
    assert "RuntimeError: only on the device" in made.provenance.notes[-1]


class Loop(Two):
    def forward(self, x: Tensor) -> Tensor:
        zero = torch.zeros((), dtype=torch.int64)
        out: Tensor = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.a(x)), (zero, x))[1]
        return out


class Scan(Two):
    def forward(self, x: Tensor) -> Tensor:
        steps = x.unsqueeze(0).expand(5, -1, -1)
        out: Tensor = scan(lambda carry, y: (self.a(carry) + y, carry.clone()), x.clone(), steps)[1]
        return out


@pytest.mark.parametrize(("module", "trips", "trained"), [(Loop(), 3, 8), (Scan(), 5, 12)])
def test_loops_run_their_trips(module: nn.Module, trips: int, trained: int) -> None:
    made = trace(module, 16)
    assert (macs(made), made.recordings[0].assumed_values) == (trips * LINEAR_MACS, ())
    # Forward, and the gradients of weights and inputs, but for the first input, which needs none. The scan stacks what
    # it held before each trip, so that the last trip reaches no loss: 5 + 4 + 3.
    assert macs(trace(module, 16, training=True)) == trained * LINEAR_MACS


def causal(batch: Any, head: Any, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


class Flexible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 192)

    def forward(self, x: Tensor) -> Tensor:
        samples, length, _ = x.shape
        query, key, value = self.project(x).view(samples, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        mask = create_block_mask(causal, None, None, length, length, device=x.device)
        out: Tensor = torch.compile(flex_attention)(query, key, value, block_mask=mask)
        return out


def test_flexible_attention_is_one_operator() -> None:
    made = trace(Flexible(), 128, 64)
    assert [kernel.name for kernel in made.recordings[0].kernels].count("capplan.attention") == 1
    # the projection, then scores and weighted sums of 4 heads of 16, the mask not credited
    assert macs(made) == 128 * 64 * 192 + 2 * 4 * 128 * 128 * 16
    assert made.recordings[0].backend == "meta"


class OnCuda(Two):
    """Asks everything that a forward may ask of a CUDA device."""

    def forward(self, x: Tensor) -> Tensor:
        if not (torch.cuda.is_available() and x.is_cuda and self.a.weight.is_cuda and x.device.type == "cuda"):
            raise RuntimeError("this model runs on CUDA only")
        assert x.device == torch.device("cuda", torch.cuda.current_device())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        start = torch.cuda.Event(enable_timing=True)
        start.record()
        with torch.cuda.stream(side), torch.cuda.device(x.device), torch.cuda.nvtx.range("linear"):
            out: Tensor = self.a(x)
        out.record_stream(side)
        torch.cuda.synchronize()
        assert start.elapsed_time(start) > 0
        if torch.cuda.get_device_capability() >= (8, 0):
            out = self.b(out)
        out = out + torch.cuda.FloatTensor(x.shape[0], 16).fill_(0)
        positions = torch.arange(16, device=x.device).to(x.device, torch.float32)
        with torch.device(x.device):
            out = out + torch.zeros(16) + positions
        return out


def test_cuda_calls_are_answered_as_a_cuda_device_would() -> None:
    made = trace(OnCuda(), 16)
    assert macs(made) == 2 * LINEAR_MACS
    line = (
        inspect.getsource(OnCuda).splitlines().index("        if torch.cuda.get_device_capability() >= (8, 0):")
        + inspect.getsourcelines(OnCuda)[1]
    )
    said = f"the model asked torch.cuda and was given compute capability 8.0 (at test_wild.py:{line})"
    assert made.provenance.notes == (said,)
    assert not torch.cuda.is_available()
    assert torch.zeros(1).device.type == "cpu"


class ImportsLate(nn.Module):
    """Imports torchvision inside its forward, where nobody has prepared the import."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        from torchvision.ops import box_area

        out: Tensor = box_area(self.boxes(x))
        return out


@pytest.mark.zoo
def test_torchvision_may_be_imported_inside_a_forward_and_serves_on() -> None:
    """Its operators are registered once per process, whoever takes its modules away."""
    assert macs(trace(ImportsLate(), 16)) == 16 * 4
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2], [4, 4, 6, 6]])  # the second lies on the first
    kept = import_torchvision().ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    assert kept.tolist() == [0, 2]


class OneSample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x.view(16))
        return out


def test_a_model_that_runs_at_one_batch_alone_is_traced_there() -> None:
    made = trace(OneSample(), 16)
    assert (made.recordings[0].exact_batch, macs(made)) == (1, LINEAR_MACS)


@dataclass
class Sample:
    """An input inside a dataclass."""

    x: Tensor
    length: int


class Masked:
    """An input inside an object of the user's own, as DETR's NestedTensor is."""

    def __init__(self, tensors: Tensor) -> None:
        self.tensors = tensors


class InContainers(Two):
    def forward(self, sample: Sample, masked: Masked) -> Tensor:
        assert sample.x.dtype is masked.tensors.dtype is self.a.weight.dtype
        out: Tensor = self.a(sample.x) + self.b(masked.tensors)
        return out


def test_inputs_inside_objects_are_cast_like_the_rest() -> None:
    made = FunctionInputs(words="f", function=lambda n: (Sample(torch.rand(n, 16), 3), Masked(torch.rand(n, 16))))
    configuration = Configuration(variant=Variant.HALF)
    found = trace_module(InContainers(), made, name="test", configurations=[configuration])
    assert [(each.name, each.dtype) for each in found.inputs] == [
        ("input0.x", "float32"),
        ("input1.tensors", "float32"),
    ]
    assert {operand.dtype for kernel in found.recordings[0].kernels for operand in kernel.inputs} == {"half"}
    assert macs(found) == 2 * LINEAR_MACS


class AsksForDtype(nn.Module):
    """Goes through an FFT, which takes float16 on CUDA and no bfloat16, and says what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype is torch.bfloat16:
            raise ValueError("bfloat16 is not what was asked for")
        out: Tensor = self.linear(torch.fft.irfft(torch.fft.rfft(x)).to(x.dtype))
        return out


@pytest.mark.parametrize("variant", [Variant.HALF, Variant.AMP])
def test_half_precision_runs_in_the_type_that_was_asked_for(variant: Variant) -> None:
    asked = Configuration(variant=variant, half_dtype="float16")
    found = trace_module(AsksForDtype(), feeds(16), name="test", configurations=[asked])
    assert macs(found) == LINEAR_MACS
    assert uncounted(found.recordings[0]) == ("1 × aten::_fft_c2r", "1 × aten::_fft_r2c")
    assert found.recording(Configuration(variant=variant)) is found.recordings[0]  # sizes are those of bfloat16 too
    if variant is Variant.HALF:
        with pytest.raises(TraceError, match="bfloat16 is not what was asked for"):
            trace_module(AsksForDtype(), feeds(16), name="test", configurations=[Configuration(variant=variant)])


class KeepsPart(Two):
    _keep_in_fp32_modules = ("b",)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(self.a(x).to(self.b.weight.dtype))
        return out


@pytest.mark.parametrize(("half", "dtypes"), [("float16", ["half", "float32"]), ("bfloat16", ["half", "half"])])
def test_parts_that_a_model_keeps_in_fp32_stay_there(half: str, dtypes: list[str]) -> None:
    asked = Configuration(variant=Variant.HALF, half_dtype=half)
    recording = trace_module(KeepsPart(), feeds(16), name="test", configurations=[asked]).recordings[0]
    kernels = [recording.kernels[op.kernel] for op in recording.ops]
    assert [kernel.outputs[0].dtype for kernel in kernels if kernel.name == "aten.addmm"] == dtypes


class Int8(Tensor):
    """Weights in int8 with a scale for each row, as quantisation libraries store them."""

    qdata: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, qdata: Tensor, scale: Tensor) -> "Int8":
        made = Tensor._make_wrapper_subclass(cls, qdata.shape, dtype=scale.dtype, device=qdata.device)
        made.qdata, made.scale = qdata, scale
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["qdata", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, Tensor], _context: None, *_: Any) -> "Int8":
        return cls(inner["qdata"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].qdata, args[0].scale)
        assert func is torch.ops.aten.t.default, func
        return (args[0].qdata.to(args[0].scale.dtype) * args[0].scale[:, None]).t()


def test_a_weight_counts_as_what_its_class_stores() -> None:
    module = nn.Linear(16, 16, bias=False)
    values = Int8(torch.zeros(16, 16, dtype=torch.int8), torch.ones(16))
    module.weight = nn.Parameter(values, requires_grad=False)
    made = trace(module, 16)
    assert [(each.names, each.dtype, each.size_bytes, each.is_buffer) for each in made.parameters] == [
        (("weight.qdata",), "int8", 256, False),
        (("weight.scale",), "float32", 64, True),
    ]
    assert (made.parameter_count, made.weight_bytes) == (256, 256)
    recording = made.recordings[0]
    names = [recording.kernels[op.kernel].name for op in recording.ops]
    assert names == ["aten._to_copy", "aten.mul", "aten.mm"]
    assert macs(made) == LINEAR_MACS
    stored = [storage for storage in recording.storages if storage.parameter is not None]
    assert [(each.parameter, each.size_bytes.at(1)) for each in stored] == [(0, 256), (1, 64)]
    assert type(module.weight.data) is Int8  # the user's own module is as it was


class Adjacency(nn.Module):
    """A graph layer that multiplies by a sparse matrix which it makes from edges."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        weights = torch.ones(edges.shape[1], device=x.device)
        matrix = torch.sparse_coo_tensor(edges, weights, (x.shape[0], x.shape[0]))
        return torch.sparse.mm(matrix, self.linear(x))


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_products_count_their_stored_elements() -> None:
    edges = torch.stack([torch.arange(50) % 10, torch.arange(50) // 10])
    made = FunctionInputs(words="f", function=lambda n: (torch.rand(10 * n, 16), edges.repeat(1, n)))
    found = trace_module(Adjacency(), made, name="test", exact_batch=1)
    assert macs(found) == 10 * LINEAR_MACS + 50 * 16  # 10 nodes; 50 edges of 16 features
    assert uncounted(found.recordings[0]) == ()


with warnings.catch_warnings(action="ignore"):  # there is no CUDA here
    _OFF = torch.autocast("cuda", enabled=False)
    """A context that was made at import, before any trace, as decorators make theirs."""


class Decorated(Two):
    @_OFF
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.a(x)
        return out


def test_autocast_contexts_made_at_import_act_as_on_cuda() -> None:
    asked = Configuration(variant=Variant.AMP)
    recording = trace_module(Decorated(), feeds(16), name="test", configurations=[asked]).recordings[0]
    assert {operand.dtype for kernel in recording.kernels for operand in kernel.outputs} == {"float32"}


class FixedAdjacency(nn.Module):
    """A graph layer whose sparse matrix is a buffer, and one that is never used, as Whisper keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("matrix", torch.eye(10).to_sparse_csr())
        self.register_buffer("unused", torch.eye(10).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.matrix @ self.linear(x[0])
        return out


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_buffers_are_multiplied_by_their_stored_elements() -> None:
    found = trace(FixedAdjacency(), 10, 16)
    assert macs(found) == 10 * LINEAR_MACS + 10 * 16


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_weights_count_what_they_store() -> None:
    model = FixedAdjacency()
    model.edges = nn.Parameter(torch.eye(10).to_sparse_csr())
    stored = {name: held for held in trace(model, 10, 16).parameters for name in held.names}
    # ten values each; a row pointer more than rows in CSR, two coordinates an entry in COO
    assert (stored["edges.values"].shape, stored["edges.values"].is_buffer) == ((10,), False)
    assert (stored["edges.crow_indices"].shape, stored["edges.col_indices"].shape) == ((11,), (10,))
    assert stored["edges.crow_indices"].is_buffer
    assert (stored["unused.values"].shape, stored["unused.indices"].shape) == ((10,), (2, 10))


class OfGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        out: Tensor = torch.sparse.mm(edges, self.linear(x))
        return out


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize(("variant", "dtype"), [(Variant.FULL, "float32"), (Variant.HALF, HALF)])
def test_sparse_inputs_are_multiplied_by_their_stored_elements(variant: Variant, dtype: str) -> None:
    make = FunctionInputs(words="f", function=lambda n: (torch.rand(10 * n, 16), torch.eye(10 * n).to_sparse_coo()))
    found = trace_module(OfGraph(), make, name="test", configurations=[Configuration(variant=variant)])
    assert macs(found, 3) == 3 * (10 * LINEAR_MACS + 10 * 16)
    assert {operand.dtype for kernel in found.recordings[0].kernels for operand in kernel.inputs} == {dtype}


class Jagged(nn.Module):
    """Attention within sequences of their own lengths, as nested tensors of the jagged layout hold them."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)

    def forward(self, sequences: list[Tensor]) -> Tensor:
        nested = torch.nested.as_nested_tensor(sequences, layout=torch.jagged)
        query, key, value = (
            part.unflatten(-1, [4, 8]).transpose(1, 2) for part in self.project(nested).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value)
        out: Tensor = mixed.transpose(1, 2).flatten(-2).values()
        return out


@pytest.mark.parametrize(("lengths", "kernels"), [((5, 6, 7), 3), ((6, 6, 6), 1), ((6, 6, 9), 2)])
@pytest.mark.parametrize("training", [False, True])
def test_attention_of_jagged_tensors_counts_each_sequence_by_its_length(
    lengths: tuple[int, ...], kernels: int, training: bool
) -> None:
    def make(batch: int, *, device: Any) -> SimpleNamespace:
        sequences = [torch.rand(length, 32, device=device) for length in lengths * batch]
        return SimpleNamespace(args=(sequences,), kwargs={}, names=tuple(f"x[{i}]" for i in range(len(sequences))))

    asked = Configuration(training=Training() if training else None)
    found = trace_module(Jagged(), make, name="test", configurations=[asked], exact_batch=1)
    recording = found.recordings[0]
    attention = [kernel for kernel in recording.kernels if kernel.name == "capplan.attention"]
    assert sum(kernel_macs(kernel, 1) for kernel in attention) == sum(2 * 4 * 8 * length**2 for length in lengths)
    assert len(attention) == kernels


def test_a_jagged_tensor_is_made_on_the_device_of_its_values() -> None:
    """It says cuda while it is traced; autograd of a PyTorch built for CUDA wants a stream of a tensor made there."""
    kept: list[Tensor] = []

    class Keeps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            nested = torch.nested.as_nested_tensor([x, x[:1]], layout=torch.jagged)
            assert nested.device.type == "cuda"
            kept.append(nested)
            return nested.values()

    def make(batch: int, *, device: Any) -> SimpleNamespace:
        return SimpleNamespace(args=(torch.rand(batch, 4, device=device),), kwargs={}, names=("x",))

    trace_module(Keeps(), make, name="test", configurations=[Configuration()], exact_batch=2)
    assert {nested.device.type for nested in kept} == {"meta"}


def test_products_of_two_dtypes_are_refused_with_the_input_to_give() -> None:
    """The meta device multiplies them; the CPU and CUDA refuse."""
    said = r"mat1 and mat2 must have the same dtype.* such as ⟨input⟩ x=bfloat16:Nx16\.$"
    with pytest.raises(TraceError, match=said):
        trace(nn.Linear(16, 16).bfloat16(), 16)


class Unwritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("this head is not written yet")


def test_other_inputs_are_not_advised_where_inputs_are_not_the_matter() -> None:
    with pytest.raises(TraceError, match="not written yet") as refused:
        trace(nn.Sequential(nn.Linear(16, 16), Unwritten()), 16)
    assert "--input" not in str(refused.value)
