"""Whatever a spec file holds, it is read or refused with its name; nothing else happens."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import SpecError
from capplan.specs import load_gpus
from capplan.specs.gpus.sheets import read_architecture_sheet, read_gpu_sheet
from capplan.specs.prices import read_prices
from capplan.specs.strict_yaml import read_yaml

pytestmark = pytest.mark.slow

CARD = (Path(__file__).parent / "example-10.yaml").read_text()
ARCHITECTURE = """\
name: Mine
vendor: Me
unit: core
compute_capability: {value: "9.0", source: m}
operations_per_clock: {fp16: {value: 1024, source: m}, fp32: null}
sources: {m: {kind: example, title: mine}}
"""
PRICES = """\
provider: aws
currency: USD
date: "2026-11-01"
source: {kind: example, title: our contract}
hourly: [{gpu: t4, instance: big, gpus: 8, pricing: spot, region: there, per_hour: 4}]
purchase: [{gpu: t4, date: "2026-10-01", offer: quote, price: 9000}]
"""

GPUS = load_gpus()

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@contextmanager
def file_of(content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "example-10.yaml"
        path.write_bytes(content)
        yield path


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield from places(tree[key], (*path, key))


@st.composite
def spoilt(draw: st.DrawFn, text: str) -> bytes:
    """A good file with one thing in it replaced by anything; JSON is YAML."""
    tree = {"root": yaml.safe_load(text)}
    *way, last = draw(st.sampled_from([path for path in places(tree) if path]))
    holder: Any = tree
    for key in way:
        holder = holder[key]
    holder[last] = draw(anything)
    return json.dumps(tree["root"]).encode()


def refusal(read: Callable[[Path], object], content: bytes) -> str | None:
    """What is said against a file's content; None where it is read. Any other error fails the test."""
    with file_of(content) as path:
        try:
            read(path)
        except SpecError as error:
            return str(error)
    return None


def assert_read_or_refused_by_name(read: Callable[[Path], object], content: bytes, name: str = "the file") -> None:
    said = refusal(read, content)
    assert said is None or name in said


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_bytes(content: bytes) -> None:
    assert_read_or_refused_by_name(partial(read_yaml, shown="the file"), content)


@given(content=spoilt(CARD))
@settings(max_examples=300)
def test_a_spoilt_card(content: bytes) -> None:
    assert_read_or_refused_by_name(partial(read_gpu_sheet, shown="the file", origin="own"), content)


@given(content=spoilt(CARD))
@settings(max_examples=40)
def test_a_spoilt_card_over_the_built_in_ones(content: bytes) -> None:
    assert_read_or_refused_by_name(lambda path: load_gpus(overlays=[path]), content, "example-10.yaml")


@given(content=spoilt(ARCHITECTURE))
def test_a_spoilt_architecture(content: bytes) -> None:
    assert_read_or_refused_by_name(partial(read_architecture_sheet, shown="the file", origin="own"), content)


@given(content=spoilt(PRICES))
def test_a_spoilt_price_file(content: bytes) -> None:
    dated = content.replace(b'"2026-11-01"', b"2026-11-01").replace(b'"2026-10-01"', b"2026-10-01")
    assert_read_or_refused_by_name(lambda path: read_prices(path, GPUS, shown="the file", origin="own"), dated)
