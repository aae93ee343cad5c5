"""Three gates a model passes before it gets a bundle: its metric, its portability, its benefit; it makes no model."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from edge_runtime.author.demands import Accept, Demands
from edge_runtime.author.graph import Graph
from edge_runtime.author.metrics import find_metric
from edge_runtime.author.passes import answer_rows, through
from edge_runtime.author.saturation import Simulation, nodes_at_risk
from edge_runtime.flow.model import Model
from edge_runtime.spec.device_profile import DeviceProfile
from edge_runtime.spec.frozen import Frozen
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.providers import CPU

_VNNI = frozenset({"avx512_vnni", "avx_vnni"})
# An integer kernel is exact; a float beside it, computed by another CPU, may round a value to the next step.
_ROUNDING_STEPS = 1.0
_FLOAT_ROUNDING = 1e-5


class Answered(NamedTuple):
    """What one model makes of some cases: output tensors by name, answers by output, flags by ``output.flag``."""

    outputs: Mapping[str, NDArray[Any]]
    answers: Mapping[str, NDArray[Any]]
    flags: Mapping[str, NDArray[np.bool_]]


class Measured(Frozen):
    """One output on the validation data; the differences are of answers against float32's, in the output's unit."""

    metric: FiniteFloat
    metric_float32: FiniteFloat
    loss: FiniteFloat
    flags_agree: FiniteFloat
    mean_difference: FiniteFloat | None = None
    max_difference: FiniteFloat | None = None


class Portability(Frozen):
    """An int8 model on x86 without VNNI: what cannot overflow, what did, and by how much answers then change.

    ``words`` says it for a person. ``emulated`` is None where no emulator was here; it counts output steps.
    """

    nodes_at_risk: int
    sums_cut: int
    cases: int
    cases_changed: int
    largest: FiniteFloat
    words: str
    emulated: FiniteFloat | None = None


def answered(model: Model, raw: NDArray[np.float64]) -> Answered:
    """All cases through a model; ``raw`` is ``(cases, samples, row)`` in contract units."""
    outputs = through(model, raw).outputs
    return Answered(outputs, *answer_rows(model.manifest, outputs))


def measure(
    manifest: Manifest, accept: Accept, exact: Answered, ours: Answered, targets: Mapping[str, NDArray[Any]]
) -> Measured:
    """One output's metric and differences; ``exact`` are float32's answers.

    Raises:
        ConfigurationError: the author's own metric fails.

    """
    output = next(one for one in manifest.outputs if one.name == accept.output)
    metric = find_metric(accept.metric, f"gate of output {accept.output}")
    before, after = (_scored(metric, accept, output, one, targets[output.name]) for one in (exact, ours))
    loss = before - after if accept.higher_is_better else after - before
    ours_said, exact_said = ours.answers[output.name], exact.answers[output.name]
    own_flags = [name for name in ours.flags if name.startswith(f"{output.name}.")]
    agree = [float((ours.flags[name] == exact.flags[name]).mean()) for name in own_flags]
    if output.form == "label":
        agree.append(float((ours_said == exact_said).mean()))
        return Measured(metric=after, metric_float32=before, loss=loss, flags_agree=min(agree))
    off = np.abs(ours_said - exact_said)
    return Measured(
        metric=after, metric_float32=before, loss=loss, flags_agree=min(agree, default=1.0),
        mean_difference=float(off.mean()), max_difference=float(off.max()),
    )  # fmt: skip


def metric_refusals(accept: Accept, measured: Measured, unit: str) -> Iterator[str]:
    """A line for each limit of the contract that the model does not keep."""
    name = f"{accept.metric} of {accept.output}"
    if not measured.loss <= accept.allowed_loss:
        yield (
            f"{name}: found {measured.metric:.4g}, {measured.loss:.3g} worse than float32's "
            f"{measured.metric_float32:.4g}; expected at most {accept.allowed_loss:g} worse"
        )
    for key, value, limit in (
        ("mean", measured.mean_difference, accept.mean_difference),
        ("largest", measured.max_difference, accept.max_difference),
    ):
        if limit is not None and value is not None and not value <= limit:
            yield (
                f"{accept.output}: found a {key} difference to float32 of {value:.3g} {unit}; expected at most {limit:g}"
            )
    if accept.flags_agree is not None and not measured.flags_agree >= accept.flags_agree:
        yield (
            f"{accept.output}: found flags or labels of float32 in {measured.flags_agree:.2%} of the cases; "
            f"expected {accept.flags_agree:.2%}"
        )


def has_machines_without_vnni(profiles: Sequence[DeviceProfile]) -> bool:
    """Whether one of these machines may be x86-64 without VNNI and run the model on its CPU; none named: any may be."""
    return not profiles or any(
        "x86_64" in one.architectures and not _VNNI & set(one.isa) and CPU in [each.name for each in one.providers]
        for one in profiles
    )


def simulate(model: Model, graph: Graph, raw: NDArray[np.float64]) -> Portability:
    """An int8 model on these cases as a CPU without VNNI would run it, against the exact sums.

    ``raw`` should hold the corners of the tolerated band: large activations are what overflows.
    """
    risk = nodes_at_risk(graph)
    whole = Portability(
        nodes_at_risk=len(risk), sums_cut=0, cases=len(raw), cases_changed=0, largest=0.0,
        words="no two weights are large enough to overflow, whatever the input",
    )  # fmt: skip
    if not risk:
        return whole
    cutting = Simulation(graph)
    cut = _tensors(model._replace(infer=cutting), raw)
    sums = sum(cutting.saturated.values())
    words = f"{len(risk)} nodes could overflow, none did"
    if not sums:
        return whole.model_copy(update={"words": words})
    exact = _tensors(model._replace(infer=Simulation(graph, cuts=False)), raw)
    off = {name: np.abs(cut[name].astype(np.float64) - exact[name]).reshape(len(raw), -1) for name in exact}
    changed = int(np.any([one.any(axis=1) for one in off.values()], axis=0).sum())
    largest = max(float(one.max()) for one in off.values())
    told = _in_words(model.manifest, exact, cut)
    words = f"{sums} sums overflow in {len(risk)} nodes and change {changed} of {len(raw)} cases; {told}"
    return whole.model_copy(update={"sums_cut": sums, "cases_changed": changed, "largest": largest, "words": words})


def in_steps(
    host: Mapping[str, NDArray[Any]], emulated: Mapping[str, NDArray[Any]], steps: Mapping[str, float]
) -> float:
    """The largest difference of two runs in output steps; of an output without int8 steps in 1e-5 of its spread."""
    found = [0.0]
    for name, values in host.items():
        exact = values.astype(np.float64)
        off = float(np.abs(emulated[name].astype(np.float64) - exact).max(initial=0.0))
        found.append(off / (steps.get(name) or _FLOAT_ROUNDING * max(float(exact.std()), 1e-12)))
    return max(found)


def portability_refusals(found: Portability) -> Iterator[str]:
    """A line where the model's numbers depend on the CPU, with the difference that was measured."""
    if found.sums_cut:
        yield (
            f"x86-64 without VNNI: found {found.words}; expected no overflow; use 7-bit or uint8 weights, "
            "or name profiles that all have VNNI"
        )
    elif found.emulated is not None and not found.emulated <= _ROUNDING_STEPS:
        yield (
            f"x86-64 without VNNI: found {found.emulated:.3g} output steps of difference in emulation; expected at most "
            f"{_ROUNDING_STEPS:g}; use 7-bit or uint8 weights"
        )


def lacks_benefit(
    demands: Demands, size: int, float32_size: int, latency: Mapping[int, float], float32_latency: Mapping[int, float]
) -> str | None:
    """Why a model is not worth making: neither faster nor smaller than float32 by the contract's factors; None if it is.

    Latencies are microseconds a row by batch size; the best of them counts.
    """
    smaller = float32_size / size
    faster = max((float32_latency[at] / latency[at] for at in latency if at in float32_latency), default=0.0)
    if smaller >= demands.smaller or faster >= demands.faster:
        return None
    return (
        f"found {faster:.2f} times as fast as float32 and {_sized(smaller)}; expected {demands.faster:g} times as fast or "
        f"{demands.smaller:g} times smaller; keep float32, or lower gates.faster or gates.smaller if less is worth it"
    )


def _sized(smaller: float) -> str:
    return f"{smaller:.2f} times smaller" if smaller >= 1 else f"{1 / smaller:.2f} times as large"


def distance(exact: Answered, ours: Answered) -> float:
    """How far all outputs are from float32's: root mean square, in standard deviations of each tensor, the worst one."""
    found = []
    for name, values in exact.outputs.items():
        if values.dtype.kind not in "fiu":
            continue
        off = ours.outputs[name].astype(np.float64) - values
        found.append(math.sqrt(float(np.square(off).mean())) / max(float(values.astype(np.float64).std()), 1e-12))
    return max(found, default=0.0)


def _tensors(model: Model, raw: NDArray[np.float64]) -> Mapping[str, NDArray[Any]]:
    return through(model, raw).outputs


def _in_words(manifest: Manifest, exact: Mapping[str, NDArray[Any]], cut: Mapping[str, NDArray[Any]]) -> str:
    before, after = answer_rows(manifest, exact)[0], answer_rows(manifest, cut)[0]
    told = []
    for output in manifest.outputs:
        ours, theirs = after[output.name], before[output.name]
        if output.form == "label":
            off = float(np.abs(cut[output.tensor].astype(np.float64) - exact[output.tensor]).max())
            told.append(f"{output.tensor} is off by up to {off:.3g}, {int((ours != theirs).sum())} labels change")
        else:
            told.append(f"{output.name} is off by up to {float(np.abs(ours - theirs).max()):.3g} {output.unit}")
    return ", ".join(told)


def _scored(
    metric: Callable[[NDArray[Any], NDArray[Any]], float],
    accept: Accept, output: Output, one: Answered, targets: NDArray[Any],
) -> float:  # fmt: skip
    if accept.metric != "auroc" or output.form != "label":
        return metric(one.answers[output.name], targets)
    scores = one.outputs[output.tensor].reshape(len(targets), -1).astype(np.float64)
    if any(step.step == "softmax" for step in output.postprocess):
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
    return metric(scores, np.array([output.labels.index(str(label)) for label in targets]))
