"""Words become a model: "timm:resnet50", "net.py:Net", "hf:config.json" name a module and what it is fed.

Nothing is built until `Target.build`, and then under whatever device context the caller has entered: on meta no
weights are made.
"""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from capplan.errors import TraceError, UsageError
from capplan.probe.inputs import InputRequest, ModelInputs
from capplan.probe.inputs_make import Device, InputMaker
from capplan.probe.prepare import Step, apply_steps, find_steps
from capplan.probe.target_code import model_code, no_weights
from capplan.probe.target_meta import SmallValues, defeated_meta
from capplan.probe.zoo_torchvision_ops import import_torchvision, lacks_operators

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


def load_target(words: str, *, request: InputRequest) -> Target:
    """Find the model that words name, without building it, and the steps that prepare it.

    `torchvision:NAME`, `timm:NAME`, a bare name of either; `hf:` with a config.json, its folder or an architecture;
    `FILE.py:NAME`, `package.module:NAME`; `FILE.pt2`.

    Raises:
        UsageError: no such model or file, arguments or inputs that it does not take.
        TraceError: the code that defines it raised.
    """
    target = _find_target(words, request)
    return replace(target, steps=find_steps(request.prepare)) if request.prepare else target


def _find_target(words: str, request: InputRequest) -> Target:
    kind, colon, rest = words.partition(":")
    if kind == "torchvision" and colon:
        from capplan.probe.zoo_torchvision import torchvision_target

        return torchvision_target(rest, request)
    if kind == "timm" and colon:
        from capplan.probe.zoo_timm import timm_target

        return timm_target(rest, request)
    if kind == "hf" and colon:
        from capplan.probe.zoo_transformers import transformers_target

        return transformers_target(rest, request)
    if colon or words.endswith(".py"):
        from capplan.probe.target_file import code_target

        return code_target(words, request)
    if words.endswith(".pt2"):
        from capplan.probe.exported import exported_target

        return exported_target(Path(words), request)
    if "/" in words or words.endswith(_FOREIGN) or Path(words).is_file():
        raise UsageError(_refusal(Path(words)))
    return _bare_target(words, request)


_FOREIGN = (".pt", ".pth", ".onnx", ".pkl", ".pickle", ".ckpt", ".safetensors", ".bin", ".json")


def _refusal(path: Path) -> str:
    """Say why a file is no model, and what would be one."""
    instead = "Give the code, as FILE.py:Name or package.module:Name, or a .pt2 of torch.export.save."
    if path.suffix == ".json":
        return f"{path} is no model by itself: write hf:{path} for a transformers config."
    if not path.is_file():
        return f"there is no model or file {path}. {instead}"
    if path.suffix == ".onnx":
        return f"{path}: ONNX is not read. {instead}"
    if path.suffix == ".safetensors":
        return f"{path} holds weights and no model. {instead}"
    if _is_torchscript(path):
        return f"{path} is TorchScript, which would run when loaded. {instead}"
    return f"{path} is no model that can be read without running what it holds: loading a pickle does. {instead}"


def _is_torchscript(path: Path) -> bool:
    """Tell an archive of TorchScript, which has code in it, from one of torch.save."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _bare_target(name: str, request: InputRequest) -> Target:
    """Look a bare name up in torchvision and timm; torchvision wins, and a note says so."""
    from capplan.errors import UnknownNameError
    from capplan.probe.zoo_timm import timm_defines, timm_names, timm_target
    from capplan.probe.zoo_torchvision import torchvision_names, torchvision_target

    if name in torchvision_names():
        target = torchvision_target(name, request)
        if not timm_defines(name):
            return target
        note = f"both torchvision and timm have {name}: this is torchvision's; timm:{name} is the other."
        return replace(target, notes=(note, *target.notes))
    timm_known = timm_names()
    if name.partition(".")[0] in timm_known:
        return timm_target(name, request)
    hint = "Others are FILE.py:Name, package.module:Name, or hf: with a config.json, its folder or an architecture."
    raise UnknownNameError("model", name, {*torchvision_names(), *timm_known}, hint=hint)
