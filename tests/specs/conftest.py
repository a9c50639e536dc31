from collections.abc import Callable
from pathlib import Path

import pytest

from capplan.specs import Gpus, load_gpus

Write = Callable[..., Path]

WHOLE_CARD = (Path(__file__).parent / "example-10.yaml").read_text()


@pytest.fixture(scope="session")
def gpus() -> Gpus:
    return load_gpus()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a spec file; bytes are written as they are."""

    def write_file(content: str | bytes = WHOLE_CARD, name: str = "example-10.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
