"""Registers the library of a provider that a profile names, after a look at whose file it is; it searches for none.

A library is code: what is loaded stands in the report with its digest. It is loaded once a process and stays.
"""

import hashlib
import os
import stat
from typing import Any, NoReturn

from edge_runtime.errors import DeviceError

_ELF = b"\x7fELF"
# The provider's name -> the file it was registered from and that file's digest.
_loaded: dict[str, tuple[str, str]] = {}


def library_digest(path: str) -> str:
    """The SHA-256 of a library that may be loaded, 64 hex digits.

    Raises:
        DeviceError: there is none, it is no library, or others than root and this user could have written it.

    """
    try:
        found = os.lstat(path)
    except OSError as error:
        _refuse(path, error.strerror or str(error), "a provider's library", "correct `library` in the device profile")
    if not stat.S_ISREG(found.st_mode):
        _refuse(path, "no regular file", "the library itself, no link to it", "name the file that it leads to")
    if os.name == "posix" and found.st_uid not in (0, os.getuid()):
        _refuse(path, f"a file of user {found.st_uid}", "one of root or of this user", f"chown root {path}")
    if os.name == "posix" and found.st_mode & stat.S_IWOTH:
        _refuse(path, "a file that everybody may write", "one that is not", f"chmod o-w {path}")
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- as the profile spells it
            if os.name == "posix" and file.read(len(_ELF)) != _ELF:
                _refuse(path, "no shared library", "a provider's library", "correct `library` in the device profile")
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        _refuse(path, error.strerror or str(error), "a file that can be read", "give this user the right to read it")


def devices_of(ort: Any, provider: str, path: str, kind: str | None, digest: str | None = None) -> list[Any]:
    """Register the provider's library, unless it is, and give the devices to use: the first of ``kind``, or of any.

    ``digest`` is what ``library_digest`` has just said of it; without it that is asked here.

    Raises:
        DeviceError: the library may not be loaded, does not load, is of another provider, or offers no device here.

    """
    digest = digest or library_digest(path)
    known = _loaded.get(provider)
    if known is None:
        _register(ort, provider, path)
        _loaded[provider] = (path, digest)
    elif known != (path, digest):
        _refuse(
            path, f"another than what this process has loaded ({known[0]})", "one library a provider", "start it anew"
        )
    offered = [one for one in ort.get_ep_devices() if one.ep_name == provider]
    if not offered:
        _refuse(
            path, "its library is there, but no device", f"a device that {provider} takes",
            "install the device's driver, or name another provider in the profile",
        )  # fmt: skip
    wanted = [one for one in offered if kind in (None, one.device.type.name)]
    if not wanted:
        there = ", ".join(sorted({one.device.type.name for one in offered}))
        _refuse(
            path,
            f"its library is there, but of devices only {there}",
            f"a device {kind}",
            "correct `device` in the profile",
        )
    return wanted[:1]


def _register(ort: Any, provider: str, path: str) -> None:
    try:
        ort.register_execution_provider_library(provider, path)
    except Exception as error:  # noqa: BLE001 -- whatever it raises, the library cannot be used
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        # "... with error: /a/lib.so: undefined symbol: CreateEpFactories"; the path is told already.
        said = said.rpartition("with error: ")[2].removeprefix(f"{path}: ")[:200]
        found = f"no provider's library ({said})" if "CreateEpFactories" in said else f"it does not load ({said})"
        _refuse(
            path,
            found,
            f"the library of {provider} for this onnxruntime {ort.__version__}",
            "install it again, with what it needs",
        )


def _refuse(path: str, found: str, expected: str, todo: str) -> NoReturn:
    raise DeviceError(subject=f"provider's library {path}", found=found, expected=expected, todo=todo)
