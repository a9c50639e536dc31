"""Answer the form: each model's plan, laid out, as one piece of HTML."""

from capplan.serve.page.question import PageQuestion
from capplan.serve.page.render import render_answer
from capplan.serve.page.view import view_model
from capplan.serve.planning.answer import Case, work_out
from capplan.serve.planning.replies import Reply


@work_out.register
def _page(question: PageQuestion, case: Case) -> Reply:
    case.may_lack_hints = True
    views = [
        view_model(question, words, case, identity=f"m{index}") for index, words in enumerate(question.models, start=1)
    ]
    return case.spell({"html": lambda: render_answer(question, views)})
