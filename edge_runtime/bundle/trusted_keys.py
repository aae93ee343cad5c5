"""Takes the public keys a device trusts off its disk, within bounds; it checks no signature and keeps no private key."""

import os
import stat
from pathlib import Path
from typing import Final, NoReturn

from edge_runtime.errors import ConfigurationError

# One key for each who may sign, and the next one of each while keys are changed.
MAX_KEYS: Final = 64
# A P-521 private key in PKCS#8, encrypted, is some 500 bytes; a public one 270.
MAX_PEM_BYTES: Final = 8 * 1024
_SUFFIXES: Final = (".pub", ".pem")
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def load_keys(folder: Path) -> dict[str, bytes]:
    """Return what `read_keys` does, each a public key of the kind that signs bundles.

    Raises
    ------
    ConfigurationError
        for whatever `read_keys` refuses, a private key, and anything else that is no such key; without the extra
        `signing`.

    """
    from edge_runtime.bundle import ecdsa  # noqa: PLC0415 -- see there

    keys = read_keys(folder)
    for name, pem in keys.items():
        ecdsa.public_key(pem, f"trusted key {ascii(str(folder / name))[1:-1]}")
    return keys


def read_keys(folder: Path) -> dict[str, bytes]:
    """Return file name -> PEM of every ``*.pub`` and ``*.pem`` in `folder`, sorted; other files are not looked at.

    What they hold is judged where a signature is: a device with no signed bundle needs no cryptography for its keys.

    `folder` may itself be a link, which is resolved once; a key file may not, for whoever owns the other end of a link
    would decide what this device trusts. For the same reason neither may be writable by every user.

    Raises
    ------
    ConfigurationError
        for a folder that cannot be read, too many keys, and a key file that is a link, too large or writable by
        everybody.

    """
    try:
        _require_private_place(folder.stat().st_mode, str(folder))
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(_SUFFIXES))
    except (OSError, ValueError) as error:
        _unreadable(str(folder), error)
    if len(names) > MAX_KEYS:
        _refuse(str(folder), f"{len(names)} keys", f"at most {MAX_KEYS}", "remove those that no longer sign")
    return {name: _read(folder / name) for name in names}


def _read(path: Path) -> bytes:
    place = ascii(str(path))[1:-1]
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            _refuse(place, "a link or something else that is no file", "a regular file", "put the key itself there")
        with open(os.open(path, _FLAGS), "rb", buffering=0) as stream:  # noqa: PTH123 - pathlib takes no descriptor
            _require_private_place(os.fstat(stream.fileno()).st_mode, place)
            data = stream.read(MAX_PEM_BYTES + 1) or b""
    except OSError as error:
        _unreadable(place, error)
    if len(data) > MAX_PEM_BYTES:
        _refuse(place, f"more than {MAX_PEM_BYTES} bytes", "one public key in PEM", "give the key alone")
    return data


def _require_private_place(mode: int, place: str) -> None:
    """Windows keeps its rights elsewhere, and its mode bits say nothing."""
    if os.name == "posix" and mode & stat.S_IWOTH:
        _refuse(place, "rights for every user to write", "only its owner writing", f"chmod o-w {place}")


def _unreadable(place: str, error: Exception) -> NoReturn:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    raise ConfigurationError(
        subject=f"trusted keys {place}", found=f"nothing readable: {reason}", expected="a folder of public keys",
        todo="correct the path or its rights, or make the folder",
    ) from error  # fmt: skip


def _refuse(place: str, found: str, expected: str, todo: str) -> NoReturn:
    raise ConfigurationError(subject=f"trusted keys {place}", found=found, expected=expected, todo=todo)
