"""`edge-runtime diff A B`: what differs between two bundles and what it means for a line of A; it runs no model."""

import hashlib
import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import VerifiedBundle, verify
from edge_runtime.run.differences import ORDER, Difference, differences
from edge_runtime.run.inspect import manifest_of
from edge_runtime.spec.manifest import Manifest

SCHEMA: Final = "edge-runtime/diff/1"
_DIFFER: Final = 1
_MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
_DIGITS: Final = 12


class Side(NamedTuple):
    """One of the two: its bundle, its manifest, and the numbers of its build.json, empty where there is none of it."""

    bundle: VerifiedBundle
    manifest: Manifest
    metrics: Mapping[str, float | int | str]
    note: str


def main(args: Namespace) -> int:
    """Print what differs between ``args.a`` and ``args.b``; 0 where their digests are equal, else 1.

    Raises:
        BundleError: one of them cannot be read or is not whole.

    """
    a, b = _side(args.a), _side(args.b)
    found = compare(a, b)
    sys.stdout.write(_as_json(a, b, found) if args.json else "\n".join(_lines(a, b, found)) + "\n")
    return 0 if a.bundle.digest == b.bundle.digest else _DIFFER


def compare(a: Side, b: Side) -> list[Difference]:
    """Contract, number of goldens, metrics and files of the two, in the order of ``ORDER``."""
    found = [*differences(a.manifest, b.manifest), *_cases(a, b), *_metrics(a, b), *_files(a, b)]
    return sorted(found, key=lambda one: ORDER.index(one.group))


def _side(name: str) -> Side:
    path = Path(name)
    bundle = verify(read_files(path), name)
    metrics, note = _record(path, bundle)
    return Side(bundle, manifest_of(bundle), metrics, note)


def _record(path: Path, bundle: VerifiedBundle) -> tuple[dict[str, float | int | str], str]:
    """The metrics of the build.json beside a bundle, if it is that bundle's; it is no part of it, so nothing is refused."""
    beside = path.absolute().with_name(f"{path.absolute().name.removesuffix('.tar')}.build.json")
    if not beside.is_file():  # a fifo of that name would wait for ever
        return {}, f"no {beside.name} beside it"
    try:
        with beside.open("rb") as stream:
            record = json.loads(stream.read(_MAX_RECORD_BYTES))
        digest, metrics = record["bundle"]["digest"], record["metrics"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}, f"{beside.name} cannot be read"
    if digest != bundle.digest:
        return {}, f"{beside.name} is of another build"
    return dict(_numbers(metrics)), ""


def _numbers(metrics: object, prefix: str = "") -> Iterator[tuple[str, float | int | str]]:
    """Every number and text of nested tables, by its path."""
    if isinstance(metrics, dict):
        for key, value in metrics.items():
            yield from _numbers(value, f"{prefix}{'.' if prefix else ''}{key}")
    elif isinstance(metrics, str | int | float):
        yield prefix, metrics


def _cases(a: Side, b: Side) -> Iterator[Difference]:
    was, is_now = _count(a), _count(b)
    if was != is_now:
        yield Difference("goldens", "cases", was, is_now, "the self-test of B runs another number of cases")


def _count(side: Side) -> str:
    names = sorted({variant.goldens for variant in side.manifest.variants})
    counts = (len(decode_goldens(side.bundle.files[name], subject=name)) for name in names)
    return ", ".join(f"{count} in {name}" for name, count in zip(names, counts, strict=True))


def _metrics(a: Side, b: Side) -> Iterator[Difference]:
    if not a.metrics or not b.metrics:
        notes = [f"{name}: {side.note}" for name, side in (("A", a), ("B", b)) if side.note]
        if notes and a.bundle.digest != b.bundle.digest:
            yield Difference("metrics", "metrics", a.note or "there", b.note or "there", "not compared")
        return
    for key in [*a.metrics, *(key for key in b.metrics if key not in a.metrics)]:
        was, is_now = a.metrics.get(key, "none"), b.metrics.get(key, "none")
        if was != is_now:
            yield Difference("metrics", key, str(was), str(is_now), _better_or_worse(key, was, is_now))


def _better_or_worse(key: str, was: object, is_now: object) -> str:
    name = key.rpartition(".")[2]
    if not isinstance(was, float) or not isinstance(is_now, float):
        return "see the author's record"
    if name.startswith("mae") and was > 0:
        share = (is_now - was) / was
        return f"{abs(share):.1%} {'more' if share > 0 else 'less'} error on the author's test data"
    if name.startswith("accuracy"):
        return f"right in {abs(is_now - was):.1%} {'more' if is_now > was else 'fewer'} of the author's test cases"
    return "see the author's record"


def _files(a: Side, b: Side) -> Iterator[Difference]:
    for name in sorted({*a.bundle.files, *b.bundle.files} - {"manifest.json"}):
        was, is_now = a.bundle.files.get(name), b.bundle.files.get(name)
        if was != is_now:
            yield Difference("files", name, _file(was), _file(is_now), _file_means(name, b.manifest))
    if a.bundle.signature != b.bundle.signature:
        yield Difference(
            "files",
            "model.sig",
            _file(a.bundle.signature),
            _file(b.bundle.signature),
            "no part of the digest; see docs/signing.md",
        )


def _file(data: bytes | None) -> str:
    return "none" if data is None else f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:_DIGITS]}"


def _file_means(name: str, manifest: Manifest) -> str:
    if any(name == variant.goldens for variant in manifest.variants):
        return "the self-test of B holds the device to other cases"
    return "other numbers out of the same input; the self-test of B proves them on this device"


def _lines(a: Side, b: Side, found: list[Difference]) -> Iterator[str]:
    yield f"A  {_title(a)}"
    yield f"B  {_title(b)}"
    if a.bundle.digest == b.bundle.digest:
        yield "equal: every file of the two, byte for byte"
    for group, members in groupby(found, key=lambda one: one.group):
        yield ""
        yield group
        last = ""
        for one in members:
            yield f"  {one.subject}: {one.was} -> {one.is_now}"
            # The same meaning for a whole list of constants is told once.
            if one.means not in ("", last):
                yield f"      {one.means}"
            last = one.means
    if a.bundle.digest != b.bundle.digest:
        yield ""
        yield f"{len(found)} differences; `edge-runtime selftest --bundle B --config device.toml` proves B on this device"


def _title(side: Side) -> str:
    manifest = side.manifest
    return f"{manifest.id} {manifest.version}, digest {side.bundle.digest[:_DIGITS]}, {side.bundle.origin}"


def _as_json(a: Side, b: Side, found: list[Difference]) -> str:
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "equal": a.bundle.digest == b.bundle.digest,
        "a": _identity(a),
        "b": _identity(b),
        "differences": [
            {"group": one.group, "subject": one.subject, "was": one.was, "is": one.is_now, "means": one.means}
            for one in found
        ],
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _identity(side: Side) -> dict[str, str]:
    manifest = side.manifest
    return {"path": side.bundle.origin, "id": manifest.id, "version": manifest.version, "digest": side.bundle.digest}
