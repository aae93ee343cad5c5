"""Which bundles of the store the lines serve, at a start and while they serve: boots them, and says when one may take over.

It turns no lane and changes no answer. A boot while others serve runs in a thread of its own, so that they go on.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.bundle.store_state import Slot
from edge_runtime.errors import DeviceError, EdgeRuntimeError, TemporaryError
from edge_runtime.run.boot import Booted, boot
from edge_runtime.run.config import slots_of, state_folder
from edge_runtime.run.memory import remember_pass
from edge_runtime.run.reports import line_of
from edge_runtime.run.setting import make_line_setting
from edge_runtime.run.store import store_of
from edge_runtime.spec.report import REQUIRED, Report
from edge_runtime.status.health import timestamp

if TYPE_CHECKING:
    from edge_runtime.run.boot import ReadyModel, Setting
    from edge_runtime.run.config import LoadedConfig


_SETTLE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Supplied:
    """What a slot is served from: ``serial`` is the pointer's that was followed; ``instead`` says why it is not its bundle."""

    digest: str
    serial: int
    is_on_trial: bool
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A bundle that was booted while another serves: ``ready`` where it may serve, else ``why`` not."""

    slot: str
    supplied: Supplied
    ready: "ReadyModel | None"
    why: str = ""


class Supply:
    """The slots of one device file; ``now`` says by slot what serves, or what did when nothing passed.

    ``reports`` has each slot's last boot.
    """

    def __init__(self, loaded: "LoadedConfig", say: Callable[[str], None]) -> None:
        self.now: dict[str, Supplied] = {}
        self.reports: dict[str, Report] = {}
        self._loaded, self._say = loaded, say
        self._slots = slots_of(loaded)
        self._store = store_of(loaded)
        self.folder = self._store.folder
        self._mark: tuple[int, int, int] | None = None
        self._rising: _Rising | None = None
        self._unreadable = ""

    def boot(self, slot: str) -> Booted:
        """Boot what is active, or what has to serve in its place.

        A bundle on trial that is refused is rolled back. In place of a confirmed one that is refused the one that was
        confirmed before serves, where device.toml says so.

        Raises:
            ConfigurationError: the store cannot be read.
            TemporaryError: none is active.

        """
        picked = self._begin(slot)
        booted = self._tried(slot, picked.active)
        if booted.ready is None and picked.trial is not None:
            back = self.fall_back(slot, picked.active, refusal_of(booted.report))
            if back is not None:
                picked, booted = back, self._tried(slot, back.active)
        self.now[slot] = Supplied(picked.active, picked.serial, picked.trial is not None)
        if booted.ready is None and picked.previous and self._loaded.config.store.on_refusal == "last_passing":
            why = f"{picked.active[:12]} was refused: {refusal_of(booted.report)}"
            other = self._tried(slot, picked.previous)
            if other.ready is not None:
                self._note("served_instead", id=slot, digest=picked.previous, reason=why[:500])
                self.now[slot] = Supplied(picked.previous, picked.serial, is_on_trial=False, instead=why)
                return other
        return booted

    def boot_again(self, slot: str) -> Booted:
        """Boot once more what serves."""
        return self._tried(slot, self.now[slot].digest)

    def look(self) -> None:
        """Notice a pointer that has changed, and begin to boot what it names; for once a second, at the price of a stat."""
        if self._rising is not None:
            return
        mark = self._store.mark()
        if mark == self._mark:
            return
        try:
            state = self._store.state()
        except EdgeRuntimeError as error:
            if str(error) != self._unreadable:
                self._say(f"{error}; what serves goes on")
            self._unreadable = str(error)
            return
        self._unreadable = ""
        for slot in self._slots:
            wanted, supplied = state.bundles.get(slot), self.now.get(slot)
            if wanted is None or supplied is None or wanted.serial == supplied.serial:
                continue
            if wanted.active == supplied.digest:
                self.now[slot] = Supplied(supplied.digest, wanted.serial, wanted.trial is not None)
                continue
            self._say(
                f"bundle store:{slot}: {wanted.active[:12]} is to serve; it is tested, {supplied.digest[:12]} goes on"
            )
            self._rising = _Rising(slot, self._rise)
            self._rising.start()
            return  # the mark stays the old one, so that other slots come next
        self._mark = mark

    def arrival(self) -> Arrival | None:
        """The boot that has ended since the last call, if any."""
        if self._rising is None or self._rising.is_alive():
            return None
        rising, self._rising = self._rising, None
        if rising.error is not None:
            raise rising.error
        return rising.arrival

    def settle(self) -> None:
        """Give a boot under way, whose outcome nobody needs any more, the time to end: one that hangs is left behind."""
        if self._rising is not None:
            self._rising.join(_SETTLE_S)

    def takes_over(self, slot: str, run_id: str) -> None:
        """Note that the lines of ``slot`` answer with another bundle from now on, and all lines under another run."""
        self._note(
            "serving", run=run_id, slot=slot, bundles={one: supplied.digest for one, supplied in self.now.items()}
        )

    def refused(self, arrival: Arrival, reason: str) -> None:
        """A bundle that arrived may not serve: back to the confirmed one, where it was on trial."""
        supplied, before = arrival.supplied, self.now[arrival.slot]
        self._say(f"bundle store:{arrival.slot}: {supplied.digest[:12]} does not serve: {reason}")
        self.now[arrival.slot] = Supplied(before.digest, supplied.serial, before.is_on_trial, before.instead)
        if supplied.is_on_trial:
            self.fall_back(arrival.slot, supplied.digest, reason)

    def fall_back(self, slot: str, digest: str, reason: str) -> Slot | None:
        """End the trial of ``digest``, with the pointer back at the confirmed bundle; None where there is no way back."""
        try:
            back = self._store.fall_back(slot, digest, reason, now())
        except (DeviceError, TemporaryError) as error:
            self._say(f"bundle store:{slot}: {digest[:12]} failed its trial, which could not be written down: {error}")
            return self._remembered(slot, digest)
        if back is not None:
            self._say(f"bundle store:{slot}: {digest[:12]} is rolled back to {back.active[:12]}: {reason}")
        return back

    def passed(self, slot: str) -> None:
        """The trial of what serves has met its criteria."""
        self._store.passed(slot, self.now[slot].digest, now())
        self._say(
            f"bundle store:{slot}: {self.now[slot].digest[:12]} has passed its trial; `bundle confirm` makes it last"
        )

    def stopped(self) -> None:
        """The process ends in order: its starts count no more."""
        for slot, supplied in self.now.items():
            if supplied.is_on_trial:
                with suppress(DeviceError, TemporaryError):
                    self._store.stopped(slot, supplied.digest)

    def note_start(self, run_id: str) -> None:
        """Put into the log which run serves which bundles, and the device file where it is another than before."""
        if not self.now:
            return
        with suppress(DeviceError, TemporaryError):
            self._store.note_configuration(self._loaded.digest, now())
        self._note("serving", run=run_id, bundles={slot: one.digest for slot, one in self.now.items()})

    def _begin(self, slot: str) -> Slot:
        """What is to be booted, its start counted before it begins."""
        try:
            return self._store.begin(slot, self._loaded.config.store.trial.starts, now())
        except DeviceError as error:
            # Uncounted, a crash loop would have no end: what was confirmed needs no count.
            self._say(f"bundle store:{slot}: {error}")
            active = self._store.state().bundles[slot]
            return self._remembered(slot, active.active) or active

    def _remembered(self, slot: str, digest: str) -> Slot | None:
        """The slot as it would be without the trial of ``digest``, where nothing can be written."""
        found = self._store.state().bundles.get(slot)
        if found is None or found.active != digest or found.trial is None or found.confirmed is None:
            return None
        return found.model_copy(update={"active": found.confirmed, "trial": None})

    def _tried(self, slot: str, digest: str) -> Booted:
        path = self._store.path(digest)
        booted = boot(path, self._setting(slot, digest, path))
        self.reports[slot] = booted.report
        told = {"failed": refusal_of(booted.report)[:500]} if booted.ready is None else {}
        # It only serves to tell a later failure what has changed since: no reason not to answer.
        with suppress(DeviceError, TemporaryError):
            remember_pass(state_folder(self._loaded), booted.report)
        self._note("selftest", id=slot, digest=digest, passed=booted.ready is not None, **told)
        return booted

    def _setting(self, slot: str, digest: str, path: Path) -> "Setting":
        lines = [line for line in self._loaded.config.line if line.slot == slot]
        return make_line_setting(self._loaded, path, lines=lines, digest=digest, identity=slot)

    def _rise(self, slot: str) -> Arrival:
        picked = self._begin(slot)
        supplied = Supplied(picked.active, picked.serial, picked.trial is not None)
        try:
            booted = self._tried(slot, picked.active)
        except Exception as fault:  # noqa: BLE001 -- the outermost frame of this thread: it is refused, and what serves goes on
            return Arrival(
                slot, supplied, None, " ".join(f"its boot broke: {type(fault).__name__}: {fault}".split())[:300]
            )
        self._say(line_of(booted.report))
        return Arrival(slot, supplied, booted.ready, refusal_of(booted.report))

    def _note(self, event: str, **fields: object) -> None:
        with suppress(DeviceError, TemporaryError):  # it is told, never obeyed
            self._store.note(event, now(), **fields)


class _Rising(threading.Thread):
    """One boot beside the lines that serve."""

    def __init__(self, slot: str, rise: Callable[[str], Arrival]) -> None:
        super().__init__(name=f"boot of {slot}", daemon=True)
        self.arrival: Arrival | None = None
        self.error: EdgeRuntimeError | None = None
        self._slot, self._rise = slot, rise

    def run(self) -> None:
        """Boot, and keep what came of it for the loop."""
        try:
            self.arrival = self._rise(self._slot)
        except EdgeRuntimeError as error:
            self.error = error


def refusal_of(report: Report) -> str:
    """What failed first, in one line."""
    first = next(iter(report.failures(REQUIRED)), None)
    return "" if first is None else f"{first.id}: {first.measured}; expected {first.limit}"


def now() -> str:
    """The wall clock's time as the store writes it."""
    return timestamp(time.time_ns())
