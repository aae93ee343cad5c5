"""The checks of a boot that run the stored cases: three stages, every batch size, the faults, and how long one takes.

As in run/checks, each gives (value, measured, limit) or raises, and ``inject`` corrupts its input, not its comparison.
"""

import time
from dataclasses import replace

import numpy as np

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError, DeviceError, InternalError
from edge_runtime.flow.model import Model
from edge_runtime.run import comparison
from edge_runtime.run import goldens as stages
from edge_runtime.run.comparison import Difference
from edge_runtime.spec.device_profile import DeviceProfile

_LATENCY_RUNS = 60


def golden_tensor(model: Model, stored: Goldens, _provider: str, *, inject: bool) -> tuple[bool, str, str]:
    """Stage one: raw values with their own units, through the contract and the steps, give the stored tensors."""
    if inject:
        raw = stored.raw.copy()
        raw[-1, -1] += 1e-3 * (1 + np.abs(raw[-1, -1]))
        stored = replace(stored, raw=raw)
    found = stages.passage(model, stored, 1)
    return _judged("input tensor", comparison.compare_tensors(found.tensors, stored, model.manifest))


def golden_output(model: Model, stored: Goldens, name: str, *, inject: bool) -> tuple[bool, str, str]:
    """Stage two: the stored tensors, through the session that will serve, give the stored outputs."""
    tensors = {name: values[::-1] if inject else values for name, values in stored.tensors.items()}
    outputs = stages.outputs_of(model, tensors)
    tolerance = model.variant.tolerances[name]
    difference = comparison.compare_outputs(outputs, stored, tolerance, model.variant)
    value, measured, limit = _judged("model output", difference)
    reference = comparison.distance_to_reference(outputs, stored, model.manifest)
    return value, f"{measured}; from the source framework: {reference}", limit


def golden_answer(model: Model, stored: Goldens, _provider: str, *, inject: bool) -> tuple[bool, str, str]:
    """Stage three: the stored outputs give the stored answers and flags."""
    outputs = {name: values[::-1] if inject else values for name, values in stored.outputs.items()}
    return _judged("answer", comparison.compare_answers(outputs, stored, model.manifest))


def golden_batches(model: Model, stored: Goldens, name: str, *, inject: bool) -> tuple[bool, str, str]:
    """All stages at once, at every batch size that will be used."""
    tolerance = model.variant.tolerances[name]
    result = None
    cases = replace(stored, raw=stored.raw[::-1], units=stored.units[::-1]) if inject else stored
    begun = stages.begin(model, cases, model.manifest.batch_sizes)
    for size in model.manifest.batch_sizes:
        found = stages.passage(model, cases, size, begun)
        answers = [answer.outputs for answer in found.answers]
        difference = comparison.compare_whole(found.outputs, answers, stored, model.manifest, model.variant, tolerance)
        result = _judged(f"batches of {size}", difference)
    sizes = ", ".join(str(size) for size in model.manifest.batch_sizes)
    if result is None:
        raise InternalError(subject="batch sizes", found="none", expected="at least 1", todo="report this")
    return True, f"batches of {sizes}: {result[1]}", result[2]


def negative_goldens(model: Model, stored: Goldens, _provider: str, *, inject: bool) -> tuple[bool, str, str]:
    """Each case with a fault put in is refused, for the reason it must be."""
    for difference in stages.negatives(model, stored, harmless=inject):
        _judged("negative golden", difference)
    return True, f"{len(model.manifest.negative_goldens)} faults, each refused for its reason", "no answer"


def latency(model: Model, stored: Goldens, profile: DeviceProfile, *, inject: bool) -> tuple[bool, str, str]:
    """One inference at batch 1 takes no longer than the bundle and the profile allow."""
    one = stages.feeds_of(model, {name: values[:1] for name, values in stored.tensors.items()})
    times = []
    for _ in range(_LATENCY_RUNS):
        begun = time.perf_counter()
        model.infer(one)
        times.append((time.perf_counter() - begun) * 1000)
    p99 = sorted(times)[-2] * (1e6 if inject else 1.0)
    limit = min(model.manifest.needs.latency_p99_ms, profile.latency_p99_ms or float("inf"))
    if p99 > limit:
        raise DeviceError(
            subject="latency of one inference", found=f"{p99:.3g} ms", expected=f"at most {limit:g} ms",
            todo="look for other load on the machine, throttling, or use a faster one",
        )  # fmt: skip
    return True, f"{p99:.3g} ms, second worst of {_LATENCY_RUNS}", f"{limit:g} ms"


def _judged(subject: str, difference: Difference) -> tuple[bool, str, str]:
    if not difference.holds:
        raise BundleError(
            subject=subject, found=difference.measured, expected=difference.limit,
            todo="run edge-runtime selftest on another machine: if it fails there too, the bundle is wrong",
        )  # fmt: skip
    return True, difference.measured, difference.limit
