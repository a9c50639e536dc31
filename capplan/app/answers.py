"""Answers as Python callers use them: short in a prompt, a table in a notebook, a frame for pandas."""

from dataclasses import fields
from typing import TYPE_CHECKING

from capplan.core.plan.comparison import Comparison
from capplan.core.plan.cpus import device_word
from capplan.core.plan.types import Plan
from capplan.report.render import records
from capplan.report.text.answer import WIDTH, answer_lines, render_answer
from capplan.report.text.comparison import comparison_sections
from capplan.report.text.plan import plan_sections
from capplan.report.text.styled import html_text, plain_text, styled_lines

if TYPE_CHECKING:
    import pandas


class PlanAnswer(Plan):
    """A plan that shows its short answer; `best()` and `to_frame()` give the figures."""

    __slots__ = ()

    @classmethod
    def of(cls, plan: Plan) -> "PlanAnswer":
        """Return a plan as an answer that shows itself."""
        return cls(**{each.name: getattr(plan, each.name) for each in fields(plan)})

    def to_frame(self) -> "pandas.DataFrame":
        """Return a row for each GPU and batch, rejected ones too, with units in the columns' names.

        What is unknown or does not apply is missing.
        """
        import pandas

        return pandas.DataFrame(records(plan_sections([self])))

    def __repr__(self) -> str:
        fitting, rejected = ({each.gpu.id for each in found} for found in (self.fits, self.rejections))
        best = self.best()
        taken = "" if best is None else f", best {best.gpu.id} at batch {best.batch}"
        asked = f"{len(fitting | rejected)} {device_word(self)}"
        return f"<Plan of {self.model.name}: fits {len(fitting)} of {asked}{taken}>"

    def __str__(self) -> str:
        return render_answer(self)

    def _repr_html_(self) -> str:
        return html_text(answer_lines(self))


class CompareAnswer(Comparison):
    """A comparison that shows its table; `to_frame()` gives the figures."""

    __slots__ = ()

    @classmethod
    def of(cls, comparison: Comparison) -> "CompareAnswer":
        """Return a comparison as an answer that shows itself."""
        return cls(**{each.name: getattr(comparison, each.name) for each in fields(comparison)})

    def to_frame(self) -> "pandas.DataFrame":
        """Return the rows with units in the columns' names; what is unknown or does not apply is missing."""
        import pandas

        return pandas.DataFrame(records(comparison_sections(self)))

    def __repr__(self) -> str:
        names = ", ".join(each.label for each in self.models)
        return f"<Comparison of {names}: {len(self.fitting)} of {len(self.rows)} rows fit>"

    def __str__(self) -> str:
        return plain_text(styled_lines(comparison_sections(self), width=WIDTH))

    def _repr_html_(self) -> str:
        return html_text(styled_lines(comparison_sections(self), width=WIDTH))
