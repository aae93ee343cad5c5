"""The shipped bundles as bytes, and altered copies of them on disk; it boots nothing."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edge_runtime.bundle.write import write_directory

ROOT = Path(__file__).parents[2]
FROST = ROOT / "bundles" / "frost"
DEWPOINT = ROOT / "bundles" / "dewpoint"


def files_of(bundle: Path) -> dict[str, bytes]:
    """Every file of a bundle, SHA256SUMS included."""
    return {path.name: path.read_bytes() for path in bundle.iterdir()}


def manifest_of(bundle: Path) -> dict[str, Any]:
    """The manifest as plain JSON, to be altered."""
    raw: dict[str, Any] = json.loads((bundle / "manifest.json").read_bytes())
    return raw


def write_with(bundle: Path, to: Path, changed: Mapping[str, bytes]) -> Path:
    """Write a copy of ``bundle`` with other files, its SHA256SUMS right again, as somebody who edits it would."""
    write_directory(files_of(bundle) | dict(changed), to)
    return to


def write_with_manifest(bundle: Path, to: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write a copy of ``bundle`` whose manifest ``change`` has altered in place, its SHA256SUMS right again."""
    raw = manifest_of(bundle)
    change(raw)
    return write_with(bundle, to, {"manifest.json": json.dumps(raw).encode()})
