"""The forms of the page: their fields, as questions of verbs state them, and their state, which is their address."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import urlencode

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH
from capplan.errors import UnknownNameError
from capplan.serve.questions import check_bounds
from capplan.verbs.llm.estimate import LLM_ESTIMATE
from capplan.verbs.llm.memory import LLM_MEMORY
from capplan.verbs.llm.plan import LLM_PLAN
from capplan.verbs.plan import PLAN, PlanQuestion
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.fields import Text
from capplan.verbs.statement.options import Door, Field, Option, fields_of, words_at
from capplan.verbs.statement.read import changed_fields, read_field, read_question
from capplan.wording import WordOf, worded

MOST_MODELS = 4
Asked = TypeVar("Asked")
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class FormState:
    """The state of a form.

    `options` are the fields that questions of verbs have on the page, in words, by their names in the form; those that
    are empty or hold the default are left out.
    """

    options: Annotated[Mapping[str, str], Option(doors=Door(0))] = field(default_factory=dict)
    explain: Annotated[Text, Option(doors=Door.PAGE)] = ""


State = TypeVar("State", bound=FormState)


@dataclass(frozen=True, kw_only=True)
class PageQuestion(FormState):
    """The state of the form about any model: what no other door has."""

    models: Annotated[tuple[Text, ...], Meta(max_length=MOST_MODELS), Option(flags=("--model",), doors=Door.PAGE)] = ()
    batch: Annotated[int, Meta(ge=1, le=LARGEST_BATCH), Option(doors=Door.PAGE, label="Batch")] = 32
    load: Annotated[float | None, Meta(ge=0.0, le=1e15), Option(doors=Door.PAGE, label="Load")] = None
    every: Annotated[bool, Option(doors=Door.PAGE)] = False

    def plan_of(self, model: str) -> PlanQuestion:
        """Return the plan that is asked of one model."""
        return PLAN_FORM.question(PLAN, self, model=model, batches=[self.batch])


@dataclass(frozen=True, kw_only=True)
class LlmPageQuestion(FormState):
    """The state of the form about serving: which question it asks, times of a replica or deployments for a load."""

    find: Annotated[Literal["times", "deployments"], Option(doors=Door.PAGE)] = "times"


@dataclass(frozen=True, kw_only=True, eq=False)
class PageForm(Generic[State]):
    """A form of the page, made of the fields that questions of verbs have there.

    Attributes:
        state: the type of its state.
        verbs: the verbs that it asks. Fields with one label are one field of the form, as the first verb states it.
        notes_of: further verbs whose options notes and errors may name.
        first: names of the fields that most questions need; the others stand behind *More settings*.
        renewed: turns the pairs of an address of an earlier release into today's.
        door: whose fields the form shows: those that are made for the page, or all that a service takes.
    """

    state: type[State]
    verbs: tuple[Verb[Any, Any], ...]
    notes_of: tuple[Verb[Any, Any], ...] = ()
    first: tuple[str, ...]
    renewed: Callable[[Pairs], Pairs] = list
    door: Door = Door.PAGE

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """Return the fields of the verbs' questions that the form shows, by their names there."""
        by_label: dict[str, Field] = {}
        for verb in self.verbs:
            for shown in self._shown(verb):
                by_label.setdefault(self.label(shown), shown)
        return {self._name(shown): shown for shown in by_label.values()}

    def label(self, shown: Field) -> str:
        """Return what the form calls a field: its label on the page, or the words of its option."""
        return (shown.option.label if self.door is Door.PAGE else shown.title) or shown.name

    def _name(self, shown: Field) -> str:
        return shown.name if shown.is_list or self.door is not Door.PAGE else shown.key.replace("-", "_")

    def _shown(self, verb: Verb[Any, Any]) -> Iterable[Field]:
        """Return the fields of a verb that one line of text can fill."""
        return (shown for shown in verb.fields_at(self.door) if not shown.is_mapping)

    @property
    def more(self) -> tuple[str, ...]:
        """Return the names of the fields behind *More settings*."""
        return tuple(name for name in self.fields if name not in self.first)

    def choices(self, name: str) -> list[str]:
        """Return the words among which a field is chosen; nothing where any may be written."""
        return [_words(self.fields[name], choice) for choice in self.fields[name].enumeration or ()]

    def usual_words(self, name: str) -> str:
        """Return the words of a field's default; empty where it has none."""
        shown = self.fields[name]
        has_none = shown.is_required or shown.default is None or shown.default is False or shown.default == ()
        return "" if has_none else _words(shown, shown.default)

    def read(self, pairs: Pairs) -> State:
        """Read the state of the form from the pairs of a query string."""
        own: dict[str, list[str]] = {}
        options: dict[str, str] = {}
        known = [shown.key for shown in fields_of(self.state) if shown.option.doors & Door.PAGE]
        keys = {shown.key.replace("-", "_"): name for name, shown in self.fields.items()}
        for written, value in self.renewed(pairs):
            if not value:
                continue
            name = written if written in self.fields else keys.get(written, written)
            if name in self.fields:
                options[name] = f"{options[name]},{value}" if name in options else value
            elif name in known:
                own.setdefault(name, []).append(value)
            else:
                names = (*known, *self.fields)
                raise UnknownNameError("field", name[:100], names, hint=f"Known: {', '.join(names)}.")
        check_bounds({**own, **options})
        state = read_question(self.state, own, door=Door.PAGE, name_of=self.label, is_text=True)
        for name, words in options.items():
            read_field(self.fields[name], words, what=self.label(self.fields[name]), door=self.door, is_text=True)
        return replace(
            state, options={name: words for name, words in options.items() if words != self.usual_words(name)}
        )

    def question(self, verb: Verb[Asked, Any], state: State, **stated: Any) -> Asked:
        """Return the question that a state of the form asks a verb."""
        names = {self.label(shown): name for name, shown in self.fields.items()}
        asked = {
            shown.name: state.options[names[self.label(shown)]]
            for shown in self._shown(verb)
            if names[self.label(shown)] in state.options
        }
        given = {**asked, **stated}
        return read_question(verb.question, given, door=Door.HTTP, name_of=self.label, is_text=True)

    def address(self, state: State, **changed: Any) -> str:
        """Return the query string of a state: what differs from the defaults."""
        options = {**state.options, **{name: str(value) for name, value in changed.items() if name in self.fields}}
        own = {name: value for name, value in changed.items() if name not in self.fields}
        pairs = [
            (shown.key, _spelt(item))
            for shown, value in changed_fields(replace(state, **own), door=Door.PAGE).items()
            for item in (value if isinstance(value, tuple) else (value,))
        ]
        written = ((name, options.get(name, "")) for name in (*self.first, *self.more))
        pairs += [(name, words) for name, words in written if words and words != self.usual_words(name)]
        return f"?{urlencode(sorted(pairs, key=lambda pair: pair[0] == 'explain'))}"

    @cached_property
    def word_of(self) -> WordOf:
        """Return the form's words for fields, or else those of the API."""
        own = [shown for shown in fields_of(self.state) if shown.option.label]
        in_form = (*own, *(shown for verb in (*self.verbs, *self.notes_of) for shown in self._shown(verb)))
        labels = {key: f"“{self.label(shown)}”" for shown in in_form for key in _keys(shown)}
        others = words_at([stated for verb in (*self.notes_of, *self.verbs) for stated in verb.fields], Door.HTTP)
        return lambda key: labels.get(key) or others(key)

    def words(self, text: str) -> str:
        """Return a text with the form's words for the fields that it marks."""
        return worded(text, self.word_of)

    def help(self, name: str) -> str:
        """Return the sentence on a field, with the form's words for other fields."""
        option = self.fields[name].option
        return self.words(option.served or option.help)


def _keys(shown: Field) -> tuple[str, ...]:
    """Return the keys that messages mark a field by."""
    return tuple(flag.removeprefix("--") for flag in (shown.flag, *shown.option.flags))


def _words(shown: Field, value: Any) -> str:
    """Return the words of a field's value, which its reader turns into the value again."""
    return _spelt(value) if shown.option.words is None else shown.option.words.write(value)


def _spelt(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(getattr(value, "value", value))


def _renewed_plan(pairs: Pairs) -> Pairs:
    return [("model" if name == "models" else name, value) for name, value in pairs]


def _renewed_serving(pairs: Pairs) -> Pairs:
    """Return today's pairs: clients were called so, counted only without a rate, and any engine was a choice."""
    has_rate = any(name == "rate" and value for name, value in pairs)
    return [
        ("concurrency" if name == "clients" else name, value)
        for name, value in pairs
        if not (name == "clients" and has_rate) and (name, value) != ("engine", "any")
    ]


PLAN_FORM = PageForm(
    state=PageQuestion, verbs=(PLAN,), first=("gpus", "precision", "max_latency"), renewed=_renewed_plan
)
SERVING_FORM = PageForm(
    state=LlmPageQuestion,
    verbs=(LLM_ESTIMATE, LLM_PLAN),
    notes_of=(LLM_MEMORY,),
    first=(
        "model", "gpus", "tp", "weights", "kv", "engine", "input_len", "output_len", "rate", "concurrency", "max_ttft",
        "max_tpot", "percentile", "redundancy",
    ),
    renewed=_renewed_serving,
)  # fmt: skip
