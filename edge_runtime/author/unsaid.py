"""The texts of a contract that say nothing yet, TODO above all, and what belongs there; it reads no file and raises nothing."""

import re
import tomllib
from collections.abc import Iterator, Mapping

from edge_runtime.errors import ConfigurationError

TENSOR_WAY = (
    "record the tensors your framework was given beside its answers: edge_runtime.author.record_reference(lambda raw: "
    "(predict(raw), tensor(raw)), ...); for a model with its scaler inside the graph the tensor is the raw values"
)
CHECKPOINT_DIGEST = "64 hex digits, for instance from: sha256sum checkpoint.pt"
REFERENCE_WAY = (
    "let your framework answer a few dozen cases and record them: edge_runtime.author.record_reference(answer, raw, "
    '"reference.npz") writes the file, and [reference] names it with its arrays: file, raw, tensor, output'
)
WAYS = {"reference": REFERENCE_WAY, "reference.tensor": TENSOR_WAY}
"""By key what to do where only the author can have its value, and documentation alone would not help."""

_MEANT = {
    "unit": "the unit the values are in, as docs/units.md spells it",
    "physical": "two numbers, the lowest and the highest that can be at all",
    "length": "a number of samples, without quotes",
    "period_s": "seconds between samples, without quotes; or no such line: then neither pace nor gaps are checked",
    "checkpoint_sha256": CHECKPOINT_DIGEST,
    "reference.raw": "an array of the reference: the raw values, as in [data]",
    "reference.tensor": "an array of the reference: the tensor your framework was given",
    "reference.output": "an array of the reference: what the model itself answered, before postprocess",
    "labels": "its words, in the order of training",
    "limits": "what the numbers must not be taken for",
}
_TODO = re.compile(r"\btodo\b", re.IGNORECASE)
# What only people read: nothing else would notice that it says nothing.
_FREE_TEXT = re.compile(
    r"description|provenance\.(checkpoint|framework|exporter|training_data|licence|limits)|output\.\d+\.meaning"
    r"|(variant\.\d+\.)?tolerance\.evidence"
)
_MIN_TEXT = 2
# The place in a list, whose key is the list's.
_ITEM = re.compile(r"\.\d+$")


def saying_nothing(raw: Mapping[str, object], subject: str) -> dict[str, ConfigurationError]:
    """By key the texts that are TODO, and of those for people what still says TODO, is empty or a single letter.

    ``subject`` is the contract's path; what stands in a list counts as the list.
    """
    found = [(key, value) for key, value in _texts(raw) if _says_nothing(key, value)]
    return {list_of(key): _unsaid(f"{subject}, {list_of(key)}", list_of(key), value) for key, value in found}


def todos_in(text: str) -> int:
    """How many of them a contract's text has, as `saying_nothing` counts: a list once, whatever stands in comments."""
    return len(saying_nothing(tomllib.loads(text), ""))


def list_of(key: str) -> str:
    """The key of the list that an item stands in; any other key as it is."""
    return _ITEM.sub("", key)


def _says_nothing(key: str, value: str) -> bool:
    if value.strip().upper() == "TODO":
        return True
    return bool(_FREE_TEXT.fullmatch(key)) and (len(value.strip()) < _MIN_TEXT or bool(_TODO.search(value)))


def _unsaid(subject: str, key: str, value: str) -> ConfigurationError:
    found = value.strip()
    expected = _MEANT.get(key) or _MEANT.get(key.rpartition(".")[2])
    return ConfigurationError(
        subject=subject, found="TODO" if found.upper() == "TODO" else repr(found[:60]),
        expected=expected or ("a few words" if _FREE_TEXT.fullmatch(key) else "its value"),
        todo=WAYS.get(key, "find out and write it down: a guess cannot be built"),
    )  # fmt: skip


def _texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _texts(inner, f"{key}.{at}")
