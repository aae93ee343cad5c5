"""The machine while it serves: looked at every ten seconds, more rarely where that is slow, never where it is silent."""

from collections.abc import Callable
from pathlib import Path

from edge_runtime.device.telemetry import SILENT, Telemetry, read_telemetry
from edge_runtime.run.machine_watch import PAUSE_NS, MachineWatch
from tests.device import sensors

SECOND = 1_000_000_000


class Clock:
    """A clock that stands, but for what a reading takes."""

    def __init__(self, tells: Callable[[int], Telemetry], took_ns: int = 0) -> None:
        self.now, self.asked = 0, list[int]()
        self._tells, self._took_ns = tells, took_ns

    def read(self) -> Telemetry:
        self.asked.append(self.now)
        self.now += self._took_ns
        return self._tells(len(self.asked))


def seconds(watch: MachineWatch, clock: Clock, count: int) -> None:
    for _ in range(count):
        watch.look()
        clock.now += SECOND


def watch_of(clock: Clock) -> MachineWatch:
    return MachineWatch(clock.read, lambda: clock.now)


def test_it_is_read_every_ten_seconds(tmp_path: Path) -> None:
    cool = read_telemetry(sensors.pi5(tmp_path), lambda: 0)
    clock = Clock(lambda _: cool)
    seconds(watch_of(clock), clock, 31)
    assert [at // SECOND for at in clock.asked] == [0, 10, 20, 30]


def test_a_silent_machine_is_asked_once() -> None:
    clock = Clock(lambda _: SILENT)
    watch = watch_of(clock)
    seconds(watch, clock, 100)
    assert clock.asked == [0]
    assert (watch.state, watch.trouble) == (None, "")


def test_one_that_falls_silent_is_asked_on(tmp_path: Path) -> None:
    cool = read_telemetry(sensors.pi5(tmp_path), lambda: 0)
    clock = Clock(lambda count: SILENT if count == 2 else cool)
    watch = watch_of(clock)
    seconds(watch, clock, 11)
    assert watch.state is None
    seconds(watch, clock, 11)
    assert watch.state is not None


def test_slow_sensors_take_a_thousandth_of_the_time_at_most(tmp_path: Path) -> None:
    cool = read_telemetry(sensors.pi5(tmp_path), lambda: 0)
    clock = Clock(lambda _: cool, took_ns=PAUSE_NS // 250)
    watch = watch_of(clock)
    for _ in range(45):
        watch.look()
        clock.now += SECOND
    assert [at // SECOND for at in clock.asked] == [0, 40]


def test_trouble_comes_and_goes(tmp_path: Path) -> None:
    tells = [read_telemetry(sensors.pi5(tmp_path, bits=bits), lambda: 0) for bits in ("0", "5", "50000")]
    clock = Clock(lambda count: tells[count - 1])
    watch = watch_of(clock)
    seen = []
    for _ in tells:
        watch.look()
        seen.append((watch.trouble, watch.state is not None and watch.state.is_slowed))
        clock.now += PAUSE_NS
    assert seen == [
        ("", False),
        ("the machine is slowed down: firmware: throttled, under voltage", True),
        ("", False),
    ]


def test_counts_are_held_against_the_last_look(tmp_path: Path) -> None:
    tells = [read_telemetry(sensors.pc(tmp_path, events=(0, count)), lambda: 0) for count in (7, 7, 9)]
    clock = Clock(lambda count: tells[count - 1])
    watch = watch_of(clock)
    seen = []
    for _ in tells:
        watch.look()
        seen.append(watch.trouble)
        clock.now += PAUSE_NS
    assert seen == ["", "", "the machine is slowed down: throttled, 2 times counted since the last look"]


def test_a_core_that_is_switched_off_and_on_again_was_not_throttled(tmp_path: Path) -> None:
    events = ((3, 7), (3,), (3, 7), (3, 8))
    tells = [read_telemetry(sensors.pc(tmp_path / str(at), events=found), lambda: 0) for at, found in enumerate(events)]
    clock = Clock(lambda count: tells[count - 1])
    watch = watch_of(clock)
    seen = []
    for _ in tells:
        watch.look()
        seen.append(watch.trouble)
        clock.now += PAUSE_NS
    assert seen == ["", "", "", "the machine is slowed down: throttled, 1 times counted since the last look"]
