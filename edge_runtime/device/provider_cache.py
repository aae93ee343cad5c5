"""The files a provider keeps between two boots: those of the last boot that passed, byte for byte, or none; it judges no number.

They lie in ``cache/BUNDLE/PROVIDER/KEY`` under the state folder, beside them ``KEY.json``, the listing with their sums. The
listing is taken away while a boot uses the files and put back once it has passed: a boot that ends in between, or is
killed by what it has read, leaves files without a listing, and those are dropped.
"""

import os
import secrets
import stat
import time
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.device.file_sums import MAX_BYTES, MAX_FILES, DamagedFiles, Sums, difference, marks_of, sums_of
from edge_runtime.device.own_folder import is_own, locked_folder, make_room, removed, told_of
from edge_runtime.errors import DeviceError

_MAX_LISTING_BYTES: Final = 64 * 1024
_KEY_DIGITS: Final = 32
_TOP: Final = "cache"

_Name = Annotated[str, Field(min_length=1, max_length=255)]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    bytes: int = Field(ge=0, le=MAX_BYTES)
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Listing(BaseModel):
    """What the last boot that passed had kept, and under which fingerprint."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_: Literal["edge-runtime/provider-cache/1"] = Field(alias="schema", default="edge-runtime/provider-cache/1")
    bundle: str
    provider: str
    key: str
    files: dict[_Name, _File] = Field(max_length=MAX_FILES)


class ProviderCache:
    """One provider's folder in one boot, kept from other boots by a lock until ``close``.

    ``warm``: it holds files of an earlier boot, which were verified. ``found`` says in words what was there, and
    ``damaged`` what was wrong with it; then it was dropped and the folder is empty.
    """

    def __init__(self, state: Path, *, bundle: str, provider: str, key: str) -> None:
        """Take the folder of ``key`` (a fingerprint, hex), drop what lies there under others, and verify its files.

        Raises:
            NoCacheHere: no state folder, another user's, another boot at work, or no room.
            DeviceError: something else lies in the folder's place, or the disk refuses.

        """
        self.provider = provider
        self._listing = _Listing(bundle=bundle, provider=provider, key=key, files={})
        self._state = state.absolute()  # a session is made in another current folder
        self._key = key[:_KEY_DIGITS]
        self._home = self._state / _TOP / bundle / provider
        self.folder = self._home / self._key
        self.damaged: str | None = None
        self._sums: Sums | None = None
        self._descriptor = locked_folder(self._state, (_TOP, bundle, provider))
        try:
            with told_of(self._home):
                self.found = self._open()
        except BaseException:
            self.close()
            raise

    @property
    def warm(self) -> bool:
        """Whether the provider is given files of an earlier boot."""
        return self._sums is not None

    def drop(self) -> None:
        """Remove everything it holds; the folder is empty then.

        Raises:
            DeviceError: the disk refuses.

        """
        self._sums = None
        with told_of(self._home):
            for one in self._home.iterdir():
                removed(one)
            self.folder.mkdir(mode=0o700)

    def leave(self) -> None:
        """Put back what an earlier boot had kept, where this one has changed nothing of it; drop anything else.

        Raises:
            DeviceError: the disk refuses.

        """
        with told_of(self._home):
            if self._untouched():
                self._in_use.replace(self._listed)
                return
        self.drop()

    def keep(self) -> str:
        """List what the provider has written, for the next boot; to be called once every required check has passed.

        Raises:
            DeviceError: it is too much, not all of it are files, or the disk refuses; it is dropped then.

        """
        with told_of(self._home):
            if self._untouched():
                self._in_use.replace(self._listed)
                return self.found
            try:
                sums = sums_of(self.folder, sync=True)
            except DamagedFiles as odd:
                self.drop()
                raise DeviceError(
                    subject=f"cache of {self._listing.provider}", found=f"{odd}, which is not kept",
                    expected=f"at most {MAX_FILES} files and {MAX_BYTES >> 20} MiB",
                    todo="take `cache` off this provider in the profile",
                ) from odd  # fmt: skip
            if not sums.files:
                return "the provider wrote nothing to keep"
            self._write(sums)
            gone = make_room((self._state / _TOP).resolve(), self._home.resolve())
        # Some cannot read what they wrote: they take it away, and compile again at each boot.
        why = "the provider has changed what was kept" if self._sums is not None else self.found
        return f"kept for the next boot: {sums}{', ' if why else ''}{why}{gone}"

    def close(self) -> None:
        """Let other boots at it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _untouched(self) -> bool:
        try:
            return self._sums is not None and marks_of(self.folder) == self._sums.marks
        except DamagedFiles:
            return False

    @property
    def _listed(self) -> Path:
        return self._home / f"{self._key}.json"

    @property
    def _in_use(self) -> Path:
        return self._home / f"{self._key}.used"

    def _open(self) -> str:
        names = {one.name for one in self._home.iterdir()}
        own = {self._key, self._listed.name}
        stale, unfinished = False, self._in_use.name in names
        for name in names - own:
            stale |= not name.startswith((self._key, "."))
            removed(self._home / name)
        names &= own
        if names == own:
            begun = time.perf_counter()
            try:
                self._sums = self._verified()
            except DamagedFiles as odd:
                self.damaged = str(odd)
                self.drop()
                return "what was kept was dropped"
            self._listed.replace(self._in_use)
            return f"used: {self._sums}, verified in {(time.perf_counter() - begun) * 1000:.3g} ms"
        unfinished = unfinished or bool(names)
        self.drop()
        if unfinished:
            return "what a boot that did not pass had left was dropped"
        return "what was kept under another fingerprint was dropped" if stale else ""

    def _verified(self) -> Sums:
        """Hold the files against the listing, both ways."""
        about = self.folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or not is_own(about):
            raise DamagedFiles("no folder that only this user may write to")
        listing = _read_listing(self._listed)
        if (listing.bundle, listing.provider, listing.key) != (
            self._listing.bundle, self._listing.provider, self._listing.key,
        ):  # fmt: skip
            raise DamagedFiles(
                f"foreign: kept for {listing.bundle} on {listing.provider}, fingerprint {listing.key[:12]}"
            )
        try:
            sums = sums_of(self.folder, most={name: one.bytes for name, one in listing.files.items()})
        except OSError as error:
            raise DamagedFiles(f"a file that cannot be read: {error.strerror or type(error).__name__}") from error
        differs = difference({name: (one.bytes, one.sha256) for name, one in listing.files.items()}, sums.files)
        if differs is not None:
            raise DamagedFiles(differs)
        return sums

    def _write(self, sums: Sums) -> None:
        files = {name: _File(bytes=size, sha256=digest) for name, (size, digest) in sums.files.items()}
        text = self._listing.model_copy(update={"files": files}).model_dump_json(by_alias=True, indent=1)
        fresh = self._home / f".{secrets.token_hex(4)}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self._listed)
        self._in_use.unlink(missing_ok=True)
        os.fsync(self._descriptor)


def _read_listing(path: Path) -> _Listing:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise DamagedFiles("a listing that is no file")
            return _Listing.model_validate_json(stream.read(_MAX_LISTING_BYTES + 1))
    except (OSError, ValidationError) as error:
        raise DamagedFiles("a listing that cannot be read") from error
