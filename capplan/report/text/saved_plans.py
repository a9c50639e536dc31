"""Saved plans judged, as sections: what changed between two documents, and which limits a plan keeps."""

from collections.abc import Sequence

from capplan.report.documents.diff import Change
from capplan.report.documents.gate import CheckedLimit
from capplan.report.sections import Column, Format, Lines, Section, Table, figure, words


def change_sections(changes: Sequence[Change]) -> list[Section]:
    """Return what changed between two documents."""
    if not changes:
        return [Section([Lines(["no change"], only=Format.TABLE), Lines(["No change."], only=Format.MD)])]
    return [Section([Table(_CHANGES, changes)])]


def _value(value: float | str | None) -> str:
    if value is None:
        return "absent"
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


_CHANGES: tuple[Column[Change], ...] = (
    words("where", lambda change: change.where),
    words("what", lambda change: change.what),
    figure("before", lambda change: _value(change.before)),
    figure("after", lambda change: _value(change.after)),
    figure("change", lambda change: change.relative, lambda relative: f"{100 * relative:+.3g} %"),
)


def outcome_sections(outcomes: Sequence[CheckedLimit]) -> list[Section]:
    """Return one line per limit that a plan was checked against."""
    return [Section([Table(_OUTCOMES, outcomes)])]


_OUTCOMES: tuple[Column[CheckedLimit], ...] = (
    words("outcome", lambda outcome: "kept" if outcome.is_kept else "FAILED"),
    words("model", lambda outcome: outcome.model),
    words("GPU", lambda outcome: outcome.gpu),
    words("limit", lambda outcome: outcome.limit),
    words("figures", lambda outcome: outcome.words),
)
