"""Read a file of a training framework as options: what it says, and what the framework does where it is silent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from capplan.errors import SpecError, nearest_names
from capplan.files import is_file
from capplan.llm.core.training.stated_file import StatedFile
from capplan.llm.read.framework_forms import FRAMEWORK_FORMS
from capplan.specs.foreign_files import SCRIPTS, read_foreign
from capplan.specs.values import RecordFile
from capplan.units import whole_number

_NOTHING = ("false", "none", "", "null", "auto")
"""Values that leave a key as if it were not there."""
_MOST_NEAR = 20
"""Unknown keys whose nearest names are looked for; of a file of another program hundreds may be unknown."""


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

    release: str
    source: str
    signs: tuple[str, ...]
    keys: Mapping[str, FileKey]
    defaults: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    shipped: str = ""
    describes_model: bool = False
    unmodelled: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForms:
    """The files of all frameworks, the words that several of them use, and the arguments of what launches scripts."""

    vocabularies: Mapping[str, Mapping[str, str]]
    launchers: Mapping[str, FileKey]
    launchers_silent: tuple[str, ...]
    shipped_files: Mapping[str, Mapping[str, str]]
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
        if not named:
            continue
        if is_file(path.parent / named):
            found.append(_read(path.parent / named, "deepspeed"))
        elif (shipped := file_forms().shipped_files.get(named.rpartition("/")[2])) is not None:
            release = f"the file that {stated.framework} ships"
            found.append(StatedFile(path=named, framework="deepspeed", release=release, stated=shipped, defaults={}))
        else:
            unread = f"{named}, which is not a file beside it (name it with another ⟨config⟩)"
            found[-1] = replace(stated, unmodelled=(*stated.unmodelled, unread))
    return tuple(found)


def _read(path: Path, framework: str | None) -> StatedFile:
    forms, tree = file_forms(), read_foreign(path)
    name = _framework_of(path, tree, forms.frameworks, framework)
    form = forms.frameworks[name]
    is_script = path.suffix.lower() in SCRIPTS
    keys = {**form.keys, **forms.launchers} if is_script else form.keys
    silent = (*form.silent, *forms.launchers_silent) if is_script else form.silent
    stated: dict[str, str] = {}
    odd: list[str] = []
    for key, rule in keys.items():
        value = tree.get(key)
        if value is None or (value.lower() in _NOTHING and value.lower() not in {**rule.sets, **rule.values}):
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
    odd += [f"{key}: {tree[key]}" for key in form.unmodelled if tree.get(key, "none").lower() not in _NOTHING]
    known_keys = {*keys, *form.unmodelled}
    plain = [word for word in silent if "*" not in word]
    unknown: list[str] = []
    for key in tree:
        if key not in known_keys and not any(fnmatchcase(key, word) for word in silent):
            near = nearest_names(key, (*known_keys, *plain)) if len(unknown) < _MOST_NEAR else []
            unknown.append(f"{key} (did you mean {', '.join(near[:2])}?)" if near else key)
    return StatedFile(
        path=str(path),
        framework=name,
        release=form.release,
        stated=_with_model(stated, form, path),
        defaults={option: value for option, value in form.defaults.items() if option not in stated},
        unmodelled=tuple(odd),
        unknown=tuple(unknown),
        config=megatron_model(tree) if form.describes_model and "model" not in stated else {},
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
    """Return the framework whose keys a file has most of; the one that is asked for unless another has clearly more."""
    signs = {name: sum(sign in tree for sign in form.signs) for name, form in forms.items()}
    best = max(signs, key=lambda name: signs[name])
    others = [name for name, count in signs.items() if count == signs[best] and name != best]
    if asked in forms and (signs[best] < 2 or signs[str(asked)] > 0):
        return str(asked)
    if signs[best] < 2:
        raise SpecError(
            f"{path}: has no keys of a file of {', '.join(forms)}; name its ⟨framework⟩ if it is one of them."
        )
    if others:
        raise SpecError(f"{path}: may be a file of {best} or {' or '.join(others)}; name its ⟨framework⟩.")
    return best


def _with_model(stated: dict[str, str], form: FileForm, path: Path) -> dict[str, str]:
    """Put the model's name in the place of a component, a flavour or a recipe; their names say adapters, too."""
    shipped = stated.pop("shipped", "")
    component = stated.pop("component", "").rpartition(".")[2].lower()
    flavor = stated.pop("flavor", "").lower()
    extra = stated.pop("more_targets", "")
    if extra:
        stated["targets"] = ",".join(filter(None, (stated.get("targets", ""), extra)))
    if shipped:
        recipe = FRAMEWORK_FORMS.load().recipe_named(form.shipped, shipped)
        if recipe is None:
            stated["model_words"] = shipped
        else:
            stated["model"], component = recipe
    for start, method in (("qlora", "qlora"), ("lora", "lora"), ("peft", "lora")):
        if component.startswith(start):
            stated.setdefault("method", method)
            component = component.removeprefix(f"{start}_")
            break
    words = "" if shipped else f"{component} {flavor}".strip()
    if words and words in form.models:
        stated["model"] = form.models[words]
    elif words:
        stated["model_words"] = words
    named = stated.get("model", "")
    if named and not named.startswith("/") and is_file(path.parent / named / "config.json"):
        stated["model"] = str(path.parent / named)
    return stated


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
