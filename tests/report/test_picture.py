"""The script that draws charts is bundled once, and kept."""

from pathlib import Path

import pytest
import vl_convert

from capplan.report.charts import picture


def test_the_drawing_program_is_kept_and_a_damaged_one_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bundled: list[str] = []

    def bundle(snippet: str) -> str:
        bundled.append(snippet)
        return f"script {len(bundled)}"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)

    def program() -> str:
        picture.packed_drawing_program.cache_clear()
        return picture.drawing_program()

    try:
        assert [program(), program()] == ["script 1", "script 1"]
        (kept,) = (tmp_path / "capplan" / "charts").iterdir()
        kept.write_bytes(kept.read_bytes()[:-1] + b"!")
        assert program() == "script 2"
        kept.parent.rename(tmp_path / "gone")
        kept.parent.write_text("a file where the folder was")
        assert program() == "script 3"
    finally:
        picture.packed_drawing_program.cache_clear()
