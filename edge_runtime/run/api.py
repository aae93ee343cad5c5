"""A bundle opened inside somebody's own Python program: the same boot, line and refusals; no shortcut."""

import math
import reprlib
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from numbers import Real
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from numpy.typing import NDArray

from edge_runtime.errors import BundleError, ConfigurationError, SampleRefused
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.contract_binding import suiting_reads
from edge_runtime.flow.ledger import Ledger
from edge_runtime.flow.line import Line
from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.reading import Gridded, Reading, Rejection
from edge_runtime.spec.report import Report
from edge_runtime.spec.result import Answer
from edge_runtime.spec.units import Vocabulary

if TYPE_CHECKING:
    from edge_runtime.spec.manifest import Manifest

Plain = float | str | Sequence[Any] | NDArray[Any]
Value = Plain | tuple[Plain, str] | Gridded | None
"""What a channel takes: a number, a category's word, or an array of numbers (a list, a numpy array, or ``Gridded`` with
the places of a spectrum's points), in the unit ``open`` was told; any of them with its own unit, as a tuple of two; or
None where the sensor gave nothing."""

_LINE: Final = "python"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NAMED: Final = 3
_LATEST_NS: Final = (1 << 63) - 1  # what 64 bits hold


class Sample(NamedTuple):
    """One sample for ``feed_many``: what ``feed`` takes, as one value."""

    values: Mapping[str, Value]
    time: datetime | None = None
    stream: str = ""


class Outcome(NamedTuple):
    """What came of ``feed_many``: each answer, and each refusal, with the row it is of, in the order of the rows.

    A row is the place of a sample among those that were given, from 0 on; that of an answer is the sample which completed
    its window. A sample that only fills a window, or was taken before, has neither.
    """

    answers: list[tuple[int, Answer]]
    refused: list[tuple[int, SampleRefused]]


def open_bundle(
    bundle: str | Path,
    *,
    profile: str | None = None,
    units: Mapping[str, str] | None = None,
    vocabulary: Vocabulary = "ucum",
) -> "OpenModel":
    """Boot a bundle with its full self-test, and return it ready to answer.

    ``bundle`` is a folder or a .tar of it. ``units`` says, by channel, in which unit plain numbers will come; a channel
    without one takes only values that bring their own, unless its author wrote ``assume``. ``vocabulary`` is whose
    spelling of units both follow: ``ucum``, ``senml``, ``home-assistant`` or ``plain`` (docs/units.md). ``profile`` is
    a device profile by name or file; without it the one that fits this machine is taken.

    Raises:
        BundleError: a required check failed; its text names the checks, what was measured and the limits.
        ConfigurationError: a unit that does not convert, a channel the bundle does not have, or the profile.
        DeviceError: the program's own files are missing.

    """
    booted = boot(Path(bundle), make_setting(profile))
    if booted.ready is None:
        _refuse_bundle(str(bundle), booted.report)
    return OpenModel(booted.ready, units or {}, vocabulary)


class OpenModel:
    """A proven model behind its line: values with units in, answers out. One thread at a time may feed it.

    ``report`` is that of the boot, ``manifest`` the contract, ``ledger`` counts what came in and went out, by reason.
    """

    def __init__(self, ready: ReadyModel, units: Mapping[str, str], vocabulary: Vocabulary) -> None:
        self.report: Report = ready.report
        self.manifest: Manifest = ready.model.manifest
        channels = self.manifest.channels
        self._names = tuple(channel.name for channel in channels)
        self._numbers = frozenset(one.name for one in channels if one.form != "category" and not one.shape)
        for name in units:
            if name not in self._names:
                raise ConfigurationError(
                    subject="units", found=f"an unknown channel {name!r}", expected=_nearest(name, self._names),
                    todo=f"see what the bundle takes: edge-runtime inspect {self.report.bundle['path']}",
                )  # fmt: skip
        bound = {channel.name: _binding(channel, units.get(channel.name), vocabulary) for channel in channels}
        self._contract = Contract(channels, bound, is_paired=True)
        self._declare = {f"channel {one.name}": _how_to_declare(one, vocabulary) for one in channels}
        self._line = Line(name=_LINE, model=ready.model, contract=self._contract)

    @property
    def ledger(self) -> Ledger:
        """What was received and answered so far, each term by reason; an answer counts as published once returned."""
        return self._line.ledger

    @property
    def conversions(self) -> tuple[str, ...]:
        """What happens to each channel's plain number, in words."""
        return self._contract.conversions

    def feed(self, values: Mapping[str, Value], *, time: datetime | None = None, stream: str = "") -> list[Answer]:
        """Take one sample and return the answer it completes: none while a window fills, or for a repeated sample.

        ``values`` holds, for each channel by name, a number or ``(number, unit)``, or a word or an array (``Value``).
        ``time`` is when it was measured,
        with a time zone; without it the moment of the call counts. Each ``stream`` has its own window and hysteresis.

        Raises:
            SampleRefused: the sample, or the window it completes, is refused; ``reason`` is the ledger's word for it.
                The stream goes on with the next sample.
            DeviceError: the provider failed.

        """
        self._offer(0, values, time, stream)
        self._line.run()
        answers, refused = self._collect()
        if refused:
            raise refused[0][1]
        return [answer for _, answer in answers]

    def feed_many(self, samples: Iterable[Sample | Mapping[str, Value]]) -> Outcome:
        """Take many samples, run in the bundle's batch sizes; a refused one costs the others nothing.

        The answers are those that ``feed`` would give one by one, as far as the bundle's tolerance says.

        Raises:
            DeviceError: the provider failed.

        """
        outcome = Outcome([], [])
        for row, one in enumerate(samples):
            sample = one if isinstance(one, Sample) else Sample(one)
            try:
                self._offer(row, sample.values, sample.time, sample.stream)
            except SampleRefused as refusal:
                outcome.refused.append((row, refusal))
            self._move(outcome)
        self._line.run()
        self._move(outcome)
        # A window may be refused only when its batch runs, after samples that came later were.
        outcome.refused.sort(key=itemgetter(0))
        return outcome

    def _move(self, outcome: Outcome) -> None:
        answers, refused = self._collect()
        outcome.answers.extend(answers)
        outcome.refused.extend(refused)

    def _offer(self, row: int, values: Mapping[str, Value], time: datetime | None, stream: str) -> None:
        if not isinstance(values, Mapping):
            self._refuse(
                "bad_sample", "sample", _shown(values), "a mapping from channels to values",
                f"name the channels: {', '.join(self._names)}",
            )  # fmt: skip
        if not isinstance(stream, str) or not stream.isprintable():
            self._refuse("bad_sample", "stream", _shown(stream), "a printable text", "give it another name")
        for name in values:
            if name not in self._names:
                self._refuse("unknown_channel", "channels", repr(name), _nearest(name, self._names), "correct its name")
        numbers: list[Any] = []
        units: list[str | None] = []
        for name in self._names:
            number, unit = self._take(name, values.get(name))
            numbers.append(number)
            units.append(unit)
        time_ns = None if time is None else self._unix_ns(time)
        # The row passes through the line as a field of a payload would: in an answer as carried, in a refusal as the frame.
        reading = Reading(tuple(numbers), time_ns, stream, tuple(units), carry=(("row", row),))
        self._line.offer(reading, clock.time_ns(), raw=b"%d" % row)

    def _take(self, name: str, value: Value) -> tuple[Any, str | None]:
        unit = None
        if type(value) is tuple and len(value) == 2 and isinstance(value[1], str):  # noqa: PLR2004 -- a number and its unit
            value, unit = value
        if value is None or name not in self._numbers:
            return value, unit  # an array or a word is judged by the contract itself
        if not isinstance(value, Real) or isinstance(value, bool):
            self._refuse(
                "not_a_number", f"channel {name}", _shown(value), "a number, or (number, unit)", "convert it first"
            )
        try:
            return float(value), unit
        except OverflowError:  # an integer past float64, which no sensor gives
            return math.inf, unit

    def _unix_ns(self, time: datetime) -> int:
        if not isinstance(time, datetime):
            self._refuse("bad_time", "time of the sample", _shown(time), "a datetime with its zone", "convert it first")
        if time.utcoffset() is None:
            self._refuse(
                "bad_time", "time of the sample", f"{time.isoformat()} without a zone", "a time with its zone",
                "e.g. datetime(..., tzinfo=UTC)",
            )  # fmt: skip
        time_ns = (time - _EPOCH) // _MICROSECOND * 1000
        if abs(time_ns) > _LATEST_NS:
            self._refuse("bad_time", "time of the sample", time.isoformat(), "a time from 1678 to 2262", "correct it")
        return time_ns

    def _refuse(self, reason: str, subject: str, found: str, expected: str, todo: str) -> NoReturn:
        """Refuse what never became a reading; the line has not seen it, so it is counted here."""
        self.ledger.received += 1
        self.ledger.rejected[reason] += 1
        raise SampleRefused(reason=reason, subject=subject, found=found, expected=expected, todo=todo)

    def _collect(self) -> Outcome:
        line = self._line
        answers = line.take_answers()
        line.published(len(answers))
        line.take_changes()  # they are for a journal, and there is none: they must not pile up
        return Outcome(
            [(_row(answer), answer._replace(carry=())) for answer in answers],
            [(int(one.raw), self._refusal(one.rejection)) for one in line.take_refused()],
        )

    def _refusal(self, rejection: Rejection) -> SampleRefused:
        reason, subject, todo = rejection.reason, rejection.subject, rejection.todo
        if reason == "undeclared_unit":  # the contract's own hint is for a device file
            todo = self._declare.get(subject, todo)
        return SampleRefused(
            reason=reason, subject=subject, found=rejection.found, expected=rejection.expected,
            todo=todo or "see docs/python.md",
        )  # fmt: skip


def _binding(channel: Channel, unit: str | None, vocabulary: Vocabulary) -> ChannelBinding:
    read = suiting_reads(channel)[0]
    if unit is None:
        return ChannelBinding(field=channel.name, unit_field="the value's own", vocabulary=vocabulary, read=read)
    return ChannelBinding(field=channel.name, unit=unit, vocabulary=vocabulary, read=read)


def _how_to_declare(channel: Channel, vocabulary: Vocabulary) -> str:
    unit = channel.unit if vocabulary == "ucum" else f"{vocabulary}'s word for {channel.unit}"
    return f'where it is {channel.unit} give open units={{"{channel.name}": "{unit}"}}, or feed (value, "{unit}")'


def _row(answer: Answer) -> int:
    """The row an answer carries, as ``_offer`` gave it."""
    return int(answer.carry[0][1])  # type: ignore[arg-type]  # one whole number, and nothing else


def _shown(value: object) -> str:
    return reprlib.repr(value)


def _refuse_bundle(path: str, report: Report) -> NoReturn:
    failed = report.failures(frozenset({"required"}))
    words = [f"{check.id} failed: {check.measured}, limit {check.limit}" for check in failed]
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    raise BundleError(
        subject=f"bundle {path}", found="; ".join(words[:_NAMED]) + more, expected="every required check to pass",
        todo=f"{failed[0].hint}; edge-runtime selftest --bundle {path} tells all",
    )  # fmt: skip


def _nearest(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"{near[0]!r} perhaps" if near else ", ".join(names)
