"""The acceptance of a machine as sections, and as a page to sign."""

from capplan.core.measurement.acceptance import Acceptance, AcceptanceVerdict
from capplan.report.pages.blocks import Page, SigningLine
from capplan.report.sections import Block, LineRole, Lines, Section, Table, sentence, shape_columns, shape_data
from capplan.shapes.acceptance import FINDING


def acceptance_sections(acceptance: Acceptance) -> list[Section]:
    """Return the verdict with the figure that decided it, and everything that was compared."""
    role = LineRole.WARNING if acceptance.verdict is AcceptanceVerdict.REFUSED else LineRole.VERDICT
    head: list[Block] = [Lines([_verdict(acceptance)], role), Lines([f"{acceptance.machine}; plan: {acceptance.plan}"])]
    findings = acceptance.findings
    table: list[Block] = [Table([*shape_columns(FINDING, findings), *shape_data(FINDING, findings)], findings)]
    sections = [Section(head), Section(table, title="What was compared")]
    if acceptance.missing:
        missing = Lines([sentence(part) for part in acceptance.missing], LineRole.LIST)
        sections.append(Section([missing], title="What could not be compared"))
    return sections


def _verdict(acceptance: Acceptance) -> str:
    decided = acceptance.decided_by
    words = sentence(str(acceptance.verdict))
    if decided is None:
        return words
    return f"{words[:-1]}: {decided.what}, planned {decided.planned}, found {decided.found}."


def acceptance_page(acceptance: Acceptance, created: str) -> Page:
    """Return the acceptance as a page that can be signed."""
    return Page(
        title="Acceptance of a machine",
        created=created,
        sections=acceptance_sections(acceptance),
        lead=[Lines([f"Made {created}."])],
        close=[SigningLine()],
    )
