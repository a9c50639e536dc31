"""Answers as Python callers use them: short in a prompt, a table in a notebook, a frame for pandas."""

from dataclasses import fields
from typing import TYPE_CHECKING

from capplan.app.analyze import AnalyzeAnswer
from capplan.app.estimate import EstimateAnswer
from capplan.core.memory.summary import MemoryAnswer
from capplan.core.plan.comparison import Comparison
from capplan.core.plan.cpus import device_word
from capplan.core.plan.types import Plan
from capplan.report.render import records
from capplan.report.sections import Section
from capplan.report.text.answer import WIDTH, answer_lines, render_answer
from capplan.report.text.comparison import comparison_sections
from capplan.report.text.counts import analysis_sections
from capplan.report.text.estimate import estimate_sections
from capplan.report.text.memory import memory_sections
from capplan.report.text.plan import plan_sections
from capplan.report.text.styled import html_text, plain_text, styled_lines
from capplan.units import format_bytes, format_count, format_parameters

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


class _Shown:
    """What answers have in common that are shown as their sections."""

    __slots__ = ()

    def _sections(self) -> list[Section]:
        raise NotImplementedError

    def to_frame(self) -> "pandas.DataFrame":
        """Return the rows with units in the columns' names; what is unknown or does not apply is missing."""
        import pandas

        return pandas.DataFrame(records(self._sections()))

    def __str__(self) -> str:
        return plain_text(styled_lines(self._sections(), width=WIDTH))

    def _repr_html_(self) -> str:
        return html_text(styled_lines(self._sections(), width=WIDTH))


class EstimateShown(_Shown, EstimateAnswer):
    """An estimate that shows its curves; `to_frame()` gives the figures."""

    __slots__ = ()

    @classmethod
    def of(cls, made: EstimateAnswer) -> "EstimateShown":
        """Return an estimate as an answer that shows itself."""
        return cls(**{each.name: getattr(made, each.name) for each in fields(made)})

    def _sections(self) -> list[Section]:
        return list(estimate_sections(self.reports, top=0, calibration=self.calibration, compared=self.compared))

    def __repr__(self) -> str:
        gpus = ", ".join(report.breakdown.gpu.id for report in self.reports[:3])
        more = f" and {len(self.reports) - 3} more" if len(self.reports) > 3 else ""
        batches = [point.batch for point in self.reports[0].curve]
        return f"<Estimate of {self.reports[0].model} on {gpus}{more}: batches {batches[0]} to {batches[-1]}>"


class MemoryShown(_Shown, MemoryAnswer):
    """A memory estimate that shows its parts; `to_frame()` gives the figures."""

    __slots__ = ()

    @classmethod
    def of(cls, made: MemoryAnswer) -> "MemoryShown":
        """Return a memory estimate as an answer that shows itself."""
        return cls(**{each.name: getattr(made, each.name) for each in fields(made)})

    def _sections(self) -> list[Section]:
        return list(memory_sections(self, rule_of_thumb=False))

    def __repr__(self) -> str:
        needs = format_bytes(self.estimate.total_bytes.expected)
        gpus = "; ".join(f"{each.gpu.id}: {each.status.value}" for each in self.gpus[:3])
        return f"<Memory of {self.name} at batch {self.estimate.batch}: {needs}{', ' if gpus else ''}{gpus}>"


class AnalyzeShown(_Shown, AnalyzeAnswer):
    """Counts of a model that show themselves; `to_frame()` gives the figures."""

    __slots__ = ()

    @classmethod
    def of(cls, made: AnalyzeAnswer) -> "AnalyzeShown":
        """Return counts as an answer that shows itself."""
        return cls(**{each.name: getattr(made, each.name) for each in fields(made)})

    def _sections(self) -> list[Section]:
        return list(analysis_sections(self.analysis, depth=1, top=10))

    def __repr__(self) -> str:
        counted = f"{format_parameters(self.parameter_count)} parameters, {format_count(self.analysis.macs)} MACs"
        return f"<Counts of {self.analysis.trace.name}: {counted}>"
