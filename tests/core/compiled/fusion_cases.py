"""Hand-made recordings for tests of fusion."""

from dataclasses import dataclass, replace

from capplan.core.trace.types import ALWAYS, Affine, Kernel, MemoryFormat, Op, Operand, Recording, Role, Storage
from capplan.core.workload import Configuration, Variant


@dataclass(frozen=True)
class View:
    """What is read of a storage."""

    storage: int
    operand: Operand


class Tape:
    """Records operators by hand, as the tracer would: each call names its inputs' storages and its result's shape."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.ops: list[Op] = []
        self.operands: list[Operand] = []
        self.roles: list[Role] = []
        self.births: list[int] = []

    def tensor(self, *shape: int, role: Role = Role.ACTIVATION, dtype: str = "half") -> int:
        """A storage; the first dimension of an input or activation grows with the batch."""
        weight = role in (Role.PARAMETER, Role.BUFFER)
        first = Affine(shape[0]) if weight else Affine(0, shape[0])
        self.operands.append(Operand(dtype=dtype, shape=(first, *(Affine(dim) for dim in shape[1:])), is_weight=weight))
        self.roles.append(role)
        self.births.append(ALWAYS if role is not Role.ACTIVATION else len(self.ops))
        return len(self.operands) - 1

    def call(
        self, name: str, reads: "tuple[int | View, ...]", *shape: int, into: int | None = None, **attributes: object
    ) -> int:
        """Call `aten.NAME` and return the storage of its result, a new one unless it is written in place."""
        out = self.tensor(*shape) if into is None else into
        self.kernels.append(
            Kernel(
                name=f"aten.{name}",
                inputs=tuple(self.operands[read] if isinstance(read, int) else read.operand for read in reads),
                outputs=(self.operands[out],),
                attributes=attributes,  # type: ignore[arg-type]  # a test's keyword arguments
            )
        )
        storages = tuple(read if isinstance(read, int) else read.storage for read in reads)
        self.ops.append(Op(kernel=len(self.kernels) - 1, module=0, reads=storages, writes=(out,)))
        return out

    def attention(self, reads: "tuple[View, ...]", *shape: int, **attributes: object) -> int:
        """Call the logical attention; it reads query, key, value and, if there is one, a mask."""
        out = self.call("attention", reads, *shape, **attributes)
        self.kernels[-1] = replace(self.kernels[-1], name="capplan.attention")
        return out

    def view(self, storage: int, *shape: int) -> "View":
        """A part of a storage, with another shape."""
        whole = self.operands[storage]
        return View(storage, replace(whole, shape=(Affine(0, shape[0]), *(Affine(dim) for dim in shape[1:]))))

    def convolution(self, source: int, channels: int, out: int, *, window: int = 3, size: int = 8) -> int:
        """A convolution that keeps the image's size."""
        weight = self.tensor(out, channels, window, window, role=Role.PARAMETER)
        return self.call(
            "convolution", (source, weight), 1, out, size, size,
            stride=(1, 1), padding=(window // 2,) * 2, groups=1, transposed=False,
        )  # fmt: skip

    def batch_norm(self, source: int, channels: int, *, size: int = 8) -> int:
        """A batch norm with running statistics."""
        terms = tuple(self.tensor(channels, role=Role.PARAMETER, dtype="float32") for _ in range(4))
        return self.call("native_batch_norm", (source, *terms), 1, channels, size, size, training=False)

    def recording(self, result: int) -> Recording:
        """The finished recording; the caller keeps the result and the inputs."""
        last = {storage: index for index, op in enumerate(self.ops) for storage in (*op.reads, *op.writes)}
        kept = len(self.ops)
        storages = tuple(
            Storage(
                size_bytes=_size(operand),
                role=role,
                birth=birth,
                death=kept if role is not Role.ACTIVATION or storage == result else last[storage],
            )
            for storage, (operand, role, birth) in enumerate(zip(self.operands, self.roles, self.births, strict=True))
        )
        return Recording(
            configuration=Configuration(variant=Variant.HALF),
            modules=("",),
            kernels=tuple(self.kernels),
            ops=tuple(self.ops),
            storages=storages,
            batches=(2, 3, 5),
        )


def _size(operand: Operand) -> Affine:
    return Affine(operand.size_bytes(2), 0) if operand.is_weight else Affine(0, operand.size_bytes(1))


def in_channels_last(operand: Operand) -> bool:
    """Is an image's innermost dimension its channels?"""
    return operand.memory_format is MemoryFormat.CHANNELS_LAST
