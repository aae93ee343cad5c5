"""Boots every line of a device file and serves them once all are proven; a refused bundle publishes nothing."""

import gc
import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import TYPE_CHECKING, Final

from edge_runtime.errors import ConfigurationError, DeviceError, EdgeRuntimeError, TemporaryError
from edge_runtime.flow.postprocess import UNUSABLE
from edge_runtime.run.boot import Booted, ReadyModel, boot
from edge_runtime.run.broker import device_name, offline, open_link, open_node, with_topics
from edge_runtime.run.config import LoadedConfig, load_config, state_folder, status_folders
from edge_runtime.run.lane import Lane
from edge_runtime.run.live import Live, Quarantined
from edge_runtime.run.loop import Loop
from edge_runtime.run.machine_watch import MachineWatch
from edge_runtime.run.memory import remember_pass
from edge_runtime.run.reports import line_of
from edge_runtime.run.setting import make_line_setting
from edge_runtime.run.stop_signals import stop_signals
from edge_runtime.run.summary import NOTHING_TAKEN, first_text, nothing_taken, summary
from edge_runtime.run.tracing import open_trace
from edge_runtime.spec.report import REQUIRED, Report, State
from edge_runtime.spec.source import ReplaySource
from edge_runtime.spec.topic import filled
from edge_runtime.status.health import Health, SelftestHealth, timestamp, write_status
from edge_runtime.status.notify import ServiceNotice

if TYPE_CHECKING:
    from edge_runtime.links.mqtt_port import MqttLink
    from edge_runtime.run.discovery import Discovery
    from edge_runtime.run.exchange import Exchange
    from edge_runtime.run.supply import Supply
    from edge_runtime.sinks.sparkplug_node import EdgeNode
    from edge_runtime.sources.trace import Trace
    from edge_runtime.spec.device_config import LineConfig


SUSPECT_NS: Final = 10_000_000_000
"""How long after an early probe of outputs that stand still the next one may come: they may do so rightly, for hours."""


def main(args: Namespace) -> int:
    """Serve the lines of ``args.config`` until SIGTERM, SIGINT or SIGHUP; the exit codes are those of docs/exit_codes.md."""
    loaded = load_config(Path(args.config))
    for line in loaded.config.line:
        if isinstance(line.source, ReplaySource):
            from edge_runtime.sources.replay_file import refuse_absent  # noqa: PLC0415 -- for those who replay

            refuse_absent(loaded.resolve(line.source.path))
    state = state_folder(loaded)
    _make_folder(state)
    for line in loaded.config.line:
        loaded.bundle(line)  # a store without it is said before anything is begun
    trace, stop = open_trace(args.trace, loaded.config.line), threading.Event()
    while True:
        service = Service(loaded, state, trace, stop)
        code = service.run(exit_on_refusal=args.exit_on_refusal)
        if not service.begins_again:
            return code


class Service:
    """One process serving one device file: boots, then serves, or stays up in ERROR and says why.

    ``begins_again``: it has ended so that another one serves in its place, with what the store names now.
    """

    def __init__(
        self, loaded: LoadedConfig, state: Path, trace: "Trace | None" = None, stop: threading.Event | None = None
    ) -> None:
        self._loaded = loaded
        self._state = state
        self._trace = trace
        self._status_folder = _first_writable(status_folders(state))
        self._profile = loaded.config.profile
        self._run_id = token_hex(4)
        self._notice = ServiceNotice.of_this_process()
        self._lanes: tuple[Lane, ...] = ()
        self._stop = threading.Event() if stop is None else stop
        self.begins_again = False
        self._loop: Loop | None = None
        self._link: MqttLink | None = None
        self._node: EdgeNode | None = None
        self._tests: tuple[SelftestHealth, ...] = ()
        self._lives: tuple[Live, ...] = ()
        self._supply: Supply | None = None
        self._exchange: Exchange | None = None
        self._probe_ns = self._suspect_ns = 0
        self._unusable = 0
        self._announced: tuple[object, ...] = ()
        self._discovery: Discovery | None = None
        self._sender: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()
        self._machine = MachineWatch()

    def run(self, *, exit_on_refusal: bool) -> int:
        """Boot and serve; gives the exit code."""
        for number in stop_signals():
            signal.signal(number, self._on_signal)
        self._link = open_link(self._loaded, self._state, self._run_id)
        self._node = open_node(self._loaded, self._state, self._run_id)
        self._sender = self._make_sender()
        self._write("TESTING", "the self-test runs", ready=False)
        reports, models = self._boot()
        self._tests = tuple(SelftestHealth.of(report) for report in reports)
        refused = [report for report in reports if report.state != "OPERATIONAL"]
        if refused:
            return self._stay_in_error(*_refusal(refused), exit_on_refusal=exit_on_refusal)
        try:
            self._serve(models)
            if self._exchange is not None:
                self._exchange.stop()
            self._part("it was stopped")
        except Quarantined as lost:
            _say(str(lost))
            if self._exchange is not None and self._exchange.gave_up(lost):
                return self._begin_again(str(lost))
            return self._stay_in_error(str(lost), lost.exit_code, exit_on_refusal=exit_on_refusal)
        except EdgeRuntimeError as error:
            self._part(str(error))
            self._write("ERROR", str(error), ready=False, live=False)
            raise
        for lane in self._lanes:
            for told in summary(lane, self._state, told=self._told):
                _say(f"line {lane.name}: {told}")
        self._notice.stopping()
        self._write("OPERATIONAL", self._reason(), ready=False, stopped=True)
        return self._code()

    def _begin_again(self, reason: str) -> int:
        """End so that another service takes this one's place in the process."""
        self._part(reason)
        self.begins_again = True
        return 0

    def _code(self) -> int:
        """65 where every source has ended and a line took nothing of what came: whoever began them looks at the code."""
        if self._stop.is_set() or self.begins_again or not all(line.ends for line in self._loaded.config.line):
            return 0
        empty = [(lane.name, why) for lane in self._lanes if (why := nothing_taken(lane))]
        for name, why in empty:
            _say(f"line {name}: {why}; leaving with exit code {NOTHING_TAKEN}")
        return NOTHING_TAKEN if empty else 0

    def _boot(self) -> tuple[list[Report], dict[str, ReadyModel]]:
        """Boot each bundle once for all the lines that it serves; the models by what ``_name`` calls them."""
        reports: list[Report] = []
        models: dict[str, ReadyModel] = {}
        for name, line in {self._name(line): line for line in self._loaded.config.line}.items():
            booted = self._boot_again(name) if line.slot is None else self._supplied().boot(line.slot)
            self._profile = str(booted.report.facts.get("profile", self._profile))
            reports.append(booted.report)
            _say(line_of(booted.report))
            if booted.ready is not None:
                # It only serves to tell a later failure what has changed since: no reason not to answer.
                with suppress(DeviceError, TemporaryError):
                    remember_pass(self._state, booted.report)
                models[name] = booted.ready
        return reports, models

    def _name(self, line: "LineConfig") -> str:
        """What a line serves: the path of a bundle, or ``store:ID``."""
        return str(self._loaded.resolve(line.bundle)) if line.slot is None else line.bundle

    def _boot_again(self, name: str) -> Booted:
        path = Path(name)
        return boot(path, make_line_setting(self._loaded, path))

    def _supplied(self) -> "Supply":
        if self._supply is None:
            from edge_runtime.run.supply import Supply  # noqa: PLC0415 -- for those who have a store

            self._supply = Supply(self._loaded, _say)
        return self._supply

    def _live(self, slot: str, ready: ReadyModel) -> Live:
        return Live(ready, partial(self._supplied().boot_again, slot), _say)

    def _serve(self, models: dict[str, ReadyModel]) -> None:
        lives = {}
        for line in self._loaded.config.line:
            name = self._name(line)
            if name not in lives:
                again = partial(self._boot_again, name)
                lives[name] = (
                    Live(models[name], again, _say) if line.slot is None else self._live(line.slot, models[name])
                )
        self._lives = tuple(lives.values())
        self._lanes = tuple(
            Lane(
                with_topics(line, self._loaded.config.broker),
                lives[self._name(line)],
                folder=self._loaded.folder,
                state=self._state,
                run_id=self._run_id,
                wall_ns=time.time_ns,
                mono_ns=time.monotonic_ns,
                link=self._link,
                node=self._node,
                trace=self._trace,
            )
            for line in self._loaded.config.line
        )
        self._discovery = self._make_discovery(models)
        self._exchange = self._make_exchange(lives)
        self._look_at_machine()
        self._warn_of_namesake()
        self._write("OPERATIONAL", self._reason(), ready=True)
        self._notice.ready("serving")
        for lane in self._lanes:
            journal = lane.health().journal
            for note in journal.notes if journal is not None else ():
                _say(f"line {lane.name}: {note}")
            _say(f"line {lane.name}: samples come from {lane.source.name}")
        # What was booted belongs to the lanes from here on: once another bundle serves, nobody else may hold its session.
        models.clear()
        lives.clear()
        self._turn(self._lanes, self._every_tick)

    def _make_sender(self) -> dict[str, str]:
        if self._loaded.config.broker is None:
            return {}
        from edge_runtime.run.namesake import sender  # noqa: PLC0415 -- for those who have a broker

        return sender(self._loaded.config.broker, self._state)

    def _warn_of_namesake(self) -> None:
        """Say who else bears this device's name, as far as that is seen before our own status stands in its place."""
        if self._link is None:
            return
        from edge_runtime.run.namesake import TODO, find_namesake  # noqa: PLC0415 -- for those who have a broker

        if found := find_namesake(self._loaded, self._state):
            _say(f"WARNING: {found}; {TODO}")

    def _make_exchange(self, lives: dict[str, Live]) -> "Exchange | None":
        if self._supply is None:
            return None
        from edge_runtime.run.exchange import Exchange  # noqa: PLC0415 -- for those who have a store

        slots = {line.slot: lives[self._name(line)] for line in self._loaded.config.line if line.slot is not None}
        return Exchange(
            self._supply, self._loaded.config.store.trial, self._lanes, slots, run_id=self._run_id,
            make_live=self._live, say=_say,
        )  # fmt: skip

    def _follow(self, exchange: "Exchange") -> None:
        """What serves may be another bundle by now, or is to be another one that takes a new start."""
        exchange.tick()
        others = [one for one in self._tests if not one.bundle.startswith(str(exchange.folder))]
        self._tests = (*others, *map(SelftestHealth.of, exchange.reports))
        if self._run_id != exchange.run_id:
            self._run_id = exchange.run_id
            at_work = [live for live in self._lives if any(lane.serves(live) for lane in self._lanes)]
            self._lives = tuple(dict.fromkeys([*at_work, *exchange.lives.values()]))
            # A model and what calls it hold each other, and the session of the one that left may be half of the memory.
            gc.collect()
        if exchange.begins_again and self._loop is not None:
            self.begins_again = True
            self._loop.stop()

    def _make_discovery(self, models: dict[str, ReadyModel]) -> "Discovery | None":
        config, link = self._loaded.config, self._link
        if config.broker is None or link is None:
            return None
        from edge_runtime.run.discovery import Discovery, is_wanted  # noqa: PLC0415 -- for those who have a broker

        lines = [(with_topics(line, config.broker), models[self._name(line)].model.manifest) for line in config.line]
        if not is_wanted([line for line, _ in lines], self._state):
            return None
        device = device_name(config.broker)
        status_topic = filled(config.broker.status_topic, device=device)
        return Discovery(lines, link, device=device, status_topic=status_topic, state=self._state)

    def _turn(self, lanes: Sequence[Lane], every_tick: Callable[[], None]) -> None:
        """Turn lanes and link until the sources have ended or a signal came."""
        node = self._node if lanes else None  # a node that answers nothing is not there
        self._loop = Loop(lanes, every_tick, time.monotonic_ns, self._link, node)
        if self._stop.is_set():
            self._loop.stop()
        self._loop.run()

    def _stay_in_error(self, reason: str, code: int, *, exit_on_refusal: bool) -> int:
        self._notice.status(f"ERROR: {reason}")
        if self._node is not None:
            self._node.close()  # a host must not take a node that answers nothing for one whose values stand still
        sensors = [f"{line.name} ({line.source.kind})" for line in self._loaded.config.line if not line.ends]
        if exit_on_refusal or not sensors:
            self._write("ERROR", reason, ready=False, stopped=True)
            if not exit_on_refusal:
                _say(
                    f"publishing nothing and leaving with exit code {code}:"
                    " no sensor stands behind any line, each source ends by itself"
                )
            return code
        self._write("ERROR", reason, ready=False)
        _say(
            f"staying up in ERROR and publishing nothing, so that edge-runtime status can say why: a sensor stands behind"
            f" line {', '.join(sensors)}; Ctrl-C or SIGTERM ends it, and --exit-on-refusal leaves at once"
        )

        def every_tick() -> None:
            self._notice.watchdog()
            self._write("ERROR", reason, ready=False)

        self._turn((), every_tick)
        self._part(reason)
        self._write("ERROR", reason, ready=False, stopped=True)
        return 0

    def _every_tick(self) -> None:
        self._prove()
        if self._exchange is not None:
            self._follow(self._exchange)
        self._look_at_machine()
        self._tell_first_refusals()
        self._notice.watchdog()
        if self._discovery is not None:
            self._discovery.tick()
        self._write("OPERATIONAL", self._reason(), ready=True)

    def _tell_first_refusals(self) -> None:
        """Say each reason once a line, when it first comes: whoever looks on must not wait for the end."""
        for lane in self._lanes:
            for reason, refusal in lane.first_refusals.items():
                if (lane.name, reason) not in self._told:
                    self._told.add((lane.name, reason))
                    _say(f"line {lane.name}: {first_text(reason, refusal)}")

    def _look_at_machine(self) -> None:
        before = self._machine.trouble
        self._machine.look()
        trouble = self._machine.trouble
        for lane in self._lanes:
            lane.judge_by_machine(throttled=bool(trouble))
        if bool(trouble) != bool(before):
            _say(f"{trouble}; answers are flagged throttled" if trouble else "the machine is slowed down no longer")

    def _prove(self) -> None:
        """Have each model answer goldens again: on schedule, and at once where it gave something that is no answer.

        At once too where its outputs stand still while its inputs change, but then not oftener than ``SUSPECT_NS``.
        """
        unusable = sum(sum(lane.line.ledger.refused[reason] for reason in UNUSABLE) for lane in self._lanes)
        now_ns = time.monotonic_ns()
        is_suspect = now_ns >= self._suspect_ns and any(live.is_suspect for live in self._lives)
        if now_ns < self._probe_ns and unusable == self._unusable and not is_suspect:
            return
        if is_suspect:
            self._suspect_ns = now_ns + SUSPECT_NS
        self._probe_ns, self._unusable = now_ns + round(self._loaded.config.probe_s * 1e9), unusable
        for live in self._lives:
            lanes = [lane for lane in self._lanes if lane.serves(live)]
            try:
                why = live.probe()
            except DeviceError as failure:  # as one in a line: it has given no wrong answer, so that none is withdrawn
                _say(f"golden probe: {failure}")
                self._write("QUARANTINED", str(failure), ready=False)
                if not self._replaced(live, str(failure)):
                    live.rebuild(str(failure))
                continue
            if why:
                withdrawn = sum(lane.distrust(why) for lane in lanes)
                _say(f"{why}; publishing stops, {withdrawn} answers that were not confirmed are withdrawn")
                self._write("QUARANTINED", why, ready=False)
                if self._replaced(live, why):
                    continue
                live.rebuild(why)
            for lane in lanes:
                lane.trust()

    def _replaced(self, live: Live, why: str) -> bool:
        """Whether what failed was on trial, and the confirmed bundle serves in its place."""
        return self._exchange is not None and self._exchange.replace(live, why)

    def _reason(self) -> str:
        troubles = self._exchange.words if self._exchange is not None else []
        troubles += [f"a session was made anew: {live.rebuilt}" for live in self._lives if live.rebuilt]
        troubles += [f"line {lane.name}: {trouble}" for lane in self._lanes if (trouble := lane.trouble)]
        troubles += [self._machine.trouble] if self._machine.trouble else []
        if self._link is not None and self._link.trouble:
            troubles.insert(0, self._link.trouble)
        if self._node is not None and self._node.trouble:
            troubles.insert(0, self._node.trouble)
        return "; ".join(troubles) or "every check passed"

    def _write(self, state: State, reason: str, *, ready: bool, live: bool = True, stopped: bool = False) -> None:
        health = self._health(state, reason, ready=ready, live=live, stopped=stopped)
        self._announce(health)
        # The status is told, never obeyed: a full disk must not stop the answers.
        with suppress(TemporaryError):
            write_status(self._status_folder, health)

    def _health(self, state: State, reason: str, *, ready: bool, live: bool, stopped: bool) -> Health:
        return Health(
            time=timestamp(time.time_ns()),
            pid=os.getpid(),
            run_id=self._run_id,
            state=state,
            reason=reason,
            live=live and not stopped,
            ready=ready,
            fresh=ready and bool(self._lanes) and all(lane.is_fresh for lane in self._lanes),
            profile=self._profile,
            lines=tuple(lane.health() for lane in self._lanes),
            stopped=stopped,
            selftest=self._tests,
            machine=self._machine.state,
        )

    def _announce(self, health: Health) -> None:
        """Tell the broker what stands there, each time it comes to mean another thing: the counts alone are no news."""
        if self._link is None or health.state == "TESTING" or health.stopped:
            return
        news = (health.state, health.ready, health.fresh, health.reason == "every check passed")
        if news != self._announced:
            self._announced = news
            self._link.announce(lambda: self._message(health))

    def _message(self, then: Health) -> bytes:
        """What the status topic says now: the state is that of ``then``, the rest has gone on."""
        reason = self._reason() if then.state == "OPERATIONAL" else then.reason
        return self._health(then.state, reason, ready=then.ready, live=then.live, stopped=False).as_message(
            self._sender
        )

    def _part(self, reason: str) -> None:
        """Leave the broker in order, so that whoever looks there knows that nobody serves."""
        if self._node is not None:
            self._node.close()
        if self._link is not None:
            self._link.close(offline(self._run_id, reason))

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()
        if self._loop is not None:
            self._loop.stop()


def _refusal(refused: list[Report]) -> tuple[str, int]:
    """What failed first, in one line, and the exit code it stands for."""
    first = next(check for report in refused for check in report.failures(REQUIRED))
    return (
        f"{refused[0].bundle.get('path')}: {first.id}: {first.measured}; expected {first.limit}; {first.hint}",
        first.code,
    )


def _make_folder(state: Path) -> None:
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o750)
    except OSError as error:
        raise ConfigurationError(
            subject="state folder", found=f"{state}: {error.strerror}", expected="a folder this user can write",
            todo="set state_dir in the device file, or give the user the folder",
        ) from error  # fmt: skip


def _first_writable(folders: Sequence[Path]) -> Path:
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            if os.access(folder, os.W_OK):
                return folder
    return folders[-1]


def _say(text: str) -> None:
    sys.stderr.write(f"edge-runtime: {text}\n")
    sys.stderr.flush()
