"""What a new bundle answers to samples that a device has captured, held against what it answered then; it decides nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from edge_runtime.author.passes import through
from edge_runtime.errors import BundleError, ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.flow.postprocess import Postprocess, Unusable
from edge_runtime.spec.capture_file import CapturedChannel, CaptureHead, CaptureLine
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.result import OutputValue
from edge_runtime.spec.units import UnitMismatch, UnitUnknown, conversion, resolve

# The newest are judged; what they hold together is bounded, whatever a window is.
MAX_CASES = 20_000
MAX_VALUES = 1 << 26
MAX_LINE_BYTES = 1 << 26
"""Of what is longer, as a file that is none of captures may be, each piece counts as torn."""
_SHOWN_LABELS = 20

Numbers = NDArray[np.float64]


@dataclass(slots=True)
class Captures:
    """What files of captures hold: windows by answer id, oldest first, each with its head; ``torn`` counts bad lines."""

    cases: dict[str, tuple[CaptureHead, CaptureLine]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    torn: int = 0


def read_captures(paths: Sequence[Path]) -> Captures:
    """Read ``NAME.capture.jsonl`` files, each with its older half ``.1`` before it, where that is there.

    A line that is not whole, as a killed process may leave one, is counted. An answer that stands twice counts once.

    Raises:
        ConfigurationError: a file cannot be read, or holds no captures.

    """
    found = Captures()
    for path in paths:
        older = path.with_name(path.name + ".1")
        heads = 0
        for file in ([older] if older.is_file() else []) + [path]:
            heads += _read(file, found)
        if not heads:
            raise ConfigurationError(
                subject=str(path), found="no line that begins a capture", expected="what [line.capture] has kept",
                todo="give NAME.capture.jsonl of a device's state folder; docs/capture.md",
            )  # fmt: skip
    return found


def validate(model: Model, captures: Captures) -> Iterator[str]:
    """Ask the new model what a device was asked: a line each for a person, what was, what is, and how far apart.

    Each case is asked alone; a flag with hysteresis begins as the old answer left it.

    Raises:
        ConfigurationError: a model with a state, or captures that lack a channel or samples of its window.

    """
    manifest = model.manifest
    if manifest.state:
        raise ConfigurationError(
            subject=f"--validate, {manifest.id}", found="a model with a [[state]]", todo="use `edge-runtime replay` of a recording",
            expected="one whose answer depends on its window alone: a capture has no state",
        )  # fmt: skip
    most = max(1, min(MAX_CASES, MAX_VALUES // (manifest.length * manifest.width)))
    cases = list(captures.cases.items())[-most:]
    yield from _told(captures, len(cases))
    if not cases:
        return
    raw = np.stack([_window(manifest, head, line, name) for name, (head, line) in cases])
    refusals = [_refused(manifest, window) for window in raw]
    kept = [at for at, why in enumerate(refusals) if why is None]
    answers = _answers(model, raw, kept, [line.answer or {} for _, (_, line) in cases])
    counted = Counter(why for why in refusals if why) + Counter(one for one in answers.values() if isinstance(one, str))
    good = {at: one for at, one in answers.items() if not isinstance(one, str)}
    beyond = sum(_extrapolates(manifest, raw[at]) for at in good)
    before = sum("extrapolating" in (line.answer or {}).get("flags", ()) for _, (_, line) in cases)
    yield f"  the new bundle answers {len(good)} of {len(cases)}" + (f", refuses {_listed(counted)}" if counted else "")
    yield f"  it extrapolates on {beyond} of {len(good)}; then it was {before} of {len(cases)}"
    pairs = [(name, line.answer or {}, good[at]) for at, (name, (_, line)) in enumerate(cases) if at in good]
    for place, output in enumerate(manifest.outputs):
        yield from _compared(output, [(name, old.get(output.name), new[place]) for name, old, new in pairs])


def _read(path: Path, found: Captures) -> int:
    """Add what one file holds; how many heads it has."""
    head: CaptureHead | None = None
    heads = 0
    try:
        with path.open("rb") as stream:
            for text in iter(partial(stream.readline, MAX_LINE_BYTES), b""):
                if not text.strip():
                    continue
                try:
                    if text.startswith(b'{"schema"'):
                        head = CaptureHead.model_validate_json(text)
                        heads += 1
                        continue
                    line = CaptureLine.model_validate_json(text)
                except ValidationError:
                    found.torn += 1
                    continue
                _add(found, head, line)
    except OSError as error:
        raise ConfigurationError(
            subject=str(path), found=error.strerror or str(error), expected="a capture that can be read",
            todo="give NAME.capture.jsonl of a device's state folder",
        ) from error  # fmt: skip
    return heads


def _add(found: Captures, head: CaptureHead | None, line: CaptureLine) -> None:
    if line.reason is not None:
        found.refused[line.reason] += 1
    elif head is None or not _is_whole(line.answer):
        found.torn += 1
    else:
        name = str((line.answer or {})["id"])
        found.cases.pop(name, None)
        found.cases[name] = head, line


def _is_whole(answer: Mapping[str, Any] | None) -> bool:
    """Whether an answer has a name, and flags that are a list."""
    return answer is not None and "id" in answer and isinstance(answer.get("flags", []), list)


def _told(captures: Captures, judged: int) -> Iterator[str]:
    under = Counter(f"{head.bundle} {head.version} ({head.digest[:12]})" for head, _ in captures.cases.values())
    why = Counter(reason for _, line in captures.cases.values() for reason in line.why)
    yield f"captured: {len(captures.cases)} answers" + (f" of {_listed(under)}" if under else "")
    if why:
        yield f"  kept for: {_listed(why)}"
    if captures.refused:
        yield f"  refused samples, not asked again: {_listed(captures.refused)}"
    if captures.torn:
        yield f"  lines that are not whole: {captures.torn}"
    if judged < len(captures.cases):
        yield f"  the newest {judged} are judged"


def _window(manifest: Manifest, head: CaptureHead, line: CaptureLine, name: str) -> Numbers:
    """A captured window as the new bundle takes it: its channels, in its order and units, its newest samples."""
    row = sum(one.width for one in head.channels)
    try:
        data = line.window_bytes
    except ValueError:
        data = b""
    if len(data) != head.length * row * 8:
        raise ConfigurationError(
            subject=f"--validate, answer {name}", found=f"a window of {len(data)} bytes", expected=str(head.length * row * 8),
            todo="take that line out of the capture",
        )  # fmt: skip
    if head.length < manifest.length:
        raise ConfigurationError(
            subject=f"--validate, captures of {head.bundle} {head.version}", found=f"windows of {head.length} samples",
            expected=f"{manifest.length}, as the new bundle takes", todo="use a recording and `edge-runtime replay`",
        )  # fmt: skip
    values = np.frombuffer(data, "<f8").reshape(head.length, row)[head.length - manifest.length :]
    places, first = {}, 0
    for one in head.channels:
        places[one.name] = one, slice(first, first + one.width)
        first += one.width
    return np.concatenate([_column(channel, places, values) for channel in manifest.channels], axis=1)


def _column(channel: Channel, places: Mapping[str, tuple[CapturedChannel, slice]], values: Numbers) -> Numbers:
    if channel.name not in places:
        raise _lacking(channel, f"none; there are {', '.join(places)}")
    old, place = places[channel.name]
    if (old.form, old.width) != (channel.form, channel.width):
        raise _lacking(channel, f"a {old.form} of {old.width}")
    column = values[:, place]
    if channel.form == "category":
        return np.array([[_place(channel, old, at)] for at in column[:, 0].tolist()])
    if channel.form != "number":
        return column
    try:
        a, b = conversion(resolve(old.unit), resolve(channel.unit), channel.kind)
    except (UnitMismatch, UnitUnknown) as error:
        raise _lacking(channel, f"one in {old.unit}") from error
    return a * column + b


def _place(channel: Channel, old: CapturedChannel, at: float) -> float:
    """Where the word that stood at a place of the old list stands in the new one; NaN where it does not."""
    word = old.categories[int(at)] if 0 <= at < len(old.categories) else None
    if word in channel.categories:
        return float(channel.categories.index(word))
    return np.nan if channel.unknown is None or word is None else float(channel.unknown)


def _lacking(channel: Channel, found: str) -> ConfigurationError:
    expected = f"{channel.form} of {channel.width} number(s)" + (
        f" in {channel.unit}" if channel.form == "number" else ""
    )
    return ConfigurationError(
        subject=f"--validate, channel {channel.name}", found=found, expected=expected,
        todo="capture anew under a bundle that has it, or use a recording",
    )  # fmt: skip


def _refused(manifest: Manifest, window: Numbers) -> str | None:
    """Why the new contract would have refused a sample of this window; None where it would not."""
    column = 0
    for channel in manifest.channels:
        part = window[:, column : column + channel.width]
        column += channel.width
        is_missing = np.isnan(part)
        if is_missing.any() and (
            channel.when_missing == "refuse" or (channel.when_missing == "hold" and is_missing[0].any())
        ):
            return "missing"
        if channel.form == "number":
            _, _, physical = channel.bands
            if ((part < physical.min) | (part > physical.max)).any():
                return "beyond_physical"
    return None


def _extrapolates(manifest: Manifest, window: Numbers) -> bool:
    column = 0
    for channel in manifest.channels:
        part = window[:, column : column + channel.width]
        column += channel.width
        if channel.form == "number":
            trained = channel.bands[0]
            if ((part < trained.min) | (part > trained.max)).any():
                return True
    return False


def _answers(
    model: Model, raw: Numbers, kept: Sequence[int], olds: Sequence[Mapping[str, Any]]
) -> dict[int, tuple[OutputValue, ...] | str]:
    """By case what the model answers, or the reason why it has no answer."""
    post = Postprocess(model.manifest, model.variant)
    found: dict[int, tuple[OutputValue, ...] | str] = {}
    for at in kept:
        try:
            made = post.make(through(model, raw[at : at + 1]).outputs)
        except BundleError:
            found[at] = "not_finite_input"
            continue
        answered = post.answer(made, 0, _switches(model.manifest, olds[at]))
        found[at] = answered.reason if isinstance(answered, Unusable) else answered[0]
    return found


def _switches(manifest: Manifest, old: Mapping[str, Any]) -> tuple[bool, ...]:
    """The hysteresis as the old answer left it."""
    given = [(old.get(output.name), flag.name) for output in manifest.outputs for flag in output.flags]
    return tuple(bool(one.get(flag)) if isinstance(one, Mapping) else False for one, flag in given)


def _compared(output: Output, pairs: Sequence[tuple[str, Any, OutputValue]]) -> Iterator[str]:
    known = [(name, old, new) for name, old, new in pairs if isinstance(old, Mapping) and "value" in old]
    if not known:
        yield f"  {output.name}: nothing to compare with, no old answer has it"
    elif output.form == "label":
        yield from _labels(output.name, [(str(old["value"]), str(new.value)) for _, old, new in known])
    else:
        yield from _numbers(output, known)


def _numbers(output: Output, known: Sequence[tuple[str, Mapping[str, Any], OutputValue]]) -> Iterator[str]:
    apart: list[tuple[float, str]] = []
    for name, old, new in known:
        try:
            a, b = conversion(resolve(str(old.get("unit", output.unit))), resolve(output.unit), output.kind)
        except (UnitMismatch, UnitUnknown):
            yield f"  {output.name}: the old answers are in {old.get('unit')}, the new in {output.unit}: not comparable"
            return
        now = np.atleast_1d(new.value)
        try:
            before = np.atleast_1d(old["value"])
        except ValueError:  # lists of different lengths in one
            before = np.empty(0)
        if before.shape != now.shape or before.dtype.kind not in "fi":
            yield f"  {output.name}: the old answers are of another kind: not comparable"
            return
        apart.append((float(np.abs(a * before + b - now).max()), name))
    unit = "" if output.unit == "1" else f" {output.unit}"
    largest, where = max(apart)
    mean = sum(one for one, _ in apart) / len(apart)
    yield f"  {output.name}: {mean:.4g}{unit} apart in the mean of {len(apart)}, {largest:.4g}{unit} at most (answer {where})"
    for at, flag in enumerate(output.flags):
        both = [(bool(old[flag.name]), new.flags[at][1]) for _, old, new in known if flag.name in old]
        if both:
            yield from _labels(f"{output.name}, {flag.name}", [(_on(old), _on(new)) for old, new in both])


def _labels(what: str, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The share that agrees, and where any does not, the table: old answers down, new ones across."""
    same = sum(old == new for old, new in pairs)
    yield f"  {what}: {same} of {len(pairs)} agree"
    if same == len(pairs):
        return
    counts = Counter(pairs)
    names = sorted({name for pair in pairs for name in pair})
    if len(names) > _SHOWN_LABELS:
        most = [(old, new, count) for (old, new), count in counts.most_common() if old != new][:_SHOWN_LABELS]
        yield from (f"    {old} became {new}: {count}" for old, new, count in most)
        return
    width = max(map(len, [*names, "then \\ now"]))
    yield "    " + "  ".join(cell.rjust(width) for cell in ["then \\ now", *names])
    for old in names:
        yield "    " + "  ".join(cell.rjust(width) for cell in [old, *(str(counts[old, new]) for new in names)])


def _on(is_on: bool) -> str:  # noqa: FBT001 - the state of a flag
    return "on" if is_on else "off"


def _listed(counts: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {what}" for what, count in dict(counts).items())
