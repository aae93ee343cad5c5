"""What a session on a GPU's provider would be told, and which number formats it cannot take; no GPU is needed to know."""

from typing import Any

import pytest

from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.provider_options import misfit, provider_options
from edge_runtime.spec.providers import CUDA, TENSORRT, TENSORRT_RTX
from tests.rig.bundles import FROST, ROOT, manifest_of

CPU = "CPUExecutionProvider"


def made(name: str = "frost", **variant: Any) -> Manifest:
    raw = manifest_of(ROOT / "bundles" / name)
    raw["variants"][0] |= variant
    return Manifest.model_validate(raw)


def told(name: str, found: Manifest, **choice: Any) -> dict[str, str]:
    return provider_options(ProviderChoice.model_validate({"name": name, **choice}), found, found.variants[0])


def test_the_shapes_are_the_manifests_from_its_least_batch_to_its_largest() -> None:
    assert told(TENSORRT, made()) == {
        "trt_profile_min_shapes": "window:1x5x24",
        "trt_profile_opt_shapes": "window:64x5x24",
        "trt_profile_max_shapes": "window:64x5x24",
        "trt_int8_enable": "1",
    }


def test_one_batch_size_makes_an_engine_of_fixed_shape() -> None:
    found = told(TENSORRT, made("tiny_bits"))
    assert set(found.values()) == {"picture:1x4x3"}


def test_every_input_and_state_has_its_shape_the_batch_where_it_belongs() -> None:
    assert told(TENSORRT, made("tiny_gru"))["trt_profile_max_shapes"] == "x:64x2,h:1x64x4"
    assert told(TENSORRT, made("tiny_grain"))["trt_profile_min_shapes"] == "spectrum:1x16,ambient:1x2"


def test_tensorrt_rtx_has_keys_of_its_own() -> None:
    found = told(TENSORRT_RTX, made("dewpoint"), library="/lib.so", options={"enable_cuda_graph": "0"})
    assert found["nv_profile_max_shapes"] == "reading:64x3"
    assert set(found) == {"enable_cuda_graph", *(f"nv_profile_{end}_shapes" for end in ("min", "opt", "max"))}


def test_a_float16_model_may_be_computed_in_float16_whatever_the_profile_says() -> None:
    half = made("tiny_bearing")
    assert told(TENSORRT, half, options={"trt_fp16_enable": "0"})["trt_fp16_enable"] == "1"
    assert "trt_fp16_enable" not in told(TENSORRT, made("dewpoint"))
    assert told(TENSORRT, made("dewpoint"), options={"trt_fp16_enable": "1"})["trt_fp16_enable"] == "1"


def test_a_share_elsewhere_leaves_the_shapes_to_tensorrt() -> None:
    assert told(TENSORRT, made("dewpoint"), allowed_elsewhere=0.2) == {}


@pytest.mark.parametrize("name", ["a:0", "a,b", ""])
def test_a_name_that_the_option_cannot_spell_leaves_them_too(name: str) -> None:
    raw = manifest_of(ROOT / "bundles/dewpoint")
    raw["inputs"][0]["tensor"] = name
    raw["variants"][0]["model_inputs"] = [name]
    assert told(TENSORRT, Manifest.model_validate(raw)) == {}


def test_a_size_that_is_open_leaves_them_too() -> None:
    raw = manifest_of(FROST)
    raw["inputs"][0]["shape"] = ["batch", 5, "time"]
    assert "trt_profile_min_shapes" not in told(TENSORRT, Manifest.model_validate(raw))


@pytest.mark.parametrize("name", [CPU, CUDA, "OpenVINOExecutionProvider"])
def test_any_other_provider_is_told_what_the_profile_says(name: str) -> None:
    options = {} if name == CPU else {"device_id" if name == CUDA else "device_type": "0"}
    assert told(name, made(), options=options) == options


def quantized(activations: str, weights: str = "int8") -> dict[str, Any]:
    return {
        "quantization": manifest_of(FROST)["variants"][0]["quantization"]
        | {"activations": activations, "weights": weights}
    }


@pytest.mark.parametrize(
    ("provider", "changed", "found"),
    [
        (TENSORRT, {}, "int8 with uint8 activations"),
        (TENSORRT_RTX, {}, "int8 with uint8 activations"),
        (TENSORRT, quantized("int8", "uint8"), "int8 with int8 activations"),
        (TENSORRT, {"quantization": None}, "int8 of an unknown recipe"),
        (TENSORRT, quantized("int8"), None),
        (TENSORRT, {"precision": "float16"}, None),
        (CUDA, quantized("int8"), f"int8, and {CUDA} has no kernels for it"),
        (CUDA, {"precision": "as_is"}, None),
        (CPU, {}, None),
        ("OpenVINOExecutionProvider", {}, None),
    ],
)  # fmt: skip
def test_which_number_formats_a_provider_takes(provider: str, changed: dict[str, Any], found: str | None) -> None:
    unfit = misfit(provider, made(**changed).variants[0])
    assert (unfit and unfit[0]) == found
