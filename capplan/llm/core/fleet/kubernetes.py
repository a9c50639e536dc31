"""A deployment as a Kubernetes manifest: replicas, GPUs, probes, a service, and a budget for disruptions."""

import json
import re
import shlex

from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import HostArchitecture
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import Launch, ServerPlace, place_options

_IMAGES = {
    Engine.VLLM: ("vllm/vllm-openai:latest", "pin the version that the plan was made for"),
    Engine.SGLANG: ("lmsysorg/sglang:latest", "pin the version that the plan was made for"),
    Engine.TRTLLM: ("tensorrt-llm:release", "the release image of NVIDIA's catalogue, in your registry"),
    Engine.LLAMACPP: ("llama.cpp:server-cuda", "the project's server image, in your registry"),
}
_RESOURCES = {"AMD": "amd.com/gpu", "Intel": "gpu.intel.com/i915"}
_START_TRIES = 180


def kubernetes_manifest(fit: DeploymentFit, launch: Launch, *, model: str, vendor: str) -> str | None:
    """Return the manifest of all replicas of a deployment as YAML, each line that was planned explained.

    A replica that is spread over several servers is a group of a LeaderWorkerSet, with a pod in each. None where MPI
    starts the ranks of such a replica, for which pods need one another's SSH keys.
    """
    name, servers = _label(f"{model}-{launch.engine.value}"), launch.setting.servers
    config, mount, volume = _files(launch, name)
    resource = _RESOURCES.get(vendor, "nvidia.com/gpu")
    whose = "of one replica" if servers == 1 else f"of a replica's {fit.sharding.gpus} in each server"
    gpus = f"{resource}: {launch.setting.server_gpus}  # GPUs {whose}; {fit.gpu}"
    if servers == 1:
        server = _pod(launch, _container(launch, gpus=gpus, mount=mount), volume, indent=6)
        return config + "---\n".join(
            (_deployment(fit, name, pod=server), _service(name), _disruptions(name, fit.needed))
        )
    if not launch.other_options:
        return None
    leader, worker = (
        _pod(launch, container, volume, indent=10)
        for container in (_container(launch, gpus=gpus, mount=mount), _worker(launch, gpus=gpus, mount=mount))
    )
    first = ", role: leader"
    parts = (
        _group(fit, name, leader=leader, worker=worker, servers=servers),
        _service(name, role=first),
        _disruptions(name, fit.needed, role=first),
    )
    return config + "---\n".join(parts)


def _count(fit: DeploymentFit) -> str:
    return f"{fit.replicas}  # {fit.needed} needed for the load, {fit.replicas - fit.needed} spare: {fit.words}"


def _pod(launch: Launch, container: str, volume: str, *, indent: int) -> str:
    """Return what a pod holds, so many columns in."""
    chooses = "nodeSelector: {kubernetes.io/arch: arm64}\n" if launch.setting.host is HostArchitecture.ARM else ""
    text = f"""{chooses}containers:
{container}
volumes:
  - name: shared-memory  # the processes of a replica exchange tensors through it
    emptyDir: {{medium: Memory}}{volume}"""
    return "\n".join(" " * indent + line for line in text.splitlines())


def _deployment(fit: DeploymentFit, name: str, *, pod: str) -> str:
    return f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {_count(fit)}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
{pod}
"""


def _group(fit: DeploymentFit, name: str, *, leader: str, worker: str, servers: int) -> str:
    return f"""apiVersion: leaderworkerset.x-k8s.io/v1  # install LeaderWorkerSet 0.6 or newer first
kind: LeaderWorkerSet
metadata:
  name: {name}
spec:
  replicas: {_count(fit)}
  leaderWorkerTemplate:
    size: {servers}  # servers of one replica
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      metadata:
        labels: {{app: {name}, role: leader}}
      spec:
{leader}
    workerTemplate:
      spec:
{worker}
"""


def _container(launch: Launch, *, gpus: str, mount: str) -> str:
    image, pinning = _IMAGES[launch.engine]
    return f"""  - name: server
    image: {image}  # {pinning}
    command: {json.dumps(list(launch.program))}
    args:
{_arguments(launch)}
    ports:
      - {{name: http, containerPort: {launch.port}}}
    resources:
      limits:
        {gpus}
    startupProbe:  # loading weights takes minutes
      httpGet: {{path: /health, port: http}}
      periodSeconds: 10
      failureThreshold: {_START_TRIES}
    readinessProbe:  # requests go to a replica only while it answers
      httpGet: {{path: /health, port: http}}
      periodSeconds: 5
    volumeMounts:
      - {{name: shared-memory, mountPath: /dev/shm}}{mount}"""


_LEADER = "$(LWS_LEADER_ADDRESS)"
"""Kubernetes writes the address of the group's first pod here; LeaderWorkerSet sets it in every pod, as
LWS_WORKER_INDEX from version 0.6 on."""


def _worker(launch: Launch, *, gpus: str, mount: str) -> str:
    """Return the container of a further server of a replica: a shell that fills in which of them it is."""
    setting = launch.setting
    ranks = setting.sharding.data // setting.servers
    place = ServerPlace(
        head="$LWS_LEADER_ADDRESS",
        number="$LWS_WORKER_INDEX",
        first_rank=f"$((LWS_WORKER_INDEX * {ranks}))",
        is_first=False,
    )
    own = [word for option in place_options(setting, place) for word in option.words]
    shared = [word for option in launch.shared_options for word in option.words]
    words = [*launch.program, *shared, *own]
    line = " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)
    image, _ = _IMAGES[launch.engine]
    return f"""  - name: worker
    image: {image}
    command: ["sh", "-c"]
    args: [{json.dumps(f"exec {line}")}]
    resources:
      limits:
        {gpus}
    volumeMounts:
      - {{name: shared-memory, mountPath: /dev/shm}}{mount}"""


def _service(name: str, role: str = "") -> str:
    return f"""apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}{role}}}
  ports:
    - {{name: http, port: 80, targetPort: http}}
"""


def _disruptions(name: str, needed: int, role: str = "") -> str:
    return f"""apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}
spec:
  minAvailable: {needed}  # maintenance may take what is spare, never what the load needs
  selector:
    matchLabels: {{app: {name}{role}}}
"""


def _arguments(launch: Launch) -> str:
    first = ServerPlace(head=_LEADER, number="0", first_rank="0", is_first=True)
    lines = [
        f"      - {json.dumps(word)}" + (f"  # {option.why}" if index == 0 else "")
        for option in (*launch.shared_options, *place_options(launch.setting, first))
        for index, word in enumerate(option.words)
    ]
    return "\n".join(lines).replace('"extra.yaml"', '"/etc/serving/extra.yaml"')


def _files(launch: Launch, name: str) -> tuple[str, str, str]:
    """Return the files of a launch as a config map, its mount and its volume; nothing where there are none."""
    if not launch.files:
        return "", "", ""
    data = "".join(
        f"  {file}: |\n" + "".join(f"    {line}\n" for line in text.splitlines()) for file, text in launch.files
    )
    config = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{data}---\n"
    mount = "\n      - {name: settings, mountPath: /etc/serving}"
    return config, mount, f"\n  - name: settings\n    configMap: {{name: {name}}}"


def _label(words: str) -> str:
    """Return words as a name that Kubernetes accepts: small letters, digits and dashes, at most 63."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:63].strip("-") or "model"
