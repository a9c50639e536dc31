"""Sweeps on a Ray cluster of several node processes of this machine: the same rows, whatever dies."""

import gc
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capplan.app.sweep.cluster import check_nodes, cluster_places, difference
from capplan.app.sweep.isolation import MeasureTask
from capplan.app.sweep.keys import code_digest
from capplan.app.sweep.request import MeasuringRules, SweepRequest
from capplan.app.sweep.results import read_sweep
from capplan.app.sweep.run import sweep
from capplan.app.trace_cache import library_versions
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.version import __version__
from tests.app.sweep.conftest import make_request
from tests.app.sweep.test_isolation import catalogue, children, sorted_rows
from tests.app.sweep.test_measuring import Points, here
from tests.app.sweep.test_run import Seen

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    # Ray leaves sockets and processes to the garbage collector, and warns of its own future releases.
    pytest.mark.filterwarnings("ignore"),
]
__all__ = ["catalogue", "here"]
_STORE_BYTES = 80 * 2**20
_LONGEST_START_S = 300.0


def patiently(start: Callable[[], Any]) -> Any:
    """Start a node; Ray waits for 30 seconds, which a machine that is busy with other things may exceed."""
    for attempt in range(4):
        try:
            return start()
        except Exception as error:  # Ray raises no narrower one
            if attempt == 3 or "timed out during startup" not in str(error):
                raise
    raise AssertionError


def add_node(cluster: Any, **options: Any) -> Any:
    """Add a node of one core to the cluster."""
    node = patiently(lambda: cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES, **options))
    cluster.wait_for_nodes(timeout=_LONGEST_START_S)
    return node


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a head and two worker nodes, one core each."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    made = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    for _ in range(2):
        add_node(made)
    made.wait_for_nodes(timeout=_LONGEST_START_S)
    yield made
    made.shutdown()
    del made
    gc.collect()  # while this module's filter of warnings holds


def on(cluster: Any, output: Path, models: object, **changes: object) -> SweepRequest:
    return make_request(output, models, ray=cluster.address, **changes)


@pytest.mark.nightly
def test_rows_equal_those_of_one_machine(cluster: Any, catalogue: Path, traces: Path, tmp_path: Path) -> None:
    models = [str(catalogue), {"model": f"{traces / 'nets.py'}:Wide", "input": ["8"]}]
    workloads = [{"batch": [1, 32], "precision": ["fp32", "fp16"]}]
    sweep(on(cluster, tmp_path / "ray", models, workloads=workloads))
    sweep(make_request(tmp_path / "local", models, workloads=workloads, workers=2))
    rows = sorted_rows(tmp_path / "ray")
    assert rows.equals(sorted_rows(tmp_path / "local"))
    assert len(rows) == 13 * 2 * 2 * 2
    assert set(rows[rows.model.str.contains("nets.py")].status) == {"fits"}


@pytest.mark.nightly
def test_a_node_that_is_lost_and_workers_that_are_killed_lose_nothing(
    cluster: Any, catalogue: Path, tmp_path: Path
) -> None:
    extra = add_node(cluster)
    moved = []

    def disturb() -> None:
        moved.append(1)
        if len(moved) == 2:
            cluster.remove_node(extra, allow_graceful=False)
        if len(moved) in (3, 5):
            for pid in ray_workers()[:1]:
                os.kill(pid, signal.SIGKILL)

    sweep(on(cluster, tmp_path / "ray", [str(catalogue)]), watcher=Seen(on_moved=disturb))
    sweep(make_request(tmp_path / "local", [str(catalogue)]))
    assert sorted_rows(tmp_path / "ray").equals(sorted_rows(tmp_path / "local"))


def ray_workers() -> list[int]:
    """Return the processes of this machine's Ray workers that run tasks of this test's clusters."""
    found = []
    for raylet in descendants(os.getpid()):
        try:
            title = Path(f"/proc/{raylet}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith((b"ray::remote_", b"ray::IDLE")):  # ray::DashboardAgent ends its whole node
            found.append(raylet)
    return found


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(each for child in found for each in descendants(child))]


@pytest.mark.nightly
def test_a_killed_driver_is_followed_by_one_that_goes_on(cluster: Any, catalogue: Path, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(f"models: [{catalogue}]\ngpus: [l4, t4]\nworkloads: [{{batch: [1, 32]}}]\n")
    words = [sys.executable, "-m", "capplan", "sweep", str(file), "-o", str(tmp_path / "out"), "--ray", cluster.address]
    driver = subprocess.Popen([*words, "--progress", "json"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert driver.stderr is not None
    lines = iter(driver.stderr.readline, b"")
    heard = list(itertools.takewhile(lambda line: b'"event": "progress"' not in line, lines))
    assert not any(line.startswith(b"capplan:") for line in heard), b"".join(heard)  # a refusal ends the lines, too
    driver.kill()
    driver.wait()
    driver.stderr.close()
    done = sweep(on(cluster, tmp_path / "out", [str(catalogue)], file=file))
    assert done.standing.kept >= 1
    sweep(make_request(tmp_path / "local", [str(catalogue)]))
    assert sorted_rows(tmp_path / "out").equals(sorted_rows(tmp_path / "local"))


class _FakeRay:
    """A Ray that lists nodes of which some are gone, and whose tasks end as given."""

    def __init__(self, ends: Mapping[str, object]) -> None:
        self.ends, self.exceptions = ends, pytest.importorskip("ray").exceptions

    def nodes(self) -> list[dict[str, object]]:
        return [{"NodeID": each, "NodeManagerAddress": "10.0.0.1", "Alive": True} for each in self.ends]

    def remote(self, **_: object) -> Any:
        return lambda _function: self

    def options(self, *, scheduling_strategy: Any) -> Any:
        return SimpleNamespace(remote=lambda: scheduling_strategy.node_id)

    def wait(self, references: list[str], **_: object) -> tuple[list[str], list[str]]:
        return references, []

    def get(self, reference: str) -> object:
        end = self.ends[reference]
        if isinstance(end, Exception):
            raise end
        return end


def _gone() -> Exception:
    ray = pytest.importorskip("ray")
    error: Exception = ray.exceptions.TaskUnschedulableError("The node no longer exists.")
    return error


def test_a_node_that_was_just_lost_does_not_refuse_the_others() -> None:
    same = {"capplan": __version__, "code": code_digest(), "libraries": library_versions()}
    check_nodes(_FakeRay({"a" * 56: same, "b" * 56: _gone()}))


def test_a_cluster_of_which_no_node_is_left_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="no node of the Ray cluster is left"):
        check_nodes(_FakeRay({"b" * 56: _gone()}))


def test_nodes_with_another_version_are_told_one_by_one(
    cluster: Any, catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capplan.app.sweep.cluster.__version__", "99.0")
    with pytest.raises(UsageError, match=rf"3 of the cluster's nodes .*holds capplan {__version__}, this machine 99"):
        sweep(on(cluster, tmp_path / "out", [str(catalogue)]))


@pytest.fixture
def strange_nodes(cluster: Any, tmp_path: Path) -> Iterator[None]:
    """Add a node that holds another version of capplan, and one that lacks it."""
    programs = {
        "other": "import sys, types\nsys.modules['capplan'] = types.ModuleType('capplan')\n"
        "sys.modules['capplan'].__version__ = '0.0.9'\n",
        "none": "import sys\nsys.modules['capplan'] = None\n",
    }
    nodes = []
    for name, program in programs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(program)
        nodes.append(add_node(cluster, env_vars={"PYTHONPATH": str(tmp_path / name)}))
    yield
    for node in nodes:
        cluster.remove_node(node)


@pytest.mark.usefixtures("strange_nodes")
def test_each_node_that_lacks_the_package_or_holds_another_version_is_named(
    cluster: Any, catalogue: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        sweep(on(cluster, tmp_path / "out", [str(catalogue)]))
    told = str(refused.value)
    assert told.startswith("2 of the cluster's nodes cannot take part: node ")
    assert f"holds capplan 0.0.9, this machine {__version__}" in told
    assert "capplan is not installed" in told
    assert told.count("node 1") == 2
    assert not list((tmp_path / "out").glob("workload=*")), "nothing has started"


@pytest.mark.nightly
def test_points_are_timed_on_nodes_that_have_the_gpu_one_at_a_time(
    cluster: Any, traces: Path, here: Path, tmp_path: Path
) -> None:
    """A node with a GPU in Ray's books; the device behind it is this machine's processor, under an own spec."""
    extra = add_node(cluster, num_gpus=1)
    request = on(
        cluster,
        tmp_path / "out",
        [{"model": f"{traces / 'nets.py'}:Narrow", "input": ["8"]}],
        gpus=["this-machine", "t4"],
        workloads=[{"batch": [1, 4]}],
        specs=(here,),
        measure=True,
        measuring=MeasuringRules(budget_s=0.1),
    )
    seen = Points()
    done = sweep(request, watcher=seen)
    cluster.remove_node(extra)
    assert sorted(seen.points) == [("this-machine", 1), ("this-machine", 4)]
    assert done.measured == 2
    frame = read_sweep(tmp_path / "out").to_pandas()
    timed = frame[frame.measured_latency_s.notna()]
    assert sorted(zip(timed.gpu, timed.batch, strict=True)) == [("this-machine", 1), ("this-machine", 4)]
    assert (timed.latency_s > 0).all(), "theory stands beside the measurement"


class _TimingRay:
    """A Ray that remembers what each task was to have, and answers at once."""

    def __init__(self) -> None:
        self.exceptions = pytest.importorskip("ray").exceptions
        self.options: list[dict[str, Any]] = []
        self.tasks: list[MeasureTask] = []
        self.has_left = False

    def nodes(self) -> list[dict[str, Any]]:
        held = [("a", {"CPU": 8.0, "GPU": 2.0}), ("b", {"CPU": 8.0}), ("c", {"CPU": 8.0, "GPU": 1.0})]
        return [
            {"NodeID": name * 56, "NodeManagerAddress": f"10.0.0.{name}", "Alive": True, "Resources": resources}
            for name, resources in held
        ]

    def remote(self, **options: Any) -> Any:
        self.options.append(options)
        node = options["scheduling_strategy"].node_id[0]

        def submit(*tasks: MeasureTask) -> Any:
            self.tasks += tasks
            return "line" if tasks else f"devices of {node}"

        return lambda _function: SimpleNamespace(remote=submit)

    def shutdown(self) -> None:
        self.has_left = True

    def wait(self, references: list[str], **_: object) -> tuple[list[str], list[str]]:
        return [each for each in references if not each.endswith("c")], ["devices of c"]

    def get(self, reference: str) -> object:
        assert not self.has_left
        held = {"devices of a": {"cuda:0": "NVIDIA L4", "cuda:1": "NVIDIA L4"}, "devices of b": {"cpu": "Some CPU"}}
        return held.get(reference, reference)


def test_each_gpu_of_a_node_is_a_place_whose_points_take_a_whole_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = _TimingRay()
    monkeypatch.setattr("capplan.app.sweep.cluster.connect", lambda _address: ray)
    places, devices = cluster_places("auto", load_gpus(), ["l4", "t4"])
    assert [(place.gpu, place.device) for place in places] == [("l4", "cuda:0"), ("l4", "cuda:0")]
    assert [each["num_gpus"] for each in ray.options] == [2, 1, 1, 1]  # two nodes list their devices, then points run
    assert {each["scheduling_strategy"].node_id[0] for each in ray.options[2:]} == {"a"}
    assert devices["node 10.0.0.c (cccccccc)"] == "its GPUs are taken"
    assert not ray.has_left
    places[0].close()
    assert ray.has_left


def test_what_a_node_holds_is_compared_with_this_machine() -> None:
    same = {"capplan": __version__, "code": code_digest(), "libraries": library_versions()}
    assert difference(same) == ""
    assert difference({"capplan": None}) == "capplan is not installed"
    assert "other code of capplan" in difference({**same, "code": "x"})
    other = {**library_versions(), "torch": "1.0"}
    assert "torch 1.0, here" in difference({**same, "libraries": other})


def test_no_cluster_at_the_address_is_an_error(catalogue: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Ray cluster answers there"):
        sweep(make_request(tmp_path / "out", [str(catalogue)], ray="127.0.0.1:1"))
