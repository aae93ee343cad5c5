"""`edge-runtime status`: reads what a running device says of itself; it asks the device nothing and changes nothing."""

import math
import os
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edge_runtime.errors import TemporaryError, escaped
from edge_runtime.run.config import load_config, state_folder, status_folders
from edge_runtime.status.health import FILE_NAME, Health, LineHealth, read_status

OLD_S = 60
"""A serving process writes its status every few seconds: one this old in a living process means a loop that hangs."""


def main(args: Namespace) -> int:
    """Print the status of the device of ``args.config``; 1 if there is none, it has gone, or it has stopped turning.

    0 also for a device that has stopped in order, which the first line says then: what stands below is as it was left.
    """
    folder = _newest(status_folders(state_folder(load_config(Path(args.config)))))
    try:
        health = read_status(folder)
    except TemporaryError as failure:
        print(f"edge-runtime: {failure}", file=sys.stderr)  # noqa: T201 -- the command's answer is "no"
        return 1
    age_s = (datetime.now(UTC) - datetime.fromisoformat(health.time)).total_seconds()
    gone = why_gone(health, age_s=age_s, is_alive=_is_alive(health.pid))
    if args.json:
        sys.stdout.write(health.as_json().decode())
    else:
        print("\n".join(map(escaped, describe(health))))  # noqa: T201 -- the command's output
    if gone:
        print(f"edge-runtime: {gone}", file=sys.stderr)  # noqa: T201 -- said last, so that it is seen
        return 1
    return 0


def _newest(folders: Sequence[Path]) -> Path:
    """The folder with the newest status; the last one, the state folder, where there is none."""
    there = [(written, folder) for folder in folders if (written := _written_s(folder / FILE_NAME)) is not None]
    return max(there, default=(0, folders[-1]))[1]


def _written_s(path: Path) -> float | None:
    """When it was written; None where it is not there, and later than all where nobody lets us see: reading it says so."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return math.inf
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def why_gone(health: Health, *, age_s: float, is_alive: bool) -> str | None:
    """Say why this status is no longer true, or None if it is: the last word of a stop in order is never outdated."""
    if health.stopped:
        return None
    if not is_alive:
        return f"process {health.pid} has gone; what stands above is its last word, of {health.time}; start it again"
    if age_s > OLD_S:
        return (
            f"process {health.pid} lives but wrote this {age_s:.0f} s ago, at {health.time}; expected {OLD_S} s "
            "at most; look whether it hangs, or its state folder takes no files"
        )
    return None


def describe(health: Health) -> Iterator[str]:
    """Every line of the text for a person."""
    signals = ", ".join(f"{'' if on else 'not '}{name}" for name, on in _signals(health).items())
    head = f"{health.state}: {health.reason}"
    yield f"stopped in order at {health.time}; until then {head}" if health.stopped else head
    yield f"  {signals}; run {health.run_id}, process {health.pid}, {health.time}"
    if health.profile:
        yield f"  profile {health.profile}"
    if health.machine:
        yield f"  machine {health.machine.as_text()}"
    for line in health.lines:
        yield ""
        yield from _describe_line(line)


def _describe_line(line: LineHealth) -> Iterator[str]:
    yield f"line {line.name}"
    if line.bundle:
        yield f"  bundle       {line.bundle.id} {line.bundle.version} ({line.bundle.digest[:12]}) on {line.provider}"
    else:
        yield "  bundle       none is proven"
    reopened = f" Opened again {line.reopened} times." if line.reopened else ""
    yield f"  source       {line.source.removesuffix('.')}.{reopened}"
    ledger = line.ledger
    yield f"  samples      {_sum(ledger.counts['samples'], 'received', ledger.pending_samples)}"
    yield f"  answers      {_sum(ledger.counts['answers'], 'due', ledger.pending_answers)}"
    if not ledger.adds_up:
        yield "               these do not add up: report this as a bug"
    yield f"  last answer  {line.last_answer or 'none since this start'}"
    for stream, counts in line.oddities.items():
        told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        yield f"  times        {f'stream {stream}: ' if stream else ''}{told}"
    yield from _level_lines(line)
    for name, status in line.sinks.items():
        yield f"  sink {name}: {status}"
    if line.journal:
        yield f"  journal      {line.journal.bytes} bytes"
        for note in line.journal.notes:
            yield f"               {note}"
    if line.capture:
        yield f"  capture      {line.capture}"
    if line.dead_letters:
        yield f"  dead letters {line.dead_letters}"


def _level_lines(line: LineHealth) -> Iterator[str]:
    for stream, channels in line.levels.items():
        for channel, levels in channels.items():
            told = ", ".join(f"{what} {value:g}" for what, value in levels.items())
            yield f"  watched      {f'stream {stream}, ' if stream else ''}{channel}: {told}"


def _sum(terms: Mapping[str, Any], total: str, pending: int) -> str:
    """``10 received = 8 accepted + 0 duplicate + 2 rejected (2 missing) + 0 dropped + 0 pending``."""
    parts = []
    for name, term in terms.items():
        if name == total:
            continue
        if isinstance(term, Mapping):
            reasons = ", ".join(f"{count} {reason}" for reason, count in term.items())
            parts.append(f"{sum(term.values())} {name}" + (f" ({reasons})" if reasons else ""))
        else:
            parts.append(f"{term} {name}")
    return f"{terms[total]} {total} = {' + '.join([*parts, f'{pending} pending'])}"


def _signals(health: Health) -> dict[str, bool]:
    return {"live": health.live, "ready": health.ready, "fresh": health.fresh}


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # signal 0 is Ctrl-C there; the file's age must do
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
