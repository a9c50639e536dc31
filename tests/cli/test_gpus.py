"""`capplan gpus` as a user meets it."""

import csv
import io
import json
import sys
from datetime import date
from pathlib import Path

import jsonschema
import pytest
import yaml

from capplan.core.gpus.sale import is_announced, sold_since
from capplan.core.gpus.spec import Status
from capplan.specs import load_gpus
from tests.cli.conftest import Run
from tests.snapshot import assert_is_snapshot

CARD = (Path(__file__).parents[1] / "specs" / "example-10.yaml").read_text()


def test_the_list_holds_every_gpu_once(run: Run) -> None:
    result = run("gpus")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:-2]] == list(load_gpus())
    assert lines[-1].startswith(f"{len(load_gpus())} of {len(load_gpus())} GPUs; ")


def test_cpus_are_listed_apart(run: Run) -> None:
    found = run("gpus", "--cpus", "-q").stdout.split()
    assert found == list(load_gpus().cpus)
    assert not set(found) & set(load_gpus())
    text = run("gpus", "--cpus", "--where", "memory >= 1TiB", "--sort", "-bandwidth").stdout
    assert text.splitlines()[2].startswith("xeon-6980p")  # twelve channels at 8.8 or 6.4 GT/s, the most of all
    assert "10 CPUs; " in text.splitlines()[-1]


def test_a_name_that_resembles_a_cpu_is_told_of_their_list(run: Run) -> None:
    result = run("gpus", "show", "epyc-9655")
    assert result.exit_code == 2
    assert "did you mean epyc-9654" in result.stderr
    assert "`capplan gpus --cpus` lists the CPUs" in result.stderr


def test_a_mistyped_gpu_is_not_taken_for_a_cpu_that_resembles_it_less(run: Run) -> None:
    result = run("gpus", "show", "rtx-50900")
    assert "did you mean rtx-5090," in result.stderr
    assert "core-i9" not in result.stderr


def test_filters_sorting_and_columns_whole(run: Run) -> None:
    words = ["--vendor", "nvidia", "--min-memory", "80GiB", "--where", "bf16 >= 300 TFLOP/s and tdp <= 400 W"]
    result = run("gpus", *words, "--sort", "-bf16", "--columns", "id,memory,bf16,tdp,ridge")
    assert_is_snapshot("gpus-filtered.txt", result.stdout)


def test_ids_alone_for_scripts(run: Run) -> None:
    assert run("gpus", "-q", "--arch", "pascal", "--min-memory", "16GiB").stdout.split() == [
        "p100-pcie-16gb",
        "p100-sxm2-16gb",
        "p40",
    ]


def test_json_is_in_base_units_and_tells_unsupported_from_unknown(run: Run) -> None:
    document = json.loads(run("gpus", "--where", "id = t4", "--json").stdout)
    (gpu,) = document["gpus"]
    assert gpu["memory_bytes"] == 16 * 2**30
    assert gpu["peak_fp16_flops_per_s"] == 65e12
    assert gpu["peak_bf16_flops_per_s"] is None  # the architecture has none
    assert "nvlink_bytes_per_s" not in gpu  # nobody tells


def test_json_of_every_gpu_meets_its_schema(run: Run) -> None:
    schema = json.loads(run("schema", "gpus").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(run("gpus", "--json").stdout)
    jsonschema.validate(document, schema)
    assert len(document["gpus"]) == len(load_gpus())


def test_csv_is_in_base_units(run: Run) -> None:
    text = run("gpus", "--where", "id = t4", "--format", "csv", "--columns", "id,memory,bf16,nvlink").stdout
    assert list(csv.reader(io.StringIO(text))) == [
        ["id", "memory_bytes", "peak_bf16_flops_per_s", "nvlink_bytes_per_s"],
        ["t4", "17179869184", "unsupported", ""],
    ]


def test_an_output_file_tells_the_format(run: Run, tmp_path: Path) -> None:
    assert run("gpus", "-o", tmp_path / "gpus.md").exit_code == 0
    assert (tmp_path / "gpus.md").read_text().startswith("| id | arch |")


def test_show_tells_every_value_with_its_source(run: Run) -> None:
    assert_is_snapshot("gpus-show-a10g.txt", run("gpus", "show", "NVIDIA A10G").stdout)


def test_show_as_json_names_sources_and_prices(run: Run) -> None:
    document = json.loads(run("gpus", "show", "h100-sxm5-80gb", "--json").stdout)
    figure = document["figures"]["peak.bf16"]
    assert (figure["as_written"], figure["printed"]) == ("989.4 TFLOP/s", "1979 TFLOP/s with sparsity 2")
    assert {"kind", "title"} <= figure["sources"][0].keys()
    assert all(price["date"] for price in document["prices"])


def test_compare_puts_gpus_side_by_side(run: Run) -> None:
    assert_is_snapshot("gpus-compare.txt", run("gpus", "compare", "a100-sxm4-80gb", "h100-sxm5-80gb", "t4").stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "h101"], "unknown GPU 'h101'; did you mean h100-"),
        (["show", "h100"], "h100 stands for h100-nvl-94gb, h100-pcie-80gb, h100-sxm5-80gb; name one of them."),
        (["--arch", "hoper"], "unknown architecture 'hoper'; did you mean hopper"),
        (["--vendor", "NVidea"], "unknown vendor 'NVidea'; did you mean NVIDIA"),
        (["--sort", "speed"], "unknown column 'speed'"),
        (["--columns", "id,bf17"], "unknown column 'bf17'; did you mean bf16"),
        (["--where", "bf16 > 3"], "--where bf16: '3' is not a quantity"),
        (["--min-memory", "24"], "--min-memory: '24' is not a quantity"),
        (["--specs", "nowhere"], "nowhere: is neither a folder of specs nor a .yaml file"),
        (["validate", "nowhere.yaml"], "nowhere.yaml: is neither"),
    ],
)
def test_bad_words_are_answered_in_one_sentence(run: Run, words: list[str], message: str) -> None:
    result = run("gpus", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_bad_own_file_stops_every_command(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "example-10.yaml"
    path.write_text(CARD.replace("value: 1500", "value: 1e12"))
    for words in (["gpus"], ["gpus", "show", "t4"], ["gpus", "compare", "t4", "l4"]):
        result = run(*words, "--specs", tmp_path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"capplan: {path}: boost_clock.value: {PLAIN_NUMBER}\n"
    assert run("gpus", "validate", path).exit_code == 2


PLAIN_NUMBER = "1e12 is not a plain number; write it like 12, 0.5 or 1.0e+12, or quote it if it is text"


def test_own_specs_are_shown_with_their_origin(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "example-10.yaml"
    path.write_text(CARD)
    shown = run("gpus", "show", "example-10", "--specs", path).stdout
    assert str(path) in shown
    assert run("gpus", "-q", "--where", f"origin = {path}", "--specs", path).stdout == "example-10\n"


def test_validate_the_built_in_specs(run: Run) -> None:
    result = run("gpus", "validate")
    assert result.exit_code == 0
    assert "nothing to mend" in result.stdout


def test_a_new_file_loads_and_validates(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert run("gpus", "new", "--from", "rtx-3090", "-o", path).exit_code == 0
    assert run("gpus", "validate", path).exit_code == 0
    assert run("gpus", "-q", "--where", "name = 'NVIDIA GeForce RTX 3090 (mine)'", "--specs", path).stdout == "mine\n"


def test_the_schema_checks_a_file(run: Run) -> None:
    schema = json.loads(run("gpus", "schema").stdout)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(CARD.replace("unit: GiB", "unit: GB")), schema)


def test_path_names_the_folders_lowest_first(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_SPECS", str(tmp_path))
    folders = run("gpus", "path").stdout.splitlines()
    assert Path(folders[0]).name == "gpu_specs"
    assert folders[1:] == [str(tmp_path)]


def test_a_machine_without_gpus_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = run("gpus", "detect")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no GPU found (NVML: nvidia-ml-py is not installed; torch: no CUDA or ROCm device)" in result.stderr


def test_a_csv_of_one_gpu_has_every_value_with_its_sources(run: Run) -> None:
    rows = {row["key"]: row for row in csv.DictReader(io.StringIO(run("gpus", "show", "l4", "--format", "csv").stdout))}
    assert rows["bandwidth"]["value"] == "300 GB/s"  # as NVIDIA prints of the L4
    assert "AIConfigurator" in rows["bandwidth"]["sources"]


def test_ids_are_plain_text_only(run: Run) -> None:
    result = run("gpus", "--ids", "--format", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave out --ids or the format json" in result.stderr


def test_announced_gpus_are_listed_alone(run: Run) -> None:
    listed = json.loads(run("gpus", "--announced", "--json").stdout)["gpus"]
    assert {gpu["id"] for gpu in listed} == {gpu.id for gpu in load_gpus().values() if is_announced(gpu)}
    assert {gpu["status"] for gpu in listed} == {Status.ANNOUNCED.value}


def test_new_gpus_are_listed_by_their_day(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1747699200")  # 2025-05-20, the day after the RTX 5060's release
    listed = run("gpus", "--new", "1", "--ids").stdout.split()
    assert "rtx-5060" in listed
    assert "rtx-5050" not in listed
    gpus = load_gpus()
    days = {sold_since(gpus[gpu]) for gpu in listed}
    assert days <= {date(2025, 5, 19), date(2025, 5, 20)}
