"""Files that start a training run, or copies of any model: by their platforms' schemas, and as they run."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.conftest import Run
from tests.seen import at_least

SCHEMAS = Path(__file__).parents[1] / "llm" / "core" / "fleet" / "schemas"
TRAINED = ["llm", "train", "plan", "llama-3.1-8b-instruct", "--tokens", "1G"]


def valid(name: str, value: Any, part: str | None = None) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft7Validator(schema[part] if part else schema).validate(value)


def written(run: Run, folder: Path, *words: object) -> dict[str, str]:
    """Return the files that a plan writes, after a look at those that every plan has."""
    result = run(*words, "--launch-files", folder)
    assert result.exit_code == 0, result.stderr
    files = {path.name: path.read_text() for path in at_least(2, list(folder.iterdir()))}
    task = yaml.safe_load(files["skypilot.yaml"])
    valid("skypilot", task, "task")
    valid("skypilot", task["resources"], "resources")
    valid("skypilot", task.get("service", {}), "service")
    scripts = [task["run"], *(files[name] for name in ("slurm.sbatch", "train.sh") if name in files)]
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    for document in yaml.safe_load_all(files["kubernetes.yaml"]):
        assert document["metadata"]["name"] == task["name"]
    return files


def programs(folder: Path, *names: str) -> dict[str, str]:
    """Return an environment in which programs write down their words, and Slurm runs a task of each node in turn."""
    lines = {name: f'echo "$NODE_RANK {name} $*" >> "$STARTED"' for name in names}
    lines["scontrol"] = "printf 'node0\\nnode1\\n'"
    lines["srun"] = 'for SLURM_NODEID in $(seq 0 $((NODES - 1))); do export SLURM_NODEID; "$@"; done'
    for name, line in lines.items():
        path = folder / name
        path.write_text(f"#!/usr/bin/env bash\n{line}\n")
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STARTED": str(folder / "started")}


def test_a_run_over_two_servers_meets_at_the_first(run: Run, tmp_path: Path) -> None:
    files = written(run, tmp_path / "plan", *TRAINED, "--gpu", "h100-sxm5-80gb", "--gpus", 16)
    started = programs(tmp_path, "torchrun") | {"SLURM_JOB_NODELIST": "node[0-1]", "NODES": "2"}
    subprocess.run(["bash"], input=files["slurm.sbatch"], text=True, check=True, env=started, cwd=tmp_path)
    ranks = (tmp_path / "started").read_text().splitlines()
    assert [line[:10] for line in ranks] == ["0 torchrun", "1 torchrun"]
    assert all("--nnodes 2 --nproc-per-node 8" in line and "node0:29500" in line for line in ranks)
    job = list(yaml.safe_load_all(files["kubernetes.yaml"]))[1]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    # an indexed Job names its pods JOB-INDEX, which a Service of the same subdomain resolves
    name = job["metadata"]["name"]
    assert f"MASTER_ADDR={name}-0.{name}" in container["args"][0]
    assert job["spec"]["template"]["spec"]["subdomain"] == name
    assert yaml.safe_load(files["skypilot.yaml"])["num_nodes"] == 2


@pytest.mark.parametrize(
    ("framework", "program"),
    [("hf-trainer", "accelerate"), ("axolotl", "axolotl"), ("trl", "trl"), ("llama-factory", "llamafactory-cli")],
)
def test_a_framework_finds_its_file_where_the_script_wrote_it(
    run: Run, tmp_path: Path, framework: str, program: str
) -> None:
    words = [*TRAINED, "--method", "lora", "--gpu", "l40s", "--gpus", 4, "--framework", framework]
    files = written(run, tmp_path / "plan", *words)
    env = programs(tmp_path, program) | {"NODE_RANK": "0"}
    subprocess.run(["bash"], input=files["train.sh"], text=True, check=True, env=env, cwd=tmp_path)
    started = (tmp_path / "started").read_text()
    assert "train.yaml" in started
    config = yaml.safe_load((tmp_path / "train.yaml").read_text())
    assert config.get("num_processes", 4) == 4
    assert ("--use_peft" in started) is (framework == "hf-trainer")  # the others read all of it in the file


def test_copies_of_a_model_have_gpus_of_their_own(run: Run, tmp_path: Path) -> None:
    words = ["plan", "resnet50", "--rate", "20000", "--gpu", "l40s"]
    files = written(run, tmp_path / "plan", *words)
    plan = json.loads(run(*words, "--json").stdout)
    fit = next(fit for fit in plan["fits"] if fit["gpu"] == "l40s")
    deployment, service = yaml.safe_load_all(files["kubernetes.yaml"])
    assert deployment["spec"]["replicas"] == fit["gpus_for_rate"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    compose = yaml.safe_load(files["compose.yaml"])
    valid("compose", compose)
    taken = [
        device for copy in compose["services"].values()
        for device in copy["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
    ]  # fmt: skip
    assert sorted(taken) == sorted(set(taken))
    # a container that Docker gives one GPU by its number counts it as its first
    assert {copy["environment"]["CUDA_VISIBLE_DEVICES"] for copy in compose["services"].values()} == {"0"}


def test_samples_are_shared_among_the_tasks_of_a_job(run: Run, tmp_path: Path) -> None:
    files = written(run, tmp_path / "plan", "plan", "resnet50", "--samples", "1M", "--gpu", "l4")
    job = yaml.safe_load(files["kubernetes.yaml"])
    assert job["kind"] == "Job"
    values = {each["name"]: each["value"] for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert values["SAMPLES"] == "1000000"
    assert values["SHARES"] == str(job["spec"]["completions"])
    assert "compose.yaml" not in files


def test_files_of_several_models_are_named_by_them(run: Run, tmp_path: Path) -> None:
    result = run("plan", "resnet50", "resnet18", "--gpu", "l4", "--launch-files", tmp_path / "plan")
    assert result.exit_code == 0, result.stderr
    names = {path.name for path in (tmp_path / "plan").iterdir()}
    assert {"resnet50-kubernetes.yaml", "resnet18-kubernetes.yaml"} <= names
