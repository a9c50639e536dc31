"""Addresses of the API that hold a question."""

from typing import Any
from urllib.parse import urlencode

from capplan.verbs.statement.read import to_wire

API = "/api/v1"


def question_link(name: str, question: Any, **further: str) -> str | None:
    """Return the path and query string that ask a question; None where a query string cannot hold it.

    Args:
        name: what is asked, such as llm/plan.
        question: the question.
        **further: what is said besides, such as the format of the answer.
    """
    fields = to_wire(question)
    if any(isinstance(value, dict) for value in fields.values()):
        return None
    words = {
        field: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        for field, value in fields.items()
    }
    asked = urlencode({**words, **further}, safe=":,")
    return f"{API}/{name}?{asked}" if asked else f"{API}/{name}"
