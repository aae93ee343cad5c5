"""The commands `keygen` and `sign`: a key pair in two new files, a signature into a bundle; neither decides who is trusted.

A password never stands on the command line, where every user of the machine could read it.
"""

import os
import secrets
import stat
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from edge_runtime.bundle import ecdsa
from edge_runtime.bundle.names import SIGNATURE_NAME
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.signature import check, sign
from edge_runtime.bundle.trusted_keys import MAX_PEM_BYTES
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import write_tar
from edge_runtime.errors import DeviceError, UsageError

PASSWORD_VARIABLE: Final = "EDGE_RUNTIME_KEY_PASSWORD"  # noqa: S105 -- where it is, not what it is

_MAX_PASSWORD_BYTES: Final = 1024
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_PRIVATE_MODE: Final = 0o600
_PUBLIC_MODE: Final = 0o644


def main(args: Namespace) -> int:
    """``keygen``: write ``args.out``.key and .pub; ``sign``: put a model.sig by ``args.key`` into ``args.bundle``.

    ``args.password_file`` holds the key's password; without it the environment may (`PASSWORD_VARIABLE`), and without
    either there is none.

    Raises
    ------
    BundleError
        where the bundle is not whole; a signature would vouch for what nobody can serve.
    ConfigurationError
        without the extra `signing`.
    DeviceError
        where the disk refuses.
    UsageError
        where a file of the new key is there already, and for a key or password that cannot be used.

    """
    password = _password(Path(args.password_file) if args.password_file else None, os.environ)
    if args.command == "keygen":
        return _make_key(args.out, password)
    return _sign_bundle(Path(args.bundle), Path(args.key), password)


def _make_key(prefix: str, password: bytes | None) -> int:
    private_path, public_path = Path(f"{prefix}.key"), Path(f"{prefix}.pub")
    private, public = ecdsa.new_key(password)
    _write_new({private_path: (private, _PRIVATE_MODE), public_path: (public, _PUBLIC_MODE)})
    protection = "encrypted" if password is not None else f"NOT encrypted: {PASSWORD_VARIABLE} was not set"
    _say(f"{private_path}: private key, {protection}; keep it where bundles are signed, and nowhere else")
    _say(f"{public_path}: public key {ecdsa.hint(ecdsa.public_key(public, str(public_path)))}; for every device")
    return 0


def _sign_bundle(bundle: Path, key: Path, password: bytes | None) -> int:
    files = read_files(bundle)
    digest = verify(files, str(bundle)).digest
    pem = _read_key(key)
    public = ecdsa.public_pem(ecdsa.private_key(pem, password).public_key())
    signature = sign(files, pem, password)
    # A signature is only worth giving away once it has been checked as a device will.
    signed_by = check(signature, files, {key.name: public})
    target = bundle.resolve()
    if target.is_dir():
        _replace(target / SIGNATURE_NAME, signature, beside=target)
    else:
        write_tar({**files, SIGNATURE_NAME: signature}, target)
    before = " in place of the one that was there" if SIGNATURE_NAME in files else ""
    _say(f"{bundle}: signed by the key {signed_by.hint}{before}; sha256 {digest}")
    return 0


def _password(file: Path | None, environment: Mapping[str, str]) -> bytes | None:
    if file is None:
        text = environment.get(PASSWORD_VARIABLE)
        password = None if text is None else os.fsencode(text)
        place = f"the environment variable {PASSWORD_VARIABLE}"
    else:
        password = _read(file, _MAX_PASSWORD_BYTES, "the key's password").removesuffix(b"\n").removesuffix(b"\r")
        place = f"password file {file}"
    if password == b"":
        raise UsageError(subject=place, found="nothing", expected="a password", todo="write it there, or leave it out")
    return password


def _read_key(path: Path) -> bytes:
    data = _read(path, MAX_PEM_BYTES, "a private key in PEM")
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        _say(f"warning: {path} can be reached by other users: chmod 600 {path}")
    return data


def _read(path: Path, max_bytes: int, what: str) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(
            subject=f"file {path}", found=reason, expected=what, todo="give the path of a readable file"
        ) from error
    if len(data) > max_bytes:
        raise UsageError(
            subject=f"file {path}", found=f"more than {max_bytes} bytes", expected=what, todo="give the right file"
        )
    return data


def _write_new(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Write all of ``files`` (path -> bytes, mode), or none where one of the names is taken."""
    with ExitStack() as undo:
        for path, (_, mode) in files.items():
            _take(path, mode)
            undo.callback(path.unlink, missing_ok=True)
        for path, (data, mode) in files.items():
            _replace(path, data, beside=path, mode=mode)
        undo.pop_all()


def _take(path: Path, mode: int) -> None:
    """Make ``path`` an empty file, so that nobody else's can be under that name when the content moves in."""
    try:
        os.close(os.open(path, _NEW, mode))
    except FileExistsError as error:
        raise UsageError(
            subject=f"file {path}", found="something there already",
            expected="a free name, since a key once lost cannot be made again", todo="give another --out",
        ) from error  # fmt: skip
    except (OSError, ValueError) as error:
        raise _disk_fault(path, error) from error


def _replace(path: Path, data: bytes, *, beside: Path, mode: int = _PUBLIC_MODE) -> None:
    """Put ``data`` at ``path`` whole or not at all; until it is whole it has a hidden name beside ``beside``."""
    fresh = beside.with_name(f".{beside.name}.{secrets.token_hex(4)}.new")
    try:
        with open(os.open(fresh, _NEW, mode), "wb") as stream:  # noqa: PTH123 -- pathlib takes no descriptor
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _disk_fault(path, error) from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    """Make the new name durable; Windows does so by itself and opens no folder."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _disk_fault(path: Path, error: OSError | ValueError) -> DeviceError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return DeviceError(
        subject=f"file {path}", found=f"the disk refusing to write: {reason}",
        expected="a folder with room that this user may write to", todo="correct the rights, or give another path",
    )  # fmt: skip


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
