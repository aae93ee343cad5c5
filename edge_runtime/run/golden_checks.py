"""The checks of a boot that run the stored cases: three stages, every batch size, the faults, and how long one takes.

As in run/checks, each gives (value, measured, limit) or raises, and ``inject`` corrupts its input, not its comparison.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError, DeviceError, InternalError
from edge_runtime.flow.model import Model
from edge_runtime.run import comparison
from edge_runtime.run import goldens as stages
from edge_runtime.run import latency as timing
from edge_runtime.run.checks import session_processes
from edge_runtime.run.comparison import Difference
from edge_runtime.spec.device_profile import DeviceProfile
from edge_runtime.spec.manifest import Manifest


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
    """One inference at the pace of service takes no longer than bundle and profile allow, and keeps up with its samples.

    Refused is only what no round of several holds: see run/latency.
    """
    limit, whose = _budget(model.manifest, profile)
    pace = _pace_ms(model.manifest)
    with timing.kernel_clock(session_processes(profile)) as kernel:
        clock = kernel._replace(now=lambda: kernel.now() * 1e6) if inject else kernel
        found = timing.paced(one_call(model, stored), limit, pace, clock)
        if found.slowest_ms > limit:
            raise DeviceError(
                subject="latency of one inference",
                found=f"{found.slowest_ms:.3g} ms at best, in {timing.ROUNDS} rounds of paced calls{_waiting(found)}",
                expected=f"at most {limit:g} ms, {whose}",
                todo="look for throttling by heat or a governor, stop other programs that load the machine, use a faster one, "
                "or have latency_p99_ms raised",
            )  # fmt: skip
        row = found.median_ms if found.median_ms <= pace else min(found.median_ms, _row_ms(model, stored, clock))
    if row > pace:
        raise DeviceError(
            subject="inferences at the pace of the samples", found=f"{row:.3g} ms an answer",
            expected=f"less than {_told(pace)}, from one answer to the next",
            todo="use a faster machine or provider, or have the author widen the window's hop",
        )  # fmt: skip
    again = f", in round {found.number}" if found.number > 1 else ""
    due = f"; {_told(pace)} from one answer to the next" if pace < math.inf else ""
    measured = (
        f"{found.slowest_ms:.3g} ms, slowest of {timing.CALLS} paced calls{again}, median {found.median_ms:.3g} ms"
    )
    return True, f"{measured}{_waiting(found)}", f"{limit:g} ms, {whose}{due}"


def one_call(model: Model, stored: Goldens) -> Callable[[], object]:
    """The model's call on the first stored case."""
    return _call(model, stored, 1)


def _call(model: Model, stored: Goldens, rows: int) -> Callable[[], object]:
    cases = np.arange(rows) % len(stored)
    feeds = stages.feeds_of(model, {name: values[cases] for name, values in stored.tensors.items()})
    return lambda: model.infer(feeds)


def _row_ms(model: Model, stored: Goldens, clock: timing.Clock) -> float:
    """What a row takes in the largest batch: windows that wait are answered so. One stream's states wait for each other."""
    rows = 1 if model.manifest.state else model.manifest.batch_sizes[-1]
    return timing.in_turn([_call(model, stored, rows)], clock)[0] / rows


def _budget(found: Manifest, profile: DeviceProfile) -> tuple[float, str]:
    """The tighter of the two budgets in ms, and whose it is."""
    if profile.latency_p99_ms is not None and profile.latency_p99_ms < found.needs.latency_p99_ms:
        return profile.latency_p99_ms, f"by profile {profile.name}"
    return found.needs.latency_p99_ms, "by the bundle's need"


def _pace_ms(found: Manifest) -> float:
    """Milliseconds from one answer of a stream to its next; endless where the contract states no pace."""
    window = found.window
    return window.period_s * window.hop * 1000 if window is not None and window.period_s is not None else math.inf


def _told(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"  # noqa: PLR2004 -- ms in a second


def _waiting(found: timing.Round) -> str:
    """What was taken off, where it would have counted."""
    if found.waited_ms <= found.slowest_ms:
        return ""
    return f"; other programs kept one waiting {found.waited_ms:.3g} ms more"


def _judged(subject: str, difference: Difference) -> tuple[bool, str, str]:
    if not difference.holds:
        raise BundleError(
            subject=subject, found=difference.measured, expected=difference.limit,
            todo="run edge-runtime selftest on another machine: if it fails there too, the bundle is wrong",
        )  # fmt: skip
    return True, difference.measured, difference.limit
