"""contract.toml as frozen values: what the author promises and where their files are; it opens no model and no data."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.frozen import Band, Frozen, Name, Sha256
from edge_runtime.spec.inputs import Window
from edge_runtime.spec.manifest import Needs
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.steps import Step
from edge_runtime.spec.units import UnitMismatch, UnitUnknown, conversion, resolve
from edge_runtime.spec.variant import Tolerance

MIN_GOLDENS = 24
MAX_CONTRACT_BYTES = 1024 * 1024

# A range is written as two numbers, the lowest and the highest.
Range = tuple[FiniteFloat, FiniteFloat]
DataAxes = tuple[Literal["case", "channel", "time"], ...]
InputAxes = tuple[Literal["batch", "channel", "time"], ...]


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

    values: str
    target: str | None = None


class Data(Frozen):
    """The author's data: one .npz file, the axes of its value arrays, and its parts."""

    file: str
    axes: DataAxes
    train: Split
    validation: Split | None = None
    test: Split | None = None


class Reference(Frozen):
    """What the source framework answered: raw values, its own input tensor and its own output, by array name."""

    file: str
    raw: str
    tensor: str
    output: str


class ContractInput(Frozen):
    """The model's one input; its name is read from the model where left out."""

    axes: InputAxes
    tensor: str | None = None


class ContractChannel(Frozen):
    """One channel; ``trained`` is computed from the training data where left out."""

    name: Name
    unit: str
    kind: Literal["point", "difference"] = "point"
    trained: Range | None = None
    tolerated: Range
    physical: Range
    when_undeclared: Literal["refuse", "assume"] = "refuse"
    stuck_after: Annotated[int, Field(ge=2)] | None = None


class Calibration(Frozen):
    """How many training cases the quantizer sees at most, evenly spaced over all of them."""

    samples: Annotated[int, Field(ge=16, le=65536)] = 8192


class GoldenChoice(Frozen):
    """How many goldens, corners included, and by channel the units they take turns in, the contract's own first."""

    count: Annotated[int, Field(ge=MIN_GOLDENS, le=1024)] = 32
    units: dict[Name, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(default={})


class Contract(Frozen):
    """The whole of contract.toml; made by ``load_contract``."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    security_version: Annotated[int, Field(ge=0)]
    description: str
    model: str
    precision: Literal["int8", "float32", "as_is"]
    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = (
        1, 2, 4, 8, 16, 32, 64,
    )  # fmt: skip
    provenance: ContractProvenance
    data: Data
    reference: Reference
    input: ContractInput
    channel: tuple[ContractChannel, ...] = Field(min_length=1)
    window: Window | None = None
    preprocess: tuple[Step, ...] = ()
    output: tuple[Output, ...] = Field(min_length=1, max_length=1)
    needs: Needs
    goldens: GoldenChoice = GoldenChoice()
    calibration: Calibration = Calibration()
    tolerance: Tolerance | None = None
    annotations: dict[str, str] = Field(default={})


def load_contract(path: Path) -> Contract:
    """Read a contract.

    Raises:
        ConfigurationError: naming the file and the key: no such file, no TOML, an unknown key (with the nearest), a
            value of the wrong kind, a unit that is still TODO or unknown, parts that do not fit together.

    """
    raw = _toml(path)
    for key, value in _texts(raw):
        if value.strip().upper() == "TODO":
            raise ConfigurationError(
                subject=f"{path}, {key}", found="TODO", expected=_MEANT.get(key.rsplit(".", 1)[-1], "its value"),
                todo="find out and write it down: a guess cannot be built",
            )  # fmt: skip
    try:
        contract = Contract.model_validate(raw)
    except ValidationError as error:
        raise told(error, subject=str(path), model=Contract) from error
    _require_fitting(contract, path)
    return contract


def told(error: ValidationError, *, subject: str, model: type[BaseModel]) -> ConfigurationError:
    """The first fault of a validation as one line; an unknown key names the nearest that ``model`` has there."""
    errors = error.errors(include_url=False)
    # A misspelt key is missing under its right name too: the misspelling is what the author has to see.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    loc = first["loc"]
    if not loc:  # a rule over several keys: its message names them, and the whole text would only bury it
        return ConfigurationError(
            subject=subject, found="keys that do not fit together", expected=first["msg"].removeprefix("Value error, "),
            todo="correct it; docs/contract.md lists every key",
        )  # fmt: skip
    key = ".".join(str(part) for part in loc)
    if first["type"] == "extra_forbidden":
        return _unknown_key(f"{subject}, {key}", str(loc[-1]), _keys_at(model, loc[:-1]))
    found = "nothing" if first["type"] == "missing" else " ".join(repr(first["input"]).split())
    return ConfigurationError(
        subject=f"{subject}, {key}",
        found=found if len(found) <= _SHOWN else f"{found[:_SHOWN]}...",
        expected=first["msg"].removeprefix("Value error, "),
        todo="correct it; docs/contract.md lists every key",
    )


_SHOWN = 80
_MEANT = {"unit": "the unit the values are in, as docs/units.md spells it"}


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


def _texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _texts(inner, f"{key}.{at}")


def _require_fitting(contract: Contract, path: Path) -> None:
    for at, channel in enumerate(contract.channel):
        _require_unit(channel.unit, f"{path}, channel.{at}.unit")
    for at, output in enumerate(contract.output):
        _require_unit(output.unit, f"{path}, output.{at}.unit")
    names = {channel.name for channel in contract.channel}
    for name, units in contract.goldens.units.items():
        if name not in names:
            raise _unknown_key(f"{path}, goldens.units.{name}", name, names)
        own = next(channel.unit for channel in contract.channel if channel.name == name)
        for unit in units:
            _require_unit(unit, f"{path}, goldens.units.{name}", like=own)
        if units[0] != own:
            raise ConfigurationError(
                subject=f"{path}, goldens.units.{name}", found=f"{units[0]!r} first",
                expected=f"{own!r} first, the contract's", todo="reorder or complete the list",
            )  # fmt: skip
    if contract.input.axes[:1] != ("batch",) or "channel" not in contract.input.axes:
        raise ConfigurationError(
            subject=f"{path}, input.axes", found=str(list(contract.input.axes)),
            expected="'batch' first, then 'channel' and, with a window, 'time'", todo="name the model's axes in order",
        )  # fmt: skip
    if ("time" in contract.input.axes) != (contract.window is not None):
        raise ConfigurationError(
            subject=f"{path}, window", found="a [window]" if contract.window else "no [window]",
            expected="one exactly when input.axes has 'time'", todo="add it, or take 'time' out of input.axes",
        )  # fmt: skip
    if contract.data.axes[:1] != ("case",) or sorted(contract.data.axes) not in (["case", "channel"], _ALL_AXES):
        raise ConfigurationError(
            subject=f"{path}, data.axes", found=str(list(contract.data.axes)),
            expected="'case' first, then 'channel' and, with a window, 'time'", todo="name the arrays' axes in order",
        )  # fmt: skip


_ALL_AXES = ["case", "channel", "time"]


def _require_unit(unit: str, subject: str, like: str | None = None) -> None:
    try:
        found = resolve(unit)
        if like is not None:
            conversion(found, resolve(like))
    except UnitUnknown as error:
        raise ConfigurationError(
            subject=subject, found=f"{unit[:40]!r}", expected=f"a UCUM unit ({error.hint})",
            todo="write it as docs/units.md does",
        ) from error  # fmt: skip
    except UnitMismatch as error:
        raise ConfigurationError(
            subject=subject, found=f"{unit!r} ({error})", expected=f"a unit that converts to {like}",
            todo="correct or remove it",
        ) from error  # fmt: skip


def _unknown_key(subject: str, key: str, known: set[str]) -> ConfigurationError:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    nearest = get_close_matches(key, sorted(known), n=1, cutoff=0.5)
    return ConfigurationError(
        subject=subject,
        found=f"unknown key {key[:40]!r}",
        expected=f"{nearest[0]!r} perhaps" if nearest else f"one of {', '.join(sorted(known))}",
        todo="correct or remove it",
    )


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> set[str]:
    """The keys that the table at ``loc`` may have; within a union the member is told by its ``step``."""
    here = [model]
    for part in loc:
        if isinstance(part, int):
            continue
        inner = [one for each in here if part in each.model_fields for one in _models(each.model_fields[part])]
        here = inner or [one for one in here if part in get_args(one.model_fields["step"].annotation)]
    return {key for one in here for key in one.model_fields}


def _models(field: Any) -> list[type[BaseModel]]:
    """Every model in an annotation, through unions, tuples and Annotated."""
    annotation = getattr(field, "annotation", field)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple, dict):
        return [one for argument in get_args(annotation) for one in _models(argument)]
    return []


def band(pair: Range) -> Band:
    """A contract's range as the manifest's band."""
    return Band(min=pair[0], max=pair[1])
