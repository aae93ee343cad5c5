"""What differs between two contracts, field by field, and what that means for a line bound to the first; it reads no file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from edge_runtime.run.consequence import NAMED, ORDER_KEY, consequence
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.manifest import Manifest

# Every field of the manifest stands in one of these groups, so that none can differ unseen (a test holds it).
GROUPS: Final[Mapping[str, str]] = {
    "schema_": "identity", "must_understand": "identity", "id": "identity", "version": "identity",
    "security_version": "identity", "channels": "channels", "inputs": "input tensors", "state": "state",
    "window": "window", "preprocess_onnx": "steps", "outputs": "outputs", "variants": "variants", "plausibility": "plausibility",
    "batch_sizes": "variants", "negative_goldens": "goldens", "needs": "needs", "description": "words",
    "provenance": "words", "annotations": "words",
}  # fmt: skip
_OF_A_CHANNEL: Final[Mapping[str, str]] = {
    "unit": "units", "kind": "units", "grid_unit": "units", "trained": "bands", "tolerated": "bands",
    "physical": "bands", "when_undeclared": "policies", "when_missing": "policies", "hold_s": "policies",
    "fill": "policies", "stuck_after": "policies", "unknown": "policies", "other_grid": "policies",
}  # fmt: skip
_OF_AN_OUTPUT: Final[Mapping[str, str]] = {"labels": "labels", "flags": "flags", "unit": "units", "kind": "units"}
ORDER: Final = (
    "identity", "channels", "units", "bands", "policies", "window", "state", "steps", "input tensors", "outputs",
    "labels", "flags", "plausibility", "tolerances", "variants", "goldens", "needs", "metrics", "files", "words",
)  # fmt: skip
# The steps whose constants stand one for each channel.
_PER_CHANNEL: Final = frozenset({"standardize", "min_max", "clip"})
_SHOWN = 100
_KEYS = ("name", "tensor", "input")

ABSENT: Final = object()


class Difference(NamedTuple):
    """One thing that differs: ``was`` in A, ``is_now`` in B, as a person reads it, and what it means for a line of A."""

    group: str
    subject: str
    was: str
    is_now: str
    means: str


def differences(a: Manifest, b: Manifest) -> list[Difference]:
    """Everything that differs between two manifests, in the order of ``ORDER``; nothing where they are equal."""
    found = []
    for path, was, is_now in _compare(_tree(a), _like(_tree(a), _tree(b)), ()):
        means = consequence(path, None if was is ABSENT else was, None if is_now is ABSENT else is_now, a, b)
        shown_was, shown_now = shown_both(was, is_now)
        found.append(Difference(_group(path), _subject(path), shown_was, shown_now, means))
    return sorted(found, key=lambda one: ORDER.index(one.group))


def shown_both(was: object, is_now: object) -> tuple[str, str]:
    """Both values in short; of two long tuples the first place at which they differ."""
    both_long = all(isinstance(one, tuple) and len(_text(one)) > _SHOWN for one in (was, is_now))
    if both_long and isinstance(was, tuple) and isinstance(is_now, tuple) and len(was) == len(is_now):
        at = next(place for place, (one, other) in enumerate(zip(was, is_now, strict=True)) if one != other)
        return (f"{_text(was[at])} at place {at} of {len(was)}", f"{_text(is_now[at])} there")
    return _short(was), _short(is_now)


def _tree(manifest: Manifest) -> dict[str, Any]:
    """The manifest's fields, but for the channels, which stand by themselves with the tensor they go to."""
    fields: dict[str, Any] = {name: value for name, value in manifest if name != "inputs"}
    channels: dict[str, dict[str, Any]] = {}
    inputs: dict[str, dict[str, Any]] = {}
    for one in manifest.inputs:
        names = [channel.name for channel in one.channels]
        channels |= {channel.name: dict(channel) | {"input": one.tensor} for channel in one.channels}
        inputs[one.tensor] = {key: value for key, value in one if key not in ("channels", "steps")}
        inputs[one.tensor]["steps"] = {
            f"{number} {step.step}": {
                key: _by_channel(value, names) if step.step in _PER_CHANNEL else value
                for key, value in step
                if key != "step"
            }
            for number, step in enumerate(one.steps, 1)
        }
    variants = {variant.name: dict(variant) for variant in manifest.variants}
    return {**fields, "channels": channels, "inputs": inputs, "variants": variants}


def _like(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """``other`` with its inputs and variants under the names they have in ``one``: a renamed one is told as renamed."""
    renamed: dict[str, Any] = {}
    for key in ("inputs", "variants"):
        gone = iter([name for name in one[key] if name not in other[key]])
        renamed[key] = {name if name in one[key] else next(gone, name): value for name, value in other[key].items()}
    return {**other, **renamed}


def _by_channel(constants: object, names: Sequence[str]) -> object:
    """Constants one a channel by the channel's name, so that what differs is told of a channel, not of a place."""
    if isinstance(constants, tuple) and len(constants) == len(names):
        return dict(zip(names, constants, strict=True))
    return constants


def _compare(was: Any, is_now: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    one, other = _parts(was), _parts(is_now)
    if one is None or other is None:
        if was != is_now or type(was) is not type(is_now):
            yield path, was, is_now
        return
    for key in [*one, *(key for key in other if key not in one)]:
        yield from _compare(one.get(key, ABSENT), other.get(key, ABSENT), (*path, key))
    if set(one) == set(other) and list(one) != list(other):
        yield (*path, ORDER_KEY), tuple(one), tuple(other)


def _parts(value: Any) -> Mapping[str, Any] | None:
    """What a value is made of, by name; None for one that is told whole."""
    if isinstance(value, Band):
        return None
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, tuple) and value and all(isinstance(one, BaseModel) for one in value):
        return {_key(one, number): one for number, one in enumerate(value, 1)}
    return value if isinstance(value, dict) and value else None


def _key(one: BaseModel, number: int) -> str:
    if hasattr(one, "step"):
        return f"{number} {one.step}"
    return next(str(getattr(one, key)) for key in _KEYS if hasattr(one, key))


def _group(path: tuple[str, ...]) -> str:
    first = path[0]
    if first == "channels" and len(path) > 2:  # noqa: PLR2004 - channels, its name, the field
        return _OF_A_CHANNEL.get(path[2], "channels")
    if first == "outputs" and len(path) > 2:  # noqa: PLR2004 - outputs, its name, the field
        return _OF_AN_OUTPUT.get(path[2], "outputs")
    third = path[2] if len(path) > 2 else ""  # noqa: PLR2004 - head, a name, the field
    if (first, third) == ("inputs", "steps"):
        return "steps"
    return "tolerances" if (first, third) == ("variants", "tolerances") else GROUPS[first]


def _subject(path: tuple[str, ...]) -> str:
    """The path in words: ``channel air_temperature, unit``."""
    head, *rest = path
    if rest and rest[-1] == ORDER_KEY:
        return f"order of {', '.join([head, *rest[:-1]])}"
    if head in NAMED and rest:
        head, rest = f"{NAMED[head]} {rest[0]}", rest[1:]
    return ", ".join([head.removesuffix("_"), *rest]).replace("steps, ", "step ").replace("flags, ", "flag ")


def _short(value: object) -> str:
    if value is ABSENT or value is None:
        return "none"
    if isinstance(value, dict) and "categories" in value:
        words = f"{value['form']} in {value['unit']}" if value["form"] == "number" else str(value["form"])
        return words + (f" of shape {value['shape']}" if value["shape"] else "")
    text = _text(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _text(value: object) -> str:
    if isinstance(value, Band):
        return f"{value.min:g} to {value.max:g}"
    if isinstance(value, BaseModel):
        return json.dumps(value.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    if isinstance(value, tuple):
        return ", ".join(_text(one) for one in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(one)}" for key, one in value.items()) or "none"
    return str(value)
