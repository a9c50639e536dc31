"""The site lists its pages for assistants, and has the Markdown of each beside it."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name functions of extensions."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the hooks write, as mkdocs calls them for every page and then once."""
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / ".ci" / "docs_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    folder = tmp_path_factory.mktemp("site")
    for path in (ROOT / "docs").rglob("*.md"):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=path.relative_to(ROOT / "docs").as_posix()))
        hooks.on_page_markdown(path.read_text(), page=page)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)
    hooks.on_post_build({**config, "site_dir": str(folder)})
    return folder


def test_the_list_has_the_form_that_assistants_read_and_names_every_page(site):
    lines = (site / "llms.txt").read_text().splitlines()
    assert lines[0] == "# capplan"
    assert lines[2].startswith("> ")
    links = [re.fullmatch(r"- \[([^\]]+)\]\(([^)]+)\): (.+)", line) for line in lines if line.startswith("- ")]
    assert all(links)
    assert {link[2] for link in links} == {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert all((site / link[2]).is_file() for link in links)


def test_pages_are_their_markdown_with_what_the_site_fills_in(site):
    assert (site / "sweeps.md").read_text() == (ROOT / "docs" / "sweeps.md").read_text()
    assert "--max-latency" in (site / "reference" / "cli-choose.md").read_text()
    assert "## Unreleased" in (site / "changelog.md").read_text()
