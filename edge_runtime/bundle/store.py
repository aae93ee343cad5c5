"""The bundles of a device by their digests, and the pointer to those that serve; what may serve is decided by a boot alone.

::

    STORE/bundles/DIGEST/   a bundle, as delivered
    STORE/store.json        the pointer: what serves, what was confirmed, what is on trial
    STORE/log.jsonl         what was done, each line with the hash of the one before

Each change is one file put in place of another under a lock: killed at any moment, the store is as before or as after.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from edge_runtime.bundle import store_log, store_state
from edge_runtime.bundle.durable import locked, refused, replace_whole, sync_folder, write_synced
from edge_runtime.bundle.names import SIGNATURE_NAME, require_names
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.store_state import Slot, StoreState, read_state, write_state
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import BundleError, TemporaryError, UsageError

_BUNDLES: Final = "bundles"
_LOCK: Final = "store.lock"
_COMMAND_LOCK: Final = "command.lock"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PREFIX: Final = re.compile(r"[0-9a-f]{8,64}")
_PATIENCE_S: Final = 10.0
"""For a change that takes milliseconds: whoever holds it longer hangs."""
KEPT_STAGED: Final = 4
"""How many bundles that nothing points to stay, the newest: one that was rolled back can be looked at."""


class Store:
    """The store in ``folder``, which is made by the first stage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Where the bundle of this digest stands, or would."""
        if not _DIGEST.fullmatch(digest):  # it becomes a path: whoever wrote it, it names nothing else
            raise ValueError(digest)
        return self.folder / _BUNDLES / digest

    def digest_of(self, path: Path) -> str | None:
        """The digest by which a bundle stands here; None for one that stands elsewhere, or is only arriving."""
        is_inside = _DIGEST.fullmatch(path.name) is not None and path.parent == self.folder / _BUNDLES
        return path.name if is_inside else None

    def state(self) -> StoreState:
        """What the pointer says; raises ConfigurationError where it cannot be read."""
        return read_state(self.folder)

    def mark(self) -> tuple[int, int, int] | None:
        """What changes with the pointer, for who looks again and again: 2 us. None where there is no file."""
        try:
            found = (self.folder / store_state.STATE_NAME).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def digests(self) -> list[str]:
        """The bundles that are there, the newest first."""
        try:
            with os.scandir(self.folder / _BUNDLES) as entries:
                found = [(-one.stat().st_mtime_ns, one.name) for one in entries if _DIGEST.fullmatch(one.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise refused(self.folder, error) from error
        return [name for _, name in sorted(found)]

    def find(self, word: str) -> str:
        """The digest that begins with ``word``, of at least 8 hexadecimal digits.

        Raises:
            UsageError: it is no such word, or several bundles or none begin so.

        """
        there = self.digests()
        found = [one for one in there if _PREFIX.fullmatch(word) and one.startswith(word)]
        if len(found) != 1:
            raise UsageError(
                subject="DIGEST", found=f"{word[:80]!r}, which {'several' if found else 'none'} of the staged begin with",
                expected=f"8 digits or more of one of {', '.join(one[:12] for one in there[:8]) or 'none: nothing is staged'}",
                todo="see `edge-runtime bundle list`",
            )  # fmt: skip
        return found[0]

    @contextmanager
    def command(self) -> Iterator[None]:
        """Keep other commands out for as long as this one takes; a running service goes on meanwhile.

        Raises:
            DeviceError: the disk refuses.
            TemporaryError: another command is at work.

        """
        self._make()
        with locked(
            self.folder / _COMMAND_LOCK, patience_s=0, busy="another `edge-runtime bundle` command at work on it"
        ):
            yield

    @contextmanager
    def _change(self) -> Iterator[StoreState]:
        """Between reading and writing nobody else writes."""
        with locked(self.folder / _LOCK, patience_s=_PATIENCE_S, busy="another process changing it, for 10 s"):
            yield read_state(self.folder)

    # What commands do.

    @contextmanager
    def arriving(self, files: Mapping[str, bytes]) -> Iterator[Path]:
        """A folder with exactly ``files``, on the disk, under a hidden name; it goes unless ``take_in`` takes it."""
        require_names(files, "to be staged")
        place = self.folder / _BUNDLES / f".{secrets.token_hex(8)}.new"
        try:
            try:
                place.mkdir(parents=True)
                for name, data in sorted(files.items()):
                    write_synced(place / name, data)
                sync_folder(place)
            except OSError as error:
                raise refused(place, error) from error
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def take_in(self, arrived: Path, digest: str, now: str, told: Mapping[str, Any]) -> bool:
        """Give the bundle its name; whether it is new here. ``told`` goes into the log.

        One that is there already stays, but takes over the signature: the digest does not cover it.
        """
        target = self.path(digest)
        with self._change():
            store_log.append(self.folder, "staged", now, digest=digest, **told)
            try:
                if target.exists() and _is_whole(target, digest):
                    self._renew_signature(arrived, target)
                    os.utime(target)
                    return False
                if target.exists():  # damaged where it lay: what arrived is what its name says
                    self._discard(target)
                arrived.rename(target)
                os.utime(target)
                sync_folder(target.parent)
            except OSError as error:
                raise refused(target, error) from error
        return True

    def activate(self, identity: str, digest: str, now: str) -> Slot:
        """Let the bundle serve from now on, on trial unless it is the one that was confirmed; what serves already stays."""
        with self._change() as state:
            slot = state.bundles.get(identity)
            if slot is not None and slot.active == digest and slot.rolled_back is None:
                return slot
            if not self.path(digest).is_dir():
                raise BundleError(
                    subject=f"bundle {digest[:12]}", found="none of that digest in the store",
                    expected="one that was staged", todo="run `edge-runtime bundle stage` first",
                )  # fmt: skip
            made = store_state.activated(slot, digest, now)
            before = None if slot is None else slot.active
            store_log.append(self.folder, "activated", now, id=identity, digest=digest, before=before)
            write_state(self.folder, state.with_slot(identity, made))
        return made

    def confirm(self, identity: str, digest: str, now: str, told: Mapping[str, Any]) -> bool:
        """Note that ``digest``, which must still serve, has proven itself; whether that was news."""
        with self._change() as state:
            slot = state.bundles.get(identity)
            if slot is None or slot.active != digest:
                raise BundleError(
                    subject=f"bundle {identity}", found="another one active than was tested", expected=digest[:12],
                    todo="see `edge-runtime bundle status`, and confirm again",
                )  # fmt: skip
            if slot.confirmed == digest and slot.trial is None:
                return False
            store_log.append(self.folder, "confirmed", now, id=identity, digest=digest, **told)
            write_state(self.folder, state.with_slot(identity, store_state.confirmed(slot)))
        return True

    def put_back(self, identity: str, now: str) -> str:
        """Undo an activation that is still on trial; gives what serves then. Done twice, it is done once.

        Raises:
            BundleError: there is nothing to go back to.

        """
        with self._change() as state:
            slot = self._slot(state, identity)
            if slot.trial is not None:
                if slot.confirmed is None:
                    raise BundleError(
                        subject=f"bundle store:{identity}", found="none to go back to",
                        expected="one that was confirmed before", todo="stage and activate another one",
                    )  # fmt: skip
                slot = self._fall_back(state, identity, slot, "by hand", now)
            if slot.rolled_back is not None:  # who asked for it, or asks again, knows
                slot = slot.model_copy(update={"rolled_back": None})
                write_state(self.folder, self.state().with_slot(identity, slot))
        return slot.active

    def collect(self, now: str, *, keep: int = KEPT_STAGED) -> list[str]:
        """Remove what nothing points to but the newest ``keep``, and what a killed command left; gives their digests."""
        with self._change() as state:
            held = {digest for slot in state.bundles.values() for digest in slot.held}
            loose = [one for one in self.digests() if one not in held]
            gone = loose[keep:]
            if gone:
                store_log.append(self.folder, "removed", now, digests=gone)
            for digest in gone:
                self._discard(self.path(digest))
        return gone

    def sweep(self) -> None:
        """Remove what commands and writes that were killed have left; for the one command at work."""
        for leaving in [*(self.folder / _BUNDLES).glob(".*"), *self.folder.glob(".*.new")]:
            if leaving.is_dir() and not leaving.is_symlink():
                shutil.rmtree(leaving, ignore_errors=True)
            else:
                with suppress(OSError):
                    leaving.unlink()

    # What the service does.

    def begin(self, identity: str, most_starts: int, now: str) -> Slot:
        """Count a start of a bundle on trial before it begins; one start too many ends the trial, back to the confirmed.

        Raises:
            DeviceError: the disk does not take the count.
            TemporaryError: nothing of that id is active yet, or another process is changing the store.

        """
        slot = self._slot(read_state(self.folder), identity)
        if slot.trial is None:  # the ordinary start writes nothing
            return slot
        with self._change() as state:
            slot = self._slot(state, identity)
            if slot.trial is None:
                return slot
            if slot.trial.starts >= most_starts and slot.confirmed is not None:
                reason = f"it was started {slot.trial.starts} times and neither stopped in order nor passed its trial"
                return self._fall_back(state, identity, slot, reason, now)
            slot = store_state.in_trial(slot, lambda trial: {"starts": trial.starts + 1})
            write_state(self.folder, state.with_slot(identity, slot))
        return slot

    def fall_back(self, identity: str, digest: str, reason: str, now: str) -> Slot | None:
        """End the trial of ``digest``; None where it is not on trial any more, or nothing was ever confirmed."""
        with self._change() as state:
            slot = state.bundles.get(identity)
            if slot is None or slot.active != digest or slot.trial is None or slot.confirmed is None:
                return None
            return self._fall_back(state, identity, slot, reason, now)

    def passed(self, identity: str, digest: str, now: str) -> None:
        """Note that the trial of ``digest`` met its criteria, and that its starts are forgiven."""
        with self._change() as state:
            slot = state.bundles.get(identity)
            if slot is None or slot.active != digest or slot.trial is None:
                return
            if slot.trial.stage != "passed":
                store_log.append(self.folder, "trial_passed", now, id=identity, digest=digest)
            made = store_state.in_trial(slot, lambda _: {"stage": "passed", "starts": 0})
            write_state(self.folder, state.with_slot(identity, made))

    def stopped(self, identity: str, digest: str) -> None:
        """Take back the count of a start that has ended in order."""
        with self._change() as state:
            slot = state.bundles.get(identity)
            if slot is None or slot.active != digest or slot.trial is None or not slot.trial.starts:
                return
            made = store_state.in_trial(slot, lambda trial: {"starts": trial.starts - 1})
            write_state(self.folder, state.with_slot(identity, made))

    def note(self, event: str, now: str, **fields: Any) -> None:
        """Put an event into the log that changes nothing."""
        with self._change():
            store_log.append(self.folder, event, now, **fields)

    def note_configuration(self, digest: str, now: str) -> None:
        """Put it into the log where the device file is another than the last that was served."""
        if read_state(self.folder).config_digest == digest:
            return
        with self._change() as state:
            store_log.append(self.folder, "configuration", now, digest=digest, before=state.config_digest or None)
            write_state(self.folder, state.model_copy(update={"config_digest": digest}))

    def _fall_back(self, state: StoreState, identity: str, slot: Slot, reason: str, now: str) -> Slot:
        made = store_state.fallen_back(slot, reason, now)
        fields = {"id": identity, "digest": made.active, "before": slot.active, "reason": reason[:500]}
        store_log.append(self.folder, "rolled_back", now, **fields)
        write_state(self.folder, state.with_slot(identity, made))
        return made

    @staticmethod
    def _slot(state: StoreState, identity: str) -> Slot:
        slot = state.bundles.get(identity)
        if slot is None:
            raise TemporaryError(
                subject=f"bundle store:{identity}", found="none of that id active in the store", expected="one",
                todo="run `edge-runtime bundle stage` and `bundle activate`, then start it again",
            )  # fmt: skip
        return slot

    def _renew_signature(self, arrived: Path, target: Path) -> None:
        signature = arrived / SIGNATURE_NAME
        if signature.exists():
            replace_whole(target / SIGNATURE_NAME, signature.read_bytes())

    def _discard(self, path: Path) -> None:
        """Take the name away first: half a bundle must not stand under it."""
        aside = path.with_name(f".{secrets.token_hex(8)}.gone")
        try:
            path.rename(aside)
        except OSError as error:
            raise refused(path, error) from error
        shutil.rmtree(aside, ignore_errors=True)

    def _make(self) -> None:
        try:
            (self.folder / _BUNDLES).mkdir(parents=True, exist_ok=True, mode=0o755)
        except OSError as error:
            raise refused(self.folder, error) from error


def _is_whole(target: Path, digest: str) -> bool:
    """Whether what stands under this name is still what the name says, byte for byte."""
    try:
        return verify(read_files(target), str(target)).digest == digest
    except BundleError:
        return False
