"""`explain`: the meaning of the words on the first screens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from capplan.verbs.statement.contract import Context, Effort, Verb
from capplan.verbs.statement.options import HERE, Option


@dataclass(frozen=True, kw_only=True)
class ExplainQuestion:
    """What the words of an answer mean."""

    words: Annotated[
        tuple[str, ...],
        Option(help="Words of a screen, such as TPOT or safe; all without one.", metavar="[WORD...]",
               is_argument=True, doors=HERE),
    ] = ()  # fmt: skip


def answer_explain(question: ExplainQuestion, _context: Context) -> Mapping[str, Mapping[str, str]]:
    """Return meanings by word, and words by the screens that use them."""
    from capplan.report.screen_words import explained

    return explained(question.words)


def _text(found: Mapping[str, Mapping[str, str]], _question: ExplainQuestion) -> str:
    import textwrap

    from capplan.report.text.answer import WIDTH

    room = max(len(word) for words in found.values() for word in words) + 2
    blocks = [
        "\n".join(
            [
                screen,
                *(
                    textwrap.fill(meaning, WIDTH, initial_indent=f"  {word:{room}}", subsequent_indent=" " * (room + 2))
                    for word, meaning in words.items()
                ),
            ]
        )
        for screen, words in found.items()
    ]
    return "\n\n".join(blocks) + "\n"


EXPLAIN = Verb(
    path="explain",
    question=ExplainQuestion,
    summary="Explain the words on the screens of plan, estimate, llm plan and llm train plan.",
    examples=("capplan explain", "capplan explain TPOT 'safe batch'"),
    answer=answer_explain,
    text=_text,
    printed_only=True,
    is_local=True,
    effort=Effort.SHORT,
)
