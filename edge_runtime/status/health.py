"""What a running device says of itself, as one small file; it is volatile, and nothing is ever restored from it."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from edge_runtime.errors import TemporaryError
from edge_runtime.flow.ledger import Ledger
from edge_runtime.flow.utc_time import utc_text
from edge_runtime.spec.fault import is_missing
from edge_runtime.spec.machine_state import MachineState
from edge_runtime.spec.report import REQUIRED, Report, State

FILE_NAME = "status.json"
_MODE = 0o644  # for every local program to read: it holds no measurement and no secret


@dataclass(frozen=True, slots=True)
class BundleIdentity:
    """Which bundle a line serves."""

    id: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class LedgerHealth:
    """Both ledgers as they stand: ``counts`` by term and reason, what is pending, and whether the sums hold."""

    counts: dict[str, dict[str, Any]]
    pending_samples: int
    pending_answers: int
    adds_up: bool

    @classmethod
    def of(cls, ledger: Ledger, *, pending_samples: int, pending_answers: int) -> Self:
        """Read ``ledger``; the pending ones are counted by whoever holds them."""
        adds_up = ledger.adds_up(pending_samples=pending_samples, pending_answers=pending_answers)
        return cls(ledger.as_dict(), pending_samples, pending_answers, adds_up)


@dataclass(frozen=True, slots=True)
class JournalHealth:
    """The journal of a line: its bytes, and what was cut off or put aside when it was opened."""

    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineHealth:
    """One line. ``bundle`` and ``provider`` are None while none is proven; ``last_answer`` is ISO 8601 UTC.

    ``oddities`` counts, for the streams that have most of them, what was odd about the times of their samples since the
    start: gap, too_soon, rate_off, duplicate, time_back, time_ahead, stale. ``levels`` says, by stream and channel, how near
    what the contract watches is to being flagged (docs/plausibility.md).
    """

    name: str
    ledger: LedgerHealth
    source: str
    sinks: Mapping[str, str]
    reopened: int = 0
    bundle: BundleIdentity | None = None
    provider: str | None = None
    last_answer: str | None = None
    journal: JournalHealth | None = None
    dead_letters: str | None = None
    oddities: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    capture: str | None = None


@dataclass(frozen=True, slots=True)
class SelftestHealth:
    """What the last self-test of a bundle came to: how many checks passed, and the first that failed, if any."""

    bundle: str
    passed: int
    checks: int
    failed: str | None = None

    @classmethod
    def of(cls, report: Report) -> Self:
        """Count ``report``."""
        failed = report.failures(REQUIRED)
        passed = sum(check.status == "pass" for check in report.checks)
        first = f"{failed[0].id}: {failed[0].measured}; expected {failed[0].limit}" if failed else None
        return cls(str(report.bundle.get("path", "")), passed, len(report.checks), first)


@dataclass(frozen=True, slots=True)
class Health:
    """The whole process. ``live``: it turns. ``ready``: it is proven and could answer. ``fresh``: data flows.

    ``stopped``: it has ended in order, at ``time``: it was told to, or its sources had ended and all had gone out.
    ``reason`` says in one sentence why the state is what it is; ``time`` is when this was written, ISO 8601 UTC.
    ``machine`` is how hot and how slowed down it was at the last look, None where it tells nothing.
    """

    time: str
    pid: int
    run_id: str
    state: State
    reason: str
    live: bool
    ready: bool
    fresh: bool
    profile: str | None = None
    lines: tuple[LineHealth, ...] = ()
    stopped: bool = False
    selftest: tuple[SelftestHealth, ...] = ()
    machine: MachineState | None = None

    def as_json(self) -> bytes:
        """One JSON object and a newline."""
        return to_json(self, indent=2, inf_nan_mode="null") + b"\n"

    def as_message(self, sender: Mapping[str, str]) -> bytes:
        """One JSON object on one line, for a broker: the same, ``status``, that somebody is there, and who."""
        return to_json({"status": "online"} | dict(sender) | asdict(self), inf_nan_mode="null")


def timestamp(time_ns: int) -> str:
    """Write Unix nanoseconds as ``Health.time`` has them: whole seconds."""
    return utc_text(time_ns // 1_000_000_000 * 1_000_000_000)


def write_status(folder: Path, health: Health) -> None:
    """Put ``status.json`` in place at once and whole, readable for everybody, not forced to the disk.

    Raises:
        TemporaryError: the folder did not take it; nothing else depends on it.

    """
    path = folder / FILE_NAME
    temporary = folder / (FILE_NAME + ".new")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        with os.fdopen(file, "wb") as out:
            out.write(health.as_json())
        temporary.chmod(_MODE)  # whatever the umask took away
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise TemporaryError(
            subject=str(path), found=error.strerror or type(error).__name__, expected="a folder that takes the status",
            todo="free the disk, or give the service's user the state folder",
        ) from error  # fmt: skip


def read_status(folder: Path) -> Health:
    """Read what ``write_status`` wrote there.

    Raises:
        TemporaryError: there is none, or none that this release can read.

    """
    path = folder / FILE_NAME
    try:
        return TypeAdapter(Health).validate_json(path.read_bytes())
    except OSError as error:
        todo = "start it with `edge-runtime run`, or name its device file with --config"
        raise TemporaryError(
            subject=str(path), found=error.strerror or type(error).__name__,
            expected="the status of a running edge-runtime",
            todo="ask as the user that it runs as" if isinstance(error, PermissionError) else todo,
        ) from error  # fmt: skip
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        found = "nothing" if is_missing(first) else first["msg"]
        raise TemporaryError(
            subject=str(path), found=f"{found} at {'.'.join(map(str, first['loc'])) or 'the start'}",
            expected="the status as this release writes it", todo="restart edge-runtime if it was updated",
        ) from error  # fmt: skip
