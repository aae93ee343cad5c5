"""Puts one bundle in the place of another while its lines serve, and holds those on trial to what device.toml asks of them.

It boots nothing and opens no door: what may serve comes from ``Supply``, and the lanes switch themselves.
"""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from edge_runtime.errors import DeviceError, EdgeRuntimeError
from edge_runtime.run.lane import Lane
from edge_runtime.run.live import Live, Quarantined
from edge_runtime.run.reports import line_of
from edge_runtime.run.supply import Arrival, Supply
from edge_runtime.run.trial import Counts, Trial, counts_of
from edge_runtime.spec.report import Report

if TYPE_CHECKING:
    from edge_runtime.run.boot import ReadyModel
    from edge_runtime.spec.store import TrialConfig

_MS: Final = 1000


class Exchange:
    """The slots of the store behind the lanes of one process.

    ``lives`` has what serves each slot, ``run_id`` names the run in answers: a new one whenever one of them was replaced,
    so that an answer still says by its run which bundle made it. ``begins_again``: what is wanted takes a new start.
    """

    def __init__(
        self,
        supply: Supply,
        criteria: "TrialConfig",
        lanes: Sequence[Lane],
        lives: dict[str, Live],
        *,
        run_id: str,
        make_live: Callable[[str, "ReadyModel"], Live],
        say: Callable[[str], None],
    ) -> None:
        self.lives, self.run_id, self.begins_again = lives, run_id, False
        self._supply, self._criteria, self._lanes = supply, criteria, lanes
        self._make_live, self._say = make_live, say
        self._trials: dict[str, Trial] = {}
        self._unwritten = ""
        for slot in lives:
            self._judge_from_now(slot)
        supply.note_start(run_id)

    def tick(self) -> None:
        """Follow the store and the trials; for once a second, between two turns."""
        self._supply.look()
        try:
            arrival = self._supply.arrival()
            if arrival is not None:
                self._take_over(arrival)
            for slot in list(self._trials):
                self._judge(slot)
        except EdgeRuntimeError as error:  # the store is told and followed again in a second
            if str(error) != self._unwritten:
                self._say(str(error))
            self._unwritten = str(error)

    @property
    def folder(self) -> Path:
        """Of the store."""
        return self._supply.folder

    @property
    def reports(self) -> list[Report]:
        """The last self-test of each slot."""
        return list(self._supply.reports.values())

    @property
    def words(self) -> list[str]:
        """What of the store whoever looks on has to know, a clause each."""
        told = []
        for slot, supplied in self._supply.now.items():
            if supplied.instead:
                told.append(
                    f"store:{slot}: {supplied.digest[:12]} serves, confirmed before, because {supplied.instead}"
                )
            elif supplied.is_on_trial:
                told.append(f"store:{slot}: {supplied.digest[:12]} is on trial")
        return told

    def replace(self, live: Live, why: str) -> bool:
        """Put the confirmed bundle in the place of ``live``, which failed while on trial; whether that was done."""
        slot = self._slot_of(live)
        if slot is None or not self._ends_trial(slot, why):
            return False
        booted = self._supply.boot(slot)
        self._say(line_of(booted.report))
        if booted.ready is None:
            return False
        self._switch(slot, self._make_live(slot, booted.ready))
        return True

    def gave_up(self, lost: Quarantined) -> bool:
        """Whether a bundle on trial is what was lost, so that a new start serves the confirmed one."""
        ended = [self._ends_trial(slot, str(lost)) for slot, live in self.lives.items() if live.is_lost]
        return any(ended)

    def stop(self) -> None:
        """End in order: starts on trial count no more."""
        self._supply.settle()
        self._supply.stopped()

    def _take_over(self, arrival: Arrival) -> None:
        if arrival.ready is None:
            self._supply.refused(arrival, arrival.why)
            return
        before = self.lives[arrival.slot]
        live = self._make_live(arrival.slot, arrival.ready)
        try:
            for lane in self._of(before):
                lane.fitted(live)
        except EdgeRuntimeError as error:
            self._supply.refused(arrival, str(error))
            return
        self._trust_or_withdraw(before)
        self._supply.now[arrival.slot] = arrival.supplied
        self._switch(arrival.slot, live)

    def _trust_or_withdraw(self, before: Live) -> None:
        """Have the model that leaves prove once more what it answered since its last probe."""
        try:
            why = before.probe()
        except DeviceError:  # it gave no wrong answer, and none any more
            return
        if why:
            withdrawn = sum(lane.distrust(why) for lane in self._of(before))
            self._say(f"{why}; {withdrawn} answers that were not confirmed are withdrawn")

    def _switch(self, slot: str, live: Live) -> None:
        before = self.lives[slot]
        lanes = self._of(before)
        fittings = [lane.fitted(live) for lane in lanes]
        if not all(lane.may_switch(one) for lane, one in zip(lanes, fittings, strict=True)):
            self._say(
                f"store:{slot}: its answers look otherwise than those told to a host before, so that all lines begin anew"
            )
            self.begins_again = True
            return
        self.run_id = token_hex(4)
        self._supply.takes_over(slot, self.run_id)  # first: no answer may have a run that the log does not know
        for lane, fitting in zip(lanes, fittings, strict=True):
            lane.switch(live, fitting, self.run_id)
        self.lives[slot] = live
        for lane in self._lanes:
            if lane not in lanes:
                lane.rename_run(self.run_id)
        self._judge_from_now(slot)
        self._say(f"store:{slot}: {live.model.digest[:12]} serves from now on, as run {self.run_id}")

    def _judge_from_now(self, slot: str) -> None:
        live, supplied = self.lives[slot], self._supply.now[slot]
        for lane in self._of(live):
            lane.line.judge_by_bundle(is_fallback=bool(supplied.instead))
        self._trials.pop(slot, None)
        if supplied.is_on_trial:
            own = live.model.manifest.needs.latency_p99_ms
            live.slow_s = (self._criteria.latency_ms or own) / _MS
            self._trials[slot] = Trial(supplied.digest, self._criteria, time.monotonic_ns(), self._counts(live))

    def _judge(self, slot: str) -> None:
        trial, live = self._trials[slot], self.lives[slot]
        if not self._supply.now[slot].is_on_trial:  # it was confirmed, or its trial ended, meanwhile
            del self._trials[slot]
            return
        now_ns, counts = time.monotonic_ns(), self._counts(live)
        fault = f"trial: {live.rebuilt}" if live.rebuilt else trial.fault(now_ns, counts)
        if fault:
            if not self._ends_trial(slot, fault):
                self._say(f"store:{slot}: {trial.digest[:12]}: {fault}; there is no confirmed bundle to go back to")
            del self._trials[slot]
        elif trial.is_passed(now_ns, counts):
            self._supply.passed(slot)
            live.slow_s = math.inf
            del self._trials[slot]

    def _ends_trial(self, slot: str, why: str) -> bool:
        supplied = self._supply.now[slot]
        return supplied.is_on_trial and self._supply.fall_back(slot, supplied.digest, why) is not None

    def _counts(self, live: Live) -> Counts:
        return counts_of([lane.line.ledger for lane in self._of(live)], live.calls, live.slow_calls)

    def _of(self, live: Live) -> list[Lane]:
        return [lane for lane in self._lanes if lane.serves(live)]

    def _slot_of(self, live: Live) -> str | None:
        return next((slot for slot, one in self.lives.items() if one is live), None)
