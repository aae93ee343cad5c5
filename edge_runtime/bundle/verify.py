"""Turns bytes into a bundle that is exactly what SHA256SUMS names; it reads no disk and understands no content."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NoReturn

from edge_runtime.bundle.names import SIGNATURE_NAME, SUMS_NAME, name_fault, require_names, shown
from edge_runtime.errors import BundleError

# Some 6,000 files' worth: the list is judged before its lines are split.
_MAX_SUMS_BYTES: Final = 1024 * 1024
_NAMED_FAULTS: Final = 5
_LINE: Final = re.compile(r"([0-9a-f]{64})  ([^ ].*)")
# FIPS 180-4, example "abc" of SHA-256.
_KNOWN_ANSWER: Final = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
_PROOF: Final = object()


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """A bundle whose every byte is vouched for by its `digest`; only `verify` can make one.

    `digest` is the SHA-256 of SHA256SUMS, 64 lower-case hex digits, whose bytes are `sums`. `files` holds name -> bytes of
    the files that it names. `signature` is what came along as model.sig, if any did; nobody has checked it here.
    """

    origin: str
    digest: str
    files: Mapping[str, bytes] = field(repr=False, compare=False)
    sums: bytes = field(repr=False, compare=False)
    signature: bytes | None = field(repr=False, compare=False)
    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        """Refuse to be made by anyone but `verify`."""
        if proof is not _PROOF:
            raise TypeError("a VerifiedBundle is made by edge_runtime.bundle.verify.verify alone")

    @property
    def signed_files(self) -> dict[str, bytes]:
        """Name -> bytes of everything that a signature of this bundle has to be over."""
        return {**self.files, SUMS_NAME: self.sums}


def verify(files: Mapping[str, bytes], origin: str) -> VerifiedBundle:
    """Check `files` (name -> bytes, SHA256SUMS among them) against SHA256SUMS, both ways.

    Raises
    ------
    BundleError
        for an odd name, a SHA256SUMS that is missing or not canonical (by line), and, all in one line, for files that
        are missing, not listed or of other content.

    """
    require_names(files, origin)
    if SUMS_NAME not in files:
        _refuse(origin, f"no {SUMS_NAME}", "a file that names every other", "build the bundle, or give its folder")
    sums = bytes(files[SUMS_NAME])
    listed = _parse_sums(sums, origin)
    content = {name: bytes(data) for name, data in files.items() if name not in (SUMS_NAME, SIGNATURE_NAME)}
    faults = [fault for name in sorted(listed | content) if (fault := _fault(name, listed, content))]
    if faults:
        more = f" and {len(faults) - _NAMED_FAULTS} more" if len(faults) > _NAMED_FAULTS else ""
        _refuse(
            origin,
            ", ".join(faults[:_NAMED_FAULTS]) + more,
            f"exactly the files and contents {SUMS_NAME} names",
            "fetch the bundle again, or build it again if it was edited",
        )
    return VerifiedBundle(
        origin=origin,
        digest=hashlib.sha256(sums).hexdigest(),
        files=MappingProxyType(content),
        sums=sums,
        signature=bytes(files[SIGNATURE_NAME]) if SIGNATURE_NAME in files else None,
        proof=_PROOF,
    )


def hash_known_answer(data: bytes = b"abc") -> bool:
    """Return whether SHA-256 of `data` is the FIPS 180-4 answer for ``abc``: the known-answer test run at boot."""
    return hashlib.sha256(data).hexdigest() == _KNOWN_ANSWER


def _fault(name: str, listed: Mapping[str, str], content: Mapping[str, bytes]) -> str | None:
    if name not in content:
        return f"{name} missing"
    if name not in listed:
        return f"{name} not listed"
    if hashlib.sha256(content[name]).hexdigest() != listed[name]:
        return f"{name} with other content"
    return None


def _parse_sums(sums: bytes, origin: str) -> dict[str, str]:
    """Return name -> hex digest of a canonical list; one list of files has exactly one canonical spelling."""
    if not sums:
        _refuse_line(origin, 1, "nothing")
    if len(sums) > _MAX_SUMS_BYTES:
        _refuse(origin, f"{SUMS_NAME} of {len(sums)} bytes", f"at most {_MAX_SUMS_BYTES}", "build the bundle again")
    # latin-1 maps each byte to one character, so nothing is lost before it is judged.
    *lines, last = sums.decode("latin-1").split("\n")
    if last:
        _refuse_line(origin, len(lines) + 1, "no line end")
    entries = [_parse_line(line, number, origin) for number, line in enumerate(lines, start=1)]
    for number, (before, after) in enumerate(pairwise(name for name, _ in entries), start=2):
        if before >= after:
            _refuse_line(origin, number, f"{after} again" if before == after else f"{after} after {before}")
    require_names((name for name, _ in entries), origin)
    return dict(entries)


def _parse_line(line: str, number: int, origin: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        _refuse_line(origin, number, shown(line))
    digest, name = match.groups()
    if name in (SUMS_NAME, SIGNATURE_NAME):
        _refuse_line(origin, number, f"{name}, which cannot be listed")
    fault = name_fault(name)
    if fault is not None:
        _refuse_line(origin, number, f"{shown(name)}, a name that {fault}")
    return name, digest


def _refuse_line(origin: str, number: int, found: str) -> NoReturn:
    _refuse(
        origin,
        f"line {number} of {SUMS_NAME}: {found}",
        "64 lower-case hex digits, two spaces, a name, one line end; sorted by name, each once",
        "build the bundle again instead of editing the list",
    )


def _refuse(origin: str, found: str, expected: str, todo: str) -> NoReturn:
    raise BundleError(subject=f"bundle {origin}", found=found, expected=expected, todo=todo)
