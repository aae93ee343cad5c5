"""Takes stored cases through the one line, whole or with one fault put in; it compares nothing but a refusal's reason."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError
from edge_runtime.flow.batching import split
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.contract_binding import suiting_reads
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Infer, Model
from edge_runtime.run.comparison import Difference
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest, NegativeGolden
from edge_runtime.spec.reading import Reading
from edge_runtime.spec.result import Answer
from edge_runtime.spec.units import resolve

_START_NS = 1_700_000_000_000_000_000
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Passage:
    """What came of all cases on their way through the line: input and output tensors by name, and answers, in order."""

    tensors: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]]
    answers: tuple[Answer, ...]


class Begun(NamedTuple):
    """Cases under way: their readings, how many samples of each a line has taken, and that line as it is saved."""

    readings: Sequence[Sequence[Reading]]
    samples: int = 0
    line: Mapping[str, Any] | None = None


def begin(model: Model, goldens: Goldens, sizes: Sequence[int]) -> Begun:
    """Take every case up to its last sample, for passages at each of ``sizes``.

    No window is due before that one, so no batch size plays a part in it. A model with a state runs at every sample:
    then nothing is taken yet.

    Raises:
        BundleError: a case is refused by the contract, which it must pass.

    """
    readings = readings_of(goldens, model.manifest)
    samples = 0 if model.manifest.state else _samples(goldens, model.manifest) - 1
    turns = max(_turns(goldens, size) for size in sizes)
    line = _golden_line(model, model.infer, 1)
    for number in range(samples):
        _offer(line, readings, number, turns)
    return Begun(readings, samples, line.saved())


def passage(model: Model, goldens: Goldens, size: int, begun: Begun | None = None) -> Passage:
    """Take every case from raw values with units to its answer, ``size`` at a time, through streams of their own.

    The cases are repeated until they fill whole batches of ``size``. All go on together, sample by sample, so that a
    model with a state goes through its whole case; the answer to a case is that to its last sample. ``begun`` is what
    ``begin`` made of the same cases; the answers are then flagged as those after a restart are.

    Raises:
        BundleError: a case is refused by the contract, which it must pass.

    """
    seen: list[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]] = []

    def recorded(feeds: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        outputs = model.infer(feeds)
        seen.append((feeds, outputs))
        return outputs

    line = _golden_line(model, recorded, size)
    if begun is None:
        begun = Begun(readings_of(goldens, model.manifest))
    line.restore(begun.line, ())
    for number in range(begun.samples, _samples(goldens, model.manifest)):
        line.run()
        seen.clear()
        line.take_answers()
        _offer(line, begun.readings, number, _turns(goldens, size))
    line.run()
    axes = {state.input: state.batch_axis for state in model.manifest.state}
    axes |= {state.output: state.batch_axis for state in model.manifest.state}
    return Passage(
        _joined([feeds for feeds, _ in seen], axes), _joined([outputs for _, outputs in seen], axes),
        tuple(line.take_answers()),
    )  # fmt: skip


def _turns(goldens: Goldens, size: int) -> int:
    """How many streams fill whole batches."""
    return -(-len(goldens) // size) * size


def _offer(line: Line, cases: Sequence[Sequence[Reading]], number: int, turns: int) -> None:
    """Offer one sample of each case, turn by turn until every stream has it."""
    for turn in range(turns):
        values, time_ns, _, units, _ = cases[turn % len(cases)][number]
        line.offer(Reading(values, time_ns, f"golden {turn}", units), 0)
        for one in line.take_refused():
            # An answer that is refused comes out here too, once a batch is full; that is the last stage's matter.
            if one.rejection.subject != "answer":
                raise BundleError(
                    subject=f"golden case {turn % len(cases)}", found=f"refused: {one.rejection}",
                    expected="a case the contract accepts", todo="have the author build the bundle again",
                )  # fmt: skip


def feeds_of(model: Model, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Stored tensors, batch first, as the model takes them."""
    axes = {state.input: state.batch_axis for state in model.manifest.state}
    return {name: np.ascontiguousarray(np.moveaxis(values, 0, axes.get(name, 0))) for name, values in tensors.items()}


def outputs_of(model: Model, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What the model makes of stored tensors, in batches that it may have; batch first, as they are stored."""
    axes = {state.output: state.batch_axis for state in model.manifest.state}
    parts = []
    first = 0
    for size in split(len(next(iter(tensors.values()))), model.manifest.batch_sizes):
        rows = {name: values[first : first + size] for name, values in tensors.items()}
        parts.append(model.infer(feeds_of(model, rows)))
        first += size
    return _joined(parts, axes)


def negatives(model: Model, goldens: Goldens, *, harmless: bool = False) -> Iterator[Difference]:
    """Put each listed fault into its case and see whether it is refused for the reason it must be.

    ``harmless`` leaves the faults out. Each case goes through a stream of its own.
    """
    line = _golden_line(model, model.infer, 1)
    cases = readings_of(goldens, model.manifest)
    for golden in model.manifest.negative_goldens:
        if golden.case >= len(goldens):
            found, wanted = f"{golden.name}: case {golden.case}", f"{len(goldens)} cases"
            yield Difference(holds=False, measured=found, limit=wanted)
            continue
        readings = [one._replace(stream=golden.name) for one in cases[golden.case]]
        for reading in readings[:-1]:
            line.offer(reading, 0)
        line.run()
        line.take_answers()
        line.offer(readings[-1] if harmless else _with_fault(readings, golden, model.manifest), 0)
        line.run()
        reasons = [one.rejection.reason for one in line.take_refused()]
        answers = len(line.take_answers())
        measured = f"{golden.name}: {', '.join(reasons) or 'no refusal'}, {answers} answers"
        yield Difference(reasons == [golden.expect] and not answers, measured, f"{golden.expect} and no answer")


def _joined(parts: list[Mapping[str, NDArray[Any]]], axes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The rows of several batches by tensor name, batch first; ``axes`` says where a state has its batch dimension."""
    if not parts:
        return {}
    return {
        name: np.concatenate([np.moveaxis(part[name], axes.get(name, 0), 0) for part in parts]) for name in parts[0]
    }


def _golden_line(model: Model, infer: Infer, size: int) -> Line:
    channels = model.manifest.channels
    # The unit comes with each value, so that a manifest with another unit is another conversion, and shows.
    bindings = {
        channel.name: ChannelBinding(field=channel.name, unit_field="unit", read=suiting_reads(channel)[0])
        for channel in channels
    }
    sizes = (1,) if size == 1 else (1, size)
    return Line(
        name="golden", model=model._replace(infer=infer), contract=Contract(channels, bindings), batch_sizes=sizes
    )


def _samples(goldens: Goldens, manifest: Manifest) -> int:
    """How many samples a case has: the window's, or with a state any number from there on."""
    found = int(goldens.raw.shape[1])
    if found < manifest.length or (found > manifest.length and not manifest.state):
        raise BundleError(
            subject="goldens, raw", found=f"{found} samples a case", expected=f"{manifest.length}, the window",
            todo="have the author build the bundle again",
        )  # fmt: skip
    return found


def readings_of(goldens: Goldens, manifest: Manifest) -> list[list[Reading]]:
    """Each case as a sender would send it, channel by channel by name, each with its own unit; of no stream yet.

    Raises:
        BundleError: the cases are of other channels, or too short for the window.

    """
    slices = _slices(goldens, manifest)
    window = manifest.window
    period = round((window.period_s if window and window.period_s else 1.0) * _NS)
    times = [_START_NS + index * period for index in range(_samples(goldens, manifest))]
    places = [goldens.channels.index(channel.name) for channel in manifest.channels]
    cases = []
    for raw, texts in zip(goldens.raw, goldens.units, strict=True):
        units = tuple(
            texts[place] if channel.form == "number" else None
            for channel, place in zip(manifest.channels, places, strict=True)
        )
        columns = [_column(channel, raw[:, part]) for channel, part in zip(manifest.channels, slices, strict=True)]
        cases.append(
            [
                Reading(values, time_ns, "", units)
                for values, time_ns in zip(zip(*columns, strict=True), times, strict=True)
            ]
        )
    return cases


def _slices(goldens: Goldens, manifest: Manifest) -> list[slice]:
    """Where each channel of the manifest stands in a row of the goldens, by name."""
    widths = {channel.name: channel.width for channel in manifest.channels}
    if sorted(widths) != sorted(goldens.channels) or goldens.raw.shape[2] != manifest.width:
        raise BundleError(
            subject="goldens, channels", found=f"{', '.join(goldens.channels)}: {goldens.raw.shape[2]} numbers",
            expected=f"{', '.join(widths)}: {manifest.width} numbers", todo="have the author build the bundle again",
        )  # fmt: skip
    first, found = 0, {}
    for name in goldens.channels:
        found[name] = slice(first, first + widths[name])
        first += widths[name]
    return [found[channel.name] for channel in manifest.channels]


def _column(channel: Channel, numbers: NDArray[np.float64]) -> list[Any]:
    """One channel's values, sample by sample."""
    if channel.shape:
        return list(numbers)
    values = numbers[:, 0].tolist()
    if channel.form == "category":
        return [None if math.isnan(value) else channel.categories[int(value)] for value in values]
    return [None if math.isnan(value) else value for value in values]  # NaN in a stored case is a missing number


def _with_fault(readings: Sequence[Reading], golden: NegativeGolden, manifest: Manifest) -> Reading:
    """The last sample with the fault in it; for a gap, it comes one period too late."""
    last = readings[-1]
    at = next((index for index, channel in enumerate(manifest.channels) if channel.name == golden.channel), 0)
    channel = manifest.channels[at]
    values, units = list(last.values), list(last.units or ())
    time_ns = last.time_ns or 0
    match golden.fault:
        case "not_a_number" | "infinite" | "beyond":
            values[at] = _faulty(channel, values[at], golden.fault)
            units[at] = channel.unit if golden.fault == "beyond" else units[at]
        case "missing":
            values[at] = None
        case "undeclared":
            units[at] = None
        case "dimension":
            units[at] = "m" if resolve(channel.unit).dimension != resolve("m").dimension else "K"
        case "unknown_unit":
            units[at] = "furlong"
        case "gap":
            time_ns += time_ns - (readings[-2].time_ns or 0)
        case "back":
            time_ns = (readings[-2].time_ns or 0) - 1
    return Reading(tuple(values), time_ns, last.stream, tuple(units))


def _faulty(channel: Channel, value: Any, fault: str) -> Any:
    """The number put in; into an array, at its last place."""
    if fault == "beyond" and channel.physical is not None:
        number = channel.physical.max + (channel.physical.max - channel.physical.min)
    else:
        number = float("nan") if fault == "not_a_number" else float("inf")
    if not channel.shape:
        return number
    changed = np.array(value, dtype=np.float64)
    changed.reshape(-1)[-1] = number
    return changed
