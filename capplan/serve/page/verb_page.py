"""A page for each verb: its form has the fields that a service takes, its answer is the sections of the verb."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated

from capplan.report.pages.html import sections_html
from capplan.serve.page.question import FormState, PageForm, Pairs
from capplan.serve.page.render import render_template
from capplan.serve.planning.answer import TaskContext, derive
from capplan.serve.planning.messages import Reply
from capplan.verbs.statement.contract import Effort, Look
from capplan.verbs.statement.options import Door, Option
from capplan.verbs.statement.registry import find_verb, served_verbs

VERB_PAGES = "/ask/"
"""Where the pages of verbs lie, each by the words of its command."""


@dataclass(frozen=True, kw_only=True)
class VerbPageQuestion(FormState):
    """The state of the form about one verb, which its address names."""

    verb: Annotated[str, Option(doors=Door(0))] = ""

    @property
    def is_asked(self) -> bool:
        """Return True if the form says enough: a list needs nothing, any other answer some field."""
        verb = find_verb(self.verb)
        return bool(self.options) or (
            verb.effort is Effort.SHORT and not any(field.is_required for field in verb.fields)
        )


@cache
def verb_forms() -> Mapping[str, PageForm[VerbPageQuestion]]:
    """Return the form of each verb that has a page, by its path: those whose answers are made of sections."""
    return {path: _form(path) for path in served_verbs() if find_verb(path).sections is not None}


def _form(path: str) -> PageForm[VerbPageQuestion]:
    verb = find_verb(path)
    form = PageForm(state=VerbPageQuestion, verbs=(verb,), first=(), door=Door.HTTP)
    usual = [name for name, field in form.fields.items() if field.is_usual]
    usual.sort(key=lambda name: not form.fields[name].option.is_argument)
    return replace(form, first=tuple(usual) or tuple(form.fields))


def read_verb_page(path: str, pairs: Pairs) -> VerbPageQuestion:
    """Return the state of a verb's form from the pairs of a query string."""
    return replace(verb_forms()[path].read(pairs), verb=path)


@derive.register
def _verb_page(state: VerbPageQuestion, case: TaskContext) -> Reply:
    verb, form = find_verb(state.verb), verb_forms()[state.verb]
    assert verb.sections is not None
    question = verb.finalize(form.question(verb, state), Look(format="html"))
    answer = verb.answer(question, case)
    outcome = verb.outcome(answer)
    html = render_template(
        "verb_answer.html.j2",
        command=case.command(verb, question),
        sections=sections_html(verb.sections([answer], question)),
        warnings=outcome.warnings,
    )
    return case.spell({"html": lambda: html}, exit_code=outcome.exit_code, word_of=form.word_of)
