"""A contract's `preprocessing = "graph"`: every variant with its steps inside, and the proof; it compiles nothing itself."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.fuse import fuse, fuse_failures, fused_manifest, fused_variant, prove, random_cases
from edge_runtime.author.graph import Graph
from edge_runtime.engine.session import open_session
from edge_runtime.flow.model import Model
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.variant import Variant


class Inside(NamedTuple):
    """The manifest of raw inputs, each variant with its fused model, and a line for each output that fusing changed."""

    manifest: Manifest
    made: list[tuple[Variant, Graph]]
    failures: list[str]


def put_inside(models: Sequence[tuple[Model, Graph]], asked: NDArray[np.float64]) -> Inside:
    """Fuse the variants of one manifest and hold them against themselves, on ``asked`` and on random raw cases.

    ``asked`` is ``(cases, samples, row)`` in contract units.

    Raises:
        ConfigurationError: a step that has no standard operators here.
        BundleError: an opset that is too old.

    """
    manifest = models[0][0].manifest
    fused = [fuse(graph, manifest, subject=model.variant.model) for model, graph in models]
    variants = [fused_variant(model.variant, one) for (model, _), one in zip(models, fused, strict=True)]
    raw_manifest = fused_manifest(manifest, fused[0].inputs, variants)
    raw = np.concatenate([asked, random_cases(manifest, asked.shape[1])])
    takes_nan = any(channel.when_missing == "pass" for channel in manifest.channels)
    failures: list[str] = []
    for (model, _), variant, one in zip(models, variants, fused, strict=True):
        session = open_session(one.graph.data, takes_nan=takes_nan)
        found = prove(model, Model(raw_manifest, variant, "", session), raw)
        failures += fuse_failures(found, is_int8=variant.precision == "int8")
    return Inside(raw_manifest, list(zip(variants, [one.graph for one in fused], strict=True)), failures)
