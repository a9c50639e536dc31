"""Files that platforms start planned work from, filled from one description of what stands where."""

import json
import re
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.gpus.prices import Price


class StartedKind(StrEnum):
    """What a file starts: an engine's replicas, copies of any model, a run over samples, or a training run."""

    SERVING = "serving"
    MODEL = "model"
    JOB = "job"
    TRAINING = "training"


class MachineShare(StrEnum):
    """How replicas stand in machines: each fills one, several share one, or each spans several."""

    WHOLE = "whole"
    SHARED = "shared"
    SPANNED = "spanned"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartImage:
    """The container image of an engine or framework, and what its reader has to do with it."""

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
    starts: tuple[StartedKind, ...] = (StartedKind.SERVING,)
    spreads: tuple[MachineShare, ...]
    provider: str | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchForms:
    """The files of all platforms; `parts` are blocks that several of them hold.

    `clouds` are SkyPilot's names of providers, `accelerators` those of GPUs.
    """

    images: Mapping[str, StartImage]
    vendors: Mapping[str, GpuWords]
    clouds: Mapping[str, str]
    accelerators: Mapping[str, str]
    parts: Mapping[str, str]
    forms: tuple[LaunchForm, ...]

    def place_words(self, place: "MachinePlace") -> dict[str, str]:
        """Return the words of a place that the files of every platform hold."""
        rent, vendor = place.rent, self.vendors.get(place.vendor, self.vendors["NVIDIA"])
        return {
            "name": label(place.name),
            "gpu": place.gpu,
            "gpus": str(place.gpus),
            "resource": vendor.resource,
            "visible": vendor.visible,
            "docker": vendor.docker,
            "compose_gpus": vendor.compose,
            "machines": str(place.machines),
            "machine": rent.instance or "" if rent else "",
            "offer": rent.machine_words if rent else "no offer",
            "region": _one_region(rent.region) if rent else "",
            "sky_place": self._sky_place(place),
        }

    def _sky_place(self, place: "MachinePlace") -> str:
        """Return where SkyPilot starts machines: the offer's in a cloud that it knows, else any with the GPU."""
        rent = place.rent
        if rent and rent.instance and (cloud := self.clouds.get(rent.provider)):
            infra = "/".join(filter(None, (cloud, _one_region(rent.region))))
            return f"infra: {infra}  # {rent.machine_words}\ninstance_type: {rent.instance}"
        name = self.accelerators.get(place.gpu, place.gpu)
        return f"accelerators: {{{json.dumps(name)}: {place.machine_gpus}}}  # {place.gpu}"

    def container_words(self, words: Mapping[str, str], number: int, gpus: int) -> dict[str, str]:
        """Return the words of one of a machine's containers: its GPUs by the machine's numbers, and by its own.

        A container that is given some GPUs by their numbers counts them from 0.
        """
        ids = [str(index) for index in range(number * gpus, (number + 1) * gpus)]
        own = {"number": str(number), "quoted_ids": json.dumps(ids)}
        seen = map(str, range(gpus)) if "@{quoted_ids}" in words["compose_gpus"] else ids
        return {**own, "ids": ",".join(seen), "compose_gpus": filled(words["compose_gpus"], own)}

    def written(
        self, what: StartedKind, spread: MachineShare, place: "MachinePlace", words: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the files that start something, by name, their places filled."""
        provider = place.rent.provider if place.rent else None
        return {
            form.file: filled(form.text, words).rstrip() + "\n"
            for form in self.forms
            if what in form.starts and spread in form.spreads and form.provider in (None, provider)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePlace:
    """What a plan puts on machines: units of so many GPUs each, and how many of a machine's GPUs are used.

    `rent` is the offer of the machines; None where no price is known.
    """

    name: str
    gpu: str
    vendor: str
    gpus: int
    machines: int
    machine_gpus: int
    rent: Price | None


def file_lines(files: Mapping[str, str]) -> str:
    """Return lines of a shell that write files, by name."""
    escaped = [(name, shlex.quote(text.replace("\n", r"\n"))) for name, text in files.items()]
    return "\n".join(f"printf '%b' {text} > {name}" for name, text in escaped)


_PLACE = re.compile(r"(?m)^(?P<indent> *)@\{(?P<block>\w+)\}(?:\n|\Z)|@\{(?P<word>\w+)\}")


def filled(text: str, words: Mapping[str, str]) -> str:
    """Return a text with its places filled; one that has a line of its own is indented, and leaves no empty line."""

    def put(found: re.Match[str]) -> str:
        if found["word"]:
            return words[found["word"]]
        block = words[found["block"]].rstrip("\n")
        return textwrap.indent(block, found["indent"]) + "\n" if block else ""

    return _PLACE.sub(put, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """A word for the value of another word: the one of `values`, else `other`."""

    by: str
    values: Mapping[str, str]
    other: str = ""


def form_words(given: Mapping[str, object], renamings: Mapping[str, Renaming]) -> dict[str, str]:
    """Return the words of a form as text, with those that follow from others; what does not hold is empty."""
    given = {name: "" if value is None or value is False else value for name, value in given.items()}
    words = {name: "true" if value is True else str(value) for name, value in given.items()}
    for name, renaming in renamings.items():
        words[name] = filled(renaming.values.get(words[renaming.by], renaming.other), words).rstrip("\n")
    return words


def form_lines(form: str, words: Mapping[str, str]) -> list[str]:
    """Return the lines of a form whose conditions hold, filled."""
    lines = []
    for line in form.splitlines():
        text, holds = line, True
        while holds and text.startswith(("?", "!")):
            condition, _, text = text.partition(" ")
            holds = bool(words[condition[1:]]) is (condition[0] == "?")
        lines += filled(text, words).splitlines() if holds else []
    return lines


def _one_region(region: str) -> str:
    """Return a region that a provider's programs take; nothing where an offer names several, or a place in words."""
    return region if re.fullmatch(r"[a-z0-9-]+", region) else ""


def label(words: str) -> str:
    """Return words as a name that Kubernetes accepts: small letters, digits and dashes, at most 63."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:63].strip("-") or "model"
