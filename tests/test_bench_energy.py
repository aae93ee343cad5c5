"""`scripts/bench`: joules an inference by a made-up rail and a made-up clock, and nothing where there is no rail."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from edge_runtime.device.energy import EnergyMeter
from tests.device import sensors
from tests.rig.program import ROOT


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_energy", ROOT / "scripts/bench_energy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Board:
    """Idles at 5 W and computes at 10 W; an inference takes 20 ms."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = sensors.orin(root, milliamps="1000"), 0

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def infer(self) -> None:
        sensors.orin(self.root, milliamps="2000")
        self.now += 20_000_000


def test_gross_and_beyond_idling(bench: ModuleType, tmp_path: Path) -> None:
    board = Board(tmp_path)
    found = bench.measure_energy(
        "tiny", board.infer, EnergyMeter(tmp_path), mono_ns=lambda: board.now, sleep=board.sleep
    )
    assert (found.case, found.source, found.inferences) == ("tiny", "rail VDD_IN", 250)
    assert (found.idle_watts, found.busy_watts) == (pytest.approx(5), pytest.approx(10, rel=0.02))
    assert found.gross_mj == pytest.approx(10 * 20, rel=0.02)
    assert found.net_mj == pytest.approx((10 - 5) * 20, rel=0.02)


def test_no_rail_is_no_figure(bench: ModuleType, tmp_path: Path) -> None:
    board = Board(tmp_path / "board")
    assert bench.measure_energy("tiny", board.infer, EnergyMeter(tmp_path), mono_ns=lambda: board.now) is None


def test_a_rail_that_falls_silent_is_no_figure(bench: ModuleType, tmp_path: Path) -> None:
    board = Board(tmp_path)
    meter = EnergyMeter(tmp_path)
    (tmp_path / "sys/class/hwmon/hwmon1/curr1_input").write_text("")
    assert (
        bench.measure_energy("tiny", lambda: board.sleep(1), meter, mono_ns=lambda: board.now, sleep=board.sleep)
        is None
    )
