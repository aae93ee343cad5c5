"""Says by how much each stage of the goldens differs, and whether that is within its tolerance; it runs no model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError
from edge_runtime.flow.postprocess import Postprocess, Unusable
from edge_runtime.spec.inputs import Input
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Destandardize, Output
from edge_runtime.spec.result import OutputValue
from edge_runtime.spec.steps import tolerance as steps_tolerance
from edge_runtime.spec.variant import Tolerance, Variant

Tensors = Mapping[str, NDArray[Any]]

# Adding and multiplying in float64 is exact to the last step; exp and softmax may differ by a few of them.
ANSWER_RTOL = 1e-12
_TOLD = 4  # channels named in one line


@dataclass(frozen=True, slots=True)
class Difference:
    """One comparison in words: whether it holds, what was measured and the limit it was held against."""

    holds: bool
    measured: str
    limit: str


def compare_tensors(found: Tensors, goldens: Goldens, manifest: Manifest) -> Difference:
    """Stage one: raw values with units -> input tensors, those of a recurrent state included."""
    own = manifest.preprocess_onnx
    limits = {one.tensor: (own.rtol, own.atol) if own else steps_tolerance(one.steps) for one in manifest.inputs}
    return _worst(_compare_tensors(found, goldens, limits, {one.tensor: one for one in manifest.inputs}))


def _compare_tensors(
    found: Tensors, goldens: Goldens, limits: Mapping[str, tuple[float, float]], inputs: Mapping[str, Input]
) -> Iterator[Difference]:
    # States last: where a tensor is off, what the model passes on is off with it.
    for name, expected in sorted(goldens.tensors.items(), key=lambda one: one[0] not in inputs):
        # A state comes out of the model itself, so it is as near as the model's outputs are; float32's own distance.
        rtol, atol = limits.get(name, (1e-5, 1e-5))
        actual = found[name][: len(goldens)]
        compared = _close(actual, expected, rtol, atol, "tensor units", len(goldens))
        if not compared.holds and name in inputs and actual.shape == expected.shape:
            where = channels_beyond(actual, expected, rtol, atol, inputs[name])
            compared = replace(compared, measured=f"{name}: {compared.measured}{where}")
        elif not compared.holds and name not in inputs:
            compared = replace(compared, measured=f"state {name}: {compared.measured}")
        yield compared


def compare_outputs(outputs: Tensors, goldens: Goldens, tolerance: Tolerance, variant: Variant) -> Difference:
    """Stage two: output tensors against the stored ones, by the provider's tolerance class; rows repeat the cases."""
    return _worst(
        _within(outputs[name], _repeated(_stored(goldens.outputs, name, "output"), len(outputs[name])), tolerance,
                _step(variant, name), len(goldens))
        for name in variant.model_outputs
    )  # fmt: skip


def compare_answers(outputs: Tensors, goldens: Goldens, manifest: Manifest) -> Difference:
    """Stage three: stored model outputs -> values and flags, each case with fresh hysteresis."""
    post = Postprocess(manifest)
    made = post.make(outputs)
    values: list[tuple[OutputValue, ...]] = []
    for row in range(len(goldens)):
        answered = post.answer(made, row, post.fresh)
        if isinstance(answered, Unusable):
            return Difference(holds=False, measured=f"{answered.found} in case {row}", limit="an answer")
        values.append(answered[0])
    return _worst(
        one
        for index, output in enumerate(manifest.outputs)
        for one in _compare_output([row[index] for row in values], goldens, output, None)
    )


def compare_whole(
    outputs: Tensors,
    answers: Sequence[tuple[OutputValue, ...]],
    goldens: Goldens,
    manifest: Manifest,
    variant: Variant,
    tolerance: Tolerance,
) -> Difference:
    """All stages at once: outputs and answers of a passage against the stored ones, by the provider's tolerance class."""
    if len(answers) != len(next(iter(outputs.values()), ())):
        return Difference(holds=False, measured=f"{len(answers)} answers", limit="one a case")

    def differences() -> Iterator[Difference]:
        yield compare_outputs(outputs, goldens, tolerance, variant)
        for index, output in enumerate(manifest.outputs):
            allowed = allowed_answer(goldens, output, tolerance, variant)
            yield from _compare_output([row[index] for row in answers], goldens, output, allowed)

    return _worst(differences())


def distance_to_reference(outputs: Tensors, goldens: Goldens, manifest: Manifest) -> str:
    """How far the model's outputs are from the source framework's own, over the cases it was asked."""
    words = []
    for output in manifest.outputs:
        reference = goldens.references.get(output.tensor)
        if reference is None or reference.dtype.kind not in "fiu":
            continue
        off = np.abs(outputs[output.tensor][: len(goldens)].astype(np.float64) - reference)
        affine = all(isinstance(step, Destandardize) for step in output.postprocess)
        scale = float(np.prod([step.std for step in output.postprocess if isinstance(step, Destandardize)]))
        known = off[np.isfinite(reference)] * (scale if affine else 1.0)
        if known.size:
            unit = output.unit if affine else "in the tensor"
            words.append(f"{output.name} {known.mean():.3g} {unit} mean, {known.max():.3g} at most")
    return "; ".join(words) or "no reference stored"


def _compare_output(
    values: Sequence[OutputValue], goldens: Goldens, output: Output, allowed: NDArray[np.float64] | None
) -> Iterator[Difference]:
    """One output's values, which repeat the cases; ``allowed`` is how far each case may be off, None for not at all."""
    unit = goldens.answer_units.get(output.name, "no unit")
    if unit != output.unit:
        yield Difference(holds=False, measured=f"{output.name} in {output.unit}", limit=f"{output.name} in {unit}")
        return
    expected = _repeated(_stored(goldens.answers, output.name, "answer"), len(values))
    if output.form == "label":
        wrong = [row for row, value in enumerate(values) if value.value != str(expected[row])]
        found = f"{len(wrong)} of {len(values)} labels differ" + (
            f", case {wrong[0] % len(goldens)}: {values[wrong[0]].value!r}" if wrong else ""
        )
        yield Difference(holds=not wrong, measured=found, limit="equal labels")
        return
    actual = np.array([value.value for value in values], dtype=np.float64)
    if actual.shape != expected.shape:
        yield Difference(
            holds=False, measured=f"{output.name} of shape {actual.shape}", limit=f"shape {expected.shape}"
        )
        return
    room = 0.0 if allowed is None else _repeated(allowed, len(values))
    yield _close(actual, expected, ANSWER_RTOL, room, output.unit, len(goldens))
    if allowed is None or not allowed.any():
        for at, flag in enumerate(output.flags):
            wanted = _repeated(_stored(goldens.flags, f"{output.name}.{flag.name}", "flag"), len(values))
            wrong = [row for row, value in enumerate(values) if value.flags[at][1] != bool(wanted[row])]
            measured = (
                f"flag {flag.name} differs in case {wrong[0] % len(goldens)} and {len(wrong) - 1} more" if wrong else ""
            )
            yield Difference(holds=not wrong, measured=measured or f"flag {flag.name} equal", limit="equal flags")


def allowed_answer(
    goldens: Goldens, output: Output, tolerance: Tolerance, variant: Variant
) -> NDArray[np.float64] | None:
    """How far a number or vector may be off when its tensor is as far off as the tolerance allows."""
    stored = _stored(goldens.outputs, output.tensor, "output")
    if output.form == "label" or tolerance.kind == "exact":
        return None
    allowed = _allowed(stored.reshape(len(stored), -1), tolerance, _step(variant, output.tensor))
    for step in output.postprocess:
        # Softmax and sigmoid never stretch a difference; an exponential is left to the tensor's own comparison.
        allowed = allowed * (step.std if isinstance(step, Destandardize) else 1.0)
    return allowed[:, output.column] if output.form == "number" else allowed


def _worst(differences: Iterator[Difference]) -> Difference:
    last = Difference(holds=False, measured="nothing compared", limit="at least one comparison")
    first: Difference | None = None
    for last in differences:
        if not last.holds:
            return last
        first = first or last
    return first or last


def _repeated(expected: NDArray[Any], count: int) -> NDArray[Any]:
    return expected[np.arange(count) % len(expected)]


def _step(variant: Variant, name: str) -> float | None:
    scale = variant.output_scale.get(name)
    return None if scale is None else scale.step


def _stored(group: Mapping[str, NDArray[Any]], name: str, what: str) -> NDArray[Any]:
    try:
        return group[name]
    except KeyError as error:
        raise BundleError(
            subject=f"goldens, {what} {name}", found="none", expected="one a case",
            todo="have the author build the bundle again",
        ) from error  # fmt: skip


def _close(
    actual: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float | NDArray[np.float64], unit: str, cases: int
) -> Difference:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(
            holds=False, measured=f"{actual.dtype} {actual.shape}", limit=f"{expected.dtype} {expected.shape}"
        )
    off, allowed = _off(actual, expected, rtol, atol)
    limit = f"{np.max(atol):.3g} + {rtol:g} * |expected|" if np.any(atol) else f"{rtol:g} * |expected|"
    measured = f"{off.max(initial=0.0):.3g} {unit} off at most"
    return Difference(bool((off <= allowed).all()), measured + _beyond(off, allowed, cases), limit)


def _off(
    actual: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far each number is off, and how far it may be; a number missing on both sides is not off."""
    numbers, wanted = actual.astype(np.float64), expected.astype(np.float64)
    both_missing = np.isnan(numbers) & np.isnan(wanted)
    off = np.where(both_missing, 0.0, np.abs(numbers - wanted))
    return off, atol + np.where(both_missing, 0.0, rtol * np.abs(wanted))


def _within(
    actual: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance, step: float | None, cases: int
) -> Difference:
    if expected.dtype.kind == "U":
        same = actual.shape == expected.shape and bool((actual.astype(str) == expected).all())
        return Difference(holds=same, measured="texts equal" if same else "texts differ", limit="equal")
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(
            holds=False, measured=f"{actual.dtype} {actual.shape}", limit=f"{expected.dtype} {expected.shape}"
        )
    off = np.abs(actual.astype(np.float64) - expected)
    allowed = _allowed(expected, tolerance, step)
    steps = f" ({off.max() / step:.3g} steps)" if step else ""
    holds = bool((off <= allowed).all())  # a NaN is not within anything
    return Difference(holds, f"{off.max():.3g}{steps} off at most{_beyond(off, allowed, cases)}", _limit(tolerance))


def _beyond(off: NDArray[np.float64], allowed: NDArray[np.float64], cases: int) -> str:
    """Which cases are beyond what is allowed, or how much of it was used; the rows repeat the cases."""
    rows = off.reshape(len(off), -1)
    room = np.broadcast_to(allowed, off.shape).reshape(rows.shape)
    over = np.where(np.isnan(rows), np.inf, rows - room).max(axis=1, initial=-np.inf)
    wrong = np.flatnonzero(over > 0)
    if wrong.size:
        numbers = sorted({int(row) % cases for row in wrong})
        return f"; beyond in {len(numbers)} of {cases} cases, by most in case {int(over.argmax()) % cases}"
    if not room.any():
        return ""
    with np.errstate(invalid="ignore"):
        used = float(np.nan_to_num(rows / np.where(room > 0, room, np.inf)).max(initial=0.0))
    return f", {used:.0%} of what is allowed"


def channels_beyond(actual: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float, model_input: Input) -> str:
    """The channels whose numbers are beyond, the worst first, where the tensor still has one place for each."""
    names = [channel.name for channel in model_input.channels]
    if "channel" not in model_input.axes or actual.shape[model_input.axes.index("channel")] != len(names):
        return ""
    off, allowed = _off(actual, expected, rtol, atol)
    axis = model_input.axes.index("channel")
    over = np.moveaxis(np.where(off > allowed, off, 0.0), axis, 0).reshape(len(names), -1).max(axis=1)
    wrong = [int(at) for at in np.argsort(-over, kind="stable") if over[at] > 0]
    told = ", ".join(f"{names[at]} {over[at]:.3g}" for at in wrong[:_TOLD])
    return f"; in {told}{f' and {len(wrong) - _TOLD} more' if len(wrong) > _TOLD else ''}" if told else ""


def _allowed(expected: NDArray[Any], tolerance: Tolerance, step: float | None) -> NDArray[np.float64]:
    if tolerance.kind == "exact" or expected.dtype.kind in "iub":
        # An integer tensor of an exact or float model is a decision or an int8 step; only `steps` lets it move.
        room = float(tolerance.steps or 0) if tolerance.kind == "steps" else 0.0
        return np.full(expected.shape, room)
    if tolerance.kind == "steps":
        # Half a step more, for the float that carries the steps is itself rounded.
        return np.full(expected.shape, ((tolerance.steps or 0) + 0.5) * (step or 0.0))
    return (tolerance.atol or 0.0) + (tolerance.rtol or 0.0) * np.abs(expected.astype(np.float64))


def _limit(tolerance: Tolerance) -> str:
    if tolerance.kind == "float":
        return f"{tolerance.atol:g} + {tolerance.rtol:g} * |expected|"
    return "equal" if tolerance.kind == "exact" else f"{tolerance.steps} steps"
