"""The file of a provider in a library of its own is hashed once a boot, and it is that digest which is told and loaded by."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from edge_runtime.engine import provider_library
from edge_runtime.engine import session as engine
from edge_runtime.run.boot import Setting, boot
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_profile import Isolation, ProviderChoice
from tests.engine.test_provider_library import NAME, stand_in
from tests.rig.bundles import FROST, write_with_manifest
from tests.rig.program import PATIENCE_S

DATA = b"\x7fELF and the rest"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(provider_library, "_loaded", {})
    path = tmp_path / "provider.so"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were hashed."""
    found: list[str] = []
    real = hashlib.file_digest

    def counted(file: IO[bytes], name: str) -> Any:
        found.append(file.name)
        return real(file, name)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return found


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    def allow(raw: dict[str, Any]) -> None:
        (variant,) = raw["variants"]
        variant["tolerances"][NAME] = variant["tolerances"]["CPUExecutionProvider"]

    return write_with_manifest(FROST, tmp_path / "bundle", allow)


def _setting(library: Path, **more: Any) -> Setting:
    # The stand-in's nodes all run on the CPU, which no profile may allow.
    choice = ProviderChoice(name=NAME, library=str(library)).model_copy(update={"allowed_elsewhere": 1.0})
    found = make_setting()
    return replace(found, profile=found.profile.model_copy(update={"providers": (choice,)} | more))


def test_once_where_it_serves(library: Path, bundle: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "CPU")
    booted = boot(bundle, _setting(library))
    assert booted.ready is not None
    assert hashed == [str(library)]
    (told,) = [one.measured for one in booted.report.checks if one.id == "provider"]
    assert f"{NAME} of {library}, SHA-256 {DIGEST}" in told
    assert booted.report.environment["library"] == provider_library._loaded[NAME][1] == DIGEST
    assert boot(bundle, _setting(library)).ready is not None
    assert len(hashed) == 2, "each boot asks the file itself"


def test_once_where_it_is_refused(
    library: Path, bundle: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    booted = boot(bundle, _setting(library))
    (failed,) = booted.report.failures()
    assert failed.measured == f"provider's library {library}: found its library is there, but no device"
    assert hashed == [str(library)]
    assert booted.report.environment["library"] == DIGEST


def test_what_may_not_be_loaded_is_refused_and_not_hashed(library: Path, bundle: Path, hashed: list[str]) -> None:
    library.chmod(0o666)
    booted = boot(bundle, _setting(library))
    (failed,) = booted.report.failures()
    assert failed.measured == f"provider's library {library}: found a file that everybody may write"
    assert (hashed, booted.report.environment["library"]) == ([], "refused")


def test_another_file_than_was_loaded_is_refused_by_the_digest_that_is_handed_on(
    library: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "CPU")
    assert boot(bundle, _setting(library)).ready is not None
    library.write_bytes(DATA + b"!")
    (failed,) = boot(bundle, _setting(library)).report.failures()
    assert "found another than what this process has loaded" in failed.measured


def test_a_process_of_its_own_is_told_it(library: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    def opened(model: bytes, **settings: Any) -> Any:
        told.append(settings)
        return engine.open_session(model)

    monkeypatch.setattr("edge_runtime.engine.isolate.open_isolated", opened)
    boot(bundle, _setting(library, isolation=Isolation(memory_mb=256, timeout_s=PATIENCE_S)))
    assert (told[0]["library"], told[0]["library_digest"]) == (str(library), DIGEST)
