"""Measures what one transaction of a line costs on disk and in time: the journal against SQLite in WAL mode.

Bytes are those a flush brings to the disk. `asked` is what the process handed to write() (wchar of /proc/self/io),
`pages` what the kernel charged it for dirtied pages (write_bytes there, 4096 each), `device` what reached the block
device (sectors of /sys/block/NAME/stat, the file system's own journal included), with --device of a device that
nobody else writes to, for instance a loop device with the folder on it. Variants take turns; figures are medians.
"""

import argparse
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import to_json

from edge_runtime.sinks.journal import Journal

ROUNDS = 5
WINDOW = 24
FLUSH_EVERY = (1, 30)  # each by itself, as at one sample an hour; 30 together, as at 1 Hz with a flush every 30 s

Record = dict[str, Any]


class Store(NamedTuple):
    """A thing under test: ``commit`` one record, ``flush`` what was committed to the disk, ``close`` it."""

    commit: Callable[[int, Record], None]
    flush: Callable[[], None]
    close: Callable[[], None]


class Cost(NamedTuple):
    """Per commit: bytes by three measures, and microseconds of the commit call alone."""

    asked: float
    pages: float
    device: float
    commit_us: float


def record(n: int) -> Record:
    """One sample of five channels, one answer, the ledger: about 450 bytes."""
    values = [n / 7 + channel / 3 for channel in range(5)]
    line = f'{{"time":"2025-01-28T23:00:00Z","seq":{n},"low":{{"value":{n / 11},"unit":"Cel","frost":true}}}}'
    return {
        "samples": [["", 1_738_105_200_000_000_000 + n, values, 1]],
        "ledger": {
            "samples": {"received": n, "accepted": n, "duplicate": 0, "rejected": {}, "dropped": {}},
            "answers": {"due": n, "published": n, "refused": {}, "dropped": {}},
        },
        "answers": [[f"{n:020x}", line]],
    }


def open_log(folder: Path) -> Store:
    """Open our journal, its syncs left to ``flush``."""
    log = Journal.open(folder / "log", identity="bench", sync_s=1e9, mono_ns=time.monotonic_ns, max_bytes=1 << 20)
    return Store(lambda _n, one: log.commit(one), log.sync, log.close)


def open_tables(folder: Path) -> Store:
    """Open SQLite with a table each for window, state and unsent answers, changed in one transaction."""
    base = _open_sqlite(folder)
    base.execute("CREATE TABLE sample (n INTEGER PRIMARY KEY, text BLOB)")
    base.execute("CREATE TABLE state (name TEXT PRIMARY KEY, text BLOB) WITHOUT ROWID")
    base.execute("CREATE TABLE answer (n INTEGER PRIMARY KEY, text BLOB)")

    def commit(n: int, one: Record) -> None:
        base.execute("BEGIN")
        base.execute("INSERT INTO sample VALUES (?, ?)", (n, to_json(one["samples"])))
        base.execute("DELETE FROM sample WHERE n <= ?", (n - WINDOW,))
        base.execute("INSERT OR REPLACE INTO state VALUES ('ledger', ?)", (to_json(one["ledger"]),))
        base.execute("DELETE FROM answer WHERE n < ?", (n,))
        base.execute("INSERT INTO answer VALUES (?, ?)", (n, to_json(one["answers"])))
        base.execute("COMMIT")

    return Store(commit, _flush(folder), base.close)


def open_one_table(folder: Path) -> Store:
    """Open SQLite used as a log, one row a transaction: the least it can write."""
    base = _open_sqlite(folder)
    base.execute("CREATE TABLE log (n INTEGER PRIMARY KEY, text BLOB)")

    def commit(n: int, one: Record) -> None:
        base.execute("INSERT INTO log VALUES (?, ?)", (n, to_json(one)))

    return Store(commit, _flush(folder), base.close)


VARIANTS = {"journal": open_log, "sqlite, three tables": open_tables, "sqlite, one table": open_one_table}


def main() -> None:
    """Print the table of bytes and times."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    words.add_argument("--device", help="its block device, for instance loop0, if nobody else writes there")
    words.add_argument("--commits", type=int, default=300, help="commits a round (default: %(default)s)")
    arguments = words.parse_args()
    print(
        f"one record is {len(to_json(record(12345)))} bytes; SQLite {sqlite3.sqlite_version}, WAL, synchronous=NORMAL"
    )
    costs: dict[tuple[str, int], list[Cost]] = {}
    for _ in range(ROUNDS):
        for every in FLUSH_EVERY:
            for name, opener in VARIANTS.items():
                with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                    cost = measure(opener(Path(folder)), arguments.commits, every, arguments.device)
                costs.setdefault((name, every), []).append(cost)
    heads = f"{'flushed':>9}{'asked':>8}{'pages':>8}{'device':>8}{'us/commit':>11}{'MB/day 1 Hz':>13}{'kB/day 1/h':>12}"
    print(" " * 22 + heads)
    for (name, every), rounds in costs.items():
        middle = Cost(*(statistics.median(column) for column in zip(*rounds, strict=True)))
        disk = middle.device if arguments.device else middle.pages
        device = f"{middle.device:.0f}" if arguments.device else "-"
        hourly = f"{disk * 24 / 1e3:.0f}" if every == 1 else "-"
        print(
            f"{name:22}{f'each {every}':>9}{middle.asked:8.0f}{middle.pages:8.0f}{device:>8}"
            f"{middle.commit_us:11.1f}{disk * 86400 / 1e6:13.0f}{hourly:>12}"
        )


def measure(store: Store, commits: int, flush_every: int, device: str | None) -> Cost:
    """Commit so many records, flush after each ``flush_every``, and read the counters before and after."""
    for n in range(WINDOW):
        store.commit(n, record(n))
    records = [record(WINDOW + n) for n in range(commits)]
    times: list[int] = []
    with _settled(store, device) as before:
        for n, one in enumerate(records):
            start = time.perf_counter_ns()
            store.commit(WINDOW + n, one)
            times.append(time.perf_counter_ns() - start)
            if (n + 1) % flush_every == 0:
                store.flush()
    after = _counters(device)
    store.close()
    asked, pages, sectors = ((b - a) / commits for a, b in zip(before, after, strict=True))
    return Cost(asked, pages, sectors, statistics.median(times) / 1e3)


@contextmanager
def _settled(store: Store, device: str | None) -> Iterator[tuple[int, int, int]]:
    store.flush()
    _flush_device(device)
    yield _counters(device)
    store.flush()
    _flush_device(device)


def _flush_device(device: str | None) -> None:
    if device:
        os.sync()


def _counters(device: str | None) -> tuple[int, int, int]:
    own = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    sectors = int(Path(f"/sys/block/{device}/stat").read_text().split()[6]) if device else 0
    return int(own["wchar"]), int(own["write_bytes"]), sectors * 512


def _open_sqlite(folder: Path) -> sqlite3.Connection:
    base = sqlite3.connect(folder / "base", isolation_level=None)
    base.execute("PRAGMA page_size=4096")
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=NORMAL")
    return base


def _flush(folder: Path) -> Callable[[], None]:
    """NORMAL leaves the flush to the kernel; this does what the kernel does within 30 s."""

    def flush() -> None:
        for path in folder.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            os.fdatasync(descriptor)
            os.close(descriptor)

    return flush


if __name__ == "__main__":
    main()
