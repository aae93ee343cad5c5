"""contract.toml, models and data to the files of a bundle, each stage proven on the way; it writes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.arrays import extent
from edge_runtime.author.cases import Cases, choose_cases, corners, special_cases
from edge_runtime.author.contract import Contract, ContractVariant
from edge_runtime.author.exact import open_exact
from edge_runtime.author.false_alarms import false_alarms, warnings_of
from edge_runtime.author.goldens import make_goldens
from edge_runtime.author.graph import Graph
from edge_runtime.author.held import Held, Shown, hold
from edge_runtime.author.lint_build import as_answering, as_quantized, judged
from edge_runtime.author.lint_contract import bands, pace, twice
from edge_runtime.author.lint_finding import Finding
from edge_runtime.author.lint_integer import CLIPPED
from edge_runtime.author.lint_nodes import parse_model
from edge_runtime.author.memory_need import Measured
from edge_runtime.author.memory_need import measure as measure_memory
from edge_runtime.author.mutate import MutationScore
from edge_runtime.author.mutate_strengthen import strengthen_variants
from edge_runtime.author.node_errors import node_errors
from edge_runtime.author.passes import answer_rows, batch_axes, filled, through
from edge_runtime.author.plausibility import make_plausibility
from edge_runtime.author.preprocessing import put_inside
from edge_runtime.author.promise import PREPROCESS_NAME, describe_recipe, make_channels, make_manifest, make_variant
from edge_runtime.author.promise_ports import Ports
from edge_runtime.author.proof import (
    LIMIT,
    between_batch_sizes,
    clipped,
    output_failures,
    output_limit,
    output_proof,
    tensor_failures,
    tensor_proof,
    tolerance_failures,
)
from edge_runtime.author.quantize import RECIPE, evenly_spaced, quantize, read_grid
from edge_runtime.author.record import (
    Built,
    CalibrationRecord,
    NodeError,
    Proof,
    Record,
    differences,
    mutation_record,
    tool_versions,
)
from edge_runtime.author.rewrite import maps_of, same_numbers
from edge_runtime.author.search import Outcome
from edge_runtime.author.search_contract import search_contract
from edge_runtime.author.source import Source, read_source, sha256
from edge_runtime.author.tolerances import proposals, tolerating
from edge_runtime.author.trial import boot_failures
from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.golden import encode as encode_goldens
from edge_runtime.bundle.write import sums
from edge_runtime.engine.session import open_session
from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.spec.manifest import Manifest, encode, parse
from edge_runtime.spec.variant import Variant

Tell = Callable[[str], None]

# Seconds a variant's mutants may take: far more than any needs, for what runs out of time fails the build.
_MUTANTS_S = 900.0


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build: the bundle's files by name, its record, and what failed (then nothing may be written).

    ``source`` is what it was made of, ``scores`` by variant what its goldens are worth, ``shown`` by variant and output the
    errors on the split that could tell them.
    """

    files: Mapping[str, bytes]
    record: Record
    failures: tuple[str, ...]
    source: Source
    scores: Mapping[str, MutationScore]
    shown: Mapping[str, Mapping[str, Shown]]


class _Made(NamedTuple):
    """One variant: the model that will ship, and what its scales were taken from."""

    variant: Variant
    graph: Graph
    calibration: CalibrationRecord | None


class _Met(NamedTuple):
    """How far steps and source models are from the framework's record, the largest of all cases."""

    tensor: float
    output: float
    failures: tuple[str, ...]
    findings: tuple[Finding, ...]


class _Proven(NamedTuple):
    """One variant's goldens, and what they and the test split showed."""

    goldens: Goldens
    held: Held
    clipped: tuple[Finding, ...]


def build(
    path: Path, recorded: Record | None, tell: Tell, evidence: Sequence[Path] | None = None, *, strengthens: bool = True
) -> Build:
    """Build from the contract at ``path``; with ``recorded`` by its settings, and to its bytes.

    ``evidence`` are self-test reports of devices, also none of them: tolerances are then measured and proposed.
    ``tell`` is called with a word on each stage. Gates that fail are in ``failures``. Without ``strengthens`` the
    goldens stay as they were chosen and are not scored, nor is memory measured: for tests of the other gates.

    Raises:
        ConfigurationError: the contract or the data.
        BundleError: a model.
        DeviceError: no onnxruntime.

    """
    tell("reading contract, models and data")
    source = read_source(path)
    contract = source.contract
    judged(contract, path, ())  # a waiver that cannot be is told before any work
    stated = contract.variants
    plain = [_plain(contract, one, source.models[contract.model_of(one)]) for one in stated]
    manifest = _manifest(source, [one.variant for one in plain])
    sources = [_model(source, manifest, one) for one in plain]
    tell("asking the models what their framework was asked")
    met = _met(source, manifest, sources)
    made, searched = _made(source, sources, plain, recorded, tell)
    failures = [*met.failures, *(searched.failures if searched else ())]
    findings = [
        *source.findings, *bands(manifest.channels, source.train.raw), *pace(contract.window), *met.findings,
    ]  # fmt: skip
    for one in made:
        if one.variant.precision == "int8":
            findings += as_quantized(contract, one.graph.data, one.variant.model, len(source.train.raw))
    manifest = _manifest(source, [one.variant for one in made])
    if contract.preprocessing == "graph":
        tell("putting the preprocessing into the graph")
        inside = put_inside([(_model(source, manifest, one), one.graph) for one in made], source.asked.raw)
        manifest, failures = inside.manifest, failures + inside.failures
        made = [
            one._replace(variant=variant, graph=graph) for one, (variant, graph) in zip(made, inside.made, strict=True)
        ]
    tell("making goldens and measuring on the test split")
    proven = [
        _proven(source, float_model, _model(source, manifest, one))
        for float_model, one in zip(sources, made, strict=True)
    ]
    tolerances = recorded.tolerances if recorded else None
    if recorded is None and evidence is not None:
        shown = [(one.variant, one.graph, proof.goldens) for one, proof in zip(made, proven, strict=True)]
        tolerances = proposals(contract, shown, batch_axes(manifest), evidence, tell)
    if tolerances:
        made = [one._replace(variant=tolerating(contract, one.variant, tolerances)) for one in made]
        manifest = manifest.model_copy(update={"variants": tuple(one.variant for one in made)})
    # Where steps or model are not the framework's, what the answers look like is only a consequence.
    lints = judged(contract, path, findings if met.failures else _with_proven(findings, proven))
    failures += lints.failures
    files = _files(source, manifest, made, proven)
    scores: Mapping[str, MutationScore] = {}
    if strengthens and not failures:
        tell("trying mutants, and adding goldens until they are noticed")
        stronger = strengthen_variants(
            files, source.train.raw, float_models=_floats(source, made), budget_s=_MUTANTS_S
        )  # fmt: skip
        files, scores = dict(stronger.files), stronger.scores
        failures += stronger.failures()
    models = [_model(source, manifest, one) for one in made]
    apart = [_between_batch_sizes(one, files[one.variant.goldens]) for one in models]
    for model, off in zip(models, apart, strict=True):
        failures += tolerance_failures(model, off)
    alarms = false_alarms(models[0], source.train.raw, source.test.raw if source.test else None)
    names = [one.name for one in stated]
    booted = _booted(files, made, recorded, tell, measures=strengthens and not failures)
    failures += booted.failures
    record = Record(
        schema="edge-runtime/build/1",
        bundle=_built(contract, files),
        tools=tool_versions(),
        inputs=source.digests,
        calibration={name: one.calibration for name, one in zip(names, made, strict=True) if one.calibration},
        proof=Proof(
            cases=len(source.asked.raw), tensor=met.tensor, float_output=met.output, limit=LIMIT,
            between_batch_sizes=max(off for one in apart for off in one.values()),
        ),
        memory=booted.mb,
        metrics={name: one.held.metrics for name, one in zip(names, proven, strict=True) if one.held.metrics},
        nodes=_node_errors(source, models, made),
        mutation={name: mutation_record(one) for name, one in scores.items()},
        search=searched.record if searched else None,
        tolerances=tolerances,
        plausibility=alarms,
        warnings=tuple(
            dict.fromkeys([*(searched.warnings if searched else ()), *lints.warnings, *warnings_of(alarms or {})])
        ),
    )  # fmt: skip
    if recorded is not None:
        failures += differences(recorded, record)
    return Build(
        files, record, tuple(dict.fromkeys(failures)), source, scores,
        shown={name: one.held.shown for name, one in zip(names, proven, strict=True)},
    )  # fmt: skip


def _booted(
    files: Mapping[str, bytes], made: Sequence[_Made], recorded: Record | None, tell: Tell, *, measures: bool
) -> Measured:
    """What fails where each variant is booted, and what it takes of memory; a rebuild keeps the record's figures."""
    names = [one.variant.name for one in made]
    tell("booting the bundle as a device will")
    failures = [line for name in (names if len(names) > 1 else [None]) for line in boot_failures(files, name)]
    if recorded is not None or failures or not measures:
        return Measured(dict(recorded.memory) if recorded else {}, tuple(failures))
    tell("measuring what a process takes of memory that serves it")
    return measure_memory(files, names)


def _met(source: Source, manifest: Manifest, models: Sequence[Model]) -> _Met:
    """Hold steps and source models against the framework's record."""
    contract = source.contract
    tensor_off = tensor_proof(models[0], source.asked)
    failures = list(tensor_failures(contract, manifest, source.path, tensor_off))
    findings: list[Finding] = []
    largest = 0.0
    for variant, model in zip(contract.variants, models, strict=True):
        proof = output_proof(model, source.asked)
        largest = max(largest, *proof.off.values())
        failures += output_failures(contract, contract.model_of(variant), model, proof)
        failures += _map_failures(source, contract.model_of(variant), model)
        findings += _twice(source, contract.model_of(variant))
        # A record of another stage says nothing of the model.
        outputs = {name: values for name, values in source.asked.outputs.items() if name not in proof.stages}
        asked = source.asked._replace(outputs=outputs)
        findings += as_answering(contract, model, asked, {name: output_limit(model, name) for name in outputs})
    return _Met(max(one.off for one in tensor_off.values()), largest, tuple(failures), tuple(findings))


def _twice(source: Source, file: str) -> list[Finding]:
    outputs = source.contract.output
    if not any(one.postprocess for one in outputs):
        return []
    return list(twice(parse_model(source.untouched[file], subject=file), outputs, source.asked.outputs))


def _made(
    source: Source, models: Sequence[Model], plain: Sequence[_Made], recorded: Record | None, tell: Tell
) -> tuple[list[_Made], Outcome | None]:
    """Each variant as it will ship, and what was searched for the first where the contract has gates."""
    made: list[_Made] = []
    searched, stated = None, source.contract.variants
    for variant, model, one in zip(stated, models, plain, strict=True):
        if variant is not stated[0] or source.contract.gates is None:
            if variant.precision == "int8":
                tell(f"quantizing {variant.name}")
            made.append(_quantized(source, variant, model, recorded) if variant.precision == "int8" else one)
            continue
        found, searched = search_contract(source, variant, model, recorded.search if recorded else None, tell)
        made.append(_Made(found.variant, searched.graph, found.calibration) if found and searched.graph else one)
    return made, searched


def _plain(contract: Contract, stated: ContractVariant, graph: Graph) -> _Made:
    """A variant as the author's own model is."""
    return _Made(make_variant(contract, stated, graph, read_grid(graph), None), graph, None)


def _manifest(source: Source, variants: Sequence[Variant]) -> Manifest:
    contract, train = source.contract, source.train.raw
    channels = make_channels(contract, source.path, train)
    asked = contract.plausibility
    return make_manifest(
        contract,
        source.path,
        channels,
        source_sha256=source.digests["model"],
        models=source.models,
        prepare=Ports.of(source.prepare) if source.prepare else None,
        variants=variants,
        plausibility=make_plausibility(asked, channels, contract.window, train, str(source.path)) if asked else None,
    )


def _model(source: Source, manifest: Manifest, made: _Made) -> Model:
    """A variant's model in a session, as a line takes it."""
    passes = any(channel.when_missing == "pass" for channel in manifest.channels)
    prepare = open_session(source.prepare.data, takes_nan=passes) if source.prepare else None
    session = open_exact(made.graph.data, takes_nan=passes)
    return Model(manifest, made.variant, "", session, prepare)


def _quantized(source: Source, stated: ContractVariant, float_model: Model, recorded: Record | None) -> _Made:
    contract, file = source.contract, source.contract.model_of(stated)
    rows = evenly_spaced(len(source.train.raw), contract.calibration.samples)
    tensors = through(float_model, source.train.raw[rows]).tensors
    earlier = recorded.calibration.get(stated.name) if recorded else None
    result = quantize(
        source.models[file], tensors, subject=file, ranges=earlier.ranges if earlier else None,
        axes=batch_axes(float_model.manifest),
    )  # fmt: skip
    grid = read_grid(result.graph)
    digest = sha256(b"".join(values.tobytes() for values in tensors.values()))
    described = describe_recipe(grid, samples=len(rows), calibration_sha256=digest)
    calibration = CalibrationRecord(recipe=RECIPE, cases=len(rows), of=len(source.train.raw), ranges=result.ranges)
    return _Made(make_variant(contract, stated, result.graph, grid, described), result.graph, calibration)


def _proven(source: Source, float_model: Model, model: Model) -> _Proven:
    """One variant's goldens, its errors on the test split, and what is wrong with its answers."""
    goldens = make_goldens(model, _cases(source, model), source.asked.outputs, source.contract.goldens.units)
    return _Proven(goldens, hold(source, float_model, model), clipped(model))


def _with_proven(found: Sequence[Finding], proven: Sequence[_Proven]) -> list[Finding]:
    """What only the answers and the steps show when they are run, beside all that the lints know of themselves."""
    told = {one.subject for one in found if one.id == CLIPPED.id}
    clips = [one for proof in proven for one in proof.clipped if one.subject not in told]
    return [*found, *clips, *(one for proof in proven for one in proof.held.findings)]


def _between_batch_sizes(model: Model, data: bytes) -> dict[str, float]:
    goldens = decode_goldens(data, subject=model.variant.goldens)
    return between_batch_sizes(model, goldens.tensors, goldens.outputs)


def _floats(source: Source, made: Sequence[_Made]) -> dict[str, bytes]:
    """By variant the models that int8 ones were made from; with its steps in the graph a model takes other inputs."""
    contract = source.contract
    if contract.preprocessing == "graph":
        return {}
    return {
        one.variant.name: source.models[contract.model_of(stated)].data
        for stated, one in zip(contract.variants, made, strict=True)
        if one.variant.precision == "int8"
    }


def _node_errors(source: Source, models: Sequence[Model], made: Sequence[_Made]) -> dict[str, tuple[NodeError, ...]]:
    """By variant what int8 costs by each node, on cases that no test is made of."""
    judged = source.validation if source.contract.gates else None
    raw = (judged or source.train).raw
    found = {one.variant.name: node_errors(model, one.graph, raw) for model, one in zip(models, made, strict=True)}
    return {name: nodes for name, nodes in found.items() if nodes is not None}


def _cases(source: Source, model: Model) -> Cases:
    contract, manifest, asked = source.contract, model.manifest, source.asked.raw
    answers = answer_rows(manifest, through(model, asked).outputs)[0]
    extents, column = {}, 0
    for channel in manifest.channels:
        seen = source.train.raw[:, :, column : column + channel.width]
        extents[channel.name] = extent(seen) if np.isfinite(seen).any() else (0.0, 0.0)
        column += channel.width
    ends = np.concatenate([corners(manifest.channels, asked.shape[1], extents), special_cases(manifest, asked)])
    cases = choose_cases(manifest, asked, answers, contract.goldens.count, ends[_usable(model, ends)])
    if len(cases.raw) < contract.goldens.count:
        raise ConfigurationError(
            subject=f"{source.path.parent / contract.reference.file}, {_shown(contract.reference.raw)}",
            found=f"{len(asked)} cases", todo="let the framework answer more cases",
            expected=f"{contract.goldens.count - cases.origin.count(-1)} for {contract.goldens.count} goldens",
        )  # fmt: skip
    return cases


def _usable(model: Model, raw: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which corners have a tensor at all: the ends of a band need not be keys of a lookup, or have a logarithm."""
    if any(channel.when_missing == "pass" for channel in model.manifest.channels):
        return np.ones(len(raw), bool)
    with np.errstate(over="ignore"):  # what a cast cannot hold is infinite, and no tensor
        tensors = model.preprocess()(_last_window(model.manifest, raw))
    finite = [np.isfinite(values.astype(np.float64)).reshape(len(raw), -1).all(axis=1) for values in tensors.values()]
    return np.asarray(np.all(finite, axis=0))


def _last_window(manifest: Manifest, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    return filled(manifest, raw)[:, raw.shape[1] - manifest.length :]


def _map_failures(source: Source, file: str, model: Model) -> list[str]:
    """A line for each output that was a sequence of maps and is another tensor now; the untouched model is asked."""
    maps = source.models[file].maps
    if not maps:
        return []
    passed = through(model, source.asked.raw)
    untouched = maps_of(source.untouched[file], passed.tensors, list(maps))
    return [
        f"{file}: found other numbers in output {name} once its maps are a tensor; expected the same; report this"
        for (name, classes), found in zip(maps.items(), untouched, strict=True)
        if not same_numbers(found, passed.outputs[name], classes)
    ]


def _files(source: Source, manifest: Manifest, made: Sequence[_Made], proven: Sequence[_Proven]) -> dict[str, bytes]:
    data = encode(manifest)
    parse(data)
    files = {"manifest.json": data}
    if source.prepare:
        files[PREPROCESS_NAME] = source.prepare.data
    for one, proof in zip(made, proven, strict=True):
        files[one.variant.model] = one.graph.data
        files[one.variant.goldens] = encode_goldens(proof.goldens)
    return files


def _built(contract: Contract, files: Mapping[str, bytes]) -> Built:
    return Built(
        id=contract.id,
        version=contract.version,
        digest=sha256(sums(files)),
        files={name: sha256(data) for name, data in sorted(files.items())},
    )


def _shown(named: object) -> str:
    return named if isinstance(named, str) else "raw"
