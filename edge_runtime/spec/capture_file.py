"""The lines of a capture file: whose samples they are, and the samples themselves; it reads and writes no file."""

from base64 import b64decode
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.spec.manifest import Manifest

CAPTURE_SCHEMA: Literal["edge-runtime/capture/1"] = "edge-runtime/capture/1"

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_bytes="base64", val_json_bytes="base64")


class CapturedChannel(BaseModel):
    """One channel of a captured window, as its bundle knew it."""

    model_config = _FROZEN

    name: str
    form: str
    unit: str
    kind: str
    width: int = Field(ge=1)
    categories: tuple[str, ...] = ()


class CaptureHead(BaseModel):
    """What the lines below it are of: a line, its bundle, and the layout of a window."""

    model_config = _FROZEN

    schema_: Literal["edge-runtime/capture/1"] = Field(default=CAPTURE_SCHEMA, alias="schema")
    line: str
    bundle: str
    version: str
    digest: str
    length: int = Field(ge=1, description="samples in a window, oldest first")
    channels: tuple[CapturedChannel, ...]

    @classmethod
    def of(cls, line: str, manifest: Manifest, digest: str) -> "CaptureHead":
        """The head for what a line captures under this bundle."""
        channels = tuple(
            CapturedChannel(
                name=one.name, form=one.form, unit=one.unit, kind=one.kind, width=one.width, categories=one.categories
            )
            for one in manifest.channels
        )
        return cls(
            schema=CAPTURE_SCHEMA, line=line, bundle=manifest.id, version=manifest.version, digest=digest,
            length=manifest.length, channels=channels,
        )  # fmt: skip


class CaptureLine(BaseModel):
    """One captured sample: its frame as it came, in base64, and the answer with its window, or the refusal.

    ``window`` is base64 of little-endian float64 ``(length, row)`` in contract units, NaN where a number was missing.
    """

    model_config = _FROZEN

    why: tuple[str, ...]
    raw: str
    answer: dict[str, Any] | None = None
    window: str | None = None
    time: str | None = Field(default=None, description="of a refused sample: when it came")
    stream: str | None = None
    reason: str | None = None

    @property
    def window_bytes(self) -> bytes:
        """The window's bytes; raises ValueError where they are no base64."""
        return b64decode(self.window or "", validate=True)
