"""build.json: how a bundle was made, beside it and never in it; without any time, so equal builds give it equal."""

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import Field, FiniteFloat, ValidationError

from edge_runtime import __version__
from edge_runtime.author.false_alarms import FalseAlarms
from edge_runtime.author.mistake import told
from edge_runtime.author.mutate import MutationScore
from edge_runtime.author.trials import SearchRecord
from edge_runtime.engine.session import distributions, version
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.frozen import Frozen, Sha256
from edge_runtime.spec.variant import Tolerance

RECORD_SCHEMA: Literal["edge-runtime/build/1"] = "edge-runtime/build/1"
MAX_RECORD_BYTES = 16 * 1024 * 1024


class Built(Frozen):
    """What came out: the bundle's digest and each file's."""

    id: str
    version: str
    digest: Sha256
    files: dict[str, Sha256]


class CalibrationRecord(Frozen):
    """What the int8 scales were taken from; ``ranges`` is the quantizer's own text, to be used again."""

    recipe: dict[str, str | bool]
    cases: int
    of: int
    ranges: str


class Proof(Frozen):
    """How far the bundle's stages are from what the source framework recorded, the largest difference of all cases."""

    cases: int
    tensor: FiniteFloat
    float_output: FiniteFloat
    limit: FiniteFloat
    between_batch_sizes: FiniteFloat


class Metrics(Frozen):
    """Errors of one output on the test split, in its unit; of a label the share of right ones.

    ``float32`` is the source model, ``bundle`` what ships; the differences are between the two.
    """

    unit: str
    cases: int
    mae_float32: FiniteFloat | None = None
    mae_bundle: FiniteFloat | None = None
    mean_difference: FiniteFloat | None = None
    max_difference: FiniteFloat | None = None
    accuracy_float32: FiniteFloat | None = None
    accuracy_bundle: FiniteFloat | None = None
    labels_changed: int | None = None


class NodeError(Frozen):
    """How far a node's int8 output is from its float one: root mean square, as a share of the latter's spread."""

    node: str
    operator: str
    error: FiniteFloat


class MutantKind(Frozen):
    """One class of mutants: how many count, how many each stage noticed first, how many the answer alone."""

    total: int
    by_answer: int
    by_stage: dict[str, int]
    tolerated: int
    must: bool


class MutationRecord(Frozen):
    """What a variant's goldens are worth; docs/mutants.md says what each list holds."""

    cases: int
    total: int
    by_answer: FiniteFloat
    by_stages: FiniteFloat
    kinds: dict[str, MutantKind]
    survivors: tuple[str, ...]
    unseen: tuple[str, ...]
    tolerated: tuple[str, ...]
    equivalent: tuple[str, ...]
    beyond: tuple[str, ...]


class Record(Frozen):
    """The whole of build.json; ``calibration``, ``nodes`` and ``mutation`` are by variant, ``metrics`` by variant and output."""

    schema_: Literal["edge-runtime/build/1"] = Field(default=RECORD_SCHEMA, alias="schema")
    bundle: Built
    tools: dict[str, str]
    inputs: dict[str, Sha256]
    calibration: dict[str, CalibrationRecord] = Field(default={})
    proof: Proof
    memory: dict[str, int] = Field(
        default={},
        description="by variant the most that a process which served it took, MB of 10^6 bytes; a rebuild keeps it",
    )
    metrics: dict[str, dict[str, Metrics]] = Field(default={})
    nodes: dict[str, tuple[NodeError, ...]] = Field(
        default={}, description="by variant, what int8 costs by each node; empty where none is quantized"
    )
    mutation: dict[str, MutationRecord] = Field(default={})
    search: SearchRecord | None = None
    tolerances: dict[str, dict[str, Tolerance]] | None = Field(
        default=None, description="by variant and output tensor: what --evidence proposed"
    )
    plausibility: dict[str, FalseAlarms] | None = Field(
        default=None, description="by flag, how often it marks the author's own data"
    )
    warnings: tuple[str, ...] = ()


def encode_record(record: Record) -> bytes:
    """The bytes of build.json: UTF-8, two blanks, sorted keys, final newline."""
    raw = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return (json.dumps(raw, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def mutation_record(score: MutationScore) -> MutationRecord:
    """A score as build.json holds it."""
    said = score.as_json()
    return MutationRecord.model_validate({name: said[name] for name in MutationRecord.model_fields})


def read_record(path: Path) -> Record:
    """Read a build.json.

    Raises:
        ConfigurationError: it cannot be read, or is none.

    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_RECORD_BYTES)
    except OSError as error:
        raise ConfigurationError(
            subject=str(path), found=error.strerror or str(error), expected="a build.json that can be read",
            todo="give the build.json that stands beside the bundle",
        ) from error  # fmt: skip
    try:
        return Record.model_validate_json(data)
    except ValidationError as error:
        raise told(error, subject=str(path), model=Record) from error


def tool_versions() -> dict[str, str]:
    """The versions of everything whose change could change a byte, and the kind of CPU that ran the float model."""
    found = {name: metadata.version(name) for name in ("numpy", "onnx", "protobuf")}
    found |= {name: version() for name in distributions()}
    return {"edge-runtime": __version__, "python": platform.python_version(), "machine": platform.machine(), **found}


def differences(recorded: Record, now: Record) -> tuple[str, ...]:
    """What keeps a rebuild from being the recorded one, a line each; none where every byte is equal."""
    if recorded.bundle.digest == now.bundle.digest:
        return ()
    before, after = recorded.bundle.files, now.bundle.files
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    causes = [
        f"{name} is {now.tools.get(name, 'absent')}, was {recorded.tools.get(name, 'absent')}"
        for name in sorted(recorded.tools.keys() | now.tools.keys())
        if recorded.tools.get(name) != now.tools.get(name)
    ]
    changed = sorted(
        name for name in recorded.inputs.keys() | now.inputs.keys() if recorded.inputs.get(name) != now.inputs.get(name)
    )
    causes += [f"{name} has changed" for name in changed]
    cause = "; ".join(causes) or "every recorded tool and input is the same: another kind of CPU, perhaps"
    return (f"rebuild: found other bytes in {', '.join(names)}; expected those of the record; {cause}",)
