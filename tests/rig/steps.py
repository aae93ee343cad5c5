"""Lists of preprocessing steps for tests: made from plain dictionaries, or drawn at random so that most of them fit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import TypeAdapter

from edge_runtime.flow.steps import plan
from edge_runtime.spec.steps import Step

Raw = Mapping[str, Any]
_STEP: TypeAdapter[Step] = TypeAdapter(Step)
# A low-pass of second order, and one of first order padded to a section.
SECTIONS = ((0.2, 0.4, 0.2, 1.0, -0.4, 0.2), (0.5, 0.25, 0.0, 1.0, -0.25, 0.0))
_MOST_STEPS = 5


def made(*raw: Raw) -> tuple[Step, ...]:
    """The steps these dictionaries describe."""
    return tuple(_STEP.validate_python(one) for one in raw)


def run(values: NDArray[np.float64], *raw: Raw) -> NDArray[np.float64]:
    """What the steps make of ``(batch, time, *sample)``; the shape is checked, and the input is not writeable."""
    fixed = values.copy()
    fixed.setflags(write=False)
    planned = plan(made(*raw), values.shape[1:])
    result = planned.apply(fixed)
    assert result.shape[1:] == planned.shape
    assert result.dtype == np.float64
    return result


@st.composite
def lists(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Step, ...]]:
    """A shape and up to five steps, most of which fit it."""
    size = st.integers(1, 9)
    sample = draw(st.one_of(st.tuples(size), st.tuples(size, size), st.tuples(size, size, st.sampled_from([1, 3]))))
    shape: tuple[int, ...] = (draw(st.integers(1, 16)), *sample)
    first = shape
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, _MOST_STEPS))):
        offered = made(*_drawn(draw, shape))
        shapes = [_shape_after((*steps, step), first) for step in offered]
        fitting = [index for index, found in enumerate(shapes) if found]
        chosen = draw(st.sampled_from([*fitting * 4, *range(len(offered))]))
        steps.append(offered[chosen])
        shape = shapes[chosen]
        if not shape:
            break
    return first, tuple(steps)


def _shape_after(steps: Sequence[Step], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, or none where a step does not fit."""
    try:
        return plan(steps, shape).shape
    except ValueError:
        return ()


def _drawn(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Raw]:
    """One of each step, with constants for about this shape."""
    count = draw(st.sampled_from([shape[-1]] * 3 + [1, 2]))
    channel = draw(st.integers(0, shape[-1]))
    lags = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True))
    output = draw(st.sampled_from(["magnitude", "power", "db"]))
    window = draw(st.sampled_from([3, 5, 7]))
    grid = [float(x) for x in range(max(count, 2))]
    return [
        {"step": "standardize", "mean": [0.5] * count, "std": [3.0] * count},
        {"step": "min_max", "min": [-10.0] * count, "max": [20.0] * count},
        {"step": "clip", "min": [-30.0] * count, "max": [40.0] * count},
        {"step": "scale", "a": 0.7, "b": -1.0},
        {"step": "log", "base": draw(st.sampled_from(["e", "2", "10"])), "offset": 200.0, "floor": 1e-3},
        {"step": "lookup", "channel": channel, "keys": [1, 2, 3], "values": [0, 1, 0], "otherwise": 7},
        {"step": "one_hot", "channel": channel, "count": 3},
        {"step": "lag", "lags": lags},
        {"step": "difference", "order": draw(st.integers(1, 3))},
        {"step": "filter", "sections": SECTIONS, "initial": draw(st.sampled_from(["zero", "steady"]))},
        {"step": "spectrum", "hann": draw(st.sampled_from(["periodic", "symmetric"])), "output": output}
        | ({"floor": 1e-3} if output == "db" else {}),
        {"step": "snv", "ddof": draw(st.integers(0, 1))},
        {"step": "savitzky_golay", "window": window, "polyorder": 2, "derivative": draw(st.integers(0, 2)),
         "along": draw(st.sampled_from(["time", "sample"]))},
        {"step": "resample", "source": grid, "target": [0.25, 0.5, 1.0]},
        {"step": "resize", "height": draw(st.integers(1, 12)), "width": draw(st.integers(1, 12)),
         "method": draw(st.sampled_from(["area", "bilinear"]))},
        {"step": "colours", "to": "bgr"},
        {"step": "colours", "to": "gray", "weights": [0.299, 0.587, 0.114]},
    ]  # fmt: skip
