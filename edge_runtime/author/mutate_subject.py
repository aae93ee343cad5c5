"""A bundle under mutation, and what one mutant of it is; it opens sessions, but changes and judges nothing itself."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from edge_runtime.author.exact import open_exact
from edge_runtime.author.mutate_line import Way
from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.errors import BundleError
from edge_runtime.flow.model import Infer, Model
from edge_runtime.spec.inputs import Input
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.variant import Tolerance, Variant


@dataclass(frozen=True, slots=True)
class Subject:
    """One variant of a bundle, open: the right way, its goldens, and the float32 model it was quantized from, if given."""

    files: Mapping[str, bytes]
    way: Way
    goldens: Goldens
    float_model: bytes | None

    @property
    def manifest(self) -> Manifest:
        """The manifest as it is."""
        return self.way.model.manifest

    @property
    def variant(self) -> Variant:
        """The variant under mutation."""
        return self.way.model.variant

    @property
    def tolerance(self) -> Tolerance:
        """How far answers may be off on the provider that scores."""
        known = self.variant.tolerances
        return known.get(CPU) or next(iter(known.values()))

    def with_manifest(self, manifest: Manifest) -> Way:
        """The way under another manifest."""
        return replace(self.way, model=self.way.model._replace(manifest=manifest))

    def with_input(self, at: int, changed: Input) -> Way:
        """The way with one input's contract changed."""
        inputs = self.manifest.inputs
        return self.with_manifest(
            self.manifest.model_copy(update={"inputs": (*inputs[:at], changed, *inputs[at + 1 :])})
        )

    def with_output(self, at: int, changed: Output) -> Way:
        """The way with one output's contract changed."""
        outputs = self.manifest.outputs
        return self.with_manifest(
            self.manifest.model_copy(update={"outputs": (*outputs[:at], changed, *outputs[at + 1 :])})
        )

    def with_model(self, model: bytes) -> Way:
        """The way with another model file."""
        return replace(self.way, model=self.way.model._replace(infer=_open(model, self.manifest)))

    def with_preparation(self, model: bytes) -> Way:
        """The way with another file of the author's own preprocessing."""
        return replace(self.way, model=self.way.model._replace(prepare=_open(model, self.manifest)))


class Mutant(NamedTuple):
    """One change: ``name`` says where, ``way`` makes the changed way when it is wanted, for a session takes its time."""

    kind: str
    name: str
    way: Callable[[], Way]

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


class Kind(NamedTuple):
    """One class of mutants: what it stands for in the field, whether all of them must be noticed, and how they are made."""

    name: str
    what: str
    must: bool
    make: Callable[[Subject], Iterator[tuple[str, Callable[[], Way]]]]


def open_subject(files: Mapping[str, bytes], variant: str | None = None, float_model: bytes | None = None) -> Subject:
    """Open one variant (the first, without a name) of a bundle given as its files.

    Raises:
        BundleError: a file is missing or wrong, there is no such variant, or onnxruntime refuses the model.

    """
    manifest = parse(_file(files, "manifest.json"))
    chosen = next((one for one in manifest.variants if variant in (None, one.name)), None)
    if chosen is None:
        raise BundleError(
            subject=f"bundle {manifest.id}", found=f"no variant {variant!r}",
            expected=", ".join(one.name for one in manifest.variants), todo="name one of these",
        )  # fmt: skip
    own = manifest.preprocess_onnx
    prepare = _open(_file(files, own.model), manifest) if own else None
    model = Model(manifest, chosen, "", _open(_file(files, chosen.model), manifest), prepare)
    goldens = decode_goldens(_file(files, chosen.goldens), subject=chosen.goldens)
    return Subject(files, Way(model), goldens, float_model)


def _open(model: bytes, manifest: Manifest) -> Infer:
    return open_exact(model, takes_nan=any(channel.when_missing == "pass" for channel in manifest.channels))


def _file(files: Mapping[str, bytes], name: str) -> bytes:
    try:
        return files[name]
    except KeyError as error:
        raise BundleError(
            subject="bundle", found=f"no {name}", expected="every file its manifest names", todo="build it again"
        ) from error  # fmt: skip
