"""The frozen folder made fit to leave: stripped, measured against what a device may have, packed; it changes no behaviour.

usage: frozen_folder.py FOLDER ARCHIVE VERSION        FOLDER as PyInstaller left it, ARCHIVE the .tar.xz to write
"""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from frozen_parts import SBOM, UnaccountedError, write_parts

GLIBC_BASELINE: Final = (2, 35)
"""What a device's C library must have: that of JetPack 6 and Ubuntu 22.04; Debian 12 has 2.36, JetPack 7 has 2.39."""
GLIBCXX_BASELINE: Final = (3, 4, 22)
"""What its libstdc++, which is not in the folder, must have: GCC 6's."""
MAX_UNPACKED: Final = 120_000_000
MAX_PACKED: Final = 38_000_000
# Not numpy's own libraries, which do not survive it (pyinstaller #9463); not the program, whose modules hang on its end.
STRIPPED: Final = (
    "libpython*", "libcrypto*", "libssl*", "lib*.so.*", "*/lib-dynload/*.so", "onnxruntime/capi/*.so", "numpy/**/*.so",
    "pydantic_core/*.so", "cryptography/**/*.so", "mqtt5/*.so", "_cffi_backend*.so",
)  # fmt: skip
_ELF: Final = b"\x7fELF"
_NEEDED: Final = re.compile(r"Name: (GLIBC|GLIBCXX)_([0-9.]+)\b")


def main(words: list[str]) -> int:
    """Strip, name the parts, pack and measure; 1 where a part is unaccounted for, or something is over its limit."""
    folder, archive, version = Path(words[0]), Path(words[1]), words[2]
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    strip(folder)
    try:
        count = write_parts(folder, list(libraries(folder)), modules(folder), version, epoch)
    except UnaccountedError as error:
        print(f"freeze: {error}", file=sys.stderr)
        return 1
    print(f"freeze: {count} components in {SBOM} and NOTICE")
    pack(folder, archive, epoch)
    faults = [*beyond_baseline(folder), *too_large(folder, archive)]
    for fault in faults:
        print(f"freeze: {fault}", file=sys.stderr)
    return 1 if faults else 0


def libraries(folder: Path) -> Iterator[Path]:
    """Every ELF file of the folder, the program itself among them, in a fixed order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(len(_ELF)) == _ELF:
                    yield path


def modules(folder: Path) -> list[str]:
    """The names of all modules of the program, its own and others'."""
    from PyInstaller.archive.readers import CArchiveReader  # noqa: PLC0415 -- only who freezes has it

    return sorted(CArchiveReader(str(folder / "edge-runtime")).open_embedded_archive("PYZ.pyz").toc)


def strip(folder: Path) -> None:
    """Take out the symbols nobody needs at run time: 25 MB, most of them libpython's and onnxruntime's."""
    inside = folder / "_internal"
    chosen = {path for pattern in STRIPPED for path in inside.glob(pattern)}
    for path in libraries(inside):
        if path in chosen:
            subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)


def asked_for(path: Path) -> dict[str, tuple[int, ...]]:
    """The highest versions of ``GLIBC`` and ``GLIBCXX`` that one file asks its loader for."""
    told = subprocess.run(
        ["readelf", "--version-info", "--wide", str(path)], check=True, capture_output=True, text=True
    ).stdout
    highest: dict[str, tuple[int, ...]] = {}
    for name, version in _NEEDED.findall(told):
        numbers = tuple(int(part) for part in version.split("."))
        highest[name] = max(highest.get(name, ()), numbers)
    return highest


def beyond_baseline(folder: Path) -> Iterator[str]:
    """Each file that an oldest allowed device could not load; tells the highest versions of all."""
    highest: dict[str, tuple[tuple[int, ...], str]] = {}
    for path in libraries(folder):
        place = str(path.relative_to(folder))
        for name, version in asked_for(path).items():
            highest[name] = max(highest.get(name, ((), "")), (version, place))
            allowed = {"GLIBC": GLIBC_BASELINE, "GLIBCXX": GLIBCXX_BASELINE}[name]
            if version > allowed:
                yield f"{place}: found {name}_{_text(version)}; expected at most {_text(allowed)}; freeze on an older system"
    for name, (version, place) in sorted(highest.items()):
        print(f"freeze: highest {name}_{_text(version)}, in {place}")


def too_large(folder: Path, archive: Path) -> Iterator[str]:
    """What is over its limit; tells both sizes."""
    unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    for what, size, most in ("unpacked", unpacked, MAX_UNPACKED), ("packed", archive.stat().st_size, MAX_PACKED):
        print(f"freeze: {what} {size / 1e6:.1f} MB (limit: {most / 1e6:.0f} MB)")
        if size >= most:
            yield f"{what}: found {size} bytes; expected less than {most}; look at what came in with the last dependency"


def pack(folder: Path, archive: Path, epoch: int) -> None:
    """Write the folder as .tar.xz; the same folder gives the same bytes, whoever packs it and when."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = epoch
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT, preset=6) as tar:
        tar.add(folder, folder.name, recursive=False, filter=plain)
        for path in sorted(folder.rglob("*")):
            tar.add(path, f"{folder.name}/{path.relative_to(folder)}", recursive=False, filter=plain)


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
