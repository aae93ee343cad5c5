"""How long models take here, one beside the other in turns so that a busy machine is unfair to none; it ranks none."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]
Infer = Callable[[Tensors], Any]

_ROUNDS = 15
_ROUND_NS = 1_000_000
_MOST_CALLS = 50


def latencies(
    models: Mapping[str, Infer],
    tensors: Tensors,
    axes: Mapping[str, int],
    sizes: tuple[int, ...],
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, dict[int, float]]:
    """By model and batch size the median microseconds a row over rounds in which each model has its turn.

    ``tensors`` are inputs by name, ``(cases, ...)``; ``axes`` says where a state has its batch dimension.
    """
    found: dict[str, dict[int, float]] = {name: {} for name in models}
    for size in sizes:
        feeds = {name: _batch(values, size, axes.get(name, 0)) for name, values in tensors.items()}
        calls = {name: _calls(infer, feeds, clock) for name, infer in models.items()}
        taken: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(_ROUNDS):
            for name, infer in models.items():
                started = clock()
                for _ in range(calls[name]):
                    infer(feeds)
                taken[name].append((clock() - started) / calls[name])
        for name, times in taken.items():
            found[name][size] = round(statistics.median(times) / 1000 / size, 3)
    return found


def _batch(values: NDArray[Any], size: int, axis: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(values[np.arange(size) % len(values)], 0, axis))


def _calls(infer: Infer, feeds: Tensors, clock: Callable[[], int]) -> int:
    """How many calls make a round long enough to be read off a clock; the first of all warms the model up."""
    infer(feeds)
    started = clock()
    infer(feeds)
    return max(1, min(_MOST_CALLS, _ROUND_NS // max(clock() - started, 1)))
