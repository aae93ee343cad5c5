"""What a provider is told of one variant beyond its profile: batch shapes and number formats; it asks no provider."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.providers import CUDA, TENSORRT, TENSORRT_RTX
from edge_runtime.spec.variant import Variant

_SHAPES: Final = MappingProxyType({TENSORRT: "trt_profile", TENSORRT_RTX: "nv_profile"})
_QUANTIZED: Final = "QuantizeLinear"


def provider_options(choice: ProviderChoice, manifest: Manifest, variant: Variant) -> dict[str, str]:
    """The profile's options, and for TensorRT those that follow from the bundle.

    One engine then serves the whole list of batch sizes, or the only one, and none is built later than at boot; it is
    tuned for the largest, where time is short. ``trt_fp16_enable`` comes with a float16 model, ``trt_int8_enable`` with
    one that is quantized: TensorRT computes in float32 what it is not allowed to.
    """
    options = dict(choice.options)
    # Parts that run elsewhere cut the graph at tensors whose shapes nobody states; the engine then learns them at boot.
    if choice.name in _SHAPES and not choice.allowed_elsewhere:
        options |= _shapes(_SHAPES[choice.name], manifest)
    if choice.name == TENSORRT:
        if variant.precision == "float16":
            options["trt_fp16_enable"] = "1"
        if _QUANTIZED in variant.operators:
            options["trt_int8_enable"] = "1"
    return options


def misfit(provider: str, variant: Variant) -> tuple[str, str] | None:
    """Why a provider cannot serve a variant of this number format, as (found, expected); None where nothing is known.

    CUDA has no kernels for quantized operators (onnxruntime#24807, #12229); TensorRT takes int8 with zero points of 0
    alone (TensorRT#2774, #4698; onnxruntime#6732). A model ``as_is`` tells too little: its placement and goldens do.
    """
    if variant.precision != "int8":
        return None
    if provider == CUDA:
        return f"int8, and {provider} has no kernels for it", "float16 or float32 there"
    recipe = variant.quantization
    is_symmetric = recipe is not None and (recipe.activations, recipe.weights) == ("int8", "int8")
    if provider in (TENSORRT, TENSORRT_RTX) and not is_symmetric:
        kind = "of an unknown recipe" if recipe is None else f"with {recipe.activations} activations"
        return f"int8 {kind}", f"symmetric int8 (zero points of 0), float16 or float32 on {provider}"
    return None


def _shapes(prefix: str, manifest: Manifest) -> dict[str, str]:
    """The least and largest shape of every input, as ``name:4x5x24``; none where one cannot be written so."""
    known = dict(_sizes(manifest))
    if any(not name or set(name) & set(":,") for name in known) or None in known.values():
        return {}
    ends = {"min": manifest.batch_sizes[0], "opt": manifest.batch_sizes[-1], "max": manifest.batch_sizes[-1]}
    return {
        f"{prefix}_{end}_shapes": ",".join(f"{name}:{shape}" for name, shape in _at(manifest, batch))
        for end, batch in ends.items()
    }


def _at(manifest: Manifest, batch: int) -> Iterator[tuple[str, str]]:
    for name, sizes in _sizes(manifest):
        if sizes is not None:
            yield name, "x".join(str(batch if size is None else size) for size in sizes)


def _sizes(manifest: Manifest) -> Iterator[tuple[str, tuple[int | None, ...] | None]]:
    """Each tensor the model takes with its sizes, None for the batch; None for all where another one is open."""
    for one in manifest.inputs:
        rest = tuple(size for size in one.shape[1:] if isinstance(size, int))
        yield one.tensor, (None, *rest) if len(rest) == len(one.shape) - 1 else None
    for state in manifest.state:
        yield state.input, (*state.shape[: state.batch_axis], None, *state.shape[state.batch_axis :])
