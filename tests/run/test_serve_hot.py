"""`run` on a machine that is slowed down: its answers and its status say so from the first on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.device import sensors
from tests.rig.bundles import DEWPOINT
from tests.rig.program import PATIENCE_S, ROOT, environment

DEVICE = f"""\
schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "roof"
bundle = "{DEWPOINT}"
source = {{ kind = "stdin" }}
decode = {{ format = "json" }}
sink = [{{ kind = "stdout" }}]
[line.channels]
air_temperature = {{ field = "t", unit = "Cel" }}
relative_humidity = {{ field = "rh", unit = "%" }}
station_pressure = {{ field = "p", unit = "hPa" }}
"""


@pytest.mark.parametrize(("bits", "throttled"), [("5", True), ("50000", False)])
def test_answers_and_status(tmp_path: Path, bits: str, throttled: bool) -> None:
    (tmp_path / "device.toml").write_text(DEVICE)
    sensors.pi5(tmp_path / "sensors", bits=bits, millidegrees="84100")
    done = subprocess.run(
        [sys.executable, "-m", "tests.rig.hot_machine", str(tmp_path / "sensors"), "run", "--config",
         str(tmp_path / "device.toml")],
        input=b'{"t":20,"rh":50,"p":1000}\n{"t":21,"rh":50,"p":1000}\n',
        cwd=ROOT, env=environment(tmp_path), capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    flagged = ["throttled" in json.loads(line)["flags"] for line in done.stdout.splitlines()]
    assert flagged == [throttled] * 2
    status = json.loads(next(tmp_path.rglob("status.json")).read_bytes())
    assert status["machine"]["temperatures"] == {"cpu-thermal": 84.1}
    assert status["machine"]["is_slowed"] is throttled
    why = "the machine is slowed down: firmware: throttled, under voltage"
    assert (status["reason"] == why) is throttled
    assert (f"{why}; answers are flagged throttled" in done.stderr.decode()) is throttled
