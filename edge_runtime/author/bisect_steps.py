"""Finds the first step before the model whose numbers are not those of another contract; it runs no model."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.mutate_line import Cases, cases_of, contract_rows
from edge_runtime.bundle.golden import Goldens
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.flow.steps import plan
from edge_runtime.spec.frozen import Frozen
from edge_runtime.spec.inputs import Channel, Input
from edge_runtime.spec.manifest import Manifest

Floats = NDArray[np.float64]
# Both sides are the same code on the same machine: what differs by more than float64's last bits is another contract.
_RTOL = 1e-12
_NAMED = 4


class FoundStep(NamedTuple):
    """The first step that is off: where it stands, what it is, and what of it is another, in words."""

    name: str
    kind: str
    differs: tuple[str, ...]
    measured: str
    limit: str


def first_before(suspect: Manifest, reference: Manifest, goldens: Goldens) -> FoundStep | None:
    """The first place between raw values and the model's input at which ``suspect`` gives other numbers than ``reference``.

    The places are the contract (order, units, missing values), each step of each input in order, and what is done with
    the window at last. The cases are the goldens', which are the reference's own. None where no place differs.
    """
    try:
        cases = [cases_of(goldens, one) for one in (suspect, reference)]
    except (KeyError, ValueError, IndexError):
        return FoundStep("the contract", "channels", ("other channels",), _names(suspect), _names(reference))
    if suspect.length != reference.length:
        words = (f"window {suspect.length}, not {reference.length}",)
        return FoundStep("the contract", "window", words, f"{suspect.length} samples", f"{reference.length}")
    with np.errstate(all="ignore"):  # what is not finite is compared like any number
        found, rows = _contract(suspect, reference, cases)
        if found is not None:
            return found
        first = 0
        for one, other in zip(suspect.inputs, reference.inputs, strict=False):
            part = rows[:, rows.shape[1] - reference.length :, first : first + other.width]
            first += other.width
            found = _input(one, other, part)
            if found is not None:
                return found
        return _tensors(suspect, reference, rows)


def _contract(suspect: Manifest, reference: Manifest, cases: Sequence[Cases]) -> tuple[FoundStep | None, Floats]:
    seen, wanted = (contract_rows(one, each, {}) for one, each in zip((suspect, reference), cases, strict=True))
    if seen.shape != wanted.shape:
        return FoundStep(
            "the contract", "channels", (), f"{seen.shape[2]} numbers a sample", f"{wanted.shape[2]}"
        ), wanted
    first = 0
    off = []
    for channel, other in zip(reference.channels, suspect.channels, strict=False):
        part = slice(first, first + channel.width)
        first += channel.width
        if channel.name != other.name or not same(seen[:, :, part], wanted[:, :, part]):
            off.append((channel, other, _worst(seen[:, :, part], wanted[:, :, part])))
    if not off:
        return None, wanted
    renamed = [(channel, other) for channel, other, _ in off if channel.name != other.name]
    if renamed:
        words = tuple(f"{other.name} stands where {channel.name} belongs" for channel, other in renamed[:_NAMED])
        names = ", ".join(channel.name for channel, _ in renamed[:_NAMED])
        return FoundStep("the contract", "order of channels", words, names, "the order of the reference"), wanted
    channel, other, worst = off[0]
    words = tuple(f"channel {one.name}: {text}" for one, of, _ in off[:_NAMED] for text in _policies(of, one))
    return FoundStep(
        "the contract", f"channel {channel.name}", words, f"{worst:.3g} {channel.unit} off at most", "none"
    ), wanted


def _policies(found: Channel, expected: Channel) -> Iterator[str]:
    for field in ("unit", "kind", "when_missing", "fill", "hold_s", "categories", "form"):
        was, is_now = getattr(expected, field, None), getattr(found, field, None)
        if was != is_now:
            yield f"{field} {is_now}, not {was}"


def _input(suspect: Input, reference: Input, rows: Floats) -> FoundStep | None:
    """The first step after which the numbers of one input differ; ``rows`` is ``(cases, time, numbers)``."""
    shape = (rows.shape[1], *reference.sample_shape)
    for count in range(1, max(len(suspect.steps), len(reference.steps)) + 1):
        seen, wanted = (_after(one.steps[:count], rows, shape) for one in (suspect, reference))
        if same(seen, wanted):
            continue
        steps = [one.steps[count - 1] if count <= len(one.steps) else None for one in (suspect, reference)]
        kinds = [step.step for step in reversed(steps) if step is not None]
        words = step_words(*steps)
        if kinds == kinds[:1] * 2:
            words += _places(seen, wanted, reference)
        return FoundStep(f"input {reference.tensor}, step {count}", kinds[0], words, measured(seen, wanted), "none")
    return None


def _after(steps: Sequence[Any], rows: Floats, shape: tuple[int, ...]) -> Floats:
    return plan(steps, shape).apply(rows.reshape(len(rows), *shape))


def step_words(has: Any, had: Any) -> tuple[str, ...]:
    """In words, how one step is not the other; None stands for no step."""
    if has is None or had is None or has.step != had.step:
        return (f"{has.step if has else 'no step'} in place of {had.step if had else 'none'}",)
    return tuple(
        f"{field}{_place(getattr(has, field), getattr(had, field))}"
        for field in type(had).model_fields
        if getattr(has, field) != getattr(had, field)
    )


def _place(found: Any, expected: Any) -> str:
    if isinstance(found, tuple) and isinstance(expected, tuple) and len(found) == len(expected):
        return f" at {', '.join(str(at) for at, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)}"
    return f" {found}, not {expected}"


def _places(seen: Floats, wanted: Floats, model_input: Input) -> tuple[str, ...]:
    """The channels that are off, where the last axis still has one place for each of them."""
    names = [channel.name for channel in model_input.channels]
    if seen.shape != wanted.shape or seen.shape[-1] != len(names) or any(one.shape for one in model_input.channels):
        return ()
    off = [name for at, name in enumerate(names) if not same(seen[..., at], wanted[..., at])]
    return (f"channel {', '.join(off[:_NAMED])}{f' and {len(off) - _NAMED} more' if len(off) > _NAMED else ''}",)


def _tensors(suspect: Manifest, reference: Manifest, rows: Floats) -> FoundStep | None:
    """What is left when every step agrees: the window's order, the axes, the cast; then how the states begin."""
    if reference.preprocess_onnx is None and suspect.preprocess_onnx is None:
        windows = rows[:, rows.shape[1] - reference.length :]
        seen, wanted = (make_preprocess(one)(windows) for one in (suspect, reference))
        for name, expected in wanted.items():
            if name not in seen or not same(seen[name], expected):
                words = tuple(_laid_words(name, suspect, reference))
                return FoundStep(f"input {name}", "window", words, "other numbers in the tensor", "none")
    for state, other in zip(suspect.state, reference.state, strict=False):
        if state != other:
            return FoundStep(f"state {other.input}", "state", tuple(field_words(state, other)), "another state", "none")
    return None


def _laid_words(tensor: str, suspect: Manifest, reference: Manifest) -> Iterator[str]:
    """How the numbers are laid into a tensor otherwise."""
    if suspect.window is not None and reference.window is not None:
        yield from field_words(suspect.window, reference.window)
    for one, other in zip(suspect.inputs, reference.inputs, strict=False):
        if other.tensor == tensor:
            yield from (
                word for word in field_words(one, other) if word.startswith(("axes", "dtype", "shape", "tensor"))
            )


def field_words(found: Frozen, expected: Frozen) -> Iterator[str]:
    """In words, each field of one table of a manifest that is not as in the other."""
    for field in type(expected).model_fields:
        was, is_now = getattr(expected, field), getattr(found, field)
        if was != is_now:
            yield f"{field} {is_now}, not {was}"


def same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays hold the same numbers, but for float64's last bits; a NaN is the same as a NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.isclose(one, other, rtol=_RTOL, atol=0.0, equal_nan=True).all())


def _worst(one: Floats, other: Floats) -> float:
    off = np.abs(one - other)
    return float(np.nanmax(off)) if off.size and not np.isnan(off).all() else float("nan")


def measured(seen: Floats, wanted: Floats) -> str:
    """How far two arrays are apart, in words."""
    if seen.shape != wanted.shape:
        return f"shape {seen.shape[1:]}, not {wanted.shape[1:]}"
    return f"{_worst(seen, wanted):.3g} off at most"


def _names(manifest: Manifest) -> str:
    return ", ".join(channel.name for channel in manifest.channels)
