"""The manifest of a bundle, version 1: everything a model promises, as frozen values; it opens no file."""

import json
import math
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from edge_runtime.errors import BundleError
from edge_runtime.spec.fault import expected_by, is_missing
from edge_runtime.spec.frozen import FileName, Frozen, Name, PositiveFloat, Sha256
from edge_runtime.spec.inputs import Channel, Input, StateTensor, Window
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.plausibility import Plausibility
from edge_runtime.spec.variant import Variant

SCHEMA: Literal["edge-runtime/bundle/1"] = "edge-runtime/bundle/1"

# Everything version 1 can express; what this runtime does not implement yet is refused by its name.
FEATURES = (
    "variants", "state", "multiple_inputs", "multiple_outputs", "opaque", "preprocess_onnx", "plausibility", "signature",
)  # fmt: skip
IMPLEMENTED = frozenset(FEATURES) - {"signature"}

# The keys an answer has anyway: an output must not be called like one of them, nor a flag like a key of an output.
ANSWER_KEYS = frozenset(("time", "stream", "seq", "id", "flags", "run", "stuck", "age_s", "carry"))
OUTPUT_KEYS = frozenset(("value", "unit", "score"))

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
_MAX_WINDOW_S = 3_155_760_000  # so that its times, in Unix nanoseconds, stay within 64 bits
# A stream's window is kept in float64, twice as long as it is, and a whole batch of them goes through the model at once.
MAX_WINDOW_VALUES = 4_000_000
MAX_BATCH_VALUES = 16_777_216
# What could be used to write over a terminal: control characters, invisible formatting, lone surrogates, line separators.
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SHOWN = 80


class NegativeGolden(Frozen):
    """A case that must be refused: golden ``case`` with one fault put in, and the reason it must give."""

    name: Name
    case: Annotated[int, Field(ge=0)]
    channel: Name | None = None
    fault: Literal[
        "not_a_number", "infinite", "missing", "undeclared", "dimension", "unknown_unit", "beyond", "gap", "back"
    ]
    expect: str


class Provenance(Frozen):
    """Where the model comes from, and the limits its author states."""

    checkpoint: str
    checkpoint_sha256: Sha256
    framework: str
    exporter: str
    source_model_sha256: Sha256
    training_data: str
    licence: str
    limits: str = Field(description="what the numbers must not be taken for")


class Needs(Frozen):
    """What the model may cost where it serves; held against the machine and measured at each boot."""

    latency_p99_ms: PositiveFloat
    memory_mb: PositiveFloat


class PreprocessModel(Frozen):
    """The author's own preprocessing as standard operators, without state, after the unit step.

    Its one input is the window in contract units, ``(batch, time, numbers)`` or, without a window, ``(batch, numbers)``;
    its outputs are the model's inputs, by name.
    """

    model: FileName
    input: str
    dtype: Literal["float32", "float64"] = "float32"
    rtol: Annotated[FiniteFloat, Field(ge=0)] = Field(default=1e-5, description="of the golden tensors")
    atol: Annotated[FiniteFloat, Field(ge=0)] = 1e-5


class Manifest(Frozen):
    """The whole manifest; made by ``parse`` from bytes that were verified."""

    schema_: Literal["edge-runtime/bundle/1"] = Field(alias="schema")
    must_understand: tuple[str, ...] = ()
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    security_version: Annotated[int, Field(ge=0, le=2**53 - 1)]
    description: str
    provenance: Provenance
    variants: tuple[Variant, ...] = Field(min_length=1)
    inputs: tuple[Input, ...] = Field(min_length=1, description="a sample's row is their channels, in this order")
    state: tuple[StateTensor, ...] = ()
    window: Window | None = None
    preprocess_onnx: PreprocessModel | None = None
    outputs: tuple[Output, ...] = Field(min_length=1)
    batch_sizes: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field(
        min_length=1, max_length=64, description="the closed list of batch sizes, ascending, each proven by the goldens"
    )
    negative_goldens: tuple[NegativeGolden, ...] = Field(default=(), max_length=1000)
    plausibility: Plausibility | None = None
    needs: Needs
    annotations: dict[str, str] = Field(default={})

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Every channel of a sample's row, in order."""
        return tuple(channel for model_input in self.inputs for channel in model_input.channels)

    @property
    def width(self) -> int:
        """How many numbers a sample's row has."""
        return sum(model_input.width for model_input in self.inputs)

    @property
    def length(self) -> int:
        """How many samples one input takes."""
        return self.window.length if self.window else 1

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        used = features_used(self)
        silent = sorted(used - set(self.must_understand))
        if silent:
            raise ValueError(f"uses {', '.join(silent)} but must_understand does not name it")
        _distinct("variants", [variant.name for variant in self.variants])
        _distinct("outputs", [output.name for output in self.outputs])
        _distinct("channels", [channel.name for channel in self.channels])
        taken = [output.name for output in self.outputs if output.name in ANSWER_KEYS]
        taken += [flag.name for output in self.outputs for flag in output.flags if flag.name in OUTPUT_KEYS]
        if taken:
            raise ValueError(f"{taken[0]} is a key every answer has; give the output or flag another name")
        if list(self.batch_sizes) != sorted(set(self.batch_sizes)) or self.batch_sizes[0] != 1:
            raise ValueError("batch_sizes must ascend and begin with 1")
        if self.window and self.window.length * (self.window.period_s or 0) > _MAX_WINDOW_S:
            raise ValueError(f"the window spans more than {_MAX_WINDOW_S} s, a hundred years")
        values = self.length * self.width
        if values > MAX_WINDOW_VALUES or values * self.batch_sizes[-1] > MAX_BATCH_VALUES:
            raise ValueError(
                f"a window holds {values} values, a largest batch {values * self.batch_sizes[-1]}; "
                f"at most {MAX_WINDOW_VALUES} and {MAX_BATCH_VALUES} are taken"
            )
        self._tensors_fit()
        self._plausibility_fits()
        for golden in self.negative_goldens:
            if golden.channel is not None and golden.channel not in {channel.name for channel in self.channels}:
                raise ValueError(f"negative golden {golden.name}: no channel {golden.channel!r}")
            if golden.fault in ("gap", "back") and (self.window is None or self.window.length == 1):
                raise ValueError(f"negative golden {golden.name}: {golden.fault} needs a window of two samples or more")
        return self

    def _tensors_fit(self) -> None:
        """Every tensor named exists in every variant, and is fed or read once."""
        fed = [model_input.tensor for model_input in self.inputs] + [state.input for state in self.state]
        _distinct("input tensors", fed)
        if self.preprocess_onnx and any(model_input.steps for model_input in self.inputs):
            raise ValueError("preprocess_onnx takes the place of all steps; leave them out")
        for variant in self.variants:
            read = [output.tensor for output in self.outputs] + [state.output for state in self.state]
            lacking = sorted(set(read) - set(variant.model_outputs)) + sorted(set(fed) - set(variant.model_inputs))
            if lacking:
                raise ValueError(f"variant {variant.name} has no tensor {lacking[0]!r}")
            unfed = sorted(set(variant.model_inputs) - set(fed))
            if unfed:
                raise ValueError(f"variant {variant.name}: nothing feeds its input {unfed[0]!r}")

    def _plausibility_fits(self) -> None:
        """What is watched is a single number, and a rate has a pace to be held against."""
        if self.plausibility is None:
            return
        watched = {channel.name for channel in self.channels if channel.form == "number" and not channel.shape}
        for name in self.plausibility.channels:
            if name not in watched:
                raise ValueError(f"plausibility: {name!r} is no channel of a single number")
        if self.plausibility.step and not (self.window and self.window.period_s):
            raise ValueError("plausibility: step needs a window with period_s")

    def files(self) -> frozenset[str]:
        """Every bundle file the manifest names."""
        named = {name for variant in self.variants for name in (variant.model, variant.goldens)}
        if self.preprocess_onnx:
            named.add(self.preprocess_onnx.model)
        return frozenset(named)


def _distinct(what: str, names: list[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two {what} share the name {twice[0]}")


def features_used(manifest: Manifest) -> frozenset[str]:
    """The features of version 1 that a manifest makes use of, by name (docs/bundle_format.md)."""
    used = {
        "variants": len(manifest.variants) > 1,
        "state": bool(manifest.state),
        "multiple_inputs": len(manifest.inputs) > 1,
        "multiple_outputs": len(manifest.outputs) > 1,
        "opaque": any(channel.form == "opaque" for channel in manifest.channels),
        "preprocess_onnx": manifest.preprocess_onnx is not None,
        "plausibility": manifest.plausibility is not None,
    }
    return frozenset(name for name, is_used in used.items() if is_used)


def parse(data: bytes) -> Manifest:
    """Read ``manifest.json``'s bytes; what this runtime does not understand is refused by name, before anything else.

    Raises:
        BundleError: naming the key, what was found and what was expected.

    """
    raw = _json_object(data)
    schema = raw.get("schema")
    if schema != SCHEMA:
        raise BundleError(
            subject="manifest.json, schema", found=repr(schema)[:80], expected=repr(SCHEMA),
            todo="use the edge-runtime release this bundle was built for, or build the bundle again",
        )  # fmt: skip
    wanted = raw.get("must_understand", [])
    named = wanted if isinstance(wanted, list) else []
    unknown = [str(name)[:40] for name in named if not isinstance(name, str) or name not in IMPLEMENTED]
    if unknown:
        raise BundleError(
            subject="manifest.json, must_understand", found=", ".join(unknown),
            expected=f"only what this release has ({', '.join(sorted(IMPLEMENTED)) or 'nothing beyond the core'})",
            todo="update edge-runtime, or have the bundle built without it",
        )  # fmt: skip
    _require_printable(raw)
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        found = "nothing" if is_missing(first) else _short(first["input"])
        raise BundleError(
            subject=f"manifest.json, {where}", expected=expected_by(first),
            found=found if first["loc"] else "keys that do not fit together",
            todo="have the author build the bundle again; a manifest is never edited by hand",
        ) from error  # fmt: skip


def encode(manifest: Manifest) -> bytes:
    """The canonical bytes: UTF-8, two blanks, sorted keys, no key that holds its default, final newline."""
    raw = manifest.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"schema": SCHEMA}
    return (json.dumps(raw, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _json_object(data: bytes) -> Mapping[str, Any]:
    if len(data) > MAX_MANIFEST_BYTES:
        raise BundleError(
            subject="manifest.json", found=f"{len(data)} bytes", expected=f"at most {MAX_MANIFEST_BYTES}",
            todo="have the author build the bundle again",
        )  # fmt: skip
    try:
        raw = json.loads(data, object_pairs_hook=_no_doubles)
    except (ValueError, RecursionError) as error:
        raise BundleError(
            subject="manifest.json", found=f"no valid JSON ({_short(error)})", expected="a JSON object in UTF-8",
            todo="copy the bundle again, or have the author build it again",
        ) from error  # fmt: skip
    if not isinstance(raw, dict):
        raise BundleError(
            subject="manifest.json", found=type(raw).__name__, expected="a JSON object",
            todo="have the author build the bundle again",
        )  # fmt: skip
    return raw


def _require_printable(raw: Mapping[str, Any]) -> None:
    """Every text of a manifest reaches a terminal some day, where a control character could draw a verdict of its own."""
    for text in _texts(raw):
        if text.isprintable():
            continue
        bad = next((one for one in text if unicodedata.category(one) in _UNPRINTABLE), None)
        if bad is not None:
            raise BundleError(
                subject="manifest.json", found=f"U+{ord(bad):04X} in {text[:40]!a}",
                expected="texts of one line without control characters", todo="have the author build the bundle again",
            )  # fmt: skip


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield key
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _short(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Manifest):
        return f"bundle {value.id}"
    text = repr(value) if isinstance(value, str | int | float | None) else " ".join(str(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
