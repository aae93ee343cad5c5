"""What is in the frozen folder: the same bytes each time, nothing of the author's, and every part accounted for."""

import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import freeze
from tests.rig.program import ROOT

pytestmark = pytest.mark.long

_ELF = b"\x7fELF"


@pytest.fixture(scope="module")
def folder(frozen: Path) -> Path:
    return frozen / "edge-runtime"


@pytest.fixture(scope="module")
def bom(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "sbom.cdx.json").read_text("utf-8"))
    return loaded


def test_twice_gives_the_same_bytes(frozen: Path, tmp_path: Path) -> None:
    again = freeze(tmp_path)
    assert _digest(again) == _digest(frozen / again.name)


def test_the_archive_is_the_folder(frozen: Path, folder: Path) -> None:
    (archive,) = frozen.glob("*.tar.xz")
    names = {str(path.relative_to(frozen)) for path in folder.rglob("*")} | {folder.name}
    with tarfile.open(archive) as tar:
        for member in tar:  # in its order: each way back would unpack from the beginning
            names.remove(member.name)
            path = frozen / member.name
            assert (member.uid, member.isdir()) == (0, path.is_dir())
            if member.isreg():
                file = tar.extractfile(member)
                assert file is not None
                assert file.read() == path.read_bytes()
                assert bool(member.mode & 0o100) == os.access(path, os.X_OK)
    assert names == set()


def test_help_needs_no_library(folder: Path) -> None:
    """Nor the time that one takes: `-X importtime` of a checkout is held to the same by another test."""
    traced = subprocess.run(
        [folder / "edge-runtime", "--help"], check=True, capture_output=True, text=True, env={"LD_DEBUG": "files"}
    )
    loaded = {line.split("file=")[1].split()[0] for line in traced.stderr.splitlines() if "file=" in line}
    assert any("libpython" in name for name in loaded)
    assert [name for name in loaded if "numpy" in name or "onnxruntime" in name or "pydantic" in name] == []


def test_nothing_of_the_author_s(folder: Path) -> None:
    names = _modules(folder)
    assert {"edge_runtime.run.serve", "edge_runtime.engine.isolated", "pydantic", "cryptography"} <= names
    unwanted = (
        "edge_runtime.author",
        "onnx",
        "google",
        "onnxruntime.quantization",
        "onnxruntime.tools",
        "leather",
        "pip",
    )
    assert [name for name in names if name in unwanted or name.startswith(tuple(f"{one}." for one in unwanted))] == []
    assert [
        path for path in (folder / "_internal").rglob("*") if "author" in path.parts or "quantization" in path.parts
    ] == []


def test_every_device_module_is_in_it(folder: Path) -> None:
    ours = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "edge_runtime").rglob("*.py")
        if "author" not in path.parts
    }
    assert ours - _modules(folder) == set()


def test_every_library_stands_in_the_sbom_once(folder: Path, bom: dict[str, Any]) -> None:
    told = [
        (file["name"], file["hashes"][0]["content"])
        for component in bom["components"]
        for file in component.get("components", ())
        if file["type"] == "file"
    ]
    found = [
        (str(path.relative_to(folder)), _digest(path))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == _ELF
    ]
    assert sorted(told) == sorted(found)


def test_every_part_of_the_table_is_in_the_folder(folder: Path, bom: dict[str, Any]) -> None:
    """A part that is gone would be a line that nobody dares to remove; and its library one that nobody names."""
    table = _table()
    assert {part["name"] for part in table["part"]} <= {component["name"] for component in bom["components"]}
    system = {path.name for path in (folder / "_internal").rglob("*.so*")}
    assert [name for name in system if name.startswith(("libstdc++", "libgcc_s", "libc.so", "libm.so"))] == []


def test_every_package_has_a_name_a_version_and_a_licence(bom: dict[str, Any]) -> None:
    python = [component for component in bom["components"] if "purl" in component]
    assert {"numpy", "onnxruntime", "pydantic", "pydantic_core", "pyserial", "paho-mqtt", "mqtt5", "cryptography"} <= {
        component["name"] for component in python
    }
    assert [
        component["name"] for component in python if component["name"] in ("pyinstaller", "protobuf", "setuptools")
    ] == []
    for component in python:
        assert component["version"] in component["purl"]
    for component in bom["components"]:
        (licence,) = component["licenses"]
        assert licence.get("expression") or licence["license"]["name"]
    assert {dependency for one in bom["dependencies"] for dependency in one["dependsOn"]} == {
        component["bom-ref"] for component in bom["components"]
    }


def test_notice_and_texts(folder: Path, bom: dict[str, Any]) -> None:
    notice = (folder / "NOTICE").read_text("utf-8")
    for component in bom["components"]:
        assert f"\n{component['name']}" in notice
    texts = [path for path in (folder / "licenses").rglob("*") if path.is_file()]
    assert len({path.parent for path in texts}) >= len(bom["components"]) - 1  # OpenSSL is in it twice
    assert all(path.stat().st_size > 100 for path in texts)


def _table() -> dict[str, Any]:
    import tomllib

    return tomllib.loads((ROOT / "packaging/native_parts.toml").read_text("utf-8"))


def _modules(folder: Path) -> set[str]:
    python = next((ROOT / "build/freeze").glob("venv-cpu/bin/python"))
    code = (
        "import sys; from PyInstaller.archive.readers import CArchiveReader as R;"
        "print(*R(sys.argv[1]).open_embedded_archive('PYZ.pyz').toc)"
    )
    done = subprocess.run([python, "-c", code, folder / "edge-runtime"], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
