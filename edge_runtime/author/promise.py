"""Makes the manifest that a contract and its models lead to; it measures nothing and reads no file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from edge_runtime.author.arrays import extent, longest_runs
from edge_runtime.author.cases import negative_goldens
from edge_runtime.author.contract import Contract, ContractChannel, ContractVariant, Range, band
from edge_runtime.author.graph import Graph
from edge_runtime.author.mistake import together, told
from edge_runtime.author.promise_ports import Ports, make_inputs, make_states, require_outputs
from edge_runtime.author.quantize import RECIPE, Grid
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import SCHEMA, Manifest, PreprocessModel, Provenance, features_used
from edge_runtime.spec.plausibility import Plausibility
from edge_runtime.spec.variant import Quantization, Tolerance, Variant

PREPROCESS_NAME = "preprocess.onnx"
_PROVIDER = "CPUExecutionProvider"
_Model = TypeVar("_Model", bound=BaseModel)


def make_channels(contract: Contract, path: Path, train: NDArray[np.float64]) -> tuple[Channel, ...]:
    """The channels with what training saw; ``train`` is float64 ``(cases, samples, row)`` in contract units.

    Raises:
        ConfigurationError: bands that do not nest, or a ``stuck_after`` that training itself would have set off.

    """
    columns = channel_columns(contract)
    single = [columns[channel.name].start for channel in contract.channels if not channel.shape]
    watches = contract.has_time and any(channel.stuck_after for channel in contract.channels)
    runs = dict(zip(single, longest_runs(train[:, :, single]), strict=True)) if watches else {}
    found: list[Channel] = []
    wrong: list[ConfigurationError] = []
    for channel in contract.channels:
        subject = f"{path}, channel {channel.name}"
        place = columns[channel.name]
        longest = runs.get(place.start, 0)
        if channel.stuck_after is not None and channel.stuck_after <= longest:
            wrong.append(
                ConfigurationError(
                    subject=f"{subject}, stuck_after", found=str(channel.stuck_after), todo=f"set {longest + 1}",
                    expected=f"more than {longest}, the longest equal run in the training data",
                )
            )  # fmt: skip
        try:
            found.append(_channel(channel, train[:, :, place], subject))
        except ConfigurationError as error:
            wrong.append(error)
    if wrong:
        raise together(wrong)
    return tuple(found)


def channel_columns(contract: Contract) -> dict[str, slice]:
    """Where each channel stands in a sample's row."""
    found, first = {}, 0
    for channel in contract.channels:
        width = int(np.prod(channel.shape, dtype=int))
        found[channel.name] = slice(first, first + width)
        first += width
    return found


def make_manifest(
    contract: Contract,
    path: Path,
    channels: Sequence[Channel],
    *,
    source_sha256: str,
    models: Mapping[str, Graph],
    prepare: Ports | None,
    variants: Sequence[Variant],
    plausibility: Plausibility | None = None,
) -> Manifest:
    """The manifest around its variants; ``models`` are the graphs by file name, ``prepare`` the author's preprocessing.

    Raises:
        ConfigurationError: the contract's parts do not fit together.
        BundleError: a model's input or output is not what the contract says.

    """
    names = {file: Ports.of(graph) for file, graph in models.items()}
    first = names[contract.model]
    inputs = make_inputs(contract, path, first, channels, contract.model)
    states = make_states(contract, path, first)
    for file, ports in names.items():
        require_outputs(contract, path, ports, file)
        if file != contract.model:
            make_inputs(contract, path, ports, channels, file)
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "id": contract.id,
        "version": contract.version,
        "security_version": contract.security_version,
        "description": contract.description,
        "provenance": Provenance(
            source_model_sha256=source_sha256, **contract.provenance.model_dump(exclude={"model_sha256"})
        ),
        "variants": tuple(variants),
        "inputs": inputs,
        "state": states,
        "window": contract.window,
        "preprocess_onnx": _preprocess_model(contract, prepare),
        "outputs": contract.output,
        "batch_sizes": contract.batch_sizes,
        "negative_goldens": negative_goldens(channels, contract.window),
        "plausibility": plausibility,
        "needs": contract.needs,
        "annotations": contract.annotations,
    }
    # What it makes use of is known only once it stands; a model that is checked says what it lacks.
    return _valid(Manifest, str(path), **values, must_understand=tuple(sorted(features_used(_unchecked(values)))))


def make_variant(
    contract: Contract, stated: ContractVariant, graph: Graph, grid: Grid, quantization: Quantization | None
) -> Variant:
    """One variant of this build, for the CPU; the first has the plain file names."""
    name = stated.name
    is_first = name == contract.variants[0].name
    return Variant(
        name=name,
        model=f"model_{stated.precision if is_first else name}.onnx",
        goldens="golden.npz" if is_first else f"golden_{name}.npz",
        precision=stated.precision,
        ir_version=graph.ir_version,
        opsets=graph.opsets,
        operators=graph.operators,
        model_inputs=tuple(port.name for port in graph.inputs),
        model_outputs=tuple(port.name for port in graph.outputs),
        isa=stated.isa,
        tolerances={_PROVIDER: stated.tolerance or _TOLERANCES[stated.precision], **stated.tolerances},
        quantization=quantization,
        input_clip={name: Band(min=low, max=high) for name, (low, high) in grid.input_clip.items()},
        output_scale=grid.output_scale,
    )


def describe_recipe(
    grid: Grid, *, samples: int, calibration_sha256: str, recipe: Mapping[str, object] = RECIPE
) -> Quantization:
    """The quantizer's recipe as the manifest states it, with what was measured on the result."""
    return Quantization.model_validate(
        {
            **recipe,
            "seven_bit_weights": grid.seven_bit_weights,
            "samples": samples,
            "calibration_sha256": calibration_sha256,
        },
    )


_FLOAT = Tolerance(
    kind="float", rtol=1e-5, atol=1e-5,
    evidence="float32 rounding: CPUs of other instruction sets sum in another order; the same CPU gives equal numbers",
)  # fmt: skip
_TOLERANCES = {
    "int8": Tolerance(
        kind="exact",
        evidence="integer kernels, and weights of 7 bits overflow on no CPU; the build found every batch size equal",
    ),
    "float16": Tolerance(
        kind="float", rtol=4e-3, atol=4e-3,
        evidence="float16 rounds at 5e-4 of a value; some CPUs round at each node, others compute in float32 between",
    ),
    "float32": _FLOAT,
    "as_is": _FLOAT,
}  # fmt: skip


def _unchecked(values: Mapping[str, Any]) -> Manifest:
    return Manifest.model_construct(**values)


def _preprocess_model(contract: Contract, prepare: Ports | None) -> PreprocessModel | None:
    own = contract.preprocess_onnx
    if own is None or prepare is None:
        return None
    (port,) = prepare.inputs.values()
    return PreprocessModel.model_validate(
        {"model": PREPROCESS_NAME, "input": port.name, "dtype": port.dtype, "rtol": own.rtol, "atol": own.atol}
    )


def _channel(channel: ContractChannel, seen: NDArray[np.float64], subject: str) -> Channel:
    stated = channel.model_dump(exclude_unset=True, exclude={"trained", "tolerated", "physical", "unknown"})
    if channel.form == "number":
        trained = channel.trained or (extent(seen) if np.isfinite(seen).any() else channel.tolerated)
        stated["trained"] = _band(trained, f"{subject}, trained")
    for key in ("tolerated", "physical"):
        stated |= {key: _band(pair, f"{subject}, {key}")} if (pair := getattr(channel, key)) is not None else {}
    _require_nested(channel, stated, subject)
    if channel.unknown is not None:
        stated["unknown"] = channel.categories.index(channel.unknown)
    return _valid(Channel, subject, **stated)


def _band(pair: Range | None, subject: str) -> Band | None:
    try:
        return band(pair) if pair is not None else None
    except ValidationError as error:
        raise told(error, subject=subject, model=Band) from error


def _require_nested(channel: ContractChannel, bands: Mapping[str, Any], subject: str) -> None:
    """What is vouched for, and what training saw, must be possible at all."""
    physical = bands.get("physical")
    if physical is None:
        return
    seen = "stated" if channel.trained else "as the training data have it"
    ways = {
        "tolerated": "narrow tolerated to what you vouch for, or widen physical",
        "trained": "widen physical to what can be at all; or look whether the data are in this unit and this channel's, "
        "with no code for a missing value among them",
    }
    wrong = [
        ConfigurationError(
            subject=f"{subject}, {key}",
            found=f"{bands[key].min:g} to {bands[key].max:g} {channel.unit}{f', {seen}' if key == 'trained' else ''}",
            expected=f"within physical, {physical.min:g} to {physical.max:g} {channel.unit}", todo=todo,
        )
        for key, todo in ways.items()
        if bands.get(key) is not None and not physical.holds(bands[key])
    ]  # fmt: skip
    if wrong:
        raise together(wrong)


def _valid(model: type[_Model], subject: str, **values: Any) -> _Model:
    try:
        return model(**values)
    except ValidationError as error:
        raise told(error, subject=subject, model=model) from error
