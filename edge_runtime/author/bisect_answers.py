"""Finds the first step from a model's outputs to the answer that is not another contract's; it runs no model."""

from collections.abc import Iterator, Sequence

import numpy as np

from edge_runtime.author.bisect_steps import Floats, FoundStep, field_words, measured, step_words
from edge_runtime.bundle.golden import Goldens
from edge_runtime.flow.postprocess import Made, Postprocess
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output

# What of an output is left when its steps agree, and what each is called.
_REST = {"column": "column", "labels": "labels", "form": "labels", "flags": "flags", "unit": "unit"}


def first_after(suspect: Manifest, reference: Manifest, goldens: Goldens) -> FoundStep | None:
    """The first place between the stored model outputs and the answer at which ``suspect`` gives something else.

    The places are, output by output, the tensor it is made of, each of its steps, the column, the labels, the flags and
    the unit. None where no place differs.
    """
    named = {output.name: output for output in suspect.outputs}
    for output in reference.outputs:
        other = named.get(output.name)
        if other is None:
            return FoundStep(f"output {output.name}", "output", ("it is not there",), "none", "one")
        found = _first_of(other, output, (suspect, reference), goldens)
        if found is not None:
            return found
    return None


def _first_of(
    suspect: Output, reference: Output, manifests: tuple[Manifest, Manifest], goldens: Goldens
) -> FoundStep | None:
    where = f"output {reference.name}"
    if suspect.tensor != reference.tensor:
        words = (f"tensor {suspect.tensor}, not {reference.tensor}",)
        return FoundStep(where, "tensor", words, "another tensor", "none")
    for count in range(1, max(len(suspect.postprocess), len(reference.postprocess)) + 1):
        seen, wanted = (
            _after(output, count, manifest, goldens)
            for output, manifest in zip((suspect, reference), manifests, strict=True)
        )
        if seen == wanted:
            continue
        steps = [one.postprocess[count - 1] if count <= len(one.postprocess) else None for one in (suspect, reference)]
        step = next(step.step for step in reversed(steps) if step is not None)
        off = measured(_array(seen), _array(wanted))
        return FoundStep(f"{where}, step {count}", step, step_words(*steps), off, "none")
    for field, kind in _REST.items():
        differs = tuple(_rest_words(field, suspect, reference))
        if differs:
            return FoundStep(where, kind, differs, "other answers", "none")
    return None


def _rest_words(field: str, suspect: Output, reference: Output) -> Iterator[str]:
    found, expected = getattr(suspect, field), getattr(reference, field)
    if field != "flags" and found != expected:
        yield f"{field} {found}, not {expected}"
    elif field == "flags":
        for one, other in zip(suspect.flags, reference.flags, strict=False):
            yield from (f"flag {other.name}: {word}" for word in field_words(one, other))
        if len(suspect.flags) != len(reference.flags):
            yield f"{len(suspect.flags)} flags, not {len(reference.flags)}"


def _after(output: Output, count: int, manifest: Manifest, goldens: Goldens) -> list[Made]:
    """The output's whole rows after so many of its steps."""
    row = output.model_copy(
        update={"form": "vector", "postprocess": output.postprocess[:count], "labels": (), "flags": (), "column": 0}
    )
    return list(Postprocess(manifest.model_copy(update={"outputs": (row,)})).make(goldens.outputs)[0])


def _array(made: Sequence[Made]) -> Floats:
    """The rows as numbers, NaN where there is no answer."""
    rows = [row if isinstance(row, tuple) and all(isinstance(one, float) for one in row) else () for row in made]
    width = max(map(len, rows), default=0)
    return np.array([row or (np.nan,) * width for row in rows], np.float64)
