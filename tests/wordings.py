"""What the command line wrote, in the words of Python: the oracle of answers that both doors give."""

import json
import re
from typing import Any

from capplan.verbs.statement.options import Door, words_at
from capplan.verbs.statement.registry import find_verb

SENTENCES = ("advice", "alternatives", "assumptions", "cautions", "changes", "notes", "rejections")
"""Members of documents that hold sentences; others name options of engines, and the words of a model."""


def in_python_words(text: str, path: str) -> Any:
    """Return a document that the command of a verb wrote, whose sentences have Python's names in the place of options.

    Args:
        text: the document as JSON.
        path: the verb.
    """
    word_of = words_at(find_verb(path).fields, Door.PYTHON)

    def worded(value: Any, *, is_sentence: bool) -> Any:
        if isinstance(value, str) and is_sentence:
            return re.sub(r"(?<![\w-])--([a-z][a-z0-9-]*)", lambda option: word_of(option[1]), value)
        if isinstance(value, list):
            return [worded(item, is_sentence=is_sentence) for item in value]
        if isinstance(value, dict):
            return {key: worded(item, is_sentence=is_sentence or key in SENTENCES) for key, item in value.items()}
        return value

    return worded(json.loads(text), is_sentence=False)
