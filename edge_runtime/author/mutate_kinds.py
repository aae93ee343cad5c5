"""The closed list of mutant classes, and the page docs/mutants.md made from it; what is not in it is not counted."""

from collections.abc import Callable, Iterator
from functools import partial

from edge_runtime.author import mutate_contract as contract
from edge_runtime.author import mutate_model as model
from edge_runtime.author import mutate_tensor as tensor
from edge_runtime.author.mutate_constants import MAX_OF_A_LIST, constants
from edge_runtime.author.mutate_line import Way
from edge_runtime.author.mutate_subject import Kind, Mutant, Subject

REST = 0.99
PROOF_CASES = 10_000


def _constants(subject: Subject, share: float) -> Iterator[tuple[str, Callable[[], Way]]]:
    yield from constants(subject, share)
    yield from model.prepared_constants(subject, share)


KINDS = (
    Kind(
        "constant-1",
        "a constant 1 % off, up and down: each mean, std, min, max, clip end, factor, lookup value, filter coefficient, "
        "level of a flag, fill, state's beginning and number in preprocess.onnx; a zero, and what is below a hundredth of "
        "the width that goes with it, by 1 % of that width",
        must=False, make=partial(_constants, share=0.01),
    ),
    Kind("constant-2", "the same, 2 % off", must=True, make=partial(_constants, share=0.02)),
    Kind("constant-5", "the same, 5 % off", must=True, make=partial(_constants, share=0.05)),
    Kind(
        "unit", "a channel's contract unit, or an output's, exchanged for one that could be taken for it; a temperature "
        "converted as a difference, or the reverse", must=True, make=contract.sibling_units,
    ),
    Kind("unit-step", "a channel's unit converted twice, or not at all", must=True, make=contract.unit_steps),
    Kind(
        "swap", "the columns of two channels exchanged behind their names (all pairs up to "
        f"{contract.MAX_ALL_PAIRS} channels, then neighbours and the two ends)", must=True, make=contract.swaps,
    ),
    Kind(
        "layout", "two axes of a tensor exchanged under its old shape; time, rows, columns or points the other way round",
        must=True, make=tensor.layouts,
    ),
    Kind("colours", "red, green and blue the other way round", must=True, make=tensor.colours),
    Kind("picture-scale", "a picture's step such as /255 left out or doubled", must=False, make=contract.scale_steps),
    Kind(
        "picture-range", "a picture's tensor divided or multiplied by 255, or its 8-bit numbers taken with the other sign",
        must=False, make=tensor.pictures,
    ),
    Kind("window", "the window one sample early or late, a lag one off", must=False, make=contract.windows),
    Kind(
        "step", "a step left out, run twice, exchanged with the next (clip and log), or with another choice it offers "
        "(Hann window, ddof, start of a filter, base, resize)", must=False, make=contract.steps,
    ),
    Kind("lookup", "a lookup's values, or a category's places, moved round by one", must=False, make=contract.lookups),
    Kind(
        "label", "labels moved round by one, two neighbours exchanged; a number from the column beside", must=True,
        make=contract.labels,
    ),
    Kind(
        "answer-step", "destandardize, softmax, sigmoid or exponential left out, run twice, or in another order",
        must=False, make=contract.post_steps,
    ),
    Kind("state", "the state begun anew at every sample; two states exchanged", must=True, make=contract.states),
    Kind("sign", "the weights of one whole layer with the other sign", must=False, make=model.signs),
    Kind(
        "zero-point", "an activation's zero point off by one where it is quantized, not where it is taken back",
        must=False, make=model.zero_points,
    ),
    Kind(
        "saturation", "an activation's calibrated scale halved: it saturates at half its range", must=False,
        make=model.saturations,
    ),
    Kind(
        "training", "BatchNormalization by the statistics of the batch at hand, as in training mode", must=False,
        make=model.training_twins,
    ),
    Kind(
        "variant", "another variant's model, or the float32 one (without it, the quantized one without the rounding of "
        "its activations)", must=False, make=model.wrong_variants,
    ),
)  # fmt: skip


def mutants(subject: Subject) -> Iterator[Mutant]:
    """Every mutant of a bundle, class by class, always in the same order."""
    for kind in KINDS:
        for name, way in kind.make(subject):
            yield Mutant(kind.name, name, way)


def page() -> str:
    """docs/mutants.md."""
    rows = "\n".join(f"| `{kind.name}` | {'all' if kind.must else '99 %'} | {kind.what} |" for kind in KINDS)
    return _PAGE.format(rows=rows, rest=REST, cases=PROOF_CASES, listed=MAX_OF_A_LIST, pairs=contract.MAX_ALL_PAIRS)


_PAGE = """\
# Mutants: how strong a bundle's goldens are

Goldens that pass prove little unless they fail where something is wrong. `edge-runtime mutate BUNDLE` puts one mistake
at a time into the line, runs the bundle's own goldens through it and counts which mistakes they notice.

This page is made from the code: `python -m tests.author.test_mutate_page` writes it anew.

## What is counted

A mutant is *killed* at the first stage that differs by more than its tolerance: `tensor` (raw values with units -> input
tensors), `output` (stored tensors -> model outputs), `answer` (stored outputs -> values and flags), `whole` (only all
together), or `boot` (onnxruntime refuses the model). Above all it is counted **by the answer alone**: raw values in,
values and flags out, nothing between looked at, within the tolerance of the bundle. That is what somebody sees who
serves the model with other code and has only the answers to compare. Flags count wherever the tolerance leaves no doubt
on which side of a level the stored answer is.

No band and no check of a gap takes part: a wrong unit that would be refused as beyond the physical band must be noticed
by its number all the same.

A mutant that no golden's answer notices is run on {cases} random inputs against the right line. A third of the cases are drawn
from the physical bands, a third from the tolerated and a third from the trained ones; of each, a third are samples that
do not depend on each other, a third a level with small changes and a third one number that stays. Units change from
case to case, and missing values come where a channel may miss them.

- **Equivalent**: every answer, flag and score is equal, to the last bit. It is left out, and named in the report.
- **Beyond**: what a golden stores (values, and flags that begin anew) is equal to the last bit, but a device would publish
  something else: another score beside the same label, another level at which a flag that was on goes off. No golden can
  notice it; it is left out of the score, and named.
- **Tolerated**: some stage notices it, but on all of these inputs the answer is within the bundle's own tolerance. It
  counts as not killed, but is not held against the bar: no golden could do better. A wide tolerance shows here.
- **Survivor**: all others, whatever the reason.

A mutant that no manifest could hold (a clip whose ends cross, steps whose shapes do not fit) is no mutant: it is
refused when the bundle is read. Of a list of more than {listed} constants, {listed} evenly spaced ones are changed; of
more than {pairs} channels, neighbours and the two ends are exchanged. Single weights are left to the files' hashes.

## The bar

Every mutant of a class marked *all* is killed by the answer alone, and at least 99 % of the others together.
`edge-runtime build` adds goldens from the author's data, and then from random inputs within the tolerated bands, until
the bar is met or its time is over; then it fails and names what survived. A mutant that there was no time to judge
fails the bar as well.

## The classes

| class | to be killed | what is wrong |
|---|---|---|
{rows}
"""
