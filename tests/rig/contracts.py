"""Contracts drawn at random over every kind of channel, input, output and state; most of them fit together."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_runtime.flow.model import Infer
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.reading import Gridded, Reading

from . import kinds
from .kinds import Raw

_FLOATS = st.sampled_from(["float32", "float16"])
_DTYPES = st.sampled_from(["float32", "float16", "int8", "uint8", "int64"])
_POLICIES: st.SearchStrategy[Raw] = st.sampled_from([
    {}, {}, {"when_missing": "hold", "hold_s": 15.0}, {"when_missing": "fill", "fill": 1.0}, {"when_missing": "pass"},
])  # fmt: skip
_SOUND_STEPS: st.SearchStrategy[list[Raw]] = st.sampled_from([[], [], [{"step": "scale", "a": 0.5, "b": 1.0}]])
_STEPS: st.SearchStrategy[list[Raw]] = st.sampled_from([
    [], [{"step": "log", "base": "e", "offset": 10.0, "floor": 1e-3}],
    [{"step": "snv", "ddof": 0}], [{"step": "lag", "lags": [0]}], [{"step": "one_hot", "channel": 0, "count": 3}],
    [{"step": "spectrum", "hann": "periodic", "output": "magnitude"}], [{"step": "difference"}],
    [{"step": "clip", "min": [0.0], "max": [1.0]}],
])  # fmt: skip


def manifests() -> st.SearchStrategy[Manifest]:
    """A contract that validates; of half of them it is not sure whether their steps and shapes fit together."""
    return st.one_of(sound_manifests(), _drawn(is_sound=False))


def sound_manifests() -> st.SearchStrategy[Manifest]:
    """A contract whose parts fit, and whose model gives what it says."""
    return _drawn(is_sound=True)


@st.composite
def _drawn(draw: st.DrawFn, *, is_sound: bool) -> Manifest:
    length = draw(st.sampled_from([None, 1, 2, 3]))
    inputs = [_input(draw, place, length, is_sound=is_sound) for place in range(draw(st.integers(1, 2)))]
    outputs = [_output(draw, place, is_sound=is_sound) for place in range(draw(st.integers(1, 2)))]
    state = []
    if draw(st.booleans()):
        state = [
            {"input": "s", "output": "t", "dtype": draw(_FLOATS), "shape": [2], "batch_axis": draw(st.integers(0, 1)),
             "initial": draw(st.sampled_from([0.0, 1.5])), "reset": draw(st.sampled_from(["gap", "never"]))}
        ]  # fmt: skip
    period = draw(st.sampled_from([None, 10.0]))
    order = draw(st.sampled_from(["oldest_first", "newest_first"]))
    window = None if length is None else {"length": length, "period_s": period, "order": order}
    sizes = draw(st.sampled_from([[1], [1, 2], [1, 3, 4]]))
    return kinds.manifest(inputs, outputs, state, sizes, window=window)


def infer_of(manifest: Manifest) -> Infer:
    """Some model with the outputs and states this contract names; what it gives depends on each row alone."""

    def run(feeds: kinds.Tensors) -> dict[str, NDArray[Any]]:
        parts = [feeds[one.tensor] for one in manifest.inputs]
        parts += [np.moveaxis(feeds[one.input], one.batch_axis, 0) for one in manifest.state]
        flat = [np.nan_to_num(one.reshape(len(parts[0]), -1).astype(np.float64)) for one in parts]
        rows = np.clip(sum(one.sum(axis=1) for one in flat), -1e3, 1e3)
        given: dict[str, NDArray[Any]] = {
            output.tensor: np.stack([rows, -rows, rows * 0 + 1], axis=1).astype(np.float32)
            for output in manifest.outputs
        }
        for state in manifest.state:
            before = np.moveaxis(feeds[state.input], state.batch_axis, 0)
            after = before * np.float64(0.5) + rows[:, np.newaxis]
            given[state.output] = np.moveaxis(after.astype(state.dtype), 0, state.batch_axis)
        return given

    return run


@st.composite
def readings(draw: st.DrawFn, manifest: Manifest) -> list[Reading]:
    """Samples of two streams, most of them good, with gaps, repetitions, missing and absurd values among them."""
    found = []
    time_ns = 1_000_000_000
    for _ in range(draw(st.integers(1, 14))):
        time_ns += draw(st.sampled_from([10, 10, 10, 10, 30, 0])) * 1_000_000_000
        is_odd = draw(st.integers(0, 7)) == 7
        values = tuple(draw(_value(channel, is_odd=is_odd)) for channel in manifest.channels)
        found.append(Reading(values, time_ns, draw(st.sampled_from(["x", "y"]))))
    return found


_ABSURD: st.SearchStrategy[Any] = st.none() | st.sampled_from([
    float("nan"), float("inf"), 1e300, -1e300, "", "violet", [], [[]], [1, [2]], {}, True, b"x", Gridded([1], [2]),
    Gridded("a", None),  # type: ignore[arg-type]
])  # fmt: skip


def _value(channel: Channel, *, is_odd: bool) -> st.SearchStrategy[Any]:
    good: st.SearchStrategy[Any] = st.sampled_from([-3.0, 0.0, 1.0, 1.5, 60.5])
    if channel.form == "category":
        good = st.sampled_from(channel.categories)
    elif channel.form == "opaque":
        good = st.sampled_from([0, 1, 100])
    if channel.shape:
        good = st.lists(good, min_size=channel.width, max_size=channel.width)
    if channel.grid:
        good = good | st.builds(Gridded, good, st.just(list(channel.grid)) | st.just([0.0, 1.5, 9.0]))
        good = good if channel.other_grid == "resample" else st.lists(st.just(1.0), min_size=3, max_size=3)
    if channel.when_missing != "refuse":
        good = st.one_of(good, good, st.none())
    return good | _ABSURD if is_odd else good


def _input(draw: st.DrawFn, place: int, length: int | None, *, is_sound: bool) -> Raw:
    dtype = draw(_DTYPES)
    sample: list[int] = []
    if draw(st.booleans()):
        channels = [_single(draw, f"c{place}{each}", dtype) for each in range(draw(st.integers(1, 3)))]
        axes = ["channel"]
        sizes = [len(channels)]
    else:
        sample = draw(st.sampled_from([[3], [2, 3], [2, 2, 3]]))
        axes = [["point"], ["row", "column"], ["row", "column", "colour"]][len(sample) - 1]
        channels = [_array(draw, f"c{place}", dtype, sample)]
        sizes = list(sample)
    shape: list[int | str] = ["batch", *sizes]
    named = ["batch", *axes]
    if length is not None:
        named.insert(1, "time")
        shape.insert(1, length)
    if draw(st.booleans()):
        at = draw(st.integers(1, len(named)))
        named.insert(at, "one")
        shape.insert(at, 1)
    if not is_sound and draw(st.integers(0, 9)) == 0:
        shape[-1] = 7  # a shape that is not so
    steps = draw(_SOUND_STEPS if is_sound else _STEPS)
    return {
        "tensor": f"x{place}", "dtype": dtype, "shape": shape, "axes": named, "channels": channels, "steps": steps
    }  # fmt: skip


def _single(draw: st.DrawFn, name: str, dtype: str) -> Raw:
    form = draw(st.sampled_from(["number", "number", "category", "opaque"]))
    policy = draw(_POLICIES)
    if form == "number":
        stuck = {"stuck_after": 2} if draw(st.booleans()) else {}
        return kinds.number(name, **policy, **stuck)
    if form == "category":
        return kinds.category(name) | policy | ({"unknown": 0} if draw(st.booleans()) else {})
    if policy.get("when_missing") == "pass" and dtype[0] != "f":
        policy = {}
    return kinds.opaque(name, dtype=dtype, **policy)


def _array(draw: st.DrawFn, name: str, dtype: str, sample: list[int]) -> Raw:
    if draw(st.booleans()):
        return kinds.opaque(name, dtype=dtype, shape=sample)
    grid = {}
    if len(sample) == 1 and draw(st.booleans()):
        grid = {"grid": [1.0, 2.0, 4.0], "grid_unit": "nm", "other_grid": draw(st.sampled_from(["refuse", "resample"]))}
    return kinds.number(name, shape=sample, **grid)


def _output(draw: st.DrawFn, place: int, *, is_sound: bool) -> Raw:
    form = draw(st.sampled_from(["number", "label", "vector"]))
    steps = draw(st.sampled_from(["", "softmax", "sigmoid"] if is_sound else ["", "exponential"]))
    more: Raw = {"postprocess": [{"step": steps}] if steps else []}
    if form == "label":
        more["labels"] = ["a", "b", "c"] if is_sound else ["a", "b"]
    elif form == "number":
        more |= {
            "column": draw(st.integers(0, 2 if is_sound else 3)),
            "flags": [{"name": "high", "side": "above", "on": 1.0, "off": 0.5}],
        }
    return kinds.giving(form, f"out{place}", "y", **more)
