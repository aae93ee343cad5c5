"""Measures what a process of its own costs a session: a call at batch 1 and 16, memory and start; it judges nothing.

Exit 70 if an answer differs from that in process, else 0.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import Any

os.environ |= {"ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engine.isolate import IsolatedSession, open_isolated
from edge_runtime.engine.session import open_session

ROOT = Path(__file__).parents[1]
_WRONG = 70
_BATCHES = (1, 16)
_BLOCK = 50
_DROPPED = 200
_LIMITS: dict[str, Any] = {"memory_mb": 256, "timeout_s": 60.0, "start_s": 60.0}

Feeds = Mapping[str, NDArray[Any]]
Call = Callable[[Feeds], Mapping[str, NDArray[Any]]]


def main() -> int:
    """Measure and print."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--calls", type=int, default=5000, help="calls of each kind (default: %(default)s)")
    words.add_argument("--starts", type=int, default=9, help="starts of each kind (default: %(default)s)")
    arguments = words.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}; us a call          p50     p90     p99     min")
    for bundle in ("dewpoint", "frost"):
        model = next((ROOT / "bundles" / bundle).glob("model*.onnx")).read_bytes()
        here, apart = open_session(model), open_isolated(model, **_LIMITS)
        for batch in _BATCHES:
            feeds = _feeds(apart, batch)
            if any(apart(feeds)[name].tobytes() != value.tobytes() for name, value in here(feeds).items()):
                print(f"bench: {bundle}, batch {batch}: another answer than in process", file=sys.stderr)
                return _WRONG
            found = _in_turn({"in process": here, "process of its own": apart}, feeds, arguments.calls)
            for name, times in found.items():
                _print(f"{bundle}, {batch:2}, {name}", times)
            one, other = (median(times) for times in found.values())
            print(f"  {bundle}, {batch:2}, added {other - one:.1f} us")
        _print_starts(bundle, model, arguments.starts)
    return 0


def _feeds(session: IsolatedSession, batch: int) -> Feeds:
    rng = np.random.default_rng(batch)
    return {
        name: rng.normal(size=[batch if isinstance(size, str) else size for size in shape]).astype(dtype)
        for name, shape, dtype in session.inputs
    }


def _in_turn(calls: Mapping[str, Call], feeds: Feeds, count: int) -> dict[str, list[float]]:
    """Blocks of calls of each, one after the other, so that both meet the same minutes of the machine."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range((count + _DROPPED) // _BLOCK):
        for name, call in calls.items():
            for _ in range(_BLOCK):
                begun = time.perf_counter_ns()
                call(feeds)
                found[name].append((time.perf_counter_ns() - begun) / 1000)
    return {name: times[_DROPPED:] for name, times in found.items()}


def _print_starts(bundle: str, model: bytes, count: int) -> None:
    here, apart, resident = [], [], 0.0
    for _ in range(count):
        begun = time.perf_counter()
        open_session(model)
        here.append((time.perf_counter() - begun) * 1000)
        begun = time.perf_counter()
        session = open_isolated(model, **_LIMITS)
        apart.append((time.perf_counter() - begun) * 1000)
        resident = session.resident_mb
        del session
    print(
        f"  {bundle}, start: in process {median(here):.1f} ms, process of its own {median(apart):.1f} ms (least"
        f" {min(apart):.1f}), which has {resident:.1f} MiB resident"
    )


def _print(name: str, times: list[float]) -> None:
    cuts = quantiles(times, n=100)
    print(f"  {name:34}{median(times):8.1f}{cuts[89]:8.1f}{cuts[98]:8.1f}{min(times):8.1f}")


if __name__ == "__main__":
    sys.exit(main())
