"""Runs stored cases through the one line and says by how much each stage differs; it decides nothing about serving."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.line import Infer, Line, Model
from edge_runtime.flow.postprocess import Postprocess, scalars
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.manifest import Manifest, NegativeGolden, Tolerance, Variant
from edge_runtime.spec.reading import Reading
from edge_runtime.spec.result import Answer
from edge_runtime.spec.units import resolve

# The tensor comes from float64 additions, multiplications and divisions alone, so only the cast may differ by a step.
TENSOR_RTOL = TENSOR_ATOL = 1e-6
ANSWER_RTOL = 1e-12
_START_NS = 1_700_000_000_000_000_000
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """One comparison in words: whether it holds, what was measured and the limit it was held against."""

    holds: bool
    measured: str
    limit: str


@dataclass(frozen=True, slots=True)
class Passage:
    """What came of all cases on their way through the line: input tensors, output tensors, answers, all in order."""

    tensors: NDArray[Any]
    outputs: Mapping[str, NDArray[Any]]
    answers: tuple[Answer, ...]


def passage(model: Model, goldens: Goldens, size: int) -> Passage:
    """Take every case from raw values with units to its answer, ``size`` at a time, through streams of their own.

    The cases are repeated until they fill whole batches of ``size``.

    Raises:
        BundleError: a case is refused by the contract, which it must pass.

    """
    seen: list[tuple[NDArray[Any], Mapping[str, NDArray[Any]]]] = []
    tensor_name = model.manifest.inputs[0].tensor

    def recorded(feeds: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        outputs = model.infer(feeds)
        seen.append((feeds[tensor_name], outputs))
        return outputs

    line = _golden_line(model, recorded, size)
    count = -(-len(goldens) // size) * size
    order = _columns(goldens, model.manifest)
    for turn in range(count):
        case = turn % len(goldens)
        for reading in _readings(goldens, case, order, model.manifest, f"golden {turn}"):
            line.offer(reading, 0)
        refused = line.take_refused()
        if refused:
            raise BundleError(
                subject=f"golden case {case}", found=f"refused: {refused[0].rejection}",
                expected="a case the contract accepts", todo="have the author build the bundle again",
            )  # fmt: skip
    line.run()
    return Passage(
        np.concatenate([tensor for tensor, _ in seen]),
        {name: np.concatenate([outputs[name] for _, outputs in seen]) for name in seen[0][1]},
        tuple(line.take_answers()),
    )


def compare_tensors(found: Passage, goldens: Goldens, manifest: Manifest) -> Difference:
    """Stage one: raw values with units -> input tensor."""
    name = manifest.inputs[0].tensor
    expected = _stored(goldens.tensors, name, "tensor")
    return _close(found.tensors[: len(goldens)], expected, TENSOR_RTOL, TENSOR_ATOL, "tensor units")


def compare_outputs(
    outputs: Mapping[str, NDArray[Any]], goldens: Goldens, tolerance: Tolerance, variant: Variant
) -> Difference:
    """Stage two: output tensors against the stored ones, by the provider's tolerance class; rows repeat the cases."""
    worst: Difference | None = None
    for name in variant.model_outputs:
        expected = _stored(goldens.outputs, name, "output")
        actual = outputs[name]
        expected = expected[np.arange(len(actual)) % len(goldens)]
        one = _within(actual, expected, tolerance, _step(variant, name))
        if worst is None or (worst.holds and not one.holds):
            worst = one
    if worst is None:
        raise BundleError(
            subject="variant " + variant.name, found="no model output", expected="at least one",
            todo="have the author build the bundle again",
        )  # fmt: skip
    return worst


def compare_answers(outputs: Mapping[str, NDArray[Any]], goldens: Goldens, manifest: Manifest) -> Difference:
    """Stage three: stored model output -> value and flags, each case with fresh hysteresis."""
    post = Postprocess(manifest)
    rows = scalars(outputs)
    values = [post.answer(rows, row, post.fresh)[0] for row in range(len(goldens))]
    worst = Difference(holds=True, measured="no output", limit="equal")
    for index, output in enumerate(manifest.outputs):
        unit = goldens.answer_units.get(output.name, "no unit")
        if unit != output.unit:
            return Difference(holds=False, measured=f"{output.name} in {output.unit}", limit=f"{output.name} in {unit}")
        expected = _stored(goldens.answers, output.name, "answer")
        actual = np.array([row[index].value for row in values])
        one = _close(actual, expected, ANSWER_RTOL, 0.0, output.unit)
        if not one.holds:
            return one
        worst = one
        for at, flag in enumerate(output.flags):
            wanted = _stored(goldens.flags, f"{output.name}.{flag.name}", "flag")
            wrong = [row for row in range(len(goldens)) if values[row][index].flags[at][1] != bool(wanted[row])]
            if wrong:
                return Difference(
                    holds=False, measured=f"flag {flag.name} differs in case {wrong[0]} and {len(wrong) - 1} more",
                    limit="equal flags",
                )  # fmt: skip
    return worst


def compare_whole(found: Passage, goldens: Goldens, model: Model, tolerance: Tolerance) -> Difference:
    """All stages at once: the answers a passage gave against the stored ones, by the provider's tolerance class."""
    outputs = compare_outputs(found.outputs, goldens, tolerance, model.variant)
    if not outputs.holds:
        return outputs
    rows = np.arange(len(found.answers)) % len(goldens)
    for index, output in enumerate(model.manifest.outputs):
        stored = goldens.outputs[output.tensor]
        allowed = _allowed(stored.reshape(len(stored)), tolerance, _step(model.variant, output.tensor))
        for step in output.postprocess:
            allowed = allowed * step.std
        expected = _stored(goldens.answers, output.name, "answer")
        actual = np.array([answer.outputs[index].value for answer in found.answers])
        off = np.abs(actual - expected[rows]) - allowed[rows] - ANSWER_RTOL * np.abs(expected[rows])
        if not (off <= 0).all():
            case = int(np.argmax(off))
            return Difference(
                holds=False, measured=f"{actual[case]:.9g} in case {int(rows[case])}",
                limit=f"{expected[rows[case]]:.9g} {output.unit}",
            )  # fmt: skip
        if tolerance.kind == "exact":
            for at, flag in enumerate(output.flags):
                wanted = _stored(goldens.flags, f"{output.name}.{flag.name}", "flag")
                if any(
                    a.outputs[index].flags[at][1] != bool(wanted[row])
                    for a, row in zip(found.answers, rows, strict=True)
                ):
                    return Difference(holds=False, measured=f"flag {flag.name} differs", limit="equal flags")
    return outputs


def distance_to_reference(outputs: Mapping[str, NDArray[Any]], goldens: Goldens, manifest: Manifest) -> str:
    """How far the answers are from the source framework's own, in the output's unit, over the cases it was asked."""
    words = []
    for output in manifest.outputs:
        reference = goldens.references.get(output.tensor)
        if reference is None:
            continue
        scale = float(np.prod([step.std for step in output.postprocess])) if output.postprocess else 1.0
        off = np.abs(outputs[output.tensor][: len(goldens)].astype(np.float64) - reference) * scale
        known = off[np.isfinite(reference)]
        if known.size:
            words.append(f"{output.name} {known.mean():.3g} {output.unit} mean, {known.max():.3g} at most")
    return "; ".join(words) or "no reference stored"


def negative(model: Model, goldens: Goldens, golden: NegativeGolden, *, harmless: bool = False) -> Difference:
    """Put one fault into a case and see whether it is refused for the reason it must be; ``harmless`` leaves it out."""
    if golden.case >= len(goldens):
        return Difference(holds=False, measured=f"{golden.name}: case {golden.case}", limit=f"{len(goldens)} cases")
    line = _golden_line(model, model.infer, 1)
    readings = list(_readings(goldens, golden.case, _columns(goldens, model.manifest), model.manifest, "negative"))
    if not harmless:
        readings = _with_fault(readings, golden, model.manifest)
    for reading in readings:
        line.offer(reading, 0)
    line.run()
    reasons = [one.rejection.reason for one in line.take_refused()]
    answers = len(line.take_answers())
    measured = f"{golden.name}: {', '.join(reasons) or 'no refusal'}, {answers} answers"
    return Difference(reasons == [golden.expect] and not answers, measured, f"{golden.expect} and no answer")


def _golden_line(model: Model, infer: Infer, size: int) -> Line:
    channels = model.manifest.inputs[0].channels
    # The unit comes with each value, so that a manifest with another unit is another conversion, and shows.
    bindings = {channel.name: ChannelBinding(field=channel.name, unit_field="unit") for channel in channels}
    sizes = (1,) if size == 1 else (1, size)
    return Line(
        name="golden", model=model._replace(infer=infer), contract=Contract(channels, bindings), batch_sizes=sizes
    )


def _columns(goldens: Goldens, manifest: Manifest) -> list[int]:
    """Where each channel of the manifest stands in the goldens, by name."""
    names = [channel.name for channel in manifest.inputs[0].channels]
    if sorted(names) != sorted(goldens.channels):
        raise BundleError(
            subject="goldens, channels", found=", ".join(goldens.channels), expected=", ".join(names),
            todo="have the author build the bundle again",
        )  # fmt: skip
    return [goldens.channels.index(name) for name in names]


def _readings(goldens: Goldens, case: int, order: list[int], manifest: Manifest, stream: str) -> Iterator[Reading]:
    window = manifest.window
    length = window.length if window else 1
    if goldens.raw.shape[1] != length:
        raise BundleError(
            subject="goldens, raw", found=f"{goldens.raw.shape[1]} samples a case", expected=f"{length}, the window",
            todo="have the author build the bundle again",
        )  # fmt: skip
    period = round((window.period_s if window and window.period_s else 1.0) * _NS)
    units = tuple(goldens.units[case][column] for column in order)
    for index, row in enumerate(goldens.raw[case][:, order].tolist()):
        yield Reading(tuple(row), _START_NS + index * period, stream, units)


def _with_fault(readings: list[Reading], golden: NegativeGolden, manifest: Manifest) -> list[Reading]:
    """Put the fault into the last sample; for a gap, take one out before it."""
    last = readings[-1]
    channels = manifest.inputs[0].channels
    at = next((index for index, channel in enumerate(channels) if channel.name == golden.channel), 0)
    channel = channels[at]
    values, units = list(last.values), list(last.units or ())
    time_ns = last.time_ns or 0
    match golden.fault:
        case "not_a_number":
            values[at] = float("nan")
        case "infinite":
            values[at] = float("inf")
        case "missing":
            values[at] = None
        case "undeclared":
            units[at] = None
        case "dimension":
            units[at] = "m" if resolve(channel.unit).dimension != resolve("m").dimension else "K"
        case "unknown_unit":
            units[at] = "furlong"
        case "beyond":
            units[at] = channel.unit
            values[at] = channel.physical.max + (channel.physical.max - channel.physical.min)
        case "gap":
            step = time_ns - (readings[-2].time_ns or 0)
            time_ns += step
        case "back":
            time_ns = (readings[-2].time_ns or 0) - 1
    return [*readings[:-1], Reading(tuple(values), time_ns, last.stream, tuple(units))]


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


def _close(actual: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float, unit: str) -> Difference:
    if actual.shape != expected.shape:
        return Difference(holds=False, measured=f"shape {actual.shape}", limit=f"shape {expected.shape}")
    off = np.abs(actual.astype(np.float64) - expected)
    over = off - atol - rtol * np.abs(expected.astype(np.float64))
    return Difference(
        holds=bool((over <= 0).all()), measured=f"{off.max():.3g} {unit} off at most",
        limit=f"{atol:g} + {rtol:g} * |expected|",
    )  # fmt: skip


def _within(actual: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance, step: float | None) -> Difference:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(
            holds=False, measured=f"{actual.dtype} {actual.shape}", limit=f"{expected.dtype} {expected.shape}"
        )
    off = np.abs(actual.astype(np.float64) - expected)
    allowed = _allowed(expected, tolerance, step)
    rows = int((off > allowed).any(axis=tuple(range(1, off.ndim))).sum())
    steps = f" ({off.max() / step:.3g} steps)" if step else ""
    holds = bool((off <= allowed).all())  # a NaN is not within anything
    measured = f"{off.max():.3g}{steps} off at most" + (f", {rows} of {len(off)} rows beyond" if rows else "")
    return Difference(holds, measured, _limit(tolerance))


def _allowed(expected: NDArray[Any], tolerance: Tolerance, step: float | None) -> NDArray[np.float64]:
    if tolerance.kind == "exact":
        return np.zeros(expected.shape)
    if tolerance.kind == "steps":
        # Half a step more, for the float that carries the steps is itself rounded.
        return np.full(expected.shape, ((tolerance.steps or 0) + 0.5) * (step or 0.0))
    return (tolerance.atol or 0.0) + (tolerance.rtol or 0.0) * np.abs(expected.astype(np.float64))


def _limit(tolerance: Tolerance) -> str:
    if tolerance.kind == "float":
        return f"{tolerance.atol:g} + {tolerance.rtol:g} * |expected|"
    return "equal" if tolerance.kind == "exact" else f"{tolerance.steps} steps"
