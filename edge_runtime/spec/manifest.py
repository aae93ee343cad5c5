"""The manifest of a bundle, version 1: everything a model promises, as frozen values; it opens no file."""

import json
import math
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from edge_runtime.errors import BundleError

SCHEMA: Literal["edge-runtime/bundle/1"] = "edge-runtime/bundle/1"

# Everything version 1 can express; what this runtime does not implement yet is refused by its name.
FEATURES = ("variants", "state", "multiple_inputs", "multiple_outputs", "opaque", "preprocess_onnx", "signature")
IMPLEMENTED: frozenset[str] = frozenset()

# The keys an answer has anyway: an output must not be called like one of them, nor a flag like a key of an output.
ANSWER_KEYS = frozenset(("time", "stream", "seq", "id", "flags", "run", "stuck", "age_s", "carry"))
OUTPUT_KEYS = frozenset(("value", "unit"))

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
_MAX_WINDOW_S = 3_155_760_000  # so that its times, in Unix nanoseconds, stay within 64 bits
# A stream's window is kept in float64, twice as long as it is, and a whole batch of them goes through the model at once.
MAX_WINDOW_VALUES = 1_000_000
MAX_BATCH_VALUES = 16_777_216
_DTYPE_RANGES = {
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38), "float16": (-65504.0, 65504.0),
    "int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int64": (-9.2e18, 9.2e18),
}  # fmt: skip
# What could be used to write over a terminal: control characters, invisible formatting, lone surrogates, line separators.
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SHOWN = 80

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="lower case, digits and underscores")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="a file of the bundle")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PositiveFloat = Annotated[FiniteFloat, Field(gt=0)]


class Frozen(BaseModel):
    """What every part of a manifest shares: frozen, and an unknown key is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class Band(Frozen):
    """A closed range, both ends included, in the channel's contract unit."""

    min: FiniteFloat
    max: FiniteFloat

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.min < self.max:
            raise ValueError(f"min {self.min:g} must be below max {self.max:g}")
        return self

    def holds(self, inner: "Band") -> bool:
        """Whether ``inner`` lies within this band."""
        return self.min <= inner.min and inner.max <= self.max


class Channel(Frozen):
    """One named quantity of an input, in its contract unit, with the three bands and the policies."""

    name: Name
    unit: str = Field(description="UCUM, as docs/units.md lists")
    kind: Literal["point", "difference"] = Field(
        default="point", description="a difference (a span of temperature) is converted without the offset"
    )
    trained: Band = Field(description="what training saw; outside it an answer is flagged 'extrapolating'")
    tolerated: Band = Field(description="what the author vouches for; outside it an answer is flagged too")
    physical: Band = Field(description="what can be at all; outside it the sample is refused")
    when_undeclared: Literal["refuse", "assume"] = Field(
        default="refuse", description="what to do where nobody declared the unit; 'assume' is the author's own risk"
    )
    stuck_after: Annotated[int, Field(ge=2)] | None = Field(
        default=None,
        description="equal values in a row, one more than training ever saw, from which 'stuck' is flagged",
    )

    @model_validator(mode="after")
    def _nested(self) -> Self:
        if not self.physical.holds(self.tolerated):
            raise ValueError(f"channel {self.name}: the tolerated band must lie within the physical band")
        if not self.physical.holds(self.trained):
            raise ValueError(f"channel {self.name}: the trained band must lie within the physical band")
        return self


class Input(Frozen):
    """One input tensor of the model: its shape, its axes and the channels on its channel axis."""

    tensor: str
    dtype: Literal["float32", "float16", "int8", "uint8", "int64"]
    shape: tuple[int | str, ...] = Field(description="a number, or a name for a dynamic dimension")
    axes: tuple[Literal["batch", "channel", "time", "row", "column"], ...]
    channels: tuple[Channel, ...] = ()
    opaque: bool = Field(default=False, description="a tensor without units, taken as it comes")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.axes) != len(self.shape) or self.axes[:1] != ("batch",) or len(set(self.axes)) != len(self.axes):
            raise ValueError(f"input {self.tensor}: one distinct axis a dimension is needed, 'batch' first")
        if self.opaque == bool(self.channels):
            raise ValueError(f"input {self.tensor}: either channels or opaque = true")
        names = [channel.name for channel in self.channels]
        if len(set(names)) != len(names):
            raise ValueError(f"input {self.tensor}: two channels share a name")
        if self.channels:
            size = dict(zip(self.axes, self.shape, strict=True)).get("channel", 1)
            if size != len(names):
                raise ValueError(f"input {self.tensor}: {len(names)} channels, but the channel axis has {size}")
        return self


class StateTensor(Frozen):
    """A recurrent state: an output that is the next call's input, one per stream."""

    input: str
    output: str
    dtype: Literal["float32", "float16", "int8", "uint8", "int64"]
    shape: tuple[int | str, ...]
    initial: FiniteFloat = 0.0


class Window(Frozen):
    """How many samples make one input, how far it moves, and the pace they must have."""

    length: Annotated[int, Field(ge=1, le=1_000_000)]
    hop: Annotated[int, Field(ge=1)] = 1
    period_s: PositiveFloat | None = Field(default=None, description="seconds between samples; absent: not checked")
    rate_tolerance: Annotated[FiniteFloat, Field(gt=0, lt=0.5)] = Field(
        default=0.05, description="share of the period a step may differ by before 'rate_off' is flagged"
    )
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    gap: Literal["refuse"] = Field(default="refuse", description="a window over a missing sample is refused")


class Standardize(Frozen):
    """``(x - mean) / std`` per channel, in float64, with stored constants."""

    step: Literal["standardize"]
    mean: tuple[FiniteFloat, ...]
    std: tuple[PositiveFloat, ...]


class MinMax(Frozen):
    """``(x - min) / (max - min)`` per channel, in float64, with stored constants."""

    step: Literal["min_max"]
    min: tuple[FiniteFloat, ...]
    max: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _wide(self) -> Self:
        if any(not low < high for low, high in zip(self.min, self.max, strict=False)):
            raise ValueError("min_max: each min must be below its max")
        return self


class Clip(Frozen):
    """Each channel held within ``min .. max``."""

    step: Literal["clip"]
    min: tuple[FiniteFloat, ...]
    max: tuple[FiniteFloat, ...]


Step = Annotated[Standardize | MinMax | Clip, Field(discriminator="step")]


class Destandardize(Frozen):
    """``y * std + mean``: from the model's own scale to the output's unit, in float64."""

    step: Literal["destandardize"]
    mean: FiniteFloat
    std: PositiveFloat


PostStep = Destandardize


class Threshold(Frozen):
    """A flag with hysteresis, one state per stream: on beyond ``on``, off again from ``off`` on."""

    name: Name
    side: Literal["below", "above"] = Field(description="the flag comes on below, or above, `on`")
    on: FiniteFloat = Field(description="in the output's unit; a value equal to `on` does not switch the flag on")
    off: FiniteFloat = Field(description="in the output's unit; a value equal to `off` switches the flag off")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        good = self.on <= self.off if self.side == "below" else self.off <= self.on
        if not good:
            raise ValueError(f"flag {self.name}: `off` must not lie on the flag's own side of `on`")
        return self


class Output(Frozen):
    """One answer: which tensor it comes from, what it means, its unit, and how it is made."""

    tensor: str
    name: Name
    meaning: str
    unit: str = Field(description="UCUM; '1' for a number without unit")
    kind: Literal["point", "difference"] = "point"
    postprocess: tuple[PostStep, ...] = ()
    flags: tuple[Threshold, ...] = ()


class Tolerance(Frozen):
    """How far an answer may be from its golden: exactly equal, k output steps, or float."""

    kind: Literal["exact", "steps", "float"]
    steps: Annotated[int, Field(ge=1)] | None = None
    rtol: Annotated[FiniteFloat, Field(ge=0)] | None = None
    atol: Annotated[FiniteFloat, Field(ge=0)] | None = None
    evidence: str = Field(description="where the tolerance comes from")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needs = {"exact": (False, False), "steps": (True, False), "float": (False, True)}[self.kind]
        given = (self.steps is not None, self.rtol is not None and self.atol is not None)
        if given != needs or (self.kind != "float" and (self.rtol, self.atol) != (None, None)):
            raise ValueError(f"tolerance {self.kind}: give `steps` for steps, `rtol` and `atol` for float, no others")
        return self


class Quantization(Frozen):
    """How the int8 model was made; ``seven_bit_weights`` says that no weight leaves [-64, 64]."""

    format: Literal["QDQ"]
    activations: Literal["uint8", "int8"]
    weights: Literal["int8", "uint8"]
    per_channel: bool
    reduce_range: bool
    seven_bit_weights: bool
    calibration: str
    samples: Annotated[int, Field(ge=1)]
    calibration_sha256: Sha256


class Scale(Frozen):
    """The steps of an int8 tensor, in the tensor's own units: how wide one is, and the lowest and highest value."""

    step: PositiveFloat
    min: FiniteFloat
    max: FiniteFloat


class Variant(Frozen):
    """One model file under the contract: its precision, what it needs, its goldens and tolerances by provider."""

    name: Name
    model: FileName
    goldens: FileName
    precision: Literal["int8", "float16", "float32", "as_is"]
    ir_version: Annotated[int, Field(ge=3)]
    opsets: dict[str, Annotated[int, Field(ge=1)]]
    operators: tuple[str, ...]
    model_inputs: tuple[str, ...]
    model_outputs: tuple[str, ...]
    isa: tuple[str, ...] = Field(default=(), description="CPU features without which its numbers are not known")
    tolerances: dict[str, Tolerance] = Field(min_length=1, description="by onnxruntime's provider name")
    quantization: Quantization | None = None
    input_clip: dict[str, Band] = Field(
        default={}, description="by input tensor: what its int8 scale holds, in tensor units; beyond it: 'clipped'"
    )
    output_scale: dict[str, Scale] = Field(
        default={}, description="by output tensor: its int8 scale; an answer at either end of it is 'clipped' too"
    )


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
    """What the model may cost where it serves; measured at boot, wanted."""

    latency_p99_ms: PositiveFloat
    memory_mb: PositiveFloat


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
    inputs: tuple[Input, ...] = Field(min_length=1)
    state: tuple[StateTensor, ...] = ()
    window: Window | None = None
    preprocess: tuple[Step, ...] = ()
    preprocess_onnx: FileName | None = None
    outputs: tuple[Output, ...] = Field(min_length=1)
    batch_sizes: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field(
        min_length=1, max_length=64, description="the closed list of batch sizes, ascending, each proven by the goldens"
    )
    negative_goldens: tuple[NegativeGolden, ...] = Field(default=(), max_length=1000)
    needs: Needs
    annotations: dict[str, str] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        used = features_used(self)
        silent = sorted(used - set(self.must_understand))
        if silent:
            raise ValueError(f"uses {', '.join(silent)} but must_understand does not name it")
        if len({variant.name for variant in self.variants}) != len(self.variants):
            raise ValueError("two variants share a name")
        if len({output.name for output in self.outputs}) != len(self.outputs):
            raise ValueError("two outputs share a name")
        taken = [output.name for output in self.outputs if output.name in ANSWER_KEYS]
        taken += [flag.name for output in self.outputs for flag in output.flags if flag.name in OUTPUT_KEYS]
        if taken:
            raise ValueError(f"{taken[0]} is a key every answer has; give the output or flag another name")
        if list(self.batch_sizes) != sorted(set(self.batch_sizes)) or self.batch_sizes[0] != 1:
            raise ValueError("batch_sizes must ascend and begin with 1")
        self._steps_fit()
        self._physical_fits()
        self._window_fits()
        self._tensors_fit()
        names = {channel.name for model_input in self.inputs for channel in model_input.channels}
        for golden in self.negative_goldens:
            if golden.channel is not None and golden.channel not in names:
                raise ValueError(f"negative golden {golden.name}: no channel {golden.channel!r}")
            if golden.fault in ("gap", "back") and (self.window is None or self.window.length == 1):
                raise ValueError(f"negative golden {golden.name}: {golden.fault} needs a window of two samples or more")
        return self

    def _steps_fit(self) -> None:
        count = len(self.inputs[0].channels)
        for step in self.preprocess:
            constants = [values for key, values in step if key != "step"]
            if any(len(values) != count for values in constants):
                raise ValueError(f"step {step.step}: one constant a channel is needed, {count} in all")

    def _physical_fits(self) -> None:
        """Whatever passes the physical band must be a number in the tensor, or one sample could stop the service.

        The steps are monotonic, so the ends of the band tell of all between.
        """
        low, high = _DTYPE_RANGES[self.inputs[0].dtype]
        for index, channel in enumerate(self.inputs[0].channels):
            for end in (channel.physical.min, channel.physical.max):
                value = end
                for step in self.preprocess:
                    value = _stepped(step, value, index)
                if not low <= value <= high:
                    raise ValueError(
                        f"channel {channel.name}: physical {end:g} is {value:g} in the tensor, which holds {low:g} to {high:g}"
                    )

    def _window_fits(self) -> None:
        if self.window and self.window.length * (self.window.period_s or 0) > _MAX_WINDOW_S:
            raise ValueError(f"the window spans more than {_MAX_WINDOW_S} s, a hundred years")
        values = (self.window.length if self.window else 1) * len(self.inputs[0].channels)
        if values > MAX_WINDOW_VALUES or values * self.batch_sizes[-1] > MAX_BATCH_VALUES:
            raise ValueError(
                f"a window holds {values} values, a largest batch {values * self.batch_sizes[-1]}; "
                f"at most {MAX_WINDOW_VALUES} and {MAX_BATCH_VALUES} are taken"
            )
        for model_input in self.inputs:
            sizes = dict(zip(model_input.axes, model_input.shape, strict=True))
            length = self.window.length if self.window else None
            if sizes.get("time") != length:
                raise ValueError(
                    f"input {model_input.tensor}: the time axis has {sizes.get('time')}, the window {length}"
                )

    def _tensors_fit(self) -> None:
        for variant in self.variants:
            for output in self.outputs:
                if output.tensor not in variant.model_outputs:
                    raise ValueError(f"output {output.name}: variant {variant.name} has no tensor {output.tensor!r}")
            for model_input in self.inputs:
                if model_input.tensor not in variant.model_inputs:
                    raise ValueError(f"input {model_input.tensor}: variant {variant.name} has no such tensor")

    def files(self) -> frozenset[str]:
        """Every bundle file the manifest names."""
        named = {name for variant in self.variants for name in (variant.model, variant.goldens)}
        if self.preprocess_onnx:
            named.add(self.preprocess_onnx)
        return frozenset(named)


def _stepped(step: Step, value: float, channel: int) -> float:
    if isinstance(step, Standardize):
        return (value - step.mean[channel]) / step.std[channel]
    low, high = step.min[channel], step.max[channel]
    return (value - low) / (high - low) if isinstance(step, MinMax) else min(max(value, low), high)


def features_used(manifest: Manifest) -> frozenset[str]:
    """The features of version 1 that a manifest makes use of, by name (docs/bundle_format.md)."""
    used = {
        "variants": len(manifest.variants) > 1,
        "state": bool(manifest.state),
        "multiple_inputs": len(manifest.inputs) > 1,
        "multiple_outputs": len(manifest.outputs) > 1,
        "opaque": any(model_input.opaque for model_input in manifest.inputs),
        "preprocess_onnx": manifest.preprocess_onnx is not None,
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
        message = first["msg"].removeprefix("Value error, ")
        raise BundleError(
            subject=f"manifest.json, {where}", expected=message,
            found=_short(first["input"]) if first["loc"] else "keys that do not fit together",
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
