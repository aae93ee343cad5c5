"""One model file under a contract: what it needs, how it was made, how far its answers may be off; it loads nothing."""

from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from edge_runtime.spec.frozen import Band, FileName, Frozen, Name, PositiveFloat, Sha256


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


class Int8Scale(Frozen):
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
    output_scale: dict[str, Int8Scale] = Field(
        default={}, description="by output tensor: its int8 scale; an answer at either end of it is 'clipped' too"
    )
