"""contract.toml as frozen values: what the author promises and where their files are; it opens no model and no data."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat, ValidationError

from edge_runtime.author.demands import Demands
from edge_runtime.author.lint_finding import Waive
from edge_runtime.author.mistake import faults, together
from edge_runtime.author.plausibility_asked import AskedPlausibility
from edge_runtime.author.unsaid import WAYS, list_of, saying_nothing
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.frozen import Band, Frozen, Label, Name, PositiveFloat, Sha256
from edge_runtime.spec.inputs import Axis, Dtype, Window
from edge_runtime.spec.manifest import Needs
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.providers import CPU, PROVIDERS
from edge_runtime.spec.steps import Step
from edge_runtime.spec.variant import Tolerance

MIN_GOLDENS = 24
MAX_CONTRACT_BYTES = 1024 * 1024

# A range is written as two numbers, the lowest and the highest.
Range = tuple[FiniteFloat, FiniteFloat]
# One array, or a table of them: by channel, by tensor or by output.
ArrayNames = str | dict[str, str]
Precision = Literal["int8", "float16", "float32", "as_is"]
# What the gates choose among; without them there is nothing to choose by.
AnyPrecision = Literal["int8", "float16", "float32", "as_is", "auto"]


def _further(name: str) -> str:
    known = [one for one in PROVIDERS if one != CPU]
    if name not in known:
        raise ValueError(f"one of {', '.join(known)}; that of {CPU} stands in [tolerance]")
    return name


# A tolerance on the CPU has a default, and a key of its own.
FurtherProvider = Annotated[str, AfterValidator(_further)]


class ContractProvenance(Frozen):
    """Where the model comes from; ``model_sha256``, where given, must be the model file's."""

    checkpoint: str
    checkpoint_sha256: Sha256
    framework: str
    exporter: str
    training_data: str
    licence: str
    limits: str
    model_sha256: Sha256 | None = None


class Split(Frozen):
    """One part of the data by array name: raw values in contract units and, where known, what was true."""

    values: ArrayNames
    target: ArrayNames | None = None


class Data(Frozen):
    """The author's data: one .npz file, the axes of its stacked arrays, and its parts."""

    file: str
    axes: tuple[Literal["case", "channel", "time"], ...] = ()
    train: Split
    validation: Split | None = None
    test: Split | None = None


class Reference(Frozen):
    """What the source framework answered: raw values, its own input tensors and its own outputs, by array name."""

    file: str
    raw: ArrayNames
    tensor: ArrayNames
    output: ArrayNames


class ContractChannel(Frozen):
    """One channel; ``trained`` is computed from the training data where left out."""

    name: Name
    form: Literal["number", "category", "opaque"] = "number"
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(), max_length=4)
    unit: str | None = None
    kind: Literal["point", "difference"] = "point"
    trained: Range | None = None
    tolerated: Range | None = None
    physical: Range | None = None
    when_undeclared: Literal["refuse", "assume"] = "refuse"
    when_missing: Literal["refuse", "hold", "fill", "pass"] = "refuse"
    hold_s: PositiveFloat | None = None
    fill: FiniteFloat | None = None
    stuck_after: Annotated[int, Field(ge=2)] | None = None
    categories: tuple[Label, ...] = ()
    unknown: Label | None = None
    dtype: Dtype | None = None
    grid: tuple[FiniteFloat, ...] = ()
    grid_unit: str = "1"
    other_grid: Literal["refuse", "resample"] = "refuse"


class ContractInput(Frozen):
    """One input of the model: its axes, channels and steps; its name may be left out where the model has one input."""

    axes: tuple[Axis, ...]
    tensor: str | None = None
    channel: tuple[ContractChannel, ...] = Field(min_length=1)
    preprocess: tuple[Step, ...] = ()


class ContractState(Frozen):
    """A recurrent state: an output of one call that is an input of the next; shape and type are the model's."""

    input: str
    output: str
    batch_axis: Annotated[int, Field(ge=0)] = 0
    initial: FiniteFloat = 0.0
    reset: Literal["gap", "never"] = "gap"


class ContractPreprocess(Frozen):
    """The author's own preprocessing as an ONNX file, in the place of all steps."""

    file: str
    rtol: Annotated[FiniteFloat, Field(ge=0)] = 1e-5
    atol: Annotated[FiniteFloat, Field(ge=0)] = 1e-5


class ContractVariant(Frozen):
    """One more model file under the same contract; its ``model`` is the contract's own where left out."""

    name: Name
    precision: Precision
    model: str | None = None
    isa: tuple[str, ...] = ()
    tolerance: Tolerance | None = None
    tolerances: dict[FurtherProvider, Tolerance] = Field(default={})


class Calibration(Frozen):
    """How many training cases the quantizer sees at most, evenly spaced over all of them."""

    samples: Annotated[int, Field(ge=16, le=65536)] = 8192


class GoldenChoice(Frozen):
    """How many goldens, corners included, and by channel the units they take turns in, the contract's own first.

    ``samples`` is how long a case is where the model has a state: the answer is that to its last sample.
    """

    count: Annotated[int, Field(ge=MIN_GOLDENS, le=1024)] = 32
    samples: Annotated[int, Field(ge=1, le=100_000)] | None = None
    units: dict[Name, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(default={})


class Contract(Frozen):
    """The whole of contract.toml; made by ``load_contract``."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    security_version: Annotated[int, Field(ge=0)]
    description: str
    model: str
    precision: AnyPrecision
    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = (
        1, 2, 4, 8, 16, 32, 64,
    )  # fmt: skip
    provenance: ContractProvenance
    data: Data
    reference: Reference
    input: tuple[ContractInput, ...] = Field(min_length=1)
    state: tuple[ContractState, ...] = ()
    window: Window | None = None
    preprocess_onnx: ContractPreprocess | None = None
    output: tuple[Output, ...] = Field(min_length=1)
    variant: tuple[ContractVariant, ...] = ()
    needs: Needs
    goldens: GoldenChoice = GoldenChoice()
    calibration: Calibration = Calibration()
    gates: Demands | None = None
    preprocessing: Literal["runtime", "graph"] = "runtime"
    plausibility: AskedPlausibility | None = None
    tolerance: Tolerance | None = None
    tolerances: dict[FurtherProvider, Tolerance] = Field(default={})
    waive: Waive = Field(default={})
    annotations: dict[str, str] = Field(default={})

    @property
    def channels(self) -> tuple[ContractChannel, ...]:
        """Every channel of a sample's row, in order."""
        return tuple(channel for one in self.input for channel in one.channel)

    @property
    def has_time(self) -> bool:
        """Whether a case is several samples one after the other."""
        return self.window is not None or self.goldens.samples is not None

    @property
    def samples(self) -> int:
        """How many samples a case has: the window's, or with a state what ``[goldens]`` says."""
        return self.goldens.samples or (self.window.length if self.window else 1)

    @property
    def variants(self) -> tuple[ContractVariant, ...]:
        """The model of the contract itself first, then the further ones."""
        # Until the search has chosen, the author's own model stands in its place.
        precision = "as_is" if self.precision == "auto" else self.precision
        own = ContractVariant(
            name=f"cpu_{self.precision}", precision=precision, tolerance=self.tolerance, tolerances=self.tolerances
        )  # fmt: skip
        return (own, *self.variant)

    def model_of(self, variant: ContractVariant) -> str:
        """The file of a variant's model."""
        return variant.model or self.model


def load_contract(path: Path) -> Contract:
    """Read a contract.

    Raises:
        ConfigurationError: naming the file and the key: no such file, no TOML, an unknown key (with the nearest), a
            value of the wrong kind, a unit that is still TODO or unknown, parts that do not fit together. Its ``others``
            are the further mistakes that the same text shows.

    """
    from edge_runtime.author.contract_fit import misfits  # noqa: PLC0415 - it is about this module's values

    raw = _toml(path)
    unsaid = saying_nothing(raw, str(path))
    contract = None
    try:
        contract = Contract.model_validate(raw)
        found = list(misfits(contract, path))
    except ValidationError as error:
        found = faults(error, subject=str(path), model=Contract, ways=WAYS)
    # What is still TODO is no unit, number or name either, and once is enough.
    mistakes = [*unsaid.values(), *(one for one in found if list_of(one.subject.rpartition(", ")[2]) not in unsaid)]
    if contract is None or mistakes:
        raise together(mistakes)
    return contract


def band(pair: Range) -> Band:
    """A contract's range as the manifest's band."""
    return Band(min=pair[0], max=pair[1])


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_CONTRACT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            subject=str(path), found=error.strerror or str(error), expected="a contract.toml that can be read",
            todo="give the path of the contract",
        ) from error  # fmt: skip
    if len(data) > MAX_CONTRACT_BYTES:
        raise ConfigurationError(
            subject=str(path), found="a larger file", expected=f"at most {MAX_CONTRACT_BYTES} bytes",
            todo="give the path of the contract, not of its data",
        )  # fmt: skip
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            subject=str(path), found=f"no valid TOML ({error})", expected="TOML 1.0 in UTF-8",
            todo="correct that place",
        ) from error  # fmt: skip
