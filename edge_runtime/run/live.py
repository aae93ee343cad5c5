"""The session that serves: it proves itself again on a schedule, is made anew once where it fails, and then given up."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError, DeviceError, EdgeRuntimeError
from edge_runtime.run import comparison
from edge_runtime.run import goldens as stages
from edge_runtime.run.boot import Booted, ReadyModel
from edge_runtime.run.memory_checks import refuse_growth
from edge_runtime.run.standstill import Standstill
from edge_runtime.spec.report import Report

if TYPE_CHECKING:
    from edge_runtime.flow.model import Model

PROBE_CASES: Final = 2
"""How many goldens go through at a time, in turn: some milliseconds with a window of 24."""


class Quarantined(DeviceError):
    """The session that serves has failed, and so has the boot that was to make it anew; ``report`` is that boot's."""

    def __init__(self, why: str, report: Report) -> None:
        self.report = report
        super().__init__(
            subject="the model that serves", found=why, expected="the answers of its goldens, as at boot",
            todo="run edge-runtime selftest: it says what is wrong with this machine or its provider",
        )  # fmt: skip


class Live:
    """One proven model at work for the lines that it serves; ``model`` is what they run.

    A call that fails, and a probe that fails, end a session; the next is made by a boot of its own, with every check.
    That is done once: a session that fails again is given up, since a provider that has to be revived is no provider.
    """

    def __init__(self, ready: ReadyModel, boot_again: Callable[[], Booted], say: Callable[[str], None]) -> None:
        self._ready = ready
        self._boot_again = boot_again
        self._say = say
        self._rebuilt = ""
        self._next = 0
        self._standstill = Standstill()
        self.slow_s = math.inf
        """What an answer may take before it counts as slow; it is measured where this is set, as while it is on trial."""
        self.calls = self.slow_calls = 0
        self.is_lost = False
        """Whether it was given up: nothing that it made may go out any more."""
        model = ready.model
        self.model: Model = model._replace(infer=self._infer, prepare=model.prepare and self._prepare)

    @property
    def provider(self) -> str:
        """Where it runs now."""
        return self._ready.provider

    @property
    def is_suspect(self) -> bool:
        """Whether its outputs stand still while its inputs change, so that a probe should tell what stands behind it."""
        return self._standstill.is_suspect

    @property
    def rebuilt(self) -> str:
        """Why the session was made anew since the start, as a clause; empty where it is the first."""
        return self._rebuilt

    def probe(self) -> str:
        """Take the next goldens from raw values to answers, through streams of their own: why that fails, or nothing.

        Raises:
            DeviceError: a call failed, or this process has outgrown its profile. No answer was wrong in either case.

        """
        model, stored = self._ready.model, self._ready.goldens
        rows = (np.arange(PROBE_CASES) + self._next) % len(stored)
        self._next = int(rows[-1]) + 1
        cases = _of(stored, rows)
        try:
            found = stages.passage(model, cases, 1)
            answers = [answer.outputs for answer in found.answers]
            tolerance = model.variant.tolerances[self._ready.provider]
            difference = comparison.compare_whole(
                found.outputs, answers, cases, model.manifest, model.variant, tolerance
            )  # fmt: skip
        except DeviceError:
            raise
        except EdgeRuntimeError as error:
            return str(error)
        except Exception as fault:  # noqa: BLE001 -- a probe that breaks, as by a tensor of another shape, is not passed
            return " ".join(f"golden probe: it broke with {type(fault).__name__}: {fault}".split())[:300]
        if not difference.holds:
            return f"golden probe: found {difference.measured}; expected {difference.limit}"
        refuse_growth(self._ready.profile)
        self._standstill.proven()
        return ""

    def rebuild(self, why: str) -> None:
        """Make the session anew, with a whole boot.

        Raises:
            Quarantined: it does not pass, or it was made anew once already.

        """
        again, self._rebuilt = bool(self._rebuilt), why
        if again:
            raise self._lost(f"{why}; it was made anew once already", self._ready.report)
        self._end_processes()
        try:
            booted = self._boot_again()
        except EdgeRuntimeError as error:  # its profile, its keys, its memory: it is not proven, whatever else it is
            raise self._lost(f"{why}; it could not be made anew: {error}", self._ready.report) from error
        if booted.ready is None:
            raise self._lost(why, booted.report)
        before, after = self._ready.model, booted.ready.model
        if (before.digest, before.variant) != (after.digest, after.variant):
            # The lines judge, convert and name by the one that was booted; what is there now needs lines of its own.
            other = "another bundle" if before.digest != after.digest else f"variant {after.variant.name} alone"
            raise self._lost(
                f"{why}; {other} was there to make it anew, which a restart tests and takes", booted.report
            )
        self._ready, self._standstill = booted.ready, Standstill()
        self._say(f"the session was made anew and passed every check; before that {why}")

    def _end_processes(self) -> None:
        """Those of a profile with [isolation]: what they hold of memory is the next ones'."""
        if self._ready.profile.isolation is None:
            return
        from edge_runtime.engine.isolate import IsolatedSession  # noqa: PLC0415 -- for the profiles that ask for it

        for session in (self._ready.model.infer, self._ready.model.prepare):
            if isinstance(session, IsolatedSession):
                session.end()

    def _lost(self, why: str, report: Report) -> Quarantined:
        self.is_lost = True
        return Quarantined(why, report)

    def _infer(self, feeds: Mapping[str, NDArray[Any]], /) -> Mapping[str, NDArray[Any]]:
        begun_s = time.perf_counter()
        try:
            outputs = self._ready.model.infer(feeds)
        except DeviceError as error:
            self.rebuild(str(error))
            outputs = self._ready.model.infer(feeds)
        self.calls += 1
        # Of a batch each answer is as late as the call takes, but a full one takes its time for all of them.
        if time.perf_counter() - begun_s > self.slow_s * _rows(feeds):
            self.slow_calls += 1
        self._standstill.take(feeds, outputs)
        return outputs

    def _prepare(self, feeds: Mapping[str, NDArray[Any]], /) -> Mapping[str, NDArray[Any]]:
        try:
            return self._prepared(feeds)
        except DeviceError as error:
            self.rebuild(str(error))
            return self._prepared(feeds)

    def _prepared(self, feeds: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        prepare = self._ready.model.prepare
        if prepare is None:
            raise BundleError(
                subject="preprocess.onnx", found="none any more", expected="the bundle that was booted",
                todo="restart, so that the bundle that is there now is tested",
            )  # fmt: skip
        return prepare(feeds)


def _rows(feeds: Mapping[str, NDArray[Any]]) -> int:
    return max((len(tensor) for tensor in feeds.values() if tensor.ndim), default=1)


def _of(stored: Goldens, rows: NDArray[np.int64]) -> Goldens:
    """Some of the cases."""
    parts: dict[str, Any] = {
        group: {name: values[rows] for name, values in getattr(stored, group).items()}
        for group in ("tensors", "outputs", "references", "answers", "flags")
    }
    return replace(stored, raw=stored.raw[rows], units=tuple(stored.units[row] for row in rows), **parts)
