"""Finds the first place of a line that computes otherwise than a reference does; it changes no bundle and serves nothing.

The reference is another bundle, the one that was delivered, or this bundle on the CPU provider. Each stage begins with
what the reference's goldens store for it, so that an earlier fault hides no place of a later stage.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from edge_runtime.author.bisect_answers import first_after
from edge_runtime.author.bisect_model import Fed, FoundNode, Room, Side, first_in_batches, first_node
from edge_runtime.author.bisect_steps import FoundStep, first_before
from edge_runtime.author.exact import open_exact
from edge_runtime.author.mutate_line import cases_of, contract_rows
from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.verify import VerifiedBundle
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError
from edge_runtime.flow.model import Infer, Model
from edge_runtime.run.comparison import Difference, compare_answers, compare_outputs, compare_tensors
from edge_runtime.run.goldens import outputs_of, passage
from edge_runtime.run.inspect import manifest_of
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.variant import Tolerance, Variant

Stage = Literal["preprocessing", "model", "postprocessing"]
Tensors = Mapping[str, NDArray[Any]]


class Runs(NamedTuple):
    """A provider and its options, as the profile gives them."""

    provider: str = CPU
    options: Mapping[str, str] = {}


class Place(NamedTuple):
    """The first place that is off, and the variant of whose model it is (of the steps, the variant that was looked at)."""

    stage: Stage
    found: FoundNode | FoundStep
    variant: str


class Subject(NamedTuple):
    """A bundle that is whole, its contract, and where its models run."""

    bundle: VerifiedBundle
    manifest: Manifest
    runs: Runs

    def open(self, model: bytes) -> Infer:
        """A session as a boot makes it, but that the CPU may run what the provider does not take."""
        return open_exact(
            model, provider=self.runs.provider, provider_options=self.runs.options, elsewhere=self.runs.provider != CPU,
            takes_nan=any(channel.when_missing == "pass" for channel in self.manifest.channels),
        )  # fmt: skip

    def side(self, variant: Variant) -> Side:
        """One variant's model and what opens it."""
        return Side(self.bundle.files[variant.model], self.open)

    def goldens(self, variant: Variant) -> Goldens:
        """The variant's stored cases."""
        return decode_goldens(self.bundle.files[variant.goldens], subject=variant.goldens)

    def model(self, variant: Variant) -> Model:
        """The variant as a line takes it."""
        own = self.manifest.preprocess_onnx
        prepare = open_session(self.bundle.files[own.model]) if own else None
        return Model(self.manifest, variant, "", self.open(self.bundle.files[variant.model]), prepare)


def subject(bundle: VerifiedBundle, runs: Runs = Runs()) -> Subject:  # noqa: B008 -- a tuple
    """A bundle to be looked at.

    Raises:
        BundleError: its manifest is not one, or names a file that is not there.

    """
    return Subject(bundle, manifest_of(bundle), runs)


def first_place(suspect: Subject, reference: Subject) -> Place | None:
    """The first place at which ``suspect`` leaves the tolerance, None where it computes what ``reference`` does.

    The variants that the reference states for the suspect's provider are looked at in the manifest's order.

    Raises:
        BundleError: the two are not of one contract's kind, or the reference does not give its own goldens here.
        DeviceError: the suspect's provider does not run here.

    """
    theirs = {variant.name: variant for variant in suspect.manifest.variants}
    known = [
        one for one in reference.manifest.variants if suspect.runs.provider in one.tolerances and one.name in theirs
    ]
    if not known:
        names = ", ".join(variant.name for variant in reference.manifest.variants)
        raise BundleError(
            subject=f"variants of {suspect.bundle.origin}", found=", ".join(theirs),
            expected=f"one of {names}, with a tolerance for {suspect.runs.provider}", todo="give the bundle it was made from",
        )  # fmt: skip
    for variant in known:
        goldens = reference.goldens(variant)
        _require_right(reference, variant, goldens)
        found = _place(suspect, theirs[variant.name], reference, variant, goldens)
        if found is not None:
            return found
    return None


def _place(suspect: Subject, theirs: Variant, reference: Subject, variant: Variant, goldens: Goldens) -> Place | None:
    before: FoundNode | FoundStep | None = first_before(suspect.manifest, reference.manifest, goldens)
    before = before or _own_preprocessing(suspect, reference, goldens)
    if before is not None:
        return Place("preprocessing", before, variant.name)
    node = _node(suspect, theirs, reference, variant, goldens)
    if node is not None:
        return Place("model", node, variant.name)
    after = first_after(suspect.manifest, reference.manifest, goldens)
    return None if after is None else Place("postprocessing", after, variant.name)


def first_in_a_batch(found: Subject) -> Place | None:
    """The first node whose rows depend on the batch they stand in, which takes no reference; None where there is none.

    Raises:
        BundleError, DeviceError: it cannot be run here.

    """
    for variant in (one for one in found.manifest.variants if found.runs.provider in one.tolerances):
        fed, room = _fed(found.manifest, found.goldens(variant)), Room(variant.tolerances[found.runs.provider])
        node = first_in_batches(found.side(variant), fed, room)
        if node is not None:
            return Place("model", node, variant.name)
    return None


def first_broken(found: Subject) -> tuple[Variant, Difference] | None:
    """The first stage of a bundle's first variant for the provider that leaves its own goldens here; None where all hold.

    Raises:
        BundleError, DeviceError: it cannot be run here.

    """
    for variant in (one for one in found.manifest.variants if found.runs.provider in one.tolerances):
        model, goldens = found.model(variant), found.goldens(variant)
        tolerance = variant.tolerances[found.runs.provider]
        for difference in (
            compare_tensors(passage(model, goldens, 1).tensors, goldens, found.manifest),
            compare_outputs(outputs_of(model, goldens.tensors), goldens, tolerance, variant),
            compare_answers(goldens.outputs, goldens, found.manifest),
        ):
            if not difference.holds:
                return variant, difference
    return None


def _node(
    suspect: Subject, theirs: Variant, reference: Subject, variant: Variant, goldens: Goldens
) -> FoundNode | None:
    fed = _fed(reference.manifest, goldens)
    tolerance = variant.tolerances[suspect.runs.provider]
    room = Room(None if suspect.runs == reference.runs else tolerance)
    refuses = partial(_refuses, goldens=goldens, tolerance=tolerance, variant=variant)
    one, other = suspect.side(theirs), reference.side(variant)
    same = suspect.runs == reference.runs and one.model == other.model
    if not same and _is_off(suspect, theirs, variant, goldens):
        found = first_node(one, other, fed, room, refuses)
        if found is not None:
            return found
    return first_in_batches(one, fed, Room(tolerance))


def _is_off(suspect: Subject, theirs: Variant, variant: Variant, goldens: Goldens) -> bool:
    """Whether the suspect's model leaves the reference's goldens as it is served, closed."""
    outputs = outputs_of(suspect.model(theirs), goldens.tensors)
    return _refuses(outputs, goldens, variant.tolerances[suspect.runs.provider], variant)


def _refuses(outputs: Tensors, goldens: Goldens, tolerance: Tolerance, variant: Variant) -> bool:
    own = {name: outputs[name] for name in variant.model_outputs}
    return not compare_outputs(own, goldens, tolerance, variant).holds


def _own_preprocessing(suspect: Subject, reference: Subject, goldens: Goldens) -> FoundNode | None:
    """The first node of the author's own preprocessing, where both bundles have one."""
    one, other = suspect.manifest.preprocess_onnx, reference.manifest.preprocess_onnx
    if one is None or other is None or suspect.bundle.files[one.model] == reference.bundle.files[other.model]:
        return None
    rows = contract_rows(reference.manifest, cases_of(goldens, reference.manifest), {})
    windows = rows[:, rows.shape[1] - reference.manifest.length :]
    taken = (windows if reference.manifest.window else windows[:, 0]).astype(other.dtype)
    seen, wanted = (
        Side(bundle.files[own.model], open_session)
        for bundle, own in ((suspect.bundle, one), (reference.bundle, other))
    )
    return first_node(seen, wanted, Fed({other.input: taken}, (1,), {}), Room(None), lambda _: True)


def _fed(manifest: Manifest, goldens: Goldens) -> Fed:
    axes = {state.input: state.batch_axis for state in manifest.state}
    axes |= {state.output: state.batch_axis for state in manifest.state}
    return Fed(goldens.tensors, manifest.batch_sizes, axes)


def _require_right(reference: Subject, variant: Variant, goldens: Goldens) -> None:
    """Refuse a reference that is itself off: what differs from it would prove nothing."""
    model = reference.model(variant)
    tolerance = variant.tolerances.get(reference.runs.provider)
    if tolerance is None:
        raise BundleError(
            subject=f"variant {variant.name}", found=f"no tolerance for {reference.runs.provider}", expected="one",
            todo="compare it where that is not needed: give --against",
        )  # fmt: skip
    difference = compare_outputs(outputs_of(model, goldens.tensors), goldens, tolerance, variant)
    if not difference.holds:
        raise BundleError(
            subject=f"reference {reference.bundle.origin}", found=f"its own goldens fail here: {difference.measured}",
            expected=difference.limit, todo="give the bundle that was delivered, on a machine where it passes",
        )  # fmt: skip
