"""A deployment as a Kubernetes manifest: replicas, GPUs, probes, a service, and a budget for disruptions."""

import json
import re

from capplan.core.engine_names import Engine
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import Launch

_IMAGES = {
    Engine.VLLM: ("vllm/vllm-openai:latest", "pin the version that the plan was made for"),
    Engine.SGLANG: ("lmsysorg/sglang:latest", "pin the version that the plan was made for"),
    Engine.TRTLLM: ("tensorrt-llm:release", "the release image of NVIDIA's catalogue, in your registry"),
    Engine.LLAMACPP: ("llama.cpp:server-cuda", "the project's server image, in your registry"),
}
_RESOURCES = {"AMD": "amd.com/gpu", "Intel": "gpu.intel.com/i915"}
_START_TRIES = 180


def kubernetes_manifest(fit: DeploymentFit, launch: Launch, *, model: str, vendor: str) -> str:
    """Return the manifest of all replicas of a deployment as YAML, each line that was planned explained."""
    name = _label(f"{model}-{launch.engine.value}")
    config, mount, volume = _files(launch, name)
    resource = _RESOURCES.get(vendor, "nvidia.com/gpu")
    server = _container(launch, gpus=f"{resource}: {fit.sharding.gpus}  # GPUs of one replica; {fit.gpu}", mount=mount)
    return config + "---\n".join(
        (_deployment(fit, name, containers=server, volume=volume), _service(name), _disruptions(name, fit.needed))
    )


def _deployment(fit: DeploymentFit, name: str, *, containers: str, volume: str) -> str:
    return f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {fit.replicas}  # {fit.needed} needed for the load, {fit.replicas - fit.needed} spare: {fit.words}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
{containers}
      volumes:
        - name: shared-memory  # the processes of a replica exchange tensors through it
          emptyDir: {{medium: Memory}}{volume}
"""


def _container(launch: Launch, *, gpus: str, mount: str) -> str:
    image, pinning = _IMAGES[launch.engine]
    return f"""        - name: server
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


def _service(name: str) -> str:
    return f"""apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports:
    - {{name: http, port: 80, targetPort: http}}
"""


def _disruptions(name: str, needed: int) -> str:
    return f"""apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}
spec:
  minAvailable: {needed}  # maintenance may take what is spare, never what the load needs
  selector:
    matchLabels: {{app: {name}}}
"""


def _arguments(launch: Launch) -> str:
    lines = [
        f"            - {json.dumps(word)}" + (f"  # {option.why}" if index == 0 else "")
        for option in launch.options
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
    mount = "\n            - {name: settings, mountPath: /etc/serving}"
    return config, mount, f"\n        - name: settings\n          configMap: {{name: {name}}}"


def _label(words: str) -> str:
    """Return words as a name that Kubernetes accepts: small letters, digits and dashes, at most 63."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:63].strip("-") or "model"
