"""Makes the manifest that a contract and a model lead to; it measures nothing and reads no file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from edge_runtime.author.arrays import extent, longest_runs
from edge_runtime.author.contract import Contract, ContractChannel, band, told
from edge_runtime.author.goldens import negative_goldens
from edge_runtime.author.graph import Graph
from edge_runtime.author.quantize import RECIPE, Grid
from edge_runtime.errors import BundleError, ConfigurationError
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel, Input
from edge_runtime.spec.manifest import SCHEMA, Manifest, Provenance
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.variant import Quantization, Tolerance, Variant

GOLDENS_NAME = "golden.npz"
_PROVIDER = "CPUExecutionProvider"
_DTYPES = ("float32",)
_Model = TypeVar("_Model", bound=BaseModel)


def make_channels(contract: Contract, path: Path, train: Any) -> tuple[Channel, ...]:
    """The channels with what training saw; ``train`` is float64 ``(cases, time, channels)`` in contract units.

    Raises:
        ConfigurationError: bands that do not nest, or a ``stuck_after`` that training itself would have set off.

    """
    runs = longest_runs(train) if contract.window else None
    found = []
    for at, channel in enumerate(contract.channel):
        subject = f"{path}, channel {channel.name}"
        if runs and channel.stuck_after is not None and channel.stuck_after <= runs[at]:
            raise ConfigurationError(
                subject=f"{subject}, stuck_after", found=str(channel.stuck_after), todo=f"set {runs[at] + 1}",
                expected=f"more than {runs[at]}, the longest equal run in the training data",
            )  # fmt: skip
        found.append(_channel(channel, extent(train[:, :, at]), subject))
    return tuple(found)


def make_manifest(
    contract: Contract, path: Path, channels: tuple[Channel, ...], *, source_sha256: str, graph: Graph, variant: Variant
) -> Manifest:
    """The manifest around one variant.

    Raises:
        ConfigurationError: the contract's parts do not fit together.
        BundleError: the model's input or output is not what the contract says.

    """
    return _valid(
        Manifest,
        str(path),
        schema=SCHEMA,
        id=contract.id,
        version=contract.version,
        security_version=contract.security_version,
        description=contract.description,
        provenance=Provenance(
            source_model_sha256=source_sha256, **contract.provenance.model_dump(exclude={"model_sha256"})
        ),
        variants=(variant,),
        inputs=(_input(contract, path, graph, channels),),
        window=contract.window,
        outputs=_outputs(contract, path, graph),
        batch_sizes=contract.batch_sizes,
        negative_goldens=negative_goldens(channels, contract.window),
        needs=contract.needs,
        annotations=contract.annotations,
    )


def make_variant(contract: Contract, graph: Graph, grid: Grid, quantization: Quantization | None) -> Variant:
    """The one variant of this build, for the CPU."""
    precision = contract.precision
    return Variant(
        name=f"cpu_{precision}",
        model=f"model_{precision}.onnx",
        goldens=GOLDENS_NAME,
        precision=precision,
        ir_version=graph.ir_version,
        opsets=graph.opsets,
        operators=graph.operators,
        model_inputs=tuple(port.name for port in graph.inputs),
        model_outputs=tuple(port.name for port in graph.outputs),
        tolerances={_PROVIDER: contract.tolerance or _TOLERANCES[precision]},
        quantization=quantization,
        input_clip={name: Band(min=low, max=high) for name, (low, high) in grid.input_clip.items()},
        output_scale=grid.output_scale,
    )


def describe_recipe(grid: Grid, *, samples: int, calibration_sha256: str) -> Quantization:
    """The quantizer's recipe as the manifest states it, with what was measured on the result."""
    return Quantization.model_validate(
        {
            **RECIPE,
            "seven_bit_weights": grid.seven_bit_weights,
            "samples": samples,
            "calibration_sha256": calibration_sha256,
        },
    )


_FLOAT = Tolerance(
    kind="float", rtol=1e-5, atol=1e-5,
    evidence="float32 rounding: CPUs of other instruction sets sum in another order; the same CPU gives equal numbers",
)  # fmt: skip
_TOLERANCES = {
    "int8": Tolerance(
        kind="exact",
        evidence="integer kernels, and weights of 7 bits overflow on no CPU; the build found every batch size equal",
    ),
    "float32": _FLOAT,
    "as_is": _FLOAT,
}


def _channel(channel: ContractChannel, seen: tuple[float, float], subject: str) -> Channel:
    return _valid(
        Channel,
        subject,
        name=channel.name,
        unit=channel.unit,
        kind=channel.kind,
        trained=_band(channel.trained or seen, f"{subject}, trained"),
        tolerated=_band(channel.tolerated, f"{subject}, tolerated"),
        physical=_band(channel.physical, f"{subject}, physical"),
        when_undeclared=channel.when_undeclared,
        stuck_after=channel.stuck_after,
    )


def _band(pair: tuple[float, float], subject: str) -> Band:
    try:
        return band(pair)
    except ValidationError as error:
        raise told(error, subject=subject, model=Band) from error


def _input(contract: Contract, path: Path, graph: Graph, channels: Sequence[Channel]) -> Input:
    if len(graph.inputs) != 1:
        names = ", ".join(port.name for port in graph.inputs)
        raise BundleError(
            subject=f"{contract.model}, inputs", found=f"{len(graph.inputs)} ({names[:80]})", expected="one",
            todo="export a model with one input; several are not implemented yet",
        )  # fmt: skip
    port = graph.inputs[0]
    if contract.input.tensor not in (None, port.name):
        raise ConfigurationError(
            subject=f"{path}, input.tensor", found=repr(contract.input.tensor),
            expected=f"{port.name!r}, as the model has", todo="correct or remove it",
        )  # fmt: skip
    if port.dtype not in _DTYPES:
        raise BundleError(
            subject=f"{contract.model}, input {port.name}", found=port.dtype, expected=" or ".join(_DTYPES),
            todo="export it with a float32 input",
        )  # fmt: skip
    sizes: dict[str, int] = {"channel": len(channels)}
    if contract.window:
        sizes["time"] = contract.window.length
    expected: list[int | str] = ["batch", *(sizes[axis] for axis in contract.input.axes[1:])]
    if list(port.shape[1:]) != expected[1:]:
        raise BundleError(
            subject=f"{contract.model}, input {port.name}", found=f"shape {_shape(port.shape)}",
            expected=f"{_shape(expected)}, from input.axes, the channels and the window",
            todo="correct the contract, or export the model for these",
        )  # fmt: skip
    return _valid(
        Input,
        f"{path}, input",
        tensor=port.name,
        dtype=port.dtype,
        steps=contract.preprocess,
        shape=tuple(expected),
        axes=contract.input.axes,
        channels=tuple(channels),
    )


def _outputs(contract: Contract, path: Path, graph: Graph) -> tuple[Output, ...]:
    ports = {port.name: port for port in graph.outputs}
    for output in contract.output:
        port = ports.get(output.tensor)
        if port is None:
            raise ConfigurationError(
                subject=f"{path}, output {output.name}, tensor", found=repr(output.tensor),
                expected=f"an output of the model: {', '.join(ports)}", todo="correct the name",
            )  # fmt: skip
        if port.shape[1:] not in ((), (1,)):
            raise BundleError(
                subject=f"{contract.model}, output {port.name}", found=f"shape {_shape(port.shape)}",
                expected="one number a case, (batch) or (batch, 1)", todo="export the model with a scalar output",
            )  # fmt: skip
    return contract.output


def _shape(shape: Sequence[int | str]) -> str:
    return f"({', '.join(str(size) or '?' for size in shape)})"


def _valid(model: type[_Model], subject: str, **values: Any) -> _Model:
    try:
        return model(**values)
    except ValidationError as error:
        raise told(error, subject=subject, model=model) from error
