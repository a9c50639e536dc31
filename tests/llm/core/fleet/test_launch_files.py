"""Launch files: valid by the published schemas of their platforms, and scripts that start what the plan says.

`schemas/` holds those of Compose, KServe, LeaderWorkerSet and SkyPilot; each names its source and licence.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from capplan.core.engine_names import Engine
from capplan.llm.core.fleet.launch_files import launch_files
from capplan.llm.core.sharding import Sharding
from capplan.specs.shipped import LAUNCH_FORMS
from tests.llm.core.fleet.fits import fit, rented
from tests.llm.core.fleet.test_launch import made
from tests.seen import at_least

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("schemas").glob("*.json")}
CONTAINERS = SCHEMAS["inferenceservice"]["properties"]["spec"]["properties"]["predictor"]["properties"]["containers"]
HALF_A_BOARD, SPANNING = Sharding(tensor=4), Sharding(tensor=8, pipeline=2)


def files(
    engine: Engine = Engine.VLLM, *, sharding: Sharding = HALF_A_BOARD, machine: int = 4, provider: str = "aws",
    instance: str = "p5.48xlarge", region: str = "us-east-1", vendor: str = "NVIDIA", gpu: str = "h100-sxm5-80gb",
) -> dict[str, str]:  # fmt: skip
    """Return the files of four replicas in machines of so many GPUs."""
    offer = rented(2.0, gpus=machine, joined=machine, networked=True)
    rent = replace(offer, provider=provider, instance=instance, region=region)
    servers = max(1, sharding.gpus // machine)
    planned = fit(engine=engine.value, sharding=sharding, rent=rent, vendor=vendor, gpu=gpu)
    launched = made(engine, sharding=sharding, servers=servers)
    return launch_files(planned, launched, model="some", forms=LAUNCH_FORMS.load())


CASES: Mapping[str, Mapping[str, Any]] = {
    "one replica a machine": {},
    "two replicas a machine": {"machine": 8},
    "a replica over two machines": {"sharding": SPANNING, "machine": 8},
    "AMD": {"vendor": "AMD", "machine": 8, "gpu": "mi300x"},
    "a provider that SkyPilot does not know": {"provider": "one", "gpu": "l40s"},
    "a place in words": {"region": "US East (N. Virginia)"},
}


def _cases() -> Iterator[tuple[str, Engine]]:
    return ((case, engine) for case in CASES for engine in Engine if engine is not Engine.LLAMACPP or case[0] != "a")


@pytest.mark.parametrize(("case", "engine"), list(_cases()))
def test_files_are_valid_by_their_published_schemas(case: str, engine: Engine) -> None:
    made_of = files(engine, **CASES[case])
    if CASES[case].get("sharding") is SPANNING and engine is Engine.TRTLLM:
        assert not made_of  # ranks under MPI need one another's SSH keys
        return
    assert len(made_of) >= 4
    manifests = (made_of["kubernetes.yaml"], made_of.get("kserve.yaml", ""))
    documents = [document for text in manifests for document in yaml.safe_load_all(text)]
    for document in documents:
        if document["kind"] in ("LeaderWorkerSet", "InferenceService"):
            jsonschema.Draft7Validator(SCHEMAS[document["kind"].lower()]).validate(document)
    for pod in at_least(1, list(_pods(documents))):
        jsonschema.Draft7Validator(CONTAINERS).validate(pod["containers"])
    jsonschema.Draft7Validator(SCHEMAS["compose"]).validate(yaml.safe_load(made_of["compose.yaml"]))
    task = yaml.safe_load(made_of["skypilot.yaml"])
    jsonschema.Draft7Validator(SCHEMAS["skypilot"]["task"]).validate(task)
    jsonschema.Draft7Validator(SCHEMAS["skypilot"]["resources"]).validate(task["resources"])
    jsonschema.Draft7Validator(SCHEMAS["skypilot"]["service"]).validate(task.get("service", {}))
    for script in (made_of["slurm.sbatch"], task["run"]):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def _pods(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        if "containers" in found:
            yield found
        for part in found.values():
            yield from _pods(part)
    for part in found if isinstance(found, list) else ():
        yield from _pods(part)


def test_machines_are_those_of_the_offer() -> None:
    task = yaml.safe_load(files(machine=8)["skypilot.yaml"])
    assert task["resources"]["infra"] == "aws/us-east-1"
    assert task["resources"]["instance_type"] == "p5.48xlarge"
    assert task["num_nodes"] == 2  # four replicas of four GPUs in machines of eight
    unknown = yaml.safe_load(files(provider="one", gpu="l40s")["skypilot.yaml"])
    assert unknown["resources"]["accelerators"] == {"L40S": 4}
    assert "infra: aws  #" in files(region="US East (N. Virginia)")["skypilot.yaml"]


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("aws", "instance_type"), ("gcp", "machine_type"), ("azure", "size")],
)
def test_terraform_variables_are_read_by_its_parser(provider: str, variable: str) -> None:
    made_of = files(provider=provider, machine=8)
    (name,) = (name for name in made_of if name.endswith(".tfvars"))
    assert name == f"{provider}.tfvars"
    assert f'{variable} = "p5.48xlarge"' in " ".join(made_of[name].split())
    hcl2 = pytest.importorskip("hcl2", reason="needs python-hcl2, which CI does not install")
    assert hcl2.loads(made_of[name])["instance_count"] == 2


@pytest.mark.parametrize("case", [case for case in CASES if "does not know" not in case])
def test_skypilots_own_loader_reads_the_task(case: str, tmp_path: Path) -> None:
    sky = pytest.importorskip("sky", reason="needs skypilot, which CI does not install")
    path = tmp_path / "skypilot.yaml"
    path.write_text(files(**CASES[case])["skypilot.yaml"])
    assert sky.Task.from_yaml(str(path)).num_nodes == yaml.safe_load(path.read_text()).get("num_nodes", 1)


@pytest.mark.parametrize("case", CASES)
def test_manifests_keep_the_schemas_of_kubernetes(case: str) -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate, which CI does not install")
    for document in yaml.safe_load_all(files(**CASES[case])["kubernetes.yaml"]):
        if document["kind"] != "LeaderWorkerSet":
            checker.validate(document, "1.31", strict=True)


def _programs(folder: Path) -> dict[str, str]:
    """Return an environment in which vLLM writes down its words, and Slurm runs a task of each node in turn."""
    written = {
        "vllm": 'echo "vllm $*" >> "$STARTED"',
        "scontrol": "printf 'node0\\nnode1\\n'",
        "srun": 'for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done',
    }
    for name, line in written.items():
        path = folder / name
        path.write_text(f"#!/usr/bin/env bash\n{line}\n")
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STARTED": str(folder / "started")}


def test_slurm_starts_each_server_of_a_replica(tmp_path: Path) -> None:
    script = files(sharding=SPANNING, machine=8)["slurm.sbatch"]
    slurm = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_NODELIST": "node[0-1]"}
    subprocess.run(["bash"], input=script, text=True, check=True, env=_programs(tmp_path) | slurm, cwd=tmp_path)
    started = (tmp_path / "started").read_text().splitlines()
    planned = made(Engine.VLLM, sharding=SPANNING, servers=2).commands
    assert started == [f"{planned[0].replace('HEAD', 'node0')} --port 8003", planned[1].replace("HEAD", "node0")]


def test_replicas_that_share_a_machine_have_their_own_gpus_and_ports(tmp_path: Path) -> None:
    environment = _programs(tmp_path)
    (tmp_path / "vllm").write_text('#!/usr/bin/env bash\necho "$CUDA_VISIBLE_DEVICES ${@: -2}" >> "$STARTED"\n')
    made_of = files(machine=8)
    task = yaml.safe_load(made_of["skypilot.yaml"])
    subprocess.run(["bash"], input=task["run"], text=True, check=True, env=environment, cwd=tmp_path)
    assert sorted((tmp_path / "started").read_text().splitlines()) == ["0,1,2,3 --port 8000", "4,5,6,7 --port 8001"]
    services = yaml.safe_load(made_of["compose.yaml"])["services"]
    devices = [one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in services.values()]
    assert devices == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert [one["ports"] for one in services.values()] == [["8000:8000"], ["8001:8000"]]
