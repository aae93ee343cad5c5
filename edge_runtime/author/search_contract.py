"""The search that a contract's [gates] ask for, on its data, or the recorded one again; it writes nothing."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.cases import corners
from edge_runtime.author.contract import ContractVariant
from edge_runtime.author.passes import batch_axes, through
from edge_runtime.author.promise import describe_recipe, make_variant
from edge_runtime.author.quantize import evenly_spaced, read_grid
from edge_runtime.author.recipes import described
from edge_runtime.author.record import CalibrationRecord
from edge_runtime.author.search import Material, Outcome, repeat, search
from edge_runtime.author.source import Source, sha256
from edge_runtime.author.trials import SearchRecord
from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.spec.variant import Variant


class Found(NamedTuple):
    """The winner as a variant of the bundle, and what its scales were taken from, where it has some."""

    variant: Variant
    calibration: CalibrationRecord | None


def search_contract(
    source: Source, stated: ContractVariant, model: Model, recorded: SearchRecord | None, tell: Callable[[str], None]
) -> tuple[Found | None, Outcome]:
    """Choose the contract's own variant; ``model`` runs the author's model. None where nothing passed.

    Raises:
        ConfigurationError: the contract has no gates, or they do not fit the data; an unknown device profile.
        BundleError: the model cannot be quantized at all.

    """
    contract = source.contract
    file = contract.model_of(stated)
    graph, axes = source.models[file], batch_axes(model.manifest)
    rows = evenly_spaced(len(source.train.raw), contract.calibration.samples)
    if recorded is not None:
        outcome = repeat(graph, recorded, subject=file, axes=axes)
    elif contract.gates is None or source.validation is None:
        raise ConfigurationError(
            subject=str(source.path), found="no [gates] with validation data", expected="both", todo="add them"
        )
    else:
        ends = _usable(model, corners(model.manifest.channels, source.train.raw.shape[1]))
        profiles = [load_profile(name, probe(), [data_folder("device_profiles")]) for name in contract.gates.profiles]
        material = Material(source.train.raw[rows], source.validation, ends)
        outcome = search(
            model,
            graph,
            material,
            contract.gates,
            precision=contract.precision,
            profiles=profiles,
            subject=file,
            tell=tell,
        )
    recipe = outcome.recipe
    if outcome.graph is None or recipe is None:
        return None, outcome
    grid = read_grid(outcome.graph)
    chosen = stated.model_copy(update={"precision": recipe.precision})
    if recipe.precision != "int8" or outcome.record.ranges is None:
        return Found(make_variant(contract, chosen, outcome.graph, grid, None), None), outcome
    words = described(recipe, (outcome.record.winner or "").partition("/")[2])
    tensors = through(model, source.train.raw[rows]).tensors
    digest = sha256(b"".join(values.tobytes() for values in tensors.values()))
    quantization = describe_recipe(grid, samples=len(rows), calibration_sha256=digest, recipe=words)
    calibration = CalibrationRecord(
        recipe=words, cases=len(rows), of=len(source.train.raw), ranges=outcome.record.ranges
    )
    return Found(make_variant(contract, chosen, outcome.graph, grid, quantization), calibration), outcome


def _usable(model: Model, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those corners that have a tensor at all: the end of a band need not have a logarithm, or be a key of a lookup."""
    tensors = model.preprocess()(raw[:, raw.shape[1] - model.manifest.length :])
    finite = [np.isfinite(values.astype(np.float64)).reshape(len(raw), -1).all(axis=1) for values in tensors.values()]
    return raw[np.all(finite, axis=0)]
