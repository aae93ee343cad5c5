"""What a kind of machine can do, as one file of device_profiles/ says it; it measures nothing and picks no machine."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

PROFILE_SCHEMA: Literal["edge-runtime/profile/1"] = "edge-runtime/profile/1"

Architecture = Literal["x86_64", "aarch64"]
IsaFeature = Literal[
    "sse4_1", "avx2", "avx512f", "avx512_vnni", "avx_vnni", "asimddp", "i8mm", "sve", "sme"
]  # fmt: skip


class ProviderChoice(BaseModel):
    """One execution provider of ONNX Runtime, with its options, and how much of a model may run elsewhere."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*ExecutionProvider$")] = Field(
        description="ONNX Runtime's own name, such as CPUExecutionProvider."
    )
    options: dict[str, str] = Field(default={}, description="Handed to the provider as they stand.")
    allowed_elsewhere: FiniteFloat = Field(
        default=0.0, ge=0.0, lt=1.0, description="Share of a model's nodes that may run on another provider."
    )


class DeviceProfile(BaseModel):
    """A kind of machine: what it must have, which providers serve on it and in which order, what they may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_: Literal["edge-runtime/profile/1"] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] = Field(description="The file's name without .toml.")
    description: str = Field(min_length=1, description="What kind of machine it is, for a person.")
    inherits: str | None = Field(
        default=None, description="A profile whose keys count wherever this one does not set them."
    )
    architectures: tuple[Architecture, ...] = Field(min_length=1, description="As `uname -m` says on Linux.")
    match: tuple[Annotated[str, Field(min_length=3)], ...] = Field(
        default=(), description="Parts of the device-tree model, one of which a machine must show."
    )
    providers: tuple[ProviderChoice, ...] = Field(min_length=1, description="The first that works and fits serves.")
    intra_threads: int = Field(default=1, ge=1, le=256, description="Threads inside one inference.")
    variant: str | None = Field(default=None, description="The bundle's variant to serve; absent: the first that fits.")
    isa: tuple[IsaFeature, ...] = Field(default=(), description="CPU features the machine must have.")
    memory_mb: int | None = Field(default=None, ge=1, description="MiB the process may have; absent: not checked.")
    latency_p99_ms: FiniteFloat | None = Field(
        default=None, gt=0, description="What one inference may take; absent: only the bundle's own need counts."
    )
    onnxruntime: str = Field(min_length=1, description="Where the right onnxruntime comes from, for a person.")
