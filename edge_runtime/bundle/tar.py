"""A plain ustar archive of one flat folder, read block by block and written the same twice; no link, no extension.

Layout: POSIX.1-1988 ustar interchange format. The plain form of GNU tar's own header (its default) is read too, as
long as none of GNU's extensions is used.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple, NoReturn

from edge_runtime.bundle.names import shown
from edge_runtime.errors import BundleError

BLOCK_BYTES = 512
# tar programs fill up to whole records of 20 blocks; more zeros than that are not padding.
RECORD_BYTES = 20 * BLOCK_BYTES

_ZERO_BLOCK = bytes(BLOCK_BYTES)
_USTAR = b"ustar\x0000"
_GNU = b"ustar  \x00"
_OCTAL = re.compile(rb"([0-7]+)[\x00 ]*")
_CHECKSUM = slice(148, 156)
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a fifo",
    b"L": "a GNU long name",
    b"K": "a GNU long link name",
    b"S": "a GNU sparse file",
    b"x": "a pax extended header",
    b"g": "a pax global header",
}
_COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}


class _Member(NamedTuple):
    """One header: `folder` is ``""``, ``"."`` or the top folder; `name` is empty for the folder itself."""

    folder: str
    name: str
    size: int


def read_tar(
    stream: BinaryIO, archive_bytes: int, origin: str, *, max_total_bytes: int, max_files: int
) -> dict[str, bytes]:
    """Return the bytes of every file in an archive of `archive_bytes` bytes, taking no memory a header cannot back.

    The files stand side by side, all bare, all under ``./`` or all under one top folder.

    Raises
    ------
    BundleError
        for anything else: a link, device, fifo, pax or GNU extension, a duplicate, an absolute or deeper path, a
        wrong checksum or number, hidden bytes, too many or too large files, a cut or padded archive.

    """
    files: dict[str, bytes] = {}
    folder: str | None = None
    offset = 0
    left = max_total_bytes
    while (block := _take(stream, BLOCK_BYTES, archive_bytes - offset, origin)) != _ZERO_BLOCK:
        offset += BLOCK_BYTES
        member = _parse(block, origin, first=offset == BLOCK_BYTES)
        if folder is not None and member.folder != folder:
            _refuse(origin, f"members under {shown(folder)} and under {shown(member.folder)}", "one flat folder")
        if not member.name and folder is not None:
            _refuse(origin, f"a folder entry {shown(member.folder)} after other members", "at most one, the first")
        folder = member.folder
        if not member.name:
            continue
        if member.name in files:
            _refuse(origin, f"{shown(member.name)} twice", "each file once")
        if len(files) == max_files:
            _refuse(origin, f"more than {max_files} files", f"at most {max_files}")
        if member.size > left:
            _refuse(origin, f"{shown(member.name)} takes it past {max_total_bytes} bytes", "a smaller bundle")
        left -= member.size
        padded = -(-member.size // BLOCK_BYTES) * BLOCK_BYTES
        data = _take(stream, member.size, archive_bytes - offset, origin)
        padding = _take(stream, padded - member.size, archive_bytes - offset - member.size, origin)
        if padding.strip(b"\0"):
            _refuse(origin, f"bytes hidden behind {shown(member.name)}", "zeros up to the next block")
        files[member.name] = data
        offset += padded
    _require_end(stream, archive_bytes - offset - BLOCK_BYTES, origin)
    return files


def format_tar(files: Mapping[str, bytes]) -> list[bytes]:
    """Return an archive of `files` in pieces: sorted, owner 0, mode 0644, time 0, so equal files give equal bytes.

    Names are at most 100 ASCII characters, sizes below 8 GiB (eleven octal digits).
    """
    pieces: list[bytes] = []
    total = 0
    for name, data in sorted(files.items()):
        padding = bytes(-len(data) % BLOCK_BYTES)
        pieces += [_header(name, len(data)), data, padding]
        total += BLOCK_BYTES + len(data) + len(padding)
    end = 2 * BLOCK_BYTES
    pieces.append(bytes(end + -(total + end) % RECORD_BYTES))
    return pieces


def _header(name: str, size: int) -> bytes:
    front = name.encode("ascii").ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % size + b"0" * 11
    back = b"0" + bytes(100) + _USTAR + bytes(64) + b"0000000\0" * 2 + bytes(155 + 12)
    blank = front + b"\0" + b" " * 8 + back
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


def _parse(block: bytes, origin: str, *, first: bool) -> _Member:
    _require_header(block, origin, first=first)
    path = _text(block[0:100], "name", origin)
    gnu = block[257:265] == _GNU
    # Where ustar has the front part of a long path, GNU has times and a sparse map.
    prefix = "" if gnu else _text(block[345:500], "prefix", origin)
    if prefix:
        path = f"{prefix}/{path}"
    kind = block[156:157]
    if kind not in (b"0", b"5"):
        _refuse(origin, f"{shown(path)}, {_KINDS.get(kind, f'a member of type {kind!r}')}", "regular files only")
    for start, end in ((100, 108), (108, 116), (116, 124), (136, 148)):
        _octal(block[start:end], path, origin)
    size = _octal(block[124:136], path, origin)
    hidden = block[157:257] + block[500:512] + (block[345:500] if gnu else b"")
    devices = block[329:345].replace(b"0000000\0", b"")
    if hidden.strip(b"\0") or devices.strip(b"\0"):
        _refuse(origin, f"{shown(path)} with a link target, a device number or an extension", "a plain header")
    if kind == b"5":
        if size:
            _refuse(origin, f"a folder {shown(path)} with {size} bytes", "a folder without content")
        return _Member(_folder(path.removesuffix("/"), path, origin), "", 0)
    front, slash, name = path.rpartition("/")
    if not name:
        _refuse(origin, f"a file {shown(path)} without a name", "a name in each header")
    return _Member(_folder(front, path, origin) if slash else "", name, size)


def _require_header(block: bytes, origin: str, *, first: bool) -> None:
    if block[257:265] not in (_USTAR, _GNU):
        for magic, program in _COMPRESSIONS.items():
            if first and block.startswith(magic):
                _refuse(origin, f"{program} data", "a plain .tar or a folder", f"unpack the {program} layer first")
        _refuse(origin, "a block that is no ustar header", "a tar archive in ustar format")
    stated = _octal(block[_CHECKSUM], "the header", origin)
    if stated != sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" "):
        _refuse(origin, "a header whose checksum does not fit", "an undamaged archive", "fetch the archive again")


def _folder(folder: str, path: str, origin: str) -> str:
    if folder in ("", "..") or "/" in folder:
        _refuse(origin, f"the path {shown(path)}", "files side by side, in at most one top folder")
    return folder


def _text(field: bytes, what: str, origin: str) -> str:
    text, _, rest = field.partition(b"\0")
    if rest.strip(b"\0"):
        _refuse(origin, f"bytes hidden behind the {what} {shown(text.decode('latin-1'))}", "zeros there")
    return text.decode("latin-1")


def _octal(field: bytes, path: str, origin: str) -> int:
    match = _OCTAL.fullmatch(field)
    if match is None:
        _refuse(origin, f"{shown(path)} with the number field {field!r}", "octal digits")
    return int(match[1], 8)


def _take(stream: BinaryIO, size: int, available: int, origin: str) -> bytes:
    """Read exactly `size` bytes, asking first whether the archive is long enough to hold them."""
    data = stream.read(size) if size <= available else b""
    if len(data) != size:
        _refuse(origin, "an archive that ends too early", "all its members and an end mark", "fetch the archive again")
    return data


def _require_end(stream: BinaryIO, rest_bytes: int, origin: str) -> None:
    if not BLOCK_BYTES <= rest_bytes < BLOCK_BYTES + RECORD_BYTES:
        _refuse(origin, f"{rest_bytes} bytes after the first end block", "one more and the padding of a record")
    if _take(stream, rest_bytes, rest_bytes, origin).strip(b"\0"):
        _refuse(origin, "bytes after the end of the archive", "nothing but zeros")


def _refuse(origin: str, found: str, expected: str, todo: str = "") -> NoReturn:
    hint = todo or "pack the folder again: tar --format=ustar -cf bundle.tar -C FOLDER ."
    raise BundleError(subject=f"bundle {origin}", found=found, expected=expected, todo=hint)
