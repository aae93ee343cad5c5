"""Measures what this runtime adds to a bare session, in time and memory, and says which goal is met.

Absolute times belong to the machine they were taken on; the ratios come from the same run. Exit 70 if an answer was
wrong, else 0.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

# As the program itself sets them, before numpy and onnxruntime are imported.
os.environ |= {"ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import bench_process
import numpy as np
import onnxruntime as ort
from bench_energy import Energy, measure_energy
from bench_line import (
    ADDING,
    HAND,
    IN_HAND,
    IN_LINE,
    LINE,
    LOOP,
    WHOLES,
    Case,
    Times,
    WrongAnswer,
    make_cases,
    measure_wholes,
)
from bench_stages import STAGES, measure_stages

from edge_runtime.device.energy import EnergyMeter
from edge_runtime.run import goldens as stages

_WRONG = 70
_CHUNKS = (1, 64)


_BothStarts = tuple[bench_process.Starts, bench_process.Starts]
"""Of whole processes: elapsed time and processor time."""


class Goal(NamedTuple):
    """One goal: what was found, in ``unit``, and the limit it is held against."""

    name: str
    found: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether what was found is within the limit."""
        return self.found <= self.limit


class Result(NamedTuple):
    """One case in chunks of ``chunk`` lines: the times of every round, and the journal's bytes a sample."""

    case: str
    chunk: int
    rounds: list[Times]
    journal_bytes: float

    def p50(self, name: str) -> float:
        """Microseconds a sample: the median over the rounds of each round's median."""
        return median(median(one[name]) for one in self.rounds)

    def added(self, name: str, session: str = IN_LINE) -> float:
        """What ``name`` takes beyond ``session`` in the same round, microseconds a sample."""
        return median(median(one[name]) - median(one[session]) for one in self.rounds)


# What each goal is held against: the limits this project set itself.
_ADDED_US = {"dewpoint": 30.0, "frost": 50.0}
_HELP_MS, _BOOT_MS, _RSS_MB = 100.0, 300.0, 85.0


def main() -> int:
    """Measure, print the tables and the goals."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--json", action="store_true", help="print JSON instead of text")
    words.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (default: %(default)s)")
    words.add_argument("--rows", type=int, default=2000, help="rows a round (default: %(default)s)")
    words.add_argument("--starts", type=int, default=9, help="starts of each process (default: %(default)s)")
    words.add_argument("--only", choices=("line", "process", "energy"), help="leave the others out")
    arguments = words.parse_args()
    results: list[Result] = []
    energies: list[Energy] | None = None
    starts = memory = None
    try:
        if arguments.only in (None, "energy"):
            energies = _energies()
        if arguments.only in (None, "line"):
            cases = make_cases(arguments.rows)
            results = [_measure(case, chunk, arguments.rounds) for case in cases for chunk in _CHUNKS]
        if arguments.only in (None, "process"):
            starts = bench_process.measure_starts(arguments.starts)
            memory = bench_process.measure_memory()
    except WrongAnswer as wrong:
        print(f"bench: {wrong}", file=sys.stderr)
        return _WRONG
    goals = [*_line_goals(results), *_process_goals(starts, memory)]
    if arguments.json:
        print(json.dumps(_as_dict(results, starts, memory, goals) | {"energy": _energy_dict(energies)}, indent=2))
    else:
        _print_text(results, starts, memory, goals)
        _print_energy(energies)
    return 0


def _energies() -> list[Energy]:
    """What an inference of each shipped bundle takes; nothing where this machine measures no power."""
    found = []
    for case in make_cases(1):
        model, stored = case.ready.model, case.ready.goldens
        one = stages.feeds_of(model, {name: values[:1] for name, values in stored.tensors.items()})
        energy = measure_energy(case.name, partial(model.infer, one), EnergyMeter())
        found += [energy] if energy is not None else []
    return found


def _print_energy(energies: list[Energy] | None) -> None:
    for one in energies or ():
        print(
            f"{one.case}: {one.gross_mj:.4g} mJ an inference gross, {one.net_mj:.4g} mJ beyond idling, by {one.source}"
            f" ({one.busy_watts:.3g} W busy, {one.idle_watts:.3g} W idle, {one.inferences} inferences, nothing between them)"
        )
    if energies == []:
        print("joules an inference: not measured, no rail of this machine is readable (RAPL needs root)")


def _energy_dict(energies: list[Energy] | None) -> list[dict[str, Any]] | None:
    return (
        None
        if energies is None
        else [one._asdict() | {"gross_mj": one.gross_mj, "net_mj": one.net_mj} for one in energies]
    )


def _measure(case: Case, chunk: int, rounds: int) -> Result:
    """Measure one case; every round has a line, lanes and a journal of its own and drops its first chunks."""
    found, sizes = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            times, size = measure_wholes(case, chunk, Path(folder))
            times |= measure_stages(case, chunk, Path(folder) / "stages")
        found.append(times)
        sizes.append(size)
    return Result(case.name, chunk, found, median(sizes))


def _line_goals(results: list[Result]) -> list[Goal]:
    goals = []
    for one in results:
        if one.chunk == 1:
            added, limit = f"{one.case}, batch 1, added a sample over session.run", _ADDED_US[one.case]
            goals.append(Goal(added, one.added(LINE), limit, "us"))
            goals.append(Goal(f"{added} in a loop of its own", one.added(LINE, LOOP), limit, "us"))
    return goals


def _process_goals(starts: _BothStarts | None, memory: bench_process.Memory | None) -> list[Goal]:
    goals = []
    if starts is not None:
        added = "self-test of frost, added to a bare script with its session"
        goals.append(Goal("--help, whole process, warm", median(starts[0].help), _HELP_MS, "ms"))
        goals.append(Goal(added, starts[0].added_ms, _BOOT_MS, "ms"))
        goals.append(Goal(f"{added}, processor time", starts[1].added_ms, _BOOT_MS, "ms"))
    if memory is not None:
        goals.append(Goal("resident memory while serving frost", memory.served, _RSS_MB, "MB"))
    return goals


def _print_text(
    results: list[Result],
    starts: _BothStarts | None,
    memory: bench_process.Memory | None,
    goals: list[Goal],
) -> None:
    print(_machine())
    for one in results:
        _print_result(one)
    if starts is not None:
        print(f"\n{'whole processes, ms':40}{'p50':>8}{'min':>8}   processor{'p50':>8}{'min':>8}")
        labels = ("an empty program", "--help", "bare onnxruntime and session", "selftest --bundle bundles/frost")
        for label, wall, cpu in zip(labels, *starts, strict=True):
            print(f"  {label:38}{median(wall):8.1f}{min(wall):8.1f}{'':12}{median(cpu):8.1f}{min(cpu):8.1f}")
    if memory is not None:
        print(
            f"\nresident MB: bare script {memory.bare:.1f}, `run` booted {memory.booted:.1f}, after the station stream"
            f" {memory.served:.1f}, at most {memory.peak:.1f}"
        )
    print()
    for goal in goals:
        verdict = "met   " if goal.met else "MISSED"
        print(f"{verdict} {goal.name}: {goal.found:.1f} {goal.unit}, goal {goal.limit:g} {goal.unit}")


def _print_result(one: Result) -> None:
    print(f"\n{one.case}, {one.chunk} line{'s' if one.chunk > 1 else ''} a chunk, us a sample          "
          "     p50     p90     p99   p99.9     min")  # fmt: skip
    for name in STAGES + WHOLES:
        p50, p90, p99, p999, least = _spread(one, name)
        print(f"  {name:38}{p50:10.2f}{p90:8.2f}{p99:8.2f}{p999:8.2f}{least:8.2f}")
    for name in ADDING:
        ratio = one.p50(name) / one.p50(HAND)
        session = IN_HAND if name == HAND else IN_LINE
        print(f"  added by: {name:28}{one.added(name, session):10.2f}   {ratio:.2f} x by hand")
    print(f"  journal: {one.journal_bytes:.0f} bytes a sample")


def _spread(one: Result, name: str) -> tuple[float, float, float, float, float]:
    values = [value for times in one.rounds for value in times[name]]
    cuts = quantiles(values, n=1000)
    return one.p50(name), cuts[899], cuts[989], cuts[998], min(values)


def _machine() -> str:
    model = next(
        (line.partition(":")[2].strip() for line in _cpuinfo().splitlines() if line.startswith("model name")), "unknown"
    )
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, load {load:.1f}; Python {platform.python_version()},"
        f" numpy {np.__version__}, onnxruntime {ort.__version__}"
    )


def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _as_dict(
    results: list[Result],
    starts: _BothStarts | None,
    memory: bench_process.Memory | None,
    goals: list[Goal],
) -> dict[str, Any]:
    lines = [
        {
            "case": one.case,
            "lines_a_chunk": one.chunk,
            "us": {
                name: dict(zip(("p50", "p90", "p99", "p99.9", "min"), _spread(one, name), strict=True))
                for name in STAGES + WHOLES
            },
            "added_us": {name: one.added(name, IN_HAND if name == HAND else IN_LINE) for name in ADDING},
            "added_us_over_a_loop": {name: one.added(name, LOOP) for name in ADDING},
            "times_by_hand": {name: one.p50(name) / one.p50(HAND) for name in ADDING},
            "journal_bytes_a_sample": one.journal_bytes,
        }
        for one in results
    ]
    return {
        "machine": _machine(),
        "lines": lines,
        "starts_ms": starts[0]._asdict() if starts else None,
        "starts_processor_ms": starts[1]._asdict() if starts else None,
        "memory_mb": memory._asdict() if memory else None,
        "goals": [goal._asdict() | {"met": goal.met} for goal in goals],
    }


if __name__ == "__main__":
    sys.exit(main())
