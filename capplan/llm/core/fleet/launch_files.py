"""A planned deployment as the files of platforms that start it, all filled from one description."""

import json
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from capplan.core.gpus.machines import HostArchitecture
from capplan.core.launch_files import LaunchForms, MachinePlace, MachineShare, StartedKind, file_lines, filled
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import Launch


def launch_files(fit: DeploymentFit, launch: Launch, *, model: str, forms: LaunchForms) -> dict[str, str]:
    """Return the files that start a deployment, by name.

    Nothing is written for a replica whose ranks MPI starts on several servers, which need one another's SSH keys.
    """
    if launch.setting.servers > 1 and not launch.other_options:
        return {}
    description = _Description(fit=fit, launch=launch, model=model, forms=forms)
    return forms.written(StartedKind.SERVING, description.spread, description.place, description.words())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Description:
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
    def place(self) -> MachinePlace:
        fit, setting = self.fit, self.launch.setting
        return MachinePlace(
            name=f"{self.model}-{self.launch.engine.value}",
            gpu=fit.gpu,
            vendor=fit.vendor,
            gpus=setting.server_gpus,
            machines=fit.machines or ceil(fit.replicas / self.per_machine) * setting.servers,
            machine_gpus=setting.server_gpus * self.per_machine,
            rent=fit.rent,
        )

    @property
    def spread(self) -> MachineShare:
        if self.launch.setting.servers > 1:
            return MachineShare.SPANNED
        return MachineShare.SHARED if self.per_machine > 1 else MachineShare.WHOLE

    def words(self) -> dict[str, str]:
        fit, launch, servers = self.fit, self.launch, self.launch.setting.servers
        image = self.forms.images[launch.engine.value]
        spans, placed = self.spread is MachineShare.SPANNED, self.forms.place_words(self.place)
        # The lines that start one server of a replica, by the variables PORT, HEAD and RANK.
        first = self._command("HEAD", "RANK", is_first=True, port="$PORT")
        other = self._command("HEAD", "RANK", is_first=False)
        by_rank = ['if [ "$RANK" -eq 0 ]; then', f"  {first}", "else", f"  {other}", "fi"]
        files = file_lines(dict(self.launch.files))
        script = "\n".join(filter(None, [files, *(by_rank if self.spread is MachineShare.SPANNED else [first])]))
        words = {
            **placed,
            "image": image.name,
            "image_note": image.note,
            "whose_gpus": f"of a replica's {fit.sharding.gpus} in each server" if spans else "of one replica",
            "replicas": str(fit.replicas),
            "last_replica": str(fit.replicas - 1),
            "why_replicas": f"{fit.needed} needed for the load, {fit.replicas - fit.needed} spare: {fit.words}",
            "needed": str(fit.needed),
            "servers": str(servers),
            "role": ", role: leader" if spans else "",
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
            "settings_volume": f"- {{name: settings, configMap: {{name: {placed['name']}}}}}" if launch.files else "",
            "script": script,
        }
        words["compose_script"] = words["script"].replace("$", "$$")
        places = [
            words
            | self.forms.container_words(words, number, launch.setting.server_gpus)
            | {"host_port": str(launch.port + number)}
            for number in range(self.per_machine)
        ]
        words |= places[0]
        for part, text in self.forms.parts.items():
            words[part] = filled(text, words) if part != "model_service" else ""
        words["services"] = "\n".join(filled(self.forms.parts["compose_service"], place) for place in places)
        words["config"] = words["config"] if launch.files else ""
        words["start_script"] = "" if spans else words["start_script"]
        return words

    def _command(self, head: str, number: str, *, is_first: bool, port: str = "") -> str:
        """Return the command of a server for a shell whose variables say which server it is, and where the first is."""
        setting = self.launch.setting
        place = {
            "head": f"${head}",
            "number": "0" if is_first else f"${number}",
            "first_rank": f"$(({number} * {setting.sharding.data // setting.servers}))",
            "further": "" if is_first else "true",
        }
        options = (*self.launch.shared_options, *self.launch.place_options(place))
        words = [*self.launch.program]
        for option in options:
            words += option.words if option.option != "--port" or not port else ()
        words += ["--port", port] if port else []
        return "exec " + " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)

    def _arguments(self) -> Iterator[str]:
        """Yield the arguments of a replica's first server for a container, each option with its reason."""
        first = {"head": "$(LWS_LEADER_ADDRESS)", "number": "0", "first_rank": "0", "further": ""}
        for option in (*self.launch.shared_options, *self.launch.place_options(first)):
            for index, word in enumerate(option.words):
                named = "/etc/serving/extra.yaml" if word == "extra.yaml" else word
                yield f"- {json.dumps(named)}" + (f"  # {option.why}" if index == 0 else "")
