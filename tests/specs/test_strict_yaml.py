from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from capplan.specs.strict_yaml import MAX_FILE_BYTES, Problem, SpecFileError, read_yaml

Write = Callable[..., Path]


def refusals(write: Write, content: str | bytes) -> list[str]:
    path = write(content)
    with pytest.raises(SpecFileError) as caught:
        read_yaml(path, shown="file.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_plain_values_are_read_as_yaml_reads_them(write: Write) -> None:
    content = (
        "a: 1\nb: -2.5\nc: 1.0e+12\nd: word\ne: 2022-09-20\nf: true\ng: null\nh: [1, two]\ni: '1'\nj: {k: 5.0 x16}\n"
    )
    read = read_yaml(write(content))
    assert read == yaml.safe_load(content)  # PyYAML itself is the reference
    assert read["e"] == date(2022, 9, 20)


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ("a: {b: 1e12}", "a.b: 1e12 is not a plain number"),
        ("a: {b: no}", "a.b: YAML does not read 'no' as text"),
        ("a: [1, Yes]", "a[1]: YAML does not read 'Yes' as text"),
        ("a: off", "a: YAML does not read 'off' as text"),
        ("a: 0x1F", "a: 0x1F is not a plain number"),
        ("a: 017", "a: 017 is not a plain number"),
        ("a: 1_000", "a: 1_000 is not a plain number"),
        ("a: 190:20:30", "a: 190:20:30 is not a plain number"),
        ("a: .inf", "a: .inf is not a plain number"),
        ("a: .5", "a: .5 is not a plain number"),
        ("a: 2022-02-30", "a: 2022-02-30 is not a day of the calendar"),
        ("a: {b: }", "a.b: is empty"),
        ("a: 1\nb: 2\na: 3", "a: is given twice; keep one"),
        ("a: &x 1", "a: anchors and aliases"),
        ("a: !!python/object/apply:os.system [ls]", "a: tags are not read"),
        ("? [1, 2]\n: 3", "a key must be a word"),
        ("a: 1\n---\nb: 2", "a second document begins"),
        ("- 1", "the top level must be keys with values"),
        ("", "the top level must be keys with values"),
        ("a:\n\tb: 1", "line 2: a tab indents; indent with blanks"),
        ("a: {b: 1", "line 2: did not find expected"),
        (b"a: \xff\xfe", "line 1: byte 0xff is no UTF-8"),
        ("[" * 10_000, "line 1: nested too deep"),
    ],
)
def test_surprises_are_refused_with_their_key(write: Write, content: str | bytes, refusal: str) -> None:
    (found,) = refusals(write, content)
    assert found.startswith(f"file.yaml: {refusal}")


def test_all_that_is_wrong_is_told_at_once(write: Write) -> None:
    assert len(refusals(write, "a: no\nb: 1e3\nc: {d: 1, d: 2}\n")) == 3


def test_anchors_are_not_expanded(write: Write) -> None:
    laughs = "a: &a [ha, ha]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghi"))
    found = refusals(write, laughs)
    assert len(found) == 9 + 8 * 4  # each anchor and each alias once: nothing grew
    assert all("anchors and aliases" in each for each in found)


def test_a_file_of_100_mb_is_refused_unread(write: Write) -> None:
    path = write("")
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(SpecFileError, match=f"100,000,000 bytes; a file of specs has at most {MAX_FILE_BYTES:,}"):
        read_yaml(path)


def test_a_missing_file_and_a_folder_are_refused(write: Write) -> None:
    path = write("a: 1")
    with pytest.raises(SpecFileError, match="No such file"):
        read_yaml(path.with_name("other.yaml"))
    with pytest.raises(SpecFileError, match="is not a file"):
        read_yaml(path.parent)


def test_one_fault_at_many_keys_is_one_line() -> None:
    faults = [Problem(file="a.yaml", key=f"gpus.g{number}.compute", message="must be positive") for number in range(45)]
    other = Problem(file="a.yaml", key="name", message="unknown key")
    first, second = str(SpecFileError([*faults, other])).splitlines()
    assert first == (
        "a.yaml: gpus.g0.compute: must be positive; so at 44 further keys: gpus.g1.compute, gpus.g2.compute, "
        "gpus.g3.compute, ..."
    )
    assert second == "a.yaml: name: unknown key"
    assert len(str(SpecFileError(faults[:3])).splitlines()) == 3
