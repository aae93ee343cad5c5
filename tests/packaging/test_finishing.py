"""`scripts/frozen_folder.py` and `frozen_parts.py`: each limit is one, what nobody accounts for stops a freeze."""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.rig.program import ROOT


def _load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _load("frozen_parts", monkeypatch)


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, parts: ModuleType) -> ModuleType:
    assert parts
    return _load("frozen_folder", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "edge-runtime/_internal").mkdir(parents=True)
    return tmp_path / "edge-runtime"


def test_a_library_that_asks_for_a_newer_system(folders: ModuleType, folder: Path, monkeypatch, need, capsys) -> None:
    need(shutil.which("readelf"), "readelf of binutils")
    shutil.copy(sys.executable, folder / "program")
    assert list(folders.beyond_baseline(folder)) == []
    assert "highest GLIBC_2." in capsys.readouterr().out
    monkeypatch.setattr(folders, "GLIBC_BASELINE", (2, 2))
    (fault,) = folders.beyond_baseline(folder)
    assert fault.startswith("program: found GLIBC_2.")
    assert fault.endswith("; expected at most 2.2; freeze on an older system")


def test_a_folder_too_large(folders: ModuleType, folder: Path, monkeypatch) -> None:
    (folder / "a").write_bytes(bytes(1000))
    (folder.parent / "b").write_bytes(bytes(10))
    assert list(folders.too_large(folder, folder.parent / "b")) == []
    monkeypatch.setattr(folders, "MAX_UNPACKED", 1000)
    monkeypatch.setattr(folders, "MAX_PACKED", 10)
    assert [fault.partition(";")[0] for fault in folders.too_large(folder, folder.parent / "b")] == [
        "unpacked: found 1000 bytes", "packed: found 10 bytes",
    ]  # fmt: skip


def test_an_archive_is_the_same_whoever_packs_it(folders: ModuleType, folder: Path) -> None:
    (folder / "program").write_bytes(b"1")
    (folder / "program").chmod(0o700)
    (folder / "text").write_bytes(b"2")
    folders.pack(folder, folder.parent / "one", 1_700_000_000)
    (folder / "program").chmod(0o775)
    (folder / "text").chmod(0o664)
    (folder / "text").touch()
    folders.pack(folder, folder.parent / "two", 1_700_000_000)
    assert (folder.parent / "one").read_bytes() == (folder.parent / "two").read_bytes()


def test_what_is_stripped_is_never_numpy_s_own_libraries(folders: ModuleType, folder: Path, monkeypatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(folders.subprocess, "run", lambda words, check: done.append(words[-1]) if check else None)
    for name in ("libpython3.11.so.1.0", "numpy/_core/a.so", "numpy.libs/libscipy_openblas64_-1.so", "other.so"):
        (folder / "_internal" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "_internal" / name).write_bytes(b"\x7fELF and more")
    (folder / "edge-runtime").write_bytes(b"\x7fELF and modules behind it")
    folders.strip(folder)
    assert [Path(name).name for name in done] == ["libpython3.11.so.1.0", "a.so"]


def test_a_library_of_nobody_s(parts: ModuleType, folder: Path) -> None:
    library = folder / "_internal/libstrange.so.1"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(parts.UnaccountedError, match=r"_internal/libstrange.so.1: found no owner"):
        parts.write_parts(folder, [library], [], "1", 0)


def test_a_module_of_nobody_s(parts: ModuleType, folder: Path) -> None:
    with pytest.raises(parts.UnaccountedError, match="modules strange: found no package"):
        parts.write_parts(folder, [], ["strange.part", "json", "edge_runtime.cli"], "1", 0)


def test_a_part_without_its_version_or_its_text(parts: ModuleType, folder: Path) -> None:
    library = folder / "_internal/libz.so.1"
    library.write_bytes(b"\x7fELF without a version")
    with pytest.raises(parts.UnaccountedError, match=r"_internal/libz.so.1: found no 'deflate"):
        parts.write_parts(folder, [library], [], "1", 0)
    with pytest.raises(parts.UnaccountedError, match="zlib: found no licence text; expected /nowhere"):
        parts._first("zlib", ["/nowhere"])


def test_a_package_without_a_licence(parts: ModuleType) -> None:
    from importlib.metadata import distribution

    with pytest.raises(parts.UnaccountedError, match="pyserial: found no SPDX licence"):
        parts._python(distribution("pyserial"), {}, {})
    with pytest.raises(parts.UnaccountedError, match="pyserial: found no licence text"):
        parts._python(distribution("pyserial"), {}, {"licence": "BSD-3-Clause"})


def test_a_bootloader_s_library_path_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("frozen_entry", ROOT / "packaging/frozen_entry.py")
    assert spec is not None
    assert spec.loader is not None
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    monkeypatch.setattr(sys, "_MEIPASS", "/opt/edge-runtime/_internal", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/edge-runtime/_internal")
    entry._put_back_library_path()
    assert "LD_LIBRARY_PATH" not in entry.os.environ
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/edge-runtime/_internal:/mine")
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/mine")
    entry._put_back_library_path()
    assert entry.os.environ["LD_LIBRARY_PATH"] == "/mine"
    assert "LD_LIBRARY_PATH_ORIG" not in entry.os.environ


def test_the_page_says_what_is_held(folders: ModuleType) -> None:
    page = (ROOT / "docs/frozen.md").read_text("utf-8")
    glibc, glibcxx = folders._text(folders.GLIBC_BASELINE), folders._text(folders.GLIBCXX_BASELINE)
    assert f"| C library | glibc {glibc} |" in page
    assert f"libstdc++ with GLIBCXX {glibcxx} " in page
    assert f"reaches {folders.MAX_UNPACKED // 10**6} MB or the archive {folders.MAX_PACKED // 10**6} MB" in page
