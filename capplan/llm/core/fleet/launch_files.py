"""A planned deployment as the files of platforms that start it, all filled from one description."""

import json
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from capplan.core.gpus.machines import HostArchitecture
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import Launch, ServerPlace, place_options


class MachineShare(StrEnum):
    """How replicas stand in machines: each fills one, several share one, or each spans several."""

    WHOLE = "whole"
    SHARED = "shared"
    SPANNED = "spanned"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """The container image of an engine, and what its reader has to do with it."""

    name: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWords:
    """Name a vendor's GPUs for Kubernetes, and select some of them by a variable and for Docker."""

    resource: str
    visible: str
    docker: str
    compose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchForm:
    """A file with places to fill, for deployments that stand as `spreads` says; None is any provider."""

    file: str
    source: str
    spreads: tuple[MachineShare, ...]
    provider: str | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchForms:
    """The files of all platforms; `parts` are blocks that several of them hold.

    `clouds` are SkyPilot's names of providers, `accelerators` those of GPUs.
    """

    images: Mapping[str, EngineImage]
    vendors: Mapping[str, GpuWords]
    clouds: Mapping[str, str]
    accelerators: Mapping[str, str]
    parts: Mapping[str, str]
    forms: tuple[LaunchForm, ...]


def launch_files(fit: DeploymentFit, launch: Launch, *, model: str, forms: LaunchForms) -> dict[str, str]:
    """Return the files that start a deployment, by name.

    Nothing is written for a replica whose ranks MPI starts on several servers, which need one another's SSH keys.
    """
    if launch.setting.servers > 1 and not launch.other_options:
        return {}
    description = _Description(fit=fit, launch=launch, model=model, forms=forms)
    words = description.words()
    provider = fit.rent.provider if fit.rent else None
    return {
        form.file: _filled(form.text, words).rstrip() + "\n"
        for form in forms.forms
        if description.spread in form.spreads and form.provider in (None, provider)
    }


_PLACE = re.compile(r"(?m)^(?P<indent> *)@\{(?P<block>\w+)\}(?:\n|\Z)|@\{(?P<word>\w+)\}")


def _filled(text: str, words: Mapping[str, str]) -> str:
    """Return a text with its places filled; one that has a line of its own is indented, and leaves no empty line."""

    def put(found: re.Match[str]) -> str:
        if found["word"]:
            return words[found["word"]]
        block = words[found["block"]].rstrip("\n")
        return textwrap.indent(block, found["indent"]) + "\n" if block else ""

    return _PLACE.sub(put, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Description:
    """One deployment, from which the files of every platform are filled."""

    fit: DeploymentFit
    launch: Launch
    model: str
    forms: LaunchForms

    @property
    def per_machine(self) -> int:
        """Return the replicas in one machine, which is the offer's or the server that was planned for."""
        machine = self.fit.rent.server if self.fit.rent else self.fit.server
        return max(1, min(machine.gpus // self.fit.sharding.gpus, self.fit.replicas))

    @property
    def spread(self) -> MachineShare:
        if self.launch.setting.servers > 1:
            return MachineShare.SPANNED
        return MachineShare.SHARED if self.per_machine > 1 else MachineShare.WHOLE

    def words(self) -> dict[str, str]:
        fit, launch, rent = self.fit, self.launch, self.fit.rent
        servers, each = launch.setting.servers, launch.setting.server_gpus
        image = self.forms.images[launch.engine.value]
        gpus = self._vendor
        spans, name = self.spread is MachineShare.SPANNED, _label(f"{self.model}-{launch.engine.value}")
        words = {
            "name": name,
            "image": image.name,
            "image_note": image.note,
            "gpu": fit.gpu,
            "gpus": str(each),
            "whose_gpus": f"of a replica's {fit.sharding.gpus} in each server" if spans else "of one replica",
            "resource": gpus.resource,
            "visible": gpus.visible,
            "docker": gpus.docker,
            "replicas": str(fit.replicas),
            "last_replica": str(fit.replicas - 1),
            "why_replicas": f"{fit.needed} needed for the load, {fit.replicas - fit.needed} spare: {fit.words}",
            "needed": str(fit.needed),
            "servers": str(servers),
            "role": ", role: leader" if spans else "",
            "machines": str(fit.machines or ceil(fit.replicas / self.per_machine) * servers),
            "machine": rent.instance or "" if rent else "",
            "offer": rent.machine_words if rent else "no offer",
            "region": _one_region(rent.region) if rent else "",
            "port": str(launch.port),
            "last_port": str(launch.port + self.per_machine - 1),
            "last_in_machine": str(self.per_machine - 1),
            "program": json.dumps(list(launch.program)),
            "arguments": "\n".join(self._arguments()),
            "node_selector": (
                "nodeSelector: {kubernetes.io/arch: arm64}" if launch.setting.host is HostArchitecture.ARM else ""
            ),
            "worker": json.dumps(self._command("LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX", is_first=False)),
            "settings": "".join(f"{file}: |\n{textwrap.indent(text, '  ')}" for file, text in launch.files),
            "mount": "- {name: settings, mountPath: /etc/serving}" if launch.files else "",
            "settings_volume": f"- {{name: settings, configMap: {{name: {name}}}}}" if launch.files else "",
            "script": self._script(),
            "sky_place": "\n".join(self._sky_place()),
        }
        words["compose_script"] = words["script"].replace("$", "$$")
        places = [words | self._place_in_machine(number) for number in range(self.per_machine)]
        words |= places[0]
        for part, text in self.forms.parts.items():
            words[part] = _filled(text, words)
        words["services"] = "\n".join(_filled(self.forms.parts["compose_service"], place) for place in places)
        words["config"] = words["config"] if launch.files else ""
        words["start_script"] = "" if spans else words["start_script"]
        return words

    def _place_in_machine(self, number: int) -> dict[str, str]:
        each = self.launch.setting.server_gpus
        ids = {"ids": ",".join(map(str, range(number * each, (number + 1) * each))), "number": str(number)}
        compose = _filled(self._vendor.compose, {**ids, "quoted_ids": json.dumps(ids["ids"].split(","))})
        return {**ids, "host_port": str(self.launch.port + number), "compose_gpus": compose}

    @property
    def _vendor(self) -> GpuWords:
        return self.forms.vendors.get(self.fit.vendor, self.forms.vendors["NVIDIA"])

    def _sky_place(self) -> Iterator[str]:
        """Yield where SkyPilot starts machines: the offer's machine in a cloud that it knows, else any with the GPU."""
        fit, rent = self.fit, self.fit.rent
        cloud = self.forms.clouds.get(rent.provider) if rent else None
        if cloud and rent and rent.instance:
            yield f"infra: {'/'.join(filter(None, (cloud, _one_region(rent.region))))}  # {rent.machine_words}"
            yield f"instance_type: {rent.instance}"
        else:
            name = self.forms.accelerators.get(fit.gpu, fit.gpu)
            count = self.launch.setting.server_gpus * self.per_machine
            yield f"accelerators: {{{json.dumps(name)}: {count}}}  # {fit.gpu}"

    def _command(self, head: str, number: str, *, is_first: bool, port: str = "") -> str:
        """Return the command of a server for a shell whose variables say which server it is, and where the first is."""
        setting = self.launch.setting
        place = ServerPlace(
            head=f"${head}",
            number="0" if is_first else f"${number}",
            first_rank=f"$(({number} * {setting.sharding.data // setting.servers}))",
            is_first=is_first,
        )
        options = (*self.launch.shared_options, *place_options(setting, place))
        words = [*self.launch.program]
        for option in options:
            words += option.words if option.option != "--port" or not port else ()
        words += ["--port", port] if port else []
        return "exec " + " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)

    def _script(self) -> str:
        """Return the lines that start one server of a replica, by the variables PORT, HEAD and RANK."""
        escaped = [(name, shlex.quote(text.replace("\n", r"\n"))) for name, text in self.launch.files]
        files = [f"printf '%b' {text} > {name}" for name, text in escaped]
        first = self._command("HEAD", "RANK", is_first=True, port="$PORT")
        other = self._command("HEAD", "RANK", is_first=False)
        by_rank = ['if [ "$RANK" -eq 0 ]; then', f"  {first}", "else", f"  {other}", "fi"]
        return "\n".join([*files, *(by_rank if self.spread is MachineShare.SPANNED else [first])])

    def _arguments(self) -> Iterator[str]:
        """Yield the arguments of a replica's first server for a container, each option with its reason."""
        first = ServerPlace(head="$(LWS_LEADER_ADDRESS)", number="0", first_rank="0", is_first=True)
        for option in (*self.launch.shared_options, *place_options(self.launch.setting, first)):
            for index, word in enumerate(option.words):
                named = "/etc/serving/extra.yaml" if word == "extra.yaml" else word
                yield f"- {json.dumps(named)}" + (f"  # {option.why}" if index == 0 else "")


def _one_region(region: str) -> str:
    """Return a region that a provider's programs take; nothing where an offer names several, or a place in words."""
    return region if re.fullmatch(r"[a-z0-9-]+", region) else ""


def _label(words: str) -> str:
    """Return words as a name that Kubernetes accepts: small letters, digits and dashes, at most 63."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:63].strip("-") or "model"
