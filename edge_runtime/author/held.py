"""Holds a bundle's answers against what was true, in the split that says it; it judges by the lints and refuses nothing."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from edge_runtime.author.arrays import Part
from edge_runtime.author.lint_answers import answers, by_place, without_target
from edge_runtime.author.lint_finding import Finding
from edge_runtime.author.lint_nodes import parse_model, stated_classes
from edge_runtime.author.proof import measure
from edge_runtime.author.quantize import evenly_spaced
from edge_runtime.author.record import Metrics
from edge_runtime.author.source import Source
from edge_runtime.flow.model import Model
from edge_runtime.spec.outputs import Output

_TEXT = "string"

# Of training data a few thousand cases tell whether a model has learnt anything at all.
_MOST_TRAINING_CASES = 4096


class Shown(NamedTuple):
    """Errors of one output, and in a word the split that they are of."""

    split: str
    metrics: Metrics


class Held(NamedTuple):
    """Errors on the test split by output, none where there is no such split; and what the lints say of every split.

    ``shown`` has each output's errors on the split that its target was found in; without any target the difference to
    float32 alone, on the first split there is.
    """

    metrics: dict[str, Metrics]
    findings: tuple[Finding, ...]
    shown: dict[str, Shown]


def hold(source: Source, float_model: Model, model: Model) -> Held:
    """Each output against its target of the test split; where that has none of validation's, then of training's."""
    metrics: dict[str, Metrics] = {}
    findings: list[Finding] = []
    shown: dict[str, Shown] = {}
    done: set[str] = set()
    splits = {"test": source.test, "validation": source.validation, "training": _some(source.train)}
    parts = {split: part for split, part in splits.items() if part is not None}
    for split, part in parts.items():
        true = {name: values for name, values in part.targets.items() if name not in done}
        if not true and part is not source.test:
            continue
        done |= true.keys()
        measured = measure(float_model, model, part)
        metrics = measured.metrics if part is source.test else metrics
        shown |= {name: Shown(split, measured.metrics[name]) for name in true}
        by_places = [one for one in _labels_by_place(model) if one.name in part.by_place and one.name in true]
        findings += (by_place(one.name) for one in _unproven(source, by_places))
        findings += answers(measured.metrics, measured.said, true, source.train.targets, split)
    silent = [one for one in _labels_by_place(model) if one.name not in done]
    findings += (without_target(one.name, one.labels) for one in _unproven(source, silent))
    bare = [output.name for output in model.manifest.outputs if output.name not in shown]
    if bare:
        split, part = next(iter(parts.items()))
        measured_bare = metrics if part is source.test else measure(float_model, model, part).metrics
        shown |= {name: Shown(split, measured_bare[name]) for name in bare}
    return Held(metrics, tuple(findings), shown)


def _labels_by_place(model: Model) -> Iterator[Output]:
    """Labels whose words are not simply their places."""
    for output in model.manifest.outputs:
        if output.form == "label" and output.labels != tuple(map(str, range(len(output.labels)))):
            yield output


def _unproven(source: Source, labels: Sequence[Output]) -> Iterator[Output]:
    """Those whose order the model itself does not say: it neither names its classes nor answers with the words."""
    file = source.contract.model
    texts = {port.name for port in source.models[file].outputs if port.dtype == _TEXT}
    classes = stated_classes(parse_model(source.untouched[file], subject=file)) if labels else None
    for output in labels:
        if output.tensor not in texts and output.labels != classes:
            yield output


def _some(train: Part) -> Part:
    rows = evenly_spaced(len(train.raw), _MOST_TRAINING_CASES)
    return train._replace(raw=train.raw[rows], targets={name: values[rows] for name, values in train.targets.items()})
