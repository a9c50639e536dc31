"""Answer the form: each model's plan, laid out, as one piece of HTML."""

from collections import Counter
from dataclasses import replace

from capplan.serve.page.question import PageQuestion
from capplan.serve.page.render import render_answer
from capplan.serve.page.view import ModelView, compare, view_model
from capplan.serve.planning.answer import TaskContext, work_out
from capplan.serve.planning.messages import Reply
from capplan.serve.planning.naming import CONFIG_PREFIX, FILE_PREFIX, TRACE_PREFIX


@work_out.register
def _page(question: PageQuestion, case: TaskContext) -> Reply:
    case.may_lack_hints = True
    answered = [
        view_model(question, words, case, identity=f"m{index}") for index, words in enumerate(question.models, start=1)
    ]
    names = Counter(view.name for view, _ in answered)
    views = [_told_apart(view) if names[view.name] > 1 else view for view, _ in answered]
    planned = [replace(model, name=view.name) for view, (_, model) in zip(views, answered, strict=True) if model]
    return case.spell({"html": lambda: render_answer(question, views, compare(planned, batch=question.batch))})


def _told_apart(view: ModelView) -> ModelView:
    """Return what is shown of a model under a name that no other model of the page has."""
    is_own = view.words.startswith((TRACE_PREFIX, CONFIG_PREFIX, FILE_PREFIX))
    return replace(view, name=f"{view.name}, model {view.identity.removeprefix('m')}" if is_own else view.words)
