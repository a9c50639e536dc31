"""Saved plans judged, as sections: what changed between two documents, and which limits a plan keeps."""

from collections.abc import Callable, Mapping, Sequence

from capplan.report.documents.diff import Change
from capplan.report.documents.gate import CheckedLimit
from capplan.report.sections import Column, Format, Lines, Section, Table, figure, words
from capplan.units import format_bytes, format_flops, format_parameters, format_rate, format_seconds


def change_sections(changes: Sequence[Change]) -> list[Section]:
    """Return what changed between two documents."""
    if not changes:
        return [Section([Lines(["no change"], only=Format.TABLE), Lines(["No change."], only=Format.MD)])]
    return [Section([Table(_CHANGES, changes)])]


def _value(what: str, value: float | str | None) -> str:
    """Write a figure in the unit that its name ends in, so that 8.17889e+08 of memory_bytes are 780 MiB."""
    if value is None or isinstance(value, str):
        return "absent" if value is None else value
    form = next((form for ending, form in _FORMS.items() if what.endswith(ending)), None)
    if form is not None:
        return form(value)
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}"


_FORMS: Mapping[str, Callable[[float], str]] = {
    "throughput_per_s": format_rate,
    "_per_s": lambda rate: f"{rate:.6g}",
    "_bytes": format_bytes,
    "_s": format_seconds,
    "flops_per_sample": format_flops,
    "params": lambda count: format_parameters(int(count)),
}
"""How figures are written, by the end of their names; the first that fits."""


_CHANGES: tuple[Column[Change], ...] = (
    words("where", lambda change: change.where),
    words("what", lambda change: change.what),
    figure("before", lambda change: _value(change.what, change.before)),
    figure("after", lambda change: _value(change.what, change.after)),
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
