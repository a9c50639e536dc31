"""A model that can be built afresh, its inputs, and the steps applied to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from capplan.errors import TraceError, UsageError
from capplan.probe.foreign.code import model_code, no_weights
from capplan.probe.foreign.meta import SmallValues, defeated_meta
from capplan.probe.foreign.torchvision_ops import import_torchvision, lacks_operators
from capplan.probe.inputs.grammar import ModelInputs
from capplan.probe.inputs.tensors import Device, InputMaker

Step = Callable[[torch.nn.Module], torch.nn.Module | None]


ModuleBuilder = Callable[[], torch.nn.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model that can be built afresh, and the inputs that it takes.

    `words` name it again on a command line, its arguments included. `library` is where its code comes from
    ("torchvision", "timm", "transformers", "file", "package"). `steps` change the module once it is built.
    `only_batch` is the one batch that it can run, where its graph is fixed. `source_sha256` hashes the source that it
    is built from. `notes` tell the user what was chosen for them.
    """

    name: str
    words: str
    library: str
    builder: ModuleBuilder
    inputs: InputMaker
    steps: tuple[Step, ...] = ()
    only_batch: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    source_sha256: str | None = None
    notes: tuple[str, ...] = ()

    def build(self) -> torch.nn.Module:
        """Build a fresh module, on the default device of the enclosing context.

        Raises:
            TraceError: the constructor raised; its own message is given.
            UsageError: arguments that the constructor does not take.
        """
        if torch.get_default_device().type != "meta":
            return self._construct()
        with no_weights():
            try:
                return self._construct()
            except TraceError as error:
                if not defeated_meta(error.__cause__):
                    raise
            with SmallValues():
                return self._construct().to("meta")

    def _construct(self) -> torch.nn.Module:
        try:
            return self._construct_once()
        except TraceError as error:
            if not lacks_operators(error):
                raise
        import_torchvision()
        return self._construct_once()

    def _construct_once(self) -> torch.nn.Module:
        with model_code(f"building {self.words}"):
            return apply_steps(self.builder(), self.steps)

    def make_inputs(self, batch: int, *, device: Device) -> ModelInputs:
        """Make the arguments of one forward call for a batch."""
        return self.inputs(batch, device)


def apply_steps(module: torch.nn.Module, steps: Sequence[Step]) -> torch.nn.Module:
    """Apply steps in order, in evaluation mode, as deployed models are; without steps the module is left alone.

    Raises:
        UsageError: a step returned something that is no module.
    """
    for step in steps:
        made = step(module.eval())
        if made is not None and not isinstance(made, torch.nn.Module):
            raise UsageError(f"--prepare {step.__name__} returned a {type(made).__name__}, no nn.Module.")
        module = made if made is not None else module
    return module
