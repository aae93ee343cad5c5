"""Whole self-tests before and after one change of the machine or its software: `changed` names that and nothing else."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.device.probe import probe
from edge_runtime.engine import session as engine
from edge_runtime.run import selftest
from edge_runtime.run import setting as setting_of
from tests.device import trees
from tests.rig.bundles import DEWPOINT, write_with_manifest
from tests.rig.caching_provider import CachingProvider
from tests.rig.device_file import line, write_device_file

PROFILE = """
schema = "edge-runtime/profile/1"
name = "site"
description = "a test"
inherits = "generic_x86"
"""
BOTH = """
[[providers]]
name = "OpenVINOExecutionProvider"
options = { device_type = "CPU" }
[[providers]]
name = "CPUExecutionProvider"
"""


class Device:
    """A made-up machine with a device file, and its self-test."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.root, self.patch = folder, folder / "root", patch
        self.bundle = write_with_manifest(DEWPOINT, folder / "bundle", lambda raw: raw)
        trees.gpus(trees.vnni(self.root))
        self.config = write_device_file(folder, line("roof", self.bundle))
        self.profile("")
        patch.setattr(setting_of, "probe", lambda: probe(self.root))

    def profile(self, text: str) -> None:
        (self.folder / "site.toml").write_text(PROFILE + text)

    def put(self, name: str, text: str) -> None:
        trees.write(self.root, {name: text})

    def changed(self) -> list[str] | None:
        """What the report of a self-test that passed says."""
        report = self.folder / "report.json"
        words = {"bundle": None, "config": str(self.config), "profile": str(self.folder / "site.toml"), "inject": None}
        files = {"json": str(report), "junit": None, "textfile": None}
        selftest.main(Namespace(**words, **files, tier="required,wanted", retry_code=1))
        (found,) = json.loads(report.read_text())["boots"]
        assert found["state"] == "OPERATIONAL", found["checks"]
        changes: list[str] | None = found["changed_since_last_pass"]
        return changes


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(tmp_path, monkeypatch)


def _flags(device: Device) -> None:
    trees.x86(device.root, trees.VNNI_FLAGS.replace(" avx512_vnni", ""))


def _bundle(device: Device) -> None:
    write_with_manifest(DEWPOINT, device.bundle, lambda raw: raw["provenance"].update(limits="for a test"))


def _onnxruntime(device: Device) -> None:
    device.patch.setattr(engine, "version", lambda: "1.32.1")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_onnxruntime, f"onnxruntime {engine.version()} -> 1.32.1"),
        (_flags, "features lost avx512_vnni"),
        (lambda device: device.put("sys/module/nvidia/version", "570.99.01\n"),
         "driver i915, intel_vpu, nvidia 570.86.10 -> i915, intel_vpu, nvidia 570.99.01"),
        (lambda device: device.put("sys/class/drm/card0/device/device", "0x2504\n"),
         "device 10de:24b0, 8086:7d1d, 8086:9a49, NVIDIA RTX A4000 -> 10de:2504, 8086:7d1d, 8086:9a49, NVIDIA RTX A4000"),
        (lambda device: device.put("sys/class/dmi/id/bios_version", "1.5.0\n"),
         "firmware Example Inc. 1.4.2 -> Example Inc. 1.5.0"),
        (lambda device: device.put("proc/sys/kernel/osrelease", "6.1.0-31-amd64\n"),
         "kernel 6.1.0-30-amd64 -> 6.1.0-31-amd64"),
        (lambda device: device.profile("intra_threads = 2"), "threads 1 -> 2"),
        (lambda device: device.profile("latency_p99_ms = 5000.0"), ""),
        (lambda device: device.put("proc/sys/kernel/random/boot_id", "5f0c0a8e-0000-4000-8000-00000000000b\n"), ""),
        (lambda _: None, ""),
    ],
    ids=["onnxruntime", "a CPU flag", "driver", "device", "firmware", "kernel", "threads", "a limit", "a restart", "nothing"],
)  # fmt: skip
def test_only_that_is_named(device: Device, change: Callable[[Device], object], words: str) -> None:
    assert device.changed() is None
    assert device.changed() == []
    change(device)
    assert device.changed() == ([words] if words else [])
    assert device.changed() == []


def test_only_the_bundle(device: Device) -> None:
    device.changed()
    _bundle(device)
    (words,) = device.changed() or ()
    assert words.startswith("bundle ")
    assert device.changed() == []


def test_only_a_providers_option_or_the_provider(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = CachingProvider()
    monkeypatch.setattr(engine, "_onnxruntime", lambda: provider)
    device.profile(BOTH)
    assert device.changed() is None
    device.profile(BOTH.replace('"CPU" }', '"CPU", precision = "FP32" }'))
    assert device.changed() == ["options device_type=CPU -> device_type=CPU precision=FP32"]
    # The next of the list serves: its options are not a change of their own, and the drivers are still the same.
    provider.fault = 3.0
    assert device.changed() == ["provider OpenVINOExecutionProvider -> CPUExecutionProvider"]
    provider.fault = 0.0
    device.put("sys/module/nvidia/version", "570.99.01\n")
    assert [words.split()[0] for words in device.changed() or ()] == ["driver", "provider"]
