"""`edge-runtime bundle stage`, `activate`, `rollback`, `list`, `status`, `log`, `gc`: words to the store; it serves nothing."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from edge_runtime.bundle import store_log
from edge_runtime.bundle.store import Store
from edge_runtime.bundle.store_state import Slot
from edge_runtime.errors import UsageError, escaped
from edge_runtime.run.config import LoadedConfig, load_config, slots_of, state_folder
from edge_runtime.run.store import id_of, manifest_at, require_above_floor, store_of
from edge_runtime.run.supply import now

_FAULTY: Final = 1
_PLACES: Final = ("active", "confirmed", "previous")


def main(args: Namespace) -> int:
    """Do what ``args.command`` says with the store of ``args.config``; the exit codes are those of docs/exit_codes.md."""
    loaded = load_config(Path(args.config))
    word: str = args.command.removeprefix("bundle ")
    return _WORDS[word](args, loaded, store_of(loaded))


def _stage(args: Namespace, loaded: LoadedConfig, store: Store) -> int:
    from edge_runtime.run.stage import stage  # noqa: PLC0415 -- it tests a bundle, the other words do not

    staged = stage(Path(args.path), loaded, store)
    for digest in staged.removed:
        _say(f"removed {digest[:12]}, which nothing points to")
    known = "" if staged.is_new else ", which was there"
    _say(
        f"staged {staged.manifest.id} {staged.manifest.version}{known}; it passed its self-test, and does not serve yet"
    )
    print(staged.digest)  # noqa: T201 -- the command's output, for `bundle activate`
    return 0


def _activate(args: Namespace, loaded: LoadedConfig, store: Store) -> int:
    with store.command():
        digest = store.find(args.digest)
        manifest = manifest_at(store.path(digest))
        if manifest.id not in slots_of(loaded):
            raise UsageError(
                subject=f"bundle {digest[:12]}", found=f"id {manifest.id}",
                expected=f"{' or '.join(slots_of(loaded)) or 'none'}: what lines of {loaded.path} take from the store",
                todo=f'write bundle = "store:{manifest.id}" in a line',
            )  # fmt: skip
        require_above_floor(manifest, state_folder(loaded))
        slot = store.activate(manifest.id, digest, now())
    _say(
        f"{manifest.id}: {_told(store, slot)}; a running service takes it over within seconds, another at its next start"
    )
    return 0


def _rollback(args: Namespace, loaded: LoadedConfig, store: Store) -> int:
    with store.command():
        identity = _chosen(args.id, loaded)
        digest = store.put_back(identity, now())
    _say(f"{identity}: {digest[:12]} serves from now on")
    return 0


def _gc(_args: Namespace, _loaded: LoadedConfig, store: Store) -> int:
    with store.command():
        store.sweep()
        gone = store.collect(now(), keep=0)
    for digest in gone:
        _say(f"removed {digest[:12]}, which nothing points to")
    _say(f"{len(gone)} removed, {len(store.digests())} kept")
    return 0


def _list(args: Namespace, _loaded: LoadedConfig, store: Store) -> int:
    bundles = store.state().bundles
    rows: list[tuple[str, str | None, list[str]]] = []
    for digest in store.digests():
        told = [name for slot in bundles.values() for name in _PLACES if getattr(slot, name) == digest]
        rows.append((digest, id_of(store.path(digest)), list(dict.fromkeys(told))))
    if args.json:
        found = [{"digest": digest, "id": identity, "is": places} for digest, identity, places in rows]
        print(json.dumps(found, indent=2))  # noqa: T201 -- the command's output
        return 0
    for digest, identity, places in rows:
        print(f"{digest[:12]}  {identity or 'unreadable'}  {', '.join(places) or 'staged'}")  # noqa: T201
    return 0


def _status(args: Namespace, loaded: LoadedConfig, store: Store) -> int:
    bundles = store.state().bundles
    slots = [*slots_of(loaded), *(one for one in bundles if one not in slots_of(loaded))]
    if args.json:
        found = {name: bundles[name].model_dump(mode="json") if name in bundles else None for name in slots}
        print(json.dumps(found, indent=2))  # noqa: T201 -- the command's output
        return 0
    for name in slots:
        print(f"{name}: {_told(store, bundles[name]) if name in bundles else 'none is active'}")  # noqa: T201
    return 0


def _log(args: Namespace, _loaded: LoadedConfig, store: Store) -> int:
    if not args.verify:
        for event in store_log.events(store.folder):
            print(json.dumps(event.fields) if args.json else escaped(_event(event.fields)))  # noqa: T201
        return 0
    faults = store_log.verify(store.folder)
    for fault in faults:
        _say(f"log {store.folder}: {fault}")
    if faults:
        return _FAULTY
    numbers = [event.number for event in store_log.events(store.folder)]
    told = f"events {numbers[0]} to {numbers[-1]}, each with the hash of the one before" if numbers else "no event yet"
    print(f"log {store.folder}: {told}")  # noqa: T201
    return 0


_WORDS: Final[dict[str, Callable[[Namespace, LoadedConfig, Store], int]]] = {
    "stage": _stage, "activate": _activate, "rollback": _rollback, "gc": _gc, "list": _list, "status": _status, "log": _log,
}  # fmt: skip


def _chosen(identity: str | None, loaded: LoadedConfig) -> str:
    slots = slots_of(loaded)
    if identity is None and len(slots) == 1:
        return slots[0]
    if identity not in slots:
        raise UsageError(
            subject="ID", found="none" if identity is None else repr(identity),
            expected=" or ".join(slots) or 'a line of the device file with bundle = "store:ID"',
            todo="name one of the bundles that the lines take from the store",
        )  # fmt: skip
    return identity


def _told(store: Store, slot: Slot) -> str:
    return ", ".join(_parts(store, slot))


def _parts(store: Store, slot: Slot) -> Iterator[str]:
    there = "" if store.path(slot.active).is_dir() else ", which is not in the store"
    yield f"{slot.active[:12]} is active{there}"
    if slot.trial is not None:
        trial = "has passed its trial" if slot.trial.stage == "passed" else "is on trial"
        yield f"it {trial} since {slot.trial.since} ({slot.trial.starts} starts count)"
        back = "there is none to go back to" if slot.confirmed is None else f"{slot.confirmed[:12]} is confirmed"
        yield back
    else:
        yield "confirmed"
    if slot.rolled_back is not None:
        one = slot.rolled_back
        yield f"{one.digest[:12]} was rolled back at {one.time}: {one.reason}"


def _event(fields: Any) -> str:
    rest = {name: value for name, value in fields.items() if name not in ("n", "time", "event", "prev")}
    told = " ".join(f"{name}={_short(value)}" for name, value in rest.items())
    return f"{fields['n']:5d}  {fields.get('time')}  {fields.get('event')}  {told}"


def _short(value: Any) -> str:
    is_digest = isinstance(value, str) and len(value) == 64 and " " not in value  # noqa: PLR2004 -- SHA-256 in hex
    return value[:12] if is_digest else json.dumps(value)


def _say(text: str) -> None:
    sys.stderr.write(f"{escaped(text)}\n")
