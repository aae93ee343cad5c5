"""What a frozen folder consists of: an SBOM (CycloneDX 1.6), NOTICE and the licence texts; it leaves out nothing it finds.

A library, a module or a licence that neither a Python package nor packaging/native_parts.toml accounts for is an error.
"""

import glob
import hashlib
import json
import re
import shutil
import sys
import sysconfig
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path
from typing import Any, Final

SBOM: Final = "sbom.cdx.json"
_PACKAGING: Final = Path(__file__).parents[1] / "packaging"
_TABLE: Final = _PACKAGING / "native_parts.toml"
_PLACES: Final = {
    "stdlib": sysconfig.get_path("stdlib"), "site": sysconfig.get_path("purelib"), "here": str(_PACKAGING)
}  # fmt: skip
_LICENCE_FILE: Final = re.compile(r"(?i)(licen[cs]e|copying|notice|edl-|epl-)")
_PROGRAM: Final = "edge-runtime"
_OURS: Final = frozenset({"edge_runtime", "frozen_entry"})


class UnaccountedError(Exception):
    """Something in the folder whose origin or licence nobody has stated."""


@dataclass(frozen=True, slots=True)
class Part:
    """One component of the folder; ``files`` are its libraries, below the folder, with their SHA-256.

    ``inside`` are libraries of others that it is linked into, ``contains`` what its own package says of its contents.
    """

    name: str
    version: str
    licence: str
    supplier: str = ""
    texts: tuple[Path, ...] = ()
    is_python: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    contains: tuple[Mapping[str, Any], ...] = ()


def write_parts(folder: Path, libraries: Sequence[Path], modules: Sequence[str], version: str, epoch: int) -> int:
    """Write ``sbom.cdx.json``, ``NOTICE`` and ``licenses/`` into the folder; gives the number of components.

    ``libraries`` are the ELF files of the folder, ``modules`` the names in its archive of modules, ``epoch`` the time, s.

    Raises:
        UnaccountedError: a library, a module or a licence that nothing accounts for.

    """
    table = tomllib.loads(_TABLE.read_text("utf-8"))
    digests = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in libraries}
    parts, left = _native(folder, digests, table["part"])
    for package in _packages(folder, modules):
        own = {place: digest for place, digest in left.items() if _owns(package, place)}
        left = {place: digest for place, digest in left.items() if place not in own}
        parts.append(_python(package, own, table["packages"].get(package.name.lower(), {})))
    if left:
        raise UnaccountedError(f"{', '.join(left)}: found no owner; expected one; add a part to {_TABLE.name}")
    parts.sort(key=lambda part: part.name.lower())
    bom = json.dumps(_bom(parts, version, epoch), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / SBOM).write_text(bom + "\n", "utf-8")
    (folder / "NOTICE").write_text(_notice(parts, version), "utf-8")
    _copy_texts(folder / "licenses", parts)
    return len(parts)


def _native(
    folder: Path, digests: Mapping[str, str], table: Sequence[Mapping[str, Any]]
) -> tuple[list[Part], dict[str, str]]:
    """The parts of the table that the folder has, and the libraries that are no part's."""
    left = dict(digests)
    parts = []
    for entry in table:
        files = {place: left.pop(place) for place in matching(left, entry.get("files", ()))}
        inside = tuple(matching(digests, entry.get("inside", ())))
        if files or inside:
            version = _version(folder, [*files, *inside], entry.get("version"))
            texts = (_first(entry["name"], entry["text"]),)
            parts.append(
                Part(entry["name"], version, entry["licence"], entry["supplier"], texts, files=files, inside=inside)
            )
    return parts, left


def matching(places: Mapping[str, str], patterns: Sequence[str]) -> list[str]:
    """The places, below the folder, that one of the table's patterns names."""
    below = [one.removeprefix("../") if one.startswith("../") else f"_internal/{one}" for one in patterns]
    return [place for place in places if any(fnmatchcase(place, one) for one in below)]


def _version(folder: Path, places: Sequence[str], pattern: str | None) -> str:
    if pattern is None:
        return ""
    for place in places:
        if found := re.search(pattern.encode(), (folder / place).read_bytes()):
            return found[1].decode("ascii")
    raise UnaccountedError(f"{places[0]}: found no {pattern!r} in it; expected its version; correct {_TABLE.name}")


def _first(name: str, patterns: Sequence[str]) -> Path:
    for pattern in patterns:
        for place in sorted(glob.glob(pattern.format(**_PLACES))):  # noqa: PTH207 -- from the root
            return Path(place)
    raise UnaccountedError(f"{name}: found no licence text; expected {' or '.join(patterns)}; add where it lies")


def _packages(folder: Path, modules: Sequence[str]) -> list[Distribution]:
    """The distributions of which a module is in the folder."""
    owners = packages_distributions()
    tops = {name.partition(".")[0] for name in modules}
    tops |= {path.name.partition(".")[0] for path in (folder / "_internal").rglob("*.so")}
    tops |= {path.name for path in (folder / "_internal").iterdir() if path.is_dir()}
    known = {*owners, *sys.stdlib_module_names, *_OURS}
    unknown = {module.partition(".")[0] for module in modules} - known
    unknown = {name for name in unknown if not name.startswith(("_sysconfigdata", "pyimod"))}
    if unknown:
        raise UnaccountedError(f"modules {', '.join(sorted(unknown))}: found no package that they are of; expected one")
    names = {owner for top in tops - _OURS for owner in owners.get(top, ()) if top not in sys.stdlib_module_names}
    return [distribution(name) for name in sorted(names, key=str.lower)]


def _owns(package: Distribution, place: str) -> bool:
    inner = place.removeprefix("_internal/")
    return any(str(file) == inner for file in package.files or ())


def _python(package: Distribution, own: Mapping[str, str], stated: Mapping[str, str]) -> Part:
    licence = next(iter(package.metadata.get_all("License-Expression") or ()), None) or stated.get("licence")
    if not licence:
        raise UnaccountedError(
            f"{package.name}: found no SPDX licence in its metadata; expected one in {_TABLE.name} [packages]"
        )
    files = package.files or ()
    texts = [Path(str(file.locate())) for file in files if _is_text_of(str(file))]
    if "text" in stated:
        texts.append(_first(package.name, [stated["text"]]))
    if not texts:
        raise UnaccountedError(f"{package.name}: found no licence text; expected one in {_TABLE.name} [packages]")
    boms = [Path(str(file.locate())) for file in files if file.match("*.dist-info/sboms/*.json")]
    return Part(
        package.name, package.version, licence, texts=tuple(sorted(texts)), is_python=True, files=own,
        contains=tuple(one for bom in sorted(boms) for one in json.loads(bom.read_text("utf-8")).get("components", ())),
    )  # fmt: skip


def _is_text_of(file: str) -> bool:
    parts = Path(file).parts
    return parts[0].endswith(".dist-info") and _LICENCE_FILE.search("/".join(parts[1:])) is not None


def _bom(parts: Sequence[Part], version: str, epoch: int) -> dict[str, Any]:
    root = {
        "type": "application", "name": _PROGRAM, "version": version, "bom-ref": _PROGRAM,
        "licenses": [{"expression": "Apache-2.0"}],
    }  # fmt: skip
    components = [_component(part) for part in parts]
    # The same contents get the same number, others another (RFC 4122, version 5).
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(components, sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}", "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "component": root},
        "components": components,
        "dependencies": [{"ref": _PROGRAM, "dependsOn": [_reference(part) for part in parts]}],
    }  # fmt: skip


def _component(part: Part) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "library", "name": part.name, "bom-ref": _reference(part)}
    # One that SPDX does not list may be no expression of the standard's.
    is_listed = "LicenseRef" not in part.licence and "Bootloader" not in part.licence
    told["licenses"] = [{"expression": part.licence} if is_listed else {"license": {"name": part.licence}}]
    if part.version:
        told["version"] = part.version
    if part.is_python:
        told["purl"] = _reference(part)
    if part.supplier:
        told["supplier"] = {"name": part.supplier}
    if part.inside:
        told["properties"] = [{"name": "edge-runtime:linked-into", "value": place} for place in part.inside]
    files = [
        {"type": "file", "name": place, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for place, digest in part.files.items()
    ]
    inner = [{key: value for key, value in one.items() if key != "bom-ref"} for one in part.contains]
    if files or inner:
        told["components"] = [*files, *inner]
    return told


def _reference(part: Part) -> str:
    if part.is_python:
        return f"pkg:pypi/{re.sub(r'[-_.]+', '-', part.name).lower()}@{part.version}"
    return f"native:{part.name}"


def _notice(parts: Sequence[Part], version: str) -> str:
    lines = [
        f"edge-runtime {version}, Apache License 2.0 (LICENSE)", "",
        "This folder holds, beside it, the following. Their licences' texts are in licenses/, digests in " + SBOM + ".", "",
    ]  # fmt: skip
    lines += [" ".join(filter(None, (part.name, part.version))) + f": {part.licence}" for part in parts]
    return "\n".join(lines) + "\n"


def _copy_texts(folder: Path, parts: Sequence[Part]) -> None:
    for part in parts:
        place = folder / re.sub(r"[^A-Za-z0-9.]+", "-", part.name.partition(" (")[0]).strip("-")
        for text, name in zip(part.texts, _names(part.texts), strict=True):
            place.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(text, place / name)


def _names(texts: Sequence[Path]) -> Iterator[str]:
    """The name of each text; where one folder has several of a name, with the folder before it."""
    names = [text.name for text in texts]
    for text in texts:
        yield text.name if names.count(text.name) == 1 else f"{text.parent.name}-{text.name}"
