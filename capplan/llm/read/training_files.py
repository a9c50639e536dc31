"""Read a file of a training framework as options: what it says, and what the framework does where it is silent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from capplan.errors import SpecError
from capplan.files import is_file
from capplan.llm.core.training.stated_file import StatedFile
from capplan.specs.foreign_files import read_foreign
from capplan.specs.values import RecordFile
from capplan.units import whole_number

_NOTHING = ("false", "none", "", "null", "auto")
"""Values that leave a key as if it were not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKey:
    """What a key sets: one option, or those that its value names."""

    option: str | None = None
    vocabulary: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """The file of a framework."""

    form: str
    release: str
    source: str
    signs: tuple[str, ...]
    keys: Mapping[str, FileKey]
    defaults: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    unmodelled: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForms:
    """The files of all frameworks, and the words that several of them use."""

    vocabularies: Mapping[str, Mapping[str, str]]
    frameworks: Mapping[str, FileForm]


_FORMS = RecordFile(kind=FileForms, shipped="training-files.yaml", what="a table of frameworks' files")


@cache
def file_forms() -> FileForms:
    """Read the shipped table."""
    return _FORMS.load()


def read_training_files(paths: Sequence[Path], *, framework: str | None = None) -> tuple[StatedFile, ...]:
    """Read files of frameworks, and those of DeepSpeed that they name beside them."""
    found: list[StatedFile] = []
    for path in paths:
        stated = _read(path, framework)
        found.append(stated)
        named = stated.stated.get("file")
        beside = path.parent / named if named else None
        if beside is not None and is_file(beside):
            found.append(_read(beside, "deepspeed"))
        elif named:
            unread = f"{named}, which is not a file beside it (name it with another ⟨config⟩)"
            found[-1] = replace(stated, unmodelled=(*stated.unmodelled, unread))
    return tuple(found)


def _read(path: Path, framework: str | None) -> StatedFile:
    forms, tree = file_forms(), read_foreign(path)
    name = _framework_of(path, tree, forms.frameworks, framework)
    form = forms.frameworks[name]
    stated: dict[str, str] = {}
    odd: list[str] = []
    for key, rule in form.keys.items():
        value = tree.get(key)
        if value is None or (value in _NOTHING and value not in rule.sets):
            continue
        if "$" in value:
            odd.append(f"{key}: {value}, which the file does not set to a plain value")
            continue
        known = {**forms.vocabularies.get(rule.vocabulary or "", {}), **rule.values}
        word = known.get(value, known.get(value.lower())) if known else value
        if rule.option is not None and word is not None:
            stated[rule.option] = word
        elif rule.option is not None or not _set(stated, rule.sets, value):
            odd.append(f"{key}: {value}")
    odd += [f"{key}: {tree[key]}" for key in form.unmodelled if tree.get(key, "none") not in _NOTHING]
    known_keys = {*form.keys, *form.unmodelled}
    unknown = [key for key in tree if key not in known_keys and not any(fnmatchcase(key, word) for word in form.silent)]
    # Put the model's name in the place of a component or a flavour; adapters are in a component's name, too.
    component = stated.pop("component", "").rpartition(".")[2].lower()
    flavor = stated.pop("flavor", "").lower()
    extra = stated.pop("more_targets", "")
    if extra:
        stated["targets"] = ",".join(filter(None, (stated.get("targets", ""), extra)))
    for method in ("qlora", "lora"):
        if component.startswith(f"{method}_"):
            stated.setdefault("method", method)
            component = component.removeprefix(f"{method}_")
            break
    words = f"{component} {flavor}".strip()
    if words and words in form.models:
        stated["model"] = form.models[words]
    elif words:
        stated["model_words"] = words
    named = stated.get("model", "")
    if named and not named.startswith("/") and is_file(path.parent / named / "config.json"):
        stated["model"] = str(path.parent / named)
    with_model = stated
    return StatedFile(
        path=str(path),
        framework=name,
        release=form.release,
        stated=with_model,
        defaults={option: value for option, value in form.defaults.items() if option not in stated},
        unmodelled=tuple(odd),
        unknown=tuple(unknown),
        config=megatron_model(tree) if form.form == "arguments" and "model" not in stated else {},
    )


def _set(stated: dict[str, str], sets: Mapping[str, Mapping[str, str]], value: str) -> bool:
    """Take the options that a value sets; False where it is not known."""
    chosen = sets.get(value, sets.get(value.lower()))
    if chosen is None:
        chosen = next((sets[word] for word in (*value.split(","), "*") if word in sets), None)
    if chosen is None:
        return value in _NOTHING
    for option, word in chosen.items():
        added = option == "offload" and option in stated and word not in stated[option].split(",")
        stated[option] = f"{stated[option]},{word}" if added else word
    return True


def _framework_of(path: Path, tree: Mapping[str, str], forms: Mapping[str, FileForm], asked: str | None) -> str:
    """Return the framework whose keys a file has most of; the one that is asked for where it has a table."""
    if asked in forms:
        return str(asked)
    signs = {name: sum(sign in tree for sign in form.signs) for name, form in forms.items()}
    best = max(signs, key=lambda name: signs[name])
    others = [name for name, count in signs.items() if count == signs[best] and name != best]
    if signs[best] < 2:
        raise SpecError(
            f"{path}: has no keys of a file of {', '.join(forms)}; name its ⟨framework⟩ if it is one of them."
        )
    if others:
        raise SpecError(f"{path}: may be a file of {best} or {' or '.join(others)}; name its ⟨framework⟩.")
    return best


_ARGUMENT_MODEL = ("num-layers", "hidden-size", "num-attention-heads", "vocab-size")


def megatron_model(tree: Mapping[str, str]) -> dict[str, object]:
    """Return the configuration of the model that Megatron's arguments describe; empty where they leave out a size.

    Megatron's defaults: ffn-hidden-size of 4 widths, or 2/3 of that in multiples of 64 with SwiGLU; kv-channels of a
    width over the heads; a vocabulary in multiples of 128 per tensor-parallel GPU (megatron/training/arguments.py).
    """
    layers, width, heads, vocabulary = (_whole(tree, key, 0) for key in _ARGUMENT_MODEL)
    if not (layers and width and heads and vocabulary) or "multi-latent-attention" in tree:
        return {}
    is_gated = "swiglu" in tree
    inner = int(4 * width * 2 / 3 / 64) * 64 if is_gated else 4 * width
    multiple = _whole(tree, "make-vocab-size-divisible-by", 128) * _whole(tree, "tensor-model-parallel-size", 1)
    config: dict[str, object] = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": _whole(tree, "num-query-groups", heads) if "group-query-attention" in tree else heads,
        "head_dim": _whole(tree, "kv-channels", width // heads),
        "intermediate_size": _whole(tree, "ffn-hidden-size", inner),
        "vocab_size": -(-vocabulary // multiple) * multiple,
        "tie_word_embeddings": "untie-embeddings-and-output-weights" not in tree,
        "max_position_embeddings": _whole(tree, "max-position-embeddings", 0) or _whole(tree, "seq-length", 4096),
    }
    if not is_gated:
        config = {
            "model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads,
            "n_inner": config["intermediate_size"], "vocab_size": config["vocab_size"],
            "n_positions": config["max_position_embeddings"], "tie_word_embeddings": config["tie_word_embeddings"],
        }  # fmt: skip
    elif "num-experts" in tree:
        config |= {
            "model_type": "qwen3_moe",
            "num_experts": _whole(tree, "num-experts", 1),
            "num_experts_per_tok": _whole(tree, "moe-router-topk", 2),
            "moe_intermediate_size": _whole(tree, "moe-ffn-hidden-size", _whole(tree, "ffn-hidden-size", inner)),
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    return config


def _whole(tree: Mapping[str, str], key: str, default: int) -> int:
    value = whole_number(tree.get(key, ""))
    return default if value is None else value
