"""What a kind of machine can do, as one file of device_profiles/ says it; it measures nothing and picks no machine."""

from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

from edge_runtime.spec.providers import CACHE_KEYS, CACHES, CPU, PROVIDERS

PROFILE_SCHEMA: Literal["edge-runtime/profile/1"] = "edge-runtime/profile/1"

MIN_ISOLATED_MB = 128
"""Python, numpy and onnxruntime alone take 68 MiB of what is limited; below 64 they crash instead of saying so."""

Architecture = Literal["x86_64", "aarch64"]
IsaFeature = Literal[
    "sse4_1", "avx2", "avx512f", "avx512_vnni", "avx_vnni", "asimddp", "i8mm", "sve", "sme"
]  # fmt: skip


class ProviderChoice(BaseModel):
    """One execution provider of ONNX Runtime, with its options, and how much of a model may run elsewhere."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str = Field(description="ONNX Runtime's own name, such as CPUExecutionProvider.")
    options: dict[str, str] = Field(default={}, description="Handed to the provider as they stand.")
    allowed_elsewhere: FiniteFloat = Field(
        default=0.0, ge=0.0, lt=1.0, description="Share of a model's nodes that may run on another provider."
    )
    cache: bool = Field(
        default=False,
        description="Whether it may keep what it has compiled, under the state folder, for the next boot.",
    )
    library: str | None = Field(
        default=None, pattern="^/", description="The file a provider's own library is, from the root; it is code."
    )
    device: Literal["CPU", "GPU", "NPU"] | None = Field(
        default=None, description="The kind of device to take of those the library offers; absent: its first."
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in PROVIDERS:
            raise ValueError(_nearest(name, PROVIDERS))
        return name

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """ONNX Runtime drops an option it does not know without a word, or answers with another provider."""
        known = PROVIDERS[self.name].options
        for key in self.options:
            if key in CACHE_KEYS:
                raise ValueError(f"{key} is not for a profile to say: write `cache = true` beside the provider's name")
            if key not in known:
                raise ValueError(f"{self.name} has no option {key!r}: {_nearest(key, known)}")
        home = PROVIDERS[self.name].home
        if self.library is None and (home == "library" or self.device is not None):
            raise ValueError(f"{self.name} without `library`; name the file of its library")
        if self.library is not None and home == "part":
            raise ValueError(f"{self.name} with `library`; it is part of an onnxruntime: leave that out")
        if self.name == CPU and self.allowed_elsewhere:
            raise ValueError(f"allowed_elsewhere with {CPU}; there is nowhere else")
        if self.cache and self.name not in CACHES:
            raise ValueError(f"cache with {self.name}, which keeps nothing; it is for {' and '.join(CACHES)}")
        return self


class Isolation(BaseModel):
    """Limits of the process of its own that a session is to have; there is one process for each session."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    memory_mb: int = Field(ge=MIN_ISOLATED_MB, description="MiB it may have; beyond that it is ended.")
    timeout_s: FiniteFloat = Field(gt=0, le=3600, description="What one inference may take before it is ended.")
    start_s: FiniteFloat = Field(default=60.0, gt=0, le=3600, description="What it may take to make the session.")


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
    providers: tuple[ProviderChoice, ...] = Field(min_length=1, description="In order of preference.")
    choose: Literal["first", "fastest"] = Field(
        default="first", description="Which serves of those that pass: the first of the list, or the fastest."
    )
    intra_threads: int = Field(default=1, ge=1, le=256, description="Threads inside one inference.")
    variant: str | None = Field(default=None, description="The bundle's variant to serve; absent: the first that fits.")
    isa: tuple[IsaFeature, ...] = Field(default=(), description="CPU features the machine must have.")
    memory_mb: int | None = Field(default=None, ge=1, description="MiB the process may have; absent: not checked.")
    latency_p99_ms: FiniteFloat | None = Field(
        default=None, gt=0, description="What one inference may take; absent: only the bundle's own need counts."
    )
    isolation: Isolation | None = Field(
        default=None, description="A process of its own for each session; absent: in the process that serves."
    )
    onnxruntime: str = Field(min_length=1, description="Where the right onnxruntime comes from, for a person.")

    @field_validator("providers")
    @classmethod
    def _once(cls, providers: tuple[ProviderChoice, ...]) -> tuple[ProviderChoice, ...]:
        """A provider that was refused is not tried again by being named again."""
        told = [(one.name, one.options, one.library, one.device) for one in providers]
        twice = next((one[0] for place, one in enumerate(told) if one in told[:place]), None)
        if twice is not None:
            raise ValueError(f"each once; {twice} stands there twice with the same options")
        return providers


def _nearest(text: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    near = get_close_matches(text, known, n=1, cutoff=0.5)
    if near:
        return f"{near[0]} perhaps"
    return f"one of {', '.join(sorted(known))}" if known else "it takes none"
