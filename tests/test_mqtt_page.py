"""docs/mqtt.md: its first part from block to block as a reader types it, and every device file of it."""

import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from edge_runtime.spec.broker import BrokerConfig, BrokerTls
from edge_runtime.spec.device_config import DeviceConfig
from tests.rig.broker import Broker, free_port
from tests.rig.mqtt_client import Client
from tests.rig.need import need
from tests.test_readme import _BLOCK, _environment, checkout

__all__ = ["checkout"]  # a fixture, asked for by name

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/mqtt.md").read_text(encoding="utf-8")
PATIENCE_S = 60


def test_every_block_of_the_first_part(checkout: Path) -> None:
    environment = _environment(checkout)
    environment["PATH"] += ":/usr/sbin"
    need(shutil.which("mosquitto", path=environment["PATH"]), "mosquitto")
    port = str(free_port())
    behind: list[subprocess.Popen[bytes]] = []
    printed = ""
    kinds = []
    first_part = PAGE[: PAGE.index("\n## `[broker]`")].replace("1883", port)
    try:
        for block in _BLOCK.finditer(first_part):
            kind, text = block["kind"], block["text"]
            kinds.append(kind)
            if kind == "toml":
                (checkout / "mqtt.toml").write_text(text, encoding="utf-8")
            elif kind == "python":
                done = subprocess.run(
                    [sys.executable, "-c", text], cwd=checkout, env=environment, capture_output=True, text=True,
                    check=False, timeout=PATIENCE_S,
                )  # fmt: skip
                assert done.returncode == 0, done.stderr
                printed = done.stdout
            elif kind == "sh" and text.rstrip().endswith("&"):
                words = text.rstrip().removesuffix("&").split()
                behind.append(subprocess.Popen(words, cwd=checkout, env=environment, stderr=subprocess.DEVNULL))
            elif kind == "sh":
                _until_it_says(text.split(), checkout, environment, "1 received = 1 accepted")
            else:
                assert printed == text
    finally:
        for process in reversed(behind):
            process.terminate()
            process.wait(PATIENCE_S)
    assert kinds == ["sh", "toml", "sh", "python", "", "sh"]


def _until_it_says(words: list[str], folder: Path, environment: dict[str, str], expected: str) -> None:
    """Ask again until it does: a status is written once a second."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if expected in done.stdout:
            return
        assert time.monotonic() < deadline, done.stdout


def test_every_device_file_of_it_loads() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        DeviceConfig.model_validate(tomllib.loads(block))


def test_every_key_of_the_broker_is_in_it() -> None:
    table = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("\n## `[broker]`") : PAGE.index("\nA broker behind TLS")]))
    assert set(BrokerConfig.model_fields) | set(BrokerTls.model_fields) <= table


def test_the_blocks_about_recording(checkout: Path) -> None:
    page = PAGE.partition("## Record, and play again\n")[2].partition("\n## ")[0]
    record, play = re.findall(r"^```sh\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    environment = _environment(checkout)
    with Broker(checkout / "mosquitto") as broker:
        device = re.findall(r"^```toml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
        (checkout / "mqtt.toml").write_text(device.replace("1883", str(broker.port)), encoding="utf-8")
        reading = {"time": "2026-11-30T12:00:00Z", "t": 20.0, "rh": 50.0, "p": 1000.0}
        with subprocess.Popen(record.split(), cwd=checkout, env=environment, stderr=subprocess.PIPE) as recorder:
            with Client(broker.port) as client:
                # Until the recorder has subscribed, nothing is kept for it.
                client.until(lambda: _recorded(client, checkout / "readings.rec", reading), "a recorded message")
            recorder.terminate()
            assert recorder.wait(PATIENCE_S) == 0
    for line in play.splitlines():
        done = subprocess.run(
            line.split(), cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
    answers = (checkout / "answers.jsonl").read_text().splitlines()
    assert [json.loads(one)["stream"] for one in answers] == ["north"]


def _recorded(client: Client, file: Path, reading: dict[str, object]) -> bool:
    client.publish("plant/north/reading", json.dumps(reading))
    return file.exists() and b"plant/north" in file.read_bytes()
