"""Requests for a model in the user's words: plain data that any process can receive without loading torch."""

from dataclasses import dataclass, replace

from capplan.errors import UsageError
from capplan.probe.inputs.grammar import MOST_NEW_TOKENS, InputRequest, parse_request


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Name a model as on the command line, with its arguments and inputs as typed.

    `words` name the model or a trace file; `arg`, `inputs`, `input_size`, `seq_len`, `inputs_from`, `prepare`,
    `freeze`, `selected_share`, `as_cpu`, `grad` and `new_tokens` are the values of the options of the same names.
    `weights` and `activations` are the number formats that its linear layers are quantised to once it is traced; they
    are no part of `options`, and whoever runs the model refuses them.
    """

    words: str
    arg: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    input_size: str | None = None
    seq_len: int | None = None
    inputs_from: str | None = None
    prepare: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    selected_share: float | None = None
    as_cpu: bool = False
    grad: bool = False
    new_tokens: int | None = None
    weights: str | None = None
    activations: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Return everything said of arguments and inputs as the words of a command line."""
        repeated = (
            ("--arg", self.arg), ("--input", self.inputs), ("--prepare", self.prepare), ("--freeze", self.freeze)
        )  # fmt: skip
        words = [word for option, values in repeated for value in values for word in (option, value)]
        single = (
            ("--input-size", self.input_size), ("--seq-len", self.seq_len), ("--inputs-from", self.inputs_from),
            ("--selected-share", self.selected_share), ("--new-tokens", self.new_tokens),
        )  # fmt: skip
        words += [option for option, is_set in (("--as-cpu", self.as_cpu), ("--grad", self.grad)) if is_set]
        return (*words, *(word for option, value in single if value is not None for word in (option, str(value))))

    def parse(self) -> InputRequest:
        """Read the options' values.

        Raises:
            UsageError: a value breaks its grammar, or two options contradict each other.
        """
        if self.weights is not None or self.activations is not None:
            raise UsageError(
                "--weights and --activations are for what is worked out, not for what is run: quantise the model in a "
                "step of your own, --prepare FILE.py:FUNCTION."
            )
        if self.new_tokens is not None and not 1 <= self.new_tokens <= MOST_NEW_TOKENS:
            raise UsageError(f"--new-tokens {self.new_tokens} must be from 1 to {MOST_NEW_TOKENS:,}.")
        read = parse_request(
            arg=self.arg,
            inputs=self.inputs,
            input_size=self.input_size,
            seq_len=self.seq_len,
            inputs_from=self.inputs_from,
            prepare=self.prepare,
            selected_share=self.selected_share,
        )
        return replace(read, freeze=self.freeze, as_cpu=self.as_cpu, grad=self.grad, new_tokens=self.new_tokens)
