"""The script that draws charts is bundled once, and kept."""

from pathlib import Path

import altair as alt
import pytest
import vl_convert

from capplan.report.charts import picture
from capplan.report.charts.look import drawing


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


def test_a_control_character_in_a_name_is_drawn_as_its_code() -> None:
    """The drawing library aborts the process on such a character."""
    chart = alt.Chart(alt.InlineData(values=[{"name": "red \x1b[31m", "x": 1}])).mark_bar().encode(y="name:N", x="x:Q")
    assert "\\u001b" in picture.vector(drawing(chart))
