"""Tries the recipes on one model and chooses among those that pass the gates; where none passes it chooses none."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author import gate
from edge_runtime.author.arrays import Part
from edge_runtime.author.choice import Candidate, best, sensitive_nodes, worthwhile
from edge_runtime.author.demands import Demands
from edge_runtime.author.emulation import is_available, run_emulated
from edge_runtime.author.exact import open_exact
from edge_runtime.author.gate import Answered, Measured
from edge_runtime.author.graph import Graph
from edge_runtime.author.half import to_float16
from edge_runtime.author.latency import latencies
from edge_runtime.author.passes import batch_axes, through
from edge_runtime.author.quantize import evenly_spaced, read_grid
from edge_runtime.author.recipes import (
    CALIBRATORS,
    RECIPES,
    Calibrator,
    Prepared,
    Recipe,
    alone,
    heavy_nodes,
    is_quantized,
    measure_ranges,
    prepare,
    quantized,
)
from edge_runtime.author.trials import SearchRecord, Trial
from edge_runtime.author.twin import float_twin
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError
from edge_runtime.flow.model import Model
from edge_runtime.spec.device_profile import DeviceProfile

Precision = Literal["int8", "float16", "float32", "as_is", "auto"]
Tell = Callable[[str], None]

_SIMULATED_CASES = 256
_EMULATED_CASES = 48
_MIXED_CASES = 512
_LARGE_BATCH = 64
_BASELINE = "float32"


class Outcome(NamedTuple):
    """What a search came to: its record, and the winner with its recipe; None where nothing passed."""

    record: SearchRecord
    graph: Graph | None
    recipe: Recipe | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the winner was not refused for."""
        return tuple(f"{one.name}: {line}" for one in self.record.trials for line in one.warnings)

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each refusal where nothing passed; none where something did."""
        if self.graph is not None:
            return ()
        return tuple(f"{one.name}: {line}" for one in self.record.trials for line in one.refusals)


class Material(NamedTuple):
    """Raw cases ``(cases, samples, row)`` in contract units: to calibrate on, to judge by, and the tolerated corners."""

    calibration: NDArray[np.float64]
    validation: Part
    corners: NDArray[np.float64]


def search(
    model: Model,
    graph: Graph,
    material: Material,
    demands: Demands,
    *,
    precision: Precision,
    profiles: Sequence[DeviceProfile],
    subject: str,
    tell: Tell,
) -> Outcome:
    """Try every recipe that ``precision`` allows; ``model`` runs ``graph``, the author's own, in float or as it is.

    Raises:
        ConfigurationError: a gate names no output, the validation data lack its target, or int8 is asked of a model
            that is quantized already.
        BundleError: the model cannot be prepared for quantization.

    """
    _require_judgeable(model, material.validation, demands, subject)
    if is_quantized(graph) and precision not in ("as_is", "auto"):
        raise ConfigurationError(
            subject=f"{subject}, precision", found=f"{precision} of a model that is quantized already",
            expected='"as_is" or "auto"', todo='set precision = "as_is": it is judged, and never quantized again',
        )  # fmt: skip
    run = _Search(model, graph, material, demands, precision, subject, tell)
    run.make()
    run.judge(without_vnni=gate.has_machines_without_vnni(profiles))
    return run.decide()


def repeat(graph: Graph, recorded: SearchRecord, *, subject: str, axes: Mapping[str, int] | None = None) -> Outcome:
    """Make the recorded winner again from its recorded ranges: nothing is measured, the choice is the recorded one.

    Raises:
        ConfigurationError: the record names no recipe of this release.
        BundleError: it cannot be made.

    """
    recipes = {one.name: one for one in RECIPES}
    if recorded.winner is None:
        return Outcome(recorded, None, None)
    recipe = recipes.get(recorded.winner.split("/")[0])
    if recipe is None or (recipe.precision == "int8" and recorded.ranges is None):
        raise ConfigurationError(
            subject="the record's search", found=f"winner {recorded.winner!r}",
            expected=f"one of {', '.join(recipes)}, with its ranges", todo="build without --record",
        )  # fmt: skip
    if recipe.precision == "int8" and recorded.ranges is not None:
        prepared = prepare(graph, subject=subject, axes=axes)
        return Outcome(recorded, quantized(prepared, recorded.ranges, recipe, in_float=recorded.in_float), recipe)
    made = to_float16(graph, subject=subject, axes=axes) if recipe.precision == "float16" else graph
    return Outcome(recorded, made, recipe)


class _Search:
    """One search under way: the candidates so far and what could not be made."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        material: Material,
        demands: Demands,
        precision: Precision,
        subject: str,
        tell: Tell,
    ) -> None:
        self._model, self._graph, self._material = model, graph, material
        self._demands, self._precision, self._subject, self._tell = demands, precision, subject, tell
        self._axes = batch_axes(model.manifest)
        self._made: list[Candidate] = []
        self._unmade: list[Trial] = []
        self._ranges: dict[str, str] = {}
        self._in_float: dict[str, tuple[str, ...]] = {}
        self._costs: dict[str, float] = {}
        self._emulated = False
        twin = float_twin(graph) if is_quantized(graph) else graph
        self._float = open_session(twin.data)
        self._float_size = len(twin.data)
        self._exact = gate.answered(model._replace(infer=self._float), material.validation.raw)

    def make(self) -> None:
        """Make and measure every candidate."""
        wanted = [one for one in RECIPES if self._is_wanted(one)]
        if any(one.precision == "int8" for one in wanted):
            self._make_int8([one for one in wanted if one.precision == "int8"])
        for recipe in wanted:
            if recipe.precision != "int8":
                self._try(recipe, None, partial(self._other, recipe))

    def judge(self, *, without_vnni: bool) -> None:
        """Portability, where such machines are to be served, and latency."""
        integer = [one for one in self._made if is_quantized(one.graph)]
        if without_vnni and integer:
            self._tell("simulating x86 without VNNI")
            seen = self._material.calibration[evenly_spaced(len(self._material.calibration), _SIMULATED_CASES)]
            for one in integer:
                one.portability = gate.simulate(
                    self._model._replace(infer=one.infer), one.graph, np.concatenate([seen, self._material.corners])
                )
            self._emulate(integer)
            for one in integer:
                if one.portability is not None:
                    one.refusals += gate.portability_refusals(one.portability)
        self._tell("measuring latencies")
        sizes = (1,) if self._model.manifest.batch_sizes == (1,) else (1, _LARGE_BATCH)
        tensors = through(self._model, self._material.validation.raw[:_LARGE_BATCH]).tensors
        models = {"": self._float} | {one.name: one.infer for one in self._made}
        found = latencies(models, tensors, self._axes, sizes)
        self._float_latency = found[""]
        for one in self._made:
            one.latency = found[one.name]

    def decide(self) -> Outcome:
        """The winner and the whole record."""
        lacks = {
            one.name: gate.lacks_benefit(
                self._demands, len(one.graph.data), self._float_size, one.latency, self._float_latency
            )
            for one in self._made
        }
        passed = [one for one in self._made if not one.refusals and self._may_win(one)]
        if self._precision == "auto":
            passed = worthwhile(passed, lacks)
        winner = best(passed, self._float_latency)
        trials = [*(self._trial(one, winner, lacks[one.name]) for one in self._made), *self._unmade]
        calibrator = winner.calibrator.name if winner is not None and winner.calibrator else ""
        record = SearchRecord(
            trials=tuple(trials),
            winner=winner.name if winner else None,
            ranges=self._ranges.get(calibrator),
            in_float=self._in_float.get(calibrator, ()) if winner and winner.recipe.sensitive_in_float else (),
            node_costs=self._costs,
            emulated=self._emulated,
        )
        return Outcome(record, winner.graph if winner else None, winner.recipe if winner else None)

    def _is_wanted(self, recipe: Recipe) -> bool:
        if is_quantized(self._graph):
            return recipe.precision == "as_is"
        if recipe.precision == "as_is":
            return self._precision == "as_is"
        listed = not self._demands.recipes or recipe.name in self._demands.recipes
        # Float32 is tried with the others to be beside them in the table.
        return recipe.name == _BASELINE or (listed and self._precision in ("auto", recipe.precision))

    def _may_win(self, one: Candidate) -> bool:
        return self._precision in ("auto", one.recipe.precision)

    def _make_int8(self, recipes: Sequence[Recipe]) -> None:
        prepared = prepare(self._graph, subject=self._subject, axes=self._axes)
        tensors = through(self._model, self._material.calibration).tensors
        for calibrator in CALIBRATORS:
            if self._demands.calibrators and calibrator.name not in self._demands.calibrators:
                continue
            self._tell(f"quantizing by {calibrator.name}")
            try:
                ranges = measure_ranges(prepared, tensors, calibrator)
            except BundleError as error:
                self._unmade += [_unmade(recipe, calibrator, error) for recipe in recipes]
                continue
            self._ranges[calibrator.name] = ranges
            for recipe in recipes:
                self._try(recipe, calibrator, partial(self._int8, prepared, recipe, calibrator, ranges))

    def _int8(self, prepared: Prepared, recipe: Recipe, calibrator: Calibrator, ranges: str) -> Graph:
        if not recipe.sensitive_in_float:
            return quantized(prepared, ranges, recipe)
        costs = self._node_costs(prepared, recipe, ranges)
        self._costs = self._costs or costs
        sensitive = sensitive_nodes(costs)
        if not sensitive:
            raise BundleError(
                subject=prepared.subject, found="no node that stands out", expected="a few that cost most of the accuracy",
                todo="take another recipe",
            )  # fmt: skip
        self._in_float[calibrator.name] = sensitive
        return quantized(prepared, ranges, recipe, in_float=sensitive)

    def _node_costs(self, prepared: Prepared, recipe: Recipe, ranges: str) -> dict[str, float]:
        raw = self._material.validation.raw
        raw = raw[evenly_spaced(len(raw), _MIXED_CASES)]
        exact = Answered(through(self._model._replace(infer=self._float), raw).outputs, {}, {})
        costs = {}
        for node in heavy_nodes(prepared):
            made = self._model._replace(infer=open_exact(alone(prepared, ranges, recipe, node).data))
            costs[node] = gate.distance(exact, Answered(through(made, raw).outputs, {}, {}))
        return costs

    def _other(self, recipe: Recipe) -> Graph:
        if recipe.precision == "float16":
            return to_float16(self._graph, subject=self._subject, axes=self._axes)
        return self._graph

    def _try(self, recipe: Recipe, calibrator: Calibrator | None, make: Callable[[], Graph]) -> None:
        try:
            graph = make()
            infer = open_exact(graph.data)
            answered = gate.answered(self._model._replace(infer=infer), self._material.validation.raw)
        except BundleError as error:
            self._unmade.append(_unmade(recipe, calibrator, error))
            return
        manifest, targets = self._model.manifest, self._material.validation.targets
        units = {output.name: output.unit for output in manifest.outputs}
        measured: dict[str, Measured] = {}
        refusals: list[str] = []
        for accept in self._demands.accept:
            found = gate.measure(manifest, accept, self._exact, answered, targets)
            refusals += gate.metric_refusals(accept, found, units[accept.output])
            measured.setdefault(accept.output, found)
        self._made.append(
            Candidate(
                recipe, calibrator, graph, infer, answered, measured, refusals, gate.distance(self._exact, answered)
            )
        )

    def _emulate(self, integer: Sequence[Candidate]) -> None:
        if not is_available():
            self._tell("no qemu-x86_64-static here: x86 without VNNI is simulated, not emulated")
            return
        self._tell("emulating x86 without VNNI")
        seen = self._material.calibration[evenly_spaced(len(self._material.calibration), _EMULATED_CASES)]
        tensors = through(self._model, np.concatenate([seen, self._material.corners])).tensors
        try:
            feeds = {name: _laid(values, self._axes.get(name, 0)) for name, values in tensors.items()}
            if self._model.manifest.batch_sizes == (1,):
                feeds = {name: _laid(values[-1:], self._axes.get(name, 0)) for name, values in tensors.items()}
            found = run_emulated({one.name: one.graph.data for one in integer}, feeds)
        except DeviceError as error:
            self._tell(str(error))
            return
        self._emulated = True
        for one in integer:
            steps = {name: scale.step for name, scale in read_grid(one.graph).output_scale.items()}
            apart = gate.in_steps(one.infer(feeds), found[one.name], steps)
            if one.portability is not None:
                one.portability = one.portability.model_copy(update={"emulated": apart})

    def _trial(self, one: Candidate, winner: Candidate | None, lacks: str | None) -> Trial:
        refusals = list(one.refusals)
        if lacks and self._precision == "auto" and one.recipe.name not in ("float32", "as_is"):
            refusals.append(f"benefit: {lacks}")
        verdict: Literal["winner", "passed", "refused"] = "refused" if refusals else "passed"
        return Trial(
            recipe=one.recipe.name,
            calibrator=one.calibrator.name if one.calibrator else None,
            verdict="winner" if one is winner else verdict,
            size_bytes=len(one.graph.data),
            measured=one.measured,
            distance=one.distance,
            latency_us=one.latency,
            portability=one.portability,
            refusals=tuple(refusals),
            warnings=(f"benefit: {lacks}",) if lacks and self._precision != "auto" and one is winner else (),
        )


def _unmade(recipe: Recipe, calibrator: Calibrator | None, error: BundleError) -> Trial:
    return Trial(
        recipe=recipe.name,
        calibrator=calibrator.name if calibrator else None,
        verdict="not made",
        refusals=(str(error),),
    )


def _laid(values: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(values, 0, axis))


def _require_judgeable(model: Model, validation: Part, demands: Demands, subject: str) -> None:
    names = [output.name for output in model.manifest.outputs]
    for accept in demands.accept:
        if accept.output not in names:
            raise ConfigurationError(
                subject=f"{subject}, gate", found=f"output {accept.output!r}", expected=f"one of {', '.join(names)}",
                todo="correct the gate's output",
            )  # fmt: skip
        if accept.output not in validation.targets:
            raise ConfigurationError(
                subject=f"{subject}, gate of {accept.output}", found="no validation target",
                expected="what was true, beside the validation values", todo="name it as data.validation.target",
            )  # fmt: skip
    known = {recipe.name for recipe in RECIPES} | {one.name for one in CALIBRATORS}
    for name in (*demands.recipes, *demands.calibrators):
        if name not in known:
            raise ConfigurationError(
                subject=f"{subject}, recipes", found=name, expected=f"one of {', '.join(sorted(known))}",
                todo="correct the name",
            )  # fmt: skip
