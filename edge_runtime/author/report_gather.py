"""A bundle, its contract's data and its record, turned into the facts of a report; it runs both models and writes nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.confusable import Quantity, confusable
from edge_runtime.author.exact import open_exact
from edge_runtime.author.mutate import MutationScore
from edge_runtime.author.passes import answer_rows, through
from edge_runtime.author.record import Record
from edge_runtime.author.report_facts import (
    ChannelFact,
    Comparison,
    ConfusableUnit,
    FalseAlarm,
    Metric,
    MutantClass,
    Mutation,
    NodeError,
    OutputFact,
    Proof,
    Recipe,
    ReportFacts,
    ToleranceFact,
)
from edge_runtime.author.source import Source, sha256
from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.names import SIGNATURE_NAME, SUMS_NAME
from edge_runtime.bundle.write import sums
from edge_runtime.engine.session import open_session
from edge_runtime.flow.model import Model
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.outputs import Output, Threshold
from edge_runtime.spec.units import conversion, resolve
from edge_runtime.spec.variant import Tolerance, Variant

Numbers = NDArray[np.float64]
Labels = NDArray[np.str_]


def gather(
    files: Mapping[str, bytes],
    *,
    source: Source | None = None,
    record: Record | None = None,
    mutation: MutationScore | None = None,
    recipes: tuple[Recipe, ...] | None = None,
) -> ReportFacts:
    """The facts of the bundle of these files; what is not given stays unmeasured.

    ``source`` is what it was built from: with it both models are run on the test split. ``record`` is its build.json.

    Raises:
        BundleError: files that are no bundle, or a model that gives what no device would publish.

    """
    manifest = parse(files["manifest.json"])
    first = manifest.variants[0]
    goldens = decode_goldens(files[first.goldens], subject=first.goldens)
    return ReportFacts(
        id=manifest.id, version=manifest.version, security_version=manifest.security_version,
        description=manifest.description, limits=manifest.provenance.limits, window=_window(manifest),
        needs=tuple(_needs(manifest, record)),
        channels=tuple(_channels(manifest, goldens)),
        outputs=tuple(_output(one) for one in manifest.outputs),
        goldens=len(goldens),
        faults=tuple((_fault(one.fault, one.channel), one.expect) for one in manifest.negative_goldens),
        tolerances=tuple(
            ToleranceFact(variant.name, provider, _limit(one), one.evidence)
            for variant in manifest.variants for provider, one in variant.tolerances.items()
        ),
        confusable=_confusable(manifest),
        provenance=tuple(_provenance(manifest)),
        digests=tuple(
            (name, sha256(data), len(data)) for name, data in sorted(files.items())
            if name not in (SUMS_NAME, SIGNATURE_NAME)
        ),
        digest=sha256(sums(files)),
        inputs=tuple(sorted(record.inputs.items())) if record else None,
        tools=tuple(sorted(record.tools.items())) if record else None,
        proof=_proof(record) if record else None,
        comparisons=tuple(_comparisons(manifest, files, source)) if source is not None and source.test else None,
        nodes=_nodes(record, first) if record else None,
        recipes=recipes,
        mutation=mutation_facts(mutation) if mutation else None,
        warnings=record.warnings if record else None,
        false_alarms=_false_alarms(record) if record else (),
    )  # fmt: skip


def _false_alarms(record: Record) -> tuple[FalseAlarm, ...]:
    return tuple(FalseAlarm(name, one.train, one.test) for name, one in (record.plausibility or {}).items())


def mutation_facts(score: MutationScore) -> Mutation:
    """A mutation score as a report shows it."""
    classes = tuple(
        MutantClass(kind.kind, kind.must, kind.total, tuple(kind.by_stage.items()), kind.by_answer)
        for kind in score.kinds
    )
    return Mutation(
        classes, score.survivors, tolerated=len(score.tolerated), equivalent=len(score.equivalent) + len(score.beyond),
        unjudged=len(score.unjudged),
    )  # fmt: skip


def _window(manifest: Manifest) -> str:
    window = manifest.window
    if window is None:
        return "One sample gives one answer."
    pace = f", {window.period_s:g} s apart" if window.period_s else ", at any pace"
    hop = "" if window.hop == 1 else f" A new answer comes every {window.hop} samples."
    return f"{window.length} samples{pace}, give one answer.{hop} A window over a missing sample is refused."


def _needs(manifest: Manifest, record: Record | None) -> Iterator[tuple[str, str]]:
    needs = manifest.needs
    yield "latency of one case, 99th percentile", f"{needs.latency_p99_ms:g} ms"
    yield "memory", f"{needs.memory_mb:g} MB"
    taken = record.memory if record else {}
    for variant, mb in taken.items():
        of = f" with {variant}" if len(taken) > 1 else ""
        yield f"memory that a process took{of} when it was built", f"{mb} MB"
    if not taken:
        yield "memory that a process took when it was built", "not measured"


def _channels(manifest: Manifest, goldens: Goldens) -> Iterator[ChannelFact]:
    places, column = {}, 0
    widths = {channel.name: channel.width for channel in manifest.channels}
    for name in goldens.channels:
        places[name] = slice(column, column + widths[name])
        column += widths[name]
    for channel in manifest.channels:
        at = goldens.channels.index(channel.name)
        units = [row[at] for row in goldens.units]
        values = _in_contract_unit(channel, goldens.raw[:, :, places[channel.name]], units)
        known = values[np.isfinite(values)]
        is_number = channel.form == "number"
        trained = channel.bands[0] if is_number else None
        outside: NDArray[np.bool_] = np.zeros(len(goldens), bool)
        if trained is not None:
            room = 1e-9 * max(abs(trained.min), abs(trained.max))
            with np.errstate(invalid="ignore"):
                out = (values < trained.min - room) | (values > trained.max + room)
            outside = np.asarray(out.reshape(len(goldens), -1).any(axis=1))
        yield ChannelFact(
            name=channel.name, form=channel.form, unit=channel.unit, when_undeclared=channel.when_undeclared,
            trained=_pair(channel.trained), tolerated=_pair(channel.tolerated), physical=_pair(channel.physical),
            seen=(float(known.min()), float(known.max())) if is_number and known.size else None,
            inside=int((~outside).sum()), beyond=int(outside.sum()),
            golden_units=tuple(dict.fromkeys(units)) if is_number else (),
        )  # fmt: skip


def _in_contract_unit(channel: Channel, values: NDArray[np.float64], units: list[str]) -> NDArray[np.float64]:
    if channel.form != "number":
        return values
    found = values.copy()
    for case, unit in enumerate(units):
        a, b = conversion(resolve(unit), resolve(channel.unit), channel.kind)
        found[case] = a * values[case] + b
    return found


def _output(output: Output) -> OutputFact:
    flags = tuple(_flag(one, output.unit) for one in output.flags)
    return OutputFact(output.name, output.meaning, output.form, output.unit, output.labels, flags)


def _flag(flag: Threshold, unit: str) -> str:
    shown = "" if unit == "1" else f" {unit}"
    return f"{flag.name}: on {flag.side} {flag.on:g}{shown}, off again at {flag.off:g}{shown}"


def _fault(fault: str, channel: str | None) -> str:
    return _FAULTS.get(fault, fault.replace("_", " ")) + (f", {channel}" if channel else "")


_FAULTS = {
    "not_a_number": "a reading that is no number",
    "infinite": "an infinite reading",
    "missing": "a missing reading",
    "dimension": "a unit of another quantity",
    "unknown_unit": "a unit nobody knows",
    "beyond": "a reading beyond the physical band",
    "undeclared": "a reading whose unit nobody declared",
    "gap": "a sample left out",
    "back": "a time before the last one",
}


def _limit(tolerance: Tolerance) -> str:
    if tolerance.kind == "float":
        return f"{tolerance.atol:g} + {tolerance.rtol:g} of the stored number"
    if tolerance.kind == "steps":
        return f"{tolerance.steps} step{'' if tolerance.steps == 1 else 's'} of the int8 output"
    return "nothing: equal"


def _confusable(manifest: Manifest) -> tuple[ConfusableUnit, ...]:
    quantities = [
        Quantity(
            channel.name, channel.unit, _required(channel.tolerated), _required(channel.trained),
            _required(channel.physical), channel.kind, channel.when_undeclared == "assume",
        )
        for channel in manifest.channels if channel.form == "number" and channel.unit != "1"
    ]  # fmt: skip
    return tuple(
        ConfusableUnit(one.channel, one.unit, one.sibling, one.tolerated, one.trained) for one in confusable(quantities)
    )


def _provenance(manifest: Manifest) -> Iterator[tuple[str, str]]:
    one = manifest.provenance
    yield "training data", one.training_data
    yield "checkpoint", one.checkpoint
    yield "SHA-256 of the checkpoint", one.checkpoint_sha256
    yield "framework", one.framework
    yield "exporter", one.exporter
    yield "SHA-256 of the exported model", one.source_model_sha256
    yield "licence", one.licence
    for variant in manifest.variants:
        how = variant.quantization
        yield (
            f"variant {variant.name}",
            f"{variant.precision}, {variant.model}"
            + (
                f": {how.format}, activations {how.activations}, weights {how.weights}"
                f"{' per channel' if how.per_channel else ''}{' in 7 bits' if how.seven_bit_weights else ''}, ranges by "
                f"{how.calibration} over {how.samples} training cases"
                if how
                else ""
            ),
        )


def _nodes(record: Record, variant: Variant) -> tuple[NodeError, ...] | None:
    found = record.nodes.get(variant.name)
    return None if found is None else tuple(NodeError(one.node, one.operator, one.error) for one in found)


def _proof(record: Record) -> Proof:
    one = record.proof
    return Proof(one.cases, one.tensor, one.float_output, one.limit, one.between_batch_sizes)


def _comparisons(manifest: Manifest, files: Mapping[str, bytes], source: Source) -> Iterator[Comparison]:
    contract = source.contract
    if source.test is None:
        return
    for variant in manifest.variants:
        stated = next((one for one in contract.variants if one.name == variant.name), contract.variants[0])
        data = source.models[contract.model_of(stated)].data
        quantized = files[variant.model] != data
        exact = _answers(manifest, variant, data, source)
        ours = _answers(manifest, variant, files[variant.model], source) if quantized else exact
        for output in manifest.outputs:
            truth = source.test.targets.get(output.name)
            yield _comparison(variant, output, exact[output.name], ours[output.name], truth, quantized=quantized)


def _answers(manifest: Manifest, variant: Variant, data: bytes, source: Source) -> dict[str, NDArray[Any]]:
    if source.test is None:
        return {}
    passes = any(channel.when_missing == "pass" for channel in manifest.channels)
    prepare = open_session(source.prepare.data, takes_nan=passes) if source.prepare else None
    model = Model(manifest, variant, "", open_exact(data, takes_nan=passes), prepare)
    return answer_rows(manifest, through(model, source.test.raw).outputs)[0]


def _comparison(
    variant: Variant,
    output: Output,
    exact: NDArray[Any],
    ours: NDArray[Any],
    truth: NDArray[Any] | None,
    *,
    quantized: bool,
) -> Comparison:
    if output.form == "label":
        rows = _label_metrics(exact, ours, truth, apart=quantized)
    else:
        rows = _metrics(output, exact, ours, truth, apart=quantized)
    return Comparison(
        variant=variant.name, output=output.name, unit=output.unit, quantized=quantized, cases=len(ours),
        metrics=tuple(rows),
        float32=tuple(exact.ravel().tolist()), bundle=tuple(ours.ravel().tolist()),
        truth=None if truth is None else tuple(truth.ravel().tolist()),
        labels=output.labels,
    )  # fmt: skip


def _metrics(output: Output, exact: Numbers, ours: Numbers, truth: Numbers | None, *, apart: bool) -> Iterator[Metric]:
    unit, off = output.unit, np.abs(ours - exact)
    if truth is not None:
        errors = [np.abs(one - truth) for one in (exact, ours)]
        yield Metric("mean absolute error", unit, *(float(one.mean()) for one in errors))
        yield Metric("root mean square error", unit, *(float(np.sqrt((one**2).mean())) for one in errors))
        yield Metric("largest error", unit, *(float(one.max()) for one in errors))
        for flag in output.flags:
            found = [_share(_on(flag, one) == _on(flag, truth)) for one in (exact, ours)]
            yield Metric(f"{flag.name} flag right, of all cases", "%", *found)
            found = [_share(_on(flag, one)[_on(flag, truth)]) for one in (exact, ours)]
            yield Metric(f"{flag.name} flag on, of the cases where it should be", "%", *found)
    if apart:
        yield Metric("distance to float32, mean", unit, None, float(off.mean()))
        yield Metric("distance to float32, largest", unit, None, float(off.max()))
        for flag in output.flags:
            yield Metric(f"{flag.name} flag as float32 has it", "%", None, _share(_on(flag, ours) == _on(flag, exact)))


def _label_metrics(exact: Labels, ours: Labels, truth: Labels | None, *, apart: bool) -> Iterator[Metric]:
    if truth is not None:
        yield Metric("right", "%", _share(exact == truth), _share(ours == truth))
    if apart:
        yield Metric("labels other than float32's", "%", None, _share(exact != ours))


def _on(flag: Threshold, values: Numbers) -> NDArray[np.bool_]:
    """Where the flag comes on, each case by itself."""
    return np.asarray(values < flag.on if flag.side == "below" else values > flag.on)


def _share(held: NDArray[np.bool_]) -> float | None:
    """In percent; None of no cases."""
    return float(held.mean()) * 100 if held.size else None


def _pair(band: Band | None) -> tuple[float, float] | None:
    return None if band is None else (band.min, band.max)


def _required(band: Band | None) -> tuple[float, float]:
    if band is None:
        raise TypeError("a number has all three bands")
    return band.min, band.max
