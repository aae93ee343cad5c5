"""Where a tolerance comes from: spread measured here, emulated CPUs, reports of real devices; it proposes, the author states."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from edge_runtime.author.emulation import HASWELL, is_available, run_emulated
from edge_runtime.author.exact import open_exact
from edge_runtime.author.graph import Graph
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.fault import is_missing
from edge_runtime.spec.report_file import BootFile, ReportFile
from edge_runtime.spec.variant import Tolerance

Tensors = Mapping[str, NDArray[Any]]
Infer = Callable[[Tensors], Tensors]

THREADS = (1, 2)
REPEATS = 3
# AVX2 without VNNI, and SSE4.2 alone, where float32 sums in another order.
CPUS = (HASWELL, "Nehalem")
_FLOAT = 1e-5
# A float value seen to differ by so much may differ by twice of it on the next machine.
_ROOM = 2.0
# Float32 carries the steps of an int8 output, itself rounded: 20.000003 steps are 20.
_EVEN = 0.01
_MAX_REPORT_BYTES = 16 * 1024 * 1024
_PLACE = ("architecture", "processor", "features", "board")
_OFF = re.compile(r"([-+.\de]+|nan|inf)(?: \(([-+.\de]+|nan|inf) steps\))? off at most")


class Spread(NamedTuple):
    """By output tensor and by what was varied, the largest difference from one thread and batches of one, as it serves.

    ``not_seen`` says in words what could not be varied here.
    """

    largest: dict[str, dict[str, float]]
    not_seen: tuple[str, ...] = ()


class Seen(NamedTuple):
    """What reports of real devices say of one bundle: kinds of machines, the largest differences, words on what was not used.

    ``largest`` and ``steps`` are by provider, of the worst output; ``failed`` has a line for each report that failed.
    """

    machines: frozenset[tuple[str, ...]]
    largest: dict[str, float]
    steps: dict[str, float]
    failed: tuple[str, ...]
    unused: tuple[str, ...]


NOTHING_SEEN = Seen(frozenset(), {}, {}, (), ())


def measure_spread(
    graph: Graph, tensors: Tensors, axes: Mapping[str, int], batch_sizes: Sequence[int], cpus: Sequence[str] = CPUS
) -> Spread:
    """Vary threads, batch sizes and repeats here and, where QEMU is installed, the CPU.

    ``tensors`` are inputs by name, ``(cases, ...)``, as the goldens store them; ``axes`` says where a state has its batch.
    """
    alone = open_exact(graph.data)
    exact = _batched(alone, tensors, axes, 1)
    largest: dict[str, dict[str, float]] = {name: {} for name in exact}
    for threads in THREADS:
        session = alone if threads == 1 else open_exact(graph.data, threads=threads)
        for size in batch_sizes:
            for repeat in range(REPEATS):
                what = "repeat" if repeat and threads == 1 and size == 1 else f"batch {size}, {threads} thread(s)"
                _widen(largest, what, exact, _batched(session, tensors, axes, size))
    not_seen: list[str] = []
    if is_available():
        # One whole batch, unless the model takes no more than one case at a time.
        size = len(next(iter(tensors.values()))) if max(batch_sizes) > 1 else 1
        feeds = {name: _laid(values[:size], axes.get(name, 0)) for name, values in tensors.items()}
        for cpu in cpus:
            found = run_emulated({"": graph.data}, feeds, cpu)[""]
            moved = {name: np.moveaxis(values, axes.get(name, 0), 0) for name, values in found.items()}
            _widen(largest, f"{cpu}, emulated", {name: values[:size] for name, values in exact.items()}, moved)
    else:
        not_seen.append("no other CPU: qemu-x86_64-static is not installed")
    return Spread(largest, tuple(not_seen))


def read_reports(paths: Sequence[Path], *, bundle: str, version: str) -> Seen:
    """Read self-test reports of devices (docs/report.schema.json), those of this bundle's version only.

    Raises:
        ConfigurationError: a file cannot be read, or is no report.

    """
    machines: set[tuple[str, ...]] = set()
    largest: dict[str, float] = {}
    steps: dict[str, float] = {}
    failed: list[str] = []
    unused: list[str] = []
    for path in paths:
        for boot in _read(path).boots:
            if (boot.bundle.id, boot.bundle.version) != (bundle, version):
                unused.append(f"{path}: of {boot.bundle.id} {boot.bundle.version}, not {bundle} {version}")
                continue
            if boot.injected is not None:
                unused.append(f"{path}: a drill, {boot.injected} was injected")
                continue
            off = _measured(boot)
            if off is None:
                unused.append(f"{path}: its model output was not compared")
                continue
            machines.add(place(boot.environment))
            value, in_steps = off
            largest[boot.provider] = max(largest.get(boot.provider, 0.0), value)
            steps[boot.provider] = max(steps.get(boot.provider, 0.0), in_steps)
            failed += [f"{path}: {one.id}: {one.measured}" for one in boot.checks if one.status == "fail"]
    return Seen(frozenset(machines), largest, steps, tuple(failed), tuple(unused))


def place(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What makes one kind of machine another than the next: its architecture, processor, features and board."""
    return tuple(environment.get(name, "unknown") for name in _PLACE)


def seen_on(here: Mapping[str, str], seen: Seen) -> str:
    """On how many kinds of machines the numbers were seen, this one among them, in words."""
    count = len(seen.machines | {place(here)})
    return f"seen on {count} machines" if count > 1 else "provisional, seen on 1 machine"


def propose(
    spread: Spread, outputs: Tensors, steps: Mapping[str, float], seen: Seen, here: Mapping[str, str], provider: str
) -> dict[str, Tolerance]:
    """A tolerance for each output tensor on one provider, with its evidence in words.

    ``outputs`` are the goldens', ``steps`` the int8 step of those that have one. Where nothing differed an int8 output is
    exact; a float32 one is never, since another CPU sums in another order.
    """
    found = {}
    for name, values in outputs.items():
        largest = max(spread.largest[name].values(), default=0.0)
        reported = seen.largest.get(provider, 0.0)
        what = f"{_listed(spread.largest[name])}; {seen_on(here, seen)}"
        if spread.not_seen:
            what += f"; {', '.join(spread.not_seen)}"
        step = steps.get(name)
        if step:
            count = math.ceil(max(largest / step, seen.steps.get(provider, 0.0)) - _EVEN)
            found[name] = (
                Tolerance(kind="steps", steps=count, evidence=f"up to {count} output steps: {what}")
                if count > 0
                else Tolerance(kind="exact", evidence=f"no difference: {what}")
            )
        elif values.dtype.kind in "OUiub":
            found[name] = Tolerance(kind="exact", evidence=f"no float: {what}")
        else:
            apart = max(largest, reported)
            spread_of = max(float(np.nanstd(values.astype(np.float64))), 1e-12)
            atol = max(
                _FLOAT, _rounded_up(_ROOM * apart / spread_of) * spread_of if apart > _FLOAT * spread_of else 0.0
            )
            found[name] = Tolerance(kind="float", rtol=_FLOAT, atol=atol, evidence=f"up to {apart:.3g} apart: {what}")
    return found


def widest(proposed: Mapping[str, Tolerance]) -> Tolerance:
    """One tolerance for a provider that holds for each of its outputs; the manifest has one a provider."""
    order = ("exact", "steps", "float")
    kind = max((one.kind for one in proposed.values()), key=order.index)
    alike = [one for one in proposed.values() if one.kind == kind]
    return max(alike, key=lambda one: (one.steps or 0, one.atol or 0.0))


def _batched(infer: Infer, tensors: Tensors, axes: Mapping[str, int], size: int) -> dict[str, NDArray[Any]]:
    cases = len(next(iter(tensors.values())))
    parts: dict[str, list[NDArray[Any]]] = {}
    for first in range(0, cases, size):
        rows = np.arange(first, first + size) % cases
        found = infer({name: _laid(values[rows], axes.get(name, 0)) for name, values in tensors.items()})
        for name, values in found.items():
            parts.setdefault(name, []).append(np.moveaxis(values, axes.get(name, 0), 0))
    return {name: np.concatenate(values)[:cases] for name, values in parts.items()}


def _laid(values: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(values, 0, axis))


def _widen(largest: dict[str, dict[str, float]], what: str, exact: Tensors, found: Tensors) -> None:
    for name, values in exact.items():
        if values.dtype.kind in "OU":
            off = float((values.astype(str) != found[name].astype(str)).any())
        else:
            off = float(np.abs(values.astype(np.float64) - found[name].astype(np.float64)).max(initial=0.0))
        largest[name][what] = max(largest[name].get(what, 0.0), off)


def _listed(by_knob: Mapping[str, float]) -> str:
    """What was varied, and by how much each of it moved the output where it did."""
    moved = {what: off for what, off in by_knob.items() if off}
    told = ", ".join(f"{what} {off:.3g}" for what, off in moved.items())
    emulated = [what.split(",")[0] for what in by_knob if "emulated" in what]
    varied = f"threads, batch sizes, repeats{' and ' + ', '.join(emulated) + ' emulated' if emulated else ''} varied"
    return f"{varied}: {told or 'none moved it'}"


def _rounded_up(value: float) -> float:
    """To one digit."""
    digit = 10.0 ** math.floor(math.log10(value))
    return math.ceil(value / digit) * digit


def _read(path: Path) -> ReportFile:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_REPORT_BYTES)
    except OSError as error:
        raise ConfigurationError(
            subject=str(path), found=error.strerror or str(error), expected="a report that can be read",
            todo="give files that `edge-runtime selftest --json` wrote",
        ) from error  # fmt: skip
    try:
        return ReportFile.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = f"no {first['loc'][-1]}" if is_missing(first) else first["msg"]
        raise ConfigurationError(
            subject=f"{path}, {'.'.join(str(part) for part in first['loc']) or 'the whole'}",
            found=found, expected="a report as docs/report.schema.json says",
            todo="give files that `edge-runtime selftest --json` wrote",
        ) from error  # fmt: skip


def _measured(boot: BootFile) -> tuple[float, float] | None:
    """The difference of the model's output that the report measured, and in output steps where it has some."""
    for check in boot.checks:
        if check.id == "golden_output" and check.status != "skip" and (found := _OFF.search(check.measured)):
            value, in_steps = found.groups()
            numbers = float(value), float(in_steps or 0.0)
            return numbers if all(math.isfinite(one) for one in numbers) else None
    return None
