"""The JSON Schema that editors check with, against the files themselves."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from capplan.specs.folders import built_in_folder
from capplan.specs.gpus.template import gpu_schema


class TextDates(yaml.SafeLoader):
    """Reads dates as text, as editors do."""


TextDates.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(path: Path) -> Any:
    return yaml.load(path.read_text(), Loader=TextDates)


def test_the_schema_printed_beside_the_files_is_the_current_one() -> None:
    assert json.loads((built_in_folder() / "schema.json").read_text()) == gpu_schema()


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(gpu_schema())


def test_every_built_in_file_meets_it() -> None:
    validator = jsonschema.Draft202012Validator(gpu_schema())
    files = sorted(built_in_folder().glob("*.yaml"))
    assert files
    for path in files:
        assert not list(validator.iter_errors(read(path))), path.name


@pytest.mark.parametrize(
    ("old", "new"),
    [("memory:", "memori:"), ("unit: GiB", "unit: GB"), ("kind: example", "kind: guess"), (", source: made-up", "")],
)
def test_it_refuses_what_the_loader_refuses(tmp_path: Path, old: str, new: str) -> None:
    card = (Path(__file__).parents[1] / "example-10.yaml").read_text()
    validator = jsonschema.Draft202012Validator(gpu_schema())
    assert validator.is_valid(yaml.load(card, Loader=TextDates))
    assert not validator.is_valid(yaml.load(card.replace(old, new, 1), Loader=TextDates))
