"""Tiny contracts of every kind, each with a model in plain Python that a test can compute in its head."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.contract import Contract
from edge_runtime.flow.contract_binding import suiting_reads
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Infer, Model
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest, features_used

from . import tiny

Raw = dict[str, Any]
Tensors = Mapping[str, NDArray[Any]]
BANDS = {
    "trained": {"min": -50.0, "max": 50.0},
    "tolerated": {"min": -60.0, "max": 60.0},
    "physical": {"min": -100.0, "max": 100.0},
}


def number(name: str = "a", **changes: Any) -> Raw:
    """A channel of numbers in degrees Celsius: trained to 50, tolerated to 60, physical to 100, both ways."""
    return {"name": name, "unit": "Cel", **BANDS} | changes


def category(name: str = "colour", words: Sequence[str] = ("red", "green", "blue"), **changes: Any) -> Raw:
    """A channel of words."""
    return {"name": name, "form": "category", "categories": list(words)} | changes


def opaque(name: str = "raw", dtype: str = "uint8", **changes: Any) -> Raw:
    """A channel of numbers without a unit."""
    return {"name": name, "form": "opaque", "dtype": dtype} | changes


def channel(raw: Raw) -> Channel:
    """One channel as the contract has it."""
    return Channel.model_validate(raw)


def taking(*channels: Raw, tensor: str = "x", dtype: str = "float32", length: int | None = None, **changes: Any) -> Raw:
    """An input tensor of single channels ``(batch, channel)`` or, with a length, ``(batch, time, channel)``."""
    shape = ["batch", len(channels)] if length is None else ["batch", length, len(channels)]
    axes = ["batch", "channel"] if length is None else ["batch", "time", "channel"]
    return {"tensor": tensor, "dtype": dtype, "shape": shape, "axes": axes, "channels": list(channels)} | changes


def giving(form: str = "number", name: str = "out", tensor: str = "y", **changes: Any) -> Raw:
    """One output."""
    return {"tensor": tensor, "name": name, "meaning": "a test", "form": form} | changes


def manifest(
    inputs: Sequence[Raw],
    outputs: Sequence[Raw] | None = None,
    state: Sequence[Raw] = (),
    sizes: Sequence[int] = (1, 2, 4),
    **changes: Any,
) -> Manifest:
    """A contract around these parts, without a window; a variant that has the tensors they name."""
    outputs = outputs or [giving()]
    base = tiny.manifest().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    variant = base["variants"][0] | {
        "model_inputs": [one["tensor"] for one in inputs] + [one["input"] for one in state],
        "model_outputs": list(dict.fromkeys([one["tensor"] for one in outputs] + [one["output"] for one in state])),
        "input_clip": {},
    }
    raw: Raw = base | {
        "schema": "edge-runtime/bundle/1", "variants": [variant], "inputs": list(inputs), "outputs": list(outputs),
        "state": list(state), "window": None, "batch_sizes": list(sizes),
    } | changes  # fmt: skip
    raw["must_understand"] = ["variants", "state", "multiple_inputs", "multiple_outputs", "opaque", "preprocess_onnx"]
    made = Manifest.model_validate(raw)
    return Manifest.model_validate(raw | {"must_understand": sorted(features_used(made))})


def bindings(one: Manifest) -> dict[str, ChannelBinding]:
    """Every channel bound to the field of its name, in the contract's unit, in the plainest way to read it."""
    return {
        each.name: ChannelBinding(
            field=each.name, unit=each.unit if each.form == "number" else None, read=suiting_reads(each)[0]
        )
        for each in one.channels
    }


def line(one: Manifest, run: Infer, sizes: tuple[int, ...] | None = None, prepare: Infer | None = None) -> Line:
    """A line for readings: no framing, no decoder."""
    model = Model(one, one.variants[0], "d" * 64, run, prepare)
    return Line(name="kinds", model=model, contract=Contract(one.channels, bindings(one)), batch_sizes=sizes)


def running_sum(reset: str = "gap", period_s: float | None = 10.0, batch_axis: int = 0, **window: Any) -> Manifest:
    """A recurrent contract: the answer is the sum of all numbers of the stream so far, kept in the state."""
    return manifest(
        [taking(number(), length=window.get("length", 1))],
        state=[
            {"input": "s", "output": "t", "dtype": "float32", "shape": [1], "reset": reset, "batch_axis": batch_axis}
        ],
        window={"length": 1, "period_s": period_s} | window,
    )


def add_up(batch_axis: int = 0) -> Infer:
    """The model of ``running_sum``; it adds the newest number of the window."""

    def run(feeds: Tensors) -> dict[str, NDArray[Any]]:
        batch = len(feeds["x"])
        before = np.moveaxis(feeds["s"], batch_axis, 0)
        assert before.shape == (batch, 1)
        after = before + feeds["x"][:, -1, :]
        return {"y": after.copy(), "t": np.moveaxis(after, 0, batch_axis).copy()}

    return run


def constant(rows: Any) -> Callable[[Tensors], dict[str, NDArray[Any]]]:
    """A model that gives this row, or these rows, whatever comes in."""
    return lambda feeds: {"y": np.stack([np.asarray(rows)] * len(next(iter(feeds.values()))))}
