"""A provider from a library, with a stand-in below the one door to onnxruntime; tests/interop has real libraries."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from edge_runtime.engine import provider_library
from edge_runtime.engine import session as engine
from edge_runtime.errors import DeviceError

NAME = "OpenVINOExecutionProvider"


class StandIn:
    """What onnxruntime would be asked: it registers any library, and its devices are the built-in processor's."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self._kinds = kinds
        self.registered: list[tuple[str, str]] = []
        self.added: list[tuple[list[Any], dict[str, str]]] = []

    def register(self, name: str, path: str) -> None:
        self.registered.append((name, path))

    def devices(self) -> list[Any]:
        return [
            SimpleNamespace(ep_name=NAME, device=SimpleNamespace(type=SimpleNamespace(name=k))) for k in self._kinds
        ]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(provider_library, "_loaded", {})
    path = tmp_path / "provider.so"
    path.write_bytes(b"\x7fELF and the rest")
    return str(path)


def stand_in(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> StandIn:
    made = StandIn(kinds)

    class Options(onnxruntime.SessionOptions):
        def add_provider_for_devices(self, devices: list[Any], options: dict[str, str]) -> None:
            made.added.append((devices, options))

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", made.register)
    monkeypatch.setattr(onnxruntime, "get_ep_devices", made.devices)
    return made


def test_the_digest_is_the_files(library: str) -> None:
    assert provider_library.library_digest(library) == hashlib.sha256(Path(library).read_bytes()).hexdigest()


def test_it_is_registered_once_and_its_first_device_gets_the_options(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stand_in(monkeypatch, "CPU", "GPU")
    for _ in range(2):
        engine.open_session(
            engine.IDENTITY_MODEL, provider=NAME, provider_options={"num_streams": "1"}, library=library, elsewhere=True
        )
    assert made.registered == [(NAME, library)]
    assert [([one.device.type.name for one in devices], options) for devices, options in made.added] == [
        (["CPU"], {"num_streams": "1"})
    ] * 2


def test_the_kind_of_device_that_is_asked_for(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stand_in(monkeypatch, "CPU", "GPU", "GPU")
    engine.open_session(engine.IDENTITY_MODEL, provider=NAME, library=library, device="GPU", elsewhere=True)
    ((devices, _),) = made.added
    assert [one.device.type.name for one in devices] == ["GPU"]
    with pytest.raises(
        DeviceError, match="found its library is there, but of devices only CPU, GPU; expected a device NPU"
    ):
        engine.open_session(engine.IDENTITY_MODEL, provider=NAME, library=library, device="NPU", elsewhere=True)


def test_a_session_that_would_be_the_cpus_is_none(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in adds no provider, as one that takes nothing; ONNX Runtime would serve on the CPU."""
    stand_in(monkeypatch, "GPU")
    with pytest.raises(DeviceError, match=f"provider {NAME}: found it runs nothing here"):
        engine.open_session(engine.IDENTITY_MODEL, provider=NAME, library=library)


def test_a_library_without_a_device(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    with pytest.raises(DeviceError, match="found its library is there, but no device; expected a device that Open"):
        engine.open_session(engine.IDENTITY_MODEL, provider=NAME, library=library)


def test_a_library_that_has_changed_since_it_was_loaded(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "CPU")
    engine.open_session(engine.IDENTITY_MODEL, provider=NAME, library=library, elsewhere=True)
    Path(library).write_bytes(b"\x7fELF and something else")
    with pytest.raises(DeviceError, match="found another than what this process has loaded"):
        engine.open_session(engine.IDENTITY_MODEL, provider=NAME, library=library, elsewhere=True)


def test_a_library_of_another_user(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_library.os, "getuid", lambda: 4242)
    mine = Path(library).stat().st_uid
    monkeypatch.setattr(provider_library.os, "lstat", lambda _path: SimpleNamespace(st_mode=0o100644, st_uid=mine or 7))
    with pytest.raises(DeviceError, match=f"found a file of user {mine or 7}; expected one of root or of this user"):
        provider_library.library_digest(library)


def test_an_unknown_provider_registers_nothing(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stand_in(monkeypatch, "CPU")
    with pytest.raises(DeviceError, match="provider: found 'Nope'"):
        engine.open_session(engine.IDENTITY_MODEL, provider="Nope", library=library)
    assert made.registered == []
