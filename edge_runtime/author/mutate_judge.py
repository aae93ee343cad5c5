"""Whether a golden set notices one mutant, stage by stage and by the answer alone; it makes no mutants and adds nothing up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.mutate_line import Cases, Floats, Published, Way, cases_of, publish, walk
from edge_runtime.author.mutate_subject import Mutant, Subject
from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError, DeviceError
from edge_runtime.run.comparison import (
    ANSWER_RTOL,
    allowed_answer,
    compare_answers,
    compare_outputs,
    compare_tensors,
)
from edge_runtime.run.goldens import outputs_of
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output

Stage = Literal["boot", "tensor", "output", "answer", "whole"]
STAGES: tuple[Stage, ...] = ("boot", "tensor", "output", "answer", "whole")
Bools = NDArray[np.bool_]


class Verdict(NamedTuple):
    """What the goldens noticed: the first stage that differs, None for none, and whether the answers alone do."""

    stage: Stage | None
    by_answer: bool


class Judge:
    """The right answers of one golden set and how far each may be off, worked out once for all mutants."""

    def __init__(self, subject: Subject, goldens: Goldens) -> None:
        self._subject, self._goldens = subject, goldens
        self._cases = cases_of(goldens, subject.manifest)
        self._rooms = [
            _room(goldens, output, allowed_answer(goldens, output, subject.tolerance, subject.variant))
            for output in subject.manifest.outputs
        ]

    def verdict(self, mutant: Mutant) -> Verdict:
        """Run the goldens through one mutant."""
        try:
            way = mutant.way()
            seen = walk(way, self._cases)
        except (BundleError, DeviceError):  # onnxruntime does not load it, or takes no such tensor: no answer comes
            return Verdict("boot", by_answer=True)
        by_answer = bool(self._differing(way.model.manifest, publish(way, seen), self._rooms).any())
        return Verdict(self._stage(way, seen.tensors) or ("whole" if by_answer else None), by_answer)

    def differing(self, way: Way) -> Bools:
        """By case, whether the way's answer differs from the stored one by more than the tolerance."""
        return self._differing(way.model.manifest, publish(way, walk(way, self._cases)), self._rooms)

    def differing_at_all(self, way: Way) -> Bools:
        """By case, whether the way's answer differs from the stored one by more than the last bits of float64."""
        outputs = self._subject.manifest.outputs
        rooms = [_room(self._goldens, output, None) for output in outputs]
        return self._differing(way.model.manifest, publish(way, walk(way, self._cases)), rooms)

    def _stage(self, way: Way, tensors: Any) -> Stage | None:
        subject, goldens = self._subject, self._goldens
        if not compare_tensors(tensors, goldens, subject.manifest).holds:
            return "tensor"
        if way.model.infer is not subject.way.model.infer:
            outputs = outputs_of(way.model, goldens.tensors)
            if not compare_outputs(outputs, goldens, subject.tolerance, subject.variant).holds:
                return "output"
        changed = way.model.manifest.outputs is not subject.manifest.outputs
        if changed and not compare_answers(goldens.outputs, goldens, way.model.manifest).holds:
            return "answer"
        return None

    def _differing(self, manifest: Manifest, found: Published, rooms: Sequence[Floats]) -> Bools:
        differs = ~found.answered
        first = 0
        for at, output in enumerate(self._subject.manifest.outputs):
            room, values = rooms[at], found.values[at]
            if manifest.outputs[at].unit != self._goldens.answer_units[output.name]:
                differs |= True
            wanted = self._goldens.answers[output.name]
            if output.form == "label":
                differs |= values != wanted
            elif values.shape != wanted.shape:
                differs |= True
            else:
                over = ~(np.abs(values - wanted) <= room)
                differs |= over.reshape(len(over), -1).any(axis=1)
            for flag in output.flags:
                stored = self._goldens.flags[f"{output.name}.{flag.name}"]
                doubt = (np.abs(wanted - flag.on) <= room) if room.max(initial=0.0) > _exact(wanted) else False
                differs |= (found.flags[:, first] != stored) & ~np.asarray(doubt)
                first += 1
        return differs


def goldens_of(way: Way, cases: Cases) -> tuple[Goldens, Bools]:
    """Cases as goldens: what goes through the way, stage by stage; and which of them have an answer at all."""
    manifest = way.model.manifest
    seen = walk(way, cases)
    published = publish(way, seen)
    names = [f"{output.name}.{flag.name}" for output in manifest.outputs for flag in output.flags]
    made = Goldens(
        channels=tuple(channel.name for channel in manifest.channels),
        raw=cases.raw,
        units=cases.units,
        tensors=seen.tensors,
        outputs={name: _plain(values) for name, values in seen.outputs.items()},
        references={},
        answers={output.name: published.values[at] for at, output in enumerate(manifest.outputs)},
        answer_units={output.name: output.unit for output in manifest.outputs},
        flags={name: published.flags[:, at] for at, name in enumerate(names)},
    )
    return made, published.answered


def picked(goldens: Goldens, rows: Any) -> Goldens:
    """Some of the cases."""
    at = np.asarray(rows, dtype=np.intp)

    def of(group: Any) -> dict[str, Any]:
        return {name: values[at] for name, values in group.items()}

    return replace(
        goldens, raw=goldens.raw[at], units=tuple(goldens.units[int(row)] for row in at), tensors=of(goldens.tensors),
        outputs=of(goldens.outputs), references=of(goldens.references), answers=of(goldens.answers),
        flags=of(goldens.flags),
    )  # fmt: skip


def _room(goldens: Goldens, output: Output, allowed: Floats | None) -> Floats:
    """How far each case's answer may be off, the last bits of float64 included."""
    if output.form == "label":
        return np.zeros(len(goldens))
    exact: Floats = ANSWER_RTOL * np.abs(goldens.answers[output.name])
    return exact if allowed is None else exact + allowed.reshape(exact.shape)


def _exact(wanted: Floats) -> float:
    return ANSWER_RTOL * float(np.abs(wanted).max(initial=0.0))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Texts as numpy holds them, not as objects."""
    return values.astype(str) if values.dtype.kind == "O" else values
