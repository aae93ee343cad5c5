"""Which file names a bundle may use, the same on every system; it touches no file."""

import re
from collections.abc import Iterable

from edge_runtime.errors import BundleError

SUMS_NAME = "SHA256SUMS"
SIGNATURE_NAME = "model.sig"

_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Windows opens a device for these, whatever extension follows.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_SHOWN_CHARACTERS = 60


def shown(name: str) -> str:
    """Return `name` fit for a terminal and a log line: quoted, ASCII, shortened."""
    quoted = ascii(name[:_SHOWN_CHARACTERS])
    return quoted if len(name) <= _SHOWN_CHARACTERS else f"{quoted}..."


def name_fault(name: str) -> str | None:
    """Return what is wrong with one file name, or None."""
    if name.startswith("."):
        return "is hidden"
    if _ALLOWED.fullmatch(name) is None:
        return "is longer than 100 characters" if len(name) > 100 else "holds a character outside A-Z a-z 0-9 . _ -"  # noqa: PLR2004
    if name.endswith("."):
        return "ends with a dot"
    if _RESERVED.fullmatch(name) is not None:
        return "is a device name on Windows"
    return None


def require_names(names: Iterable[str], origin: str) -> None:
    """Refuse odd names and two names that differ only in upper and lower case.

    Raises
    ------
    BundleError
        naming the first such file.

    """
    seen: dict[str, str] = {}
    for name in names:
        fault = name_fault(name)
        if fault is not None:
            raise BundleError(
                subject=f"bundle {origin}",
                found=f"a file {shown(name)} whose name {fault}",
                expected="letters, digits, dot, underscore and hyphen, at most 100, beginning with a letter or digit",
                todo="remove or rename the file, then build the bundle again",
            )
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise BundleError(
                subject=f"bundle {origin}",
                found=f"{twin} and {name}, which differ only in upper and lower case",
                expected="names that stay apart on every file system",
                todo="remove or rename one of them, then build the bundle again",
            )
