from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.author.build import build
from edge_runtime.author.fuse import (
    Equality,
    Fused,
    fuse,
    fuse_failures,
    fused_manifest,
    fused_variant,
    prove,
    random_cases,
)
from edge_runtime.author.graph import Graph, clean_graph
from edge_runtime.author.quantize import quantize
from edge_runtime.bundle.golden import Goldens, decode
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError, ConfigurationError
from edge_runtime.flow.model import Model
from edge_runtime.run.goldens import passage
from edge_runtime.spec.inputs import Input, Window
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.steps import Clip, Difference, Lag, Log, MinMax, Scale, Standardize, Step
from tests.author.conftest import Pack
from tests.author.searching import bench

BUNDLES = Path(__file__).parents[2] / "bundles"


def _both(model: Model, graph: Graph) -> tuple[Model, Model]:
    fused = fuse(graph, model.manifest, subject="m")
    manifest = _manifest(model.manifest, fused)
    return model, model._replace(manifest=manifest, variant=manifest.variants[0], infer=open_session(fused.graph.data))


def _manifest(manifest: Manifest, fused: Fused) -> Manifest:
    return fused_manifest(manifest, fused.inputs, [fused_variant(one, fused) for one in manifest.variants])


def _shipped(name: str) -> tuple[Model, Graph, Goldens]:
    folder = BUNDLES / name
    manifest = parse((folder / "manifest.json").read_bytes())
    variant = manifest.variants[0]
    graph = clean_graph((folder / variant.model).read_bytes(), subject=name)
    goldens = decode((folder / variant.goldens).read_bytes(), subject=name)
    return Model(manifest, variant, "", open_session(graph.data)), graph, goldens


@pytest.mark.parametrize("name", ["frost", "digits"])
def test_a_shipped_int8_model_gives_equal_bits_on_ten_thousand_random_windows(name: str) -> None:
    model, graph, _ = _shipped(name)
    two_steps, fused = _both(model, graph)
    found = prove(two_steps, fused, random_cases(model.manifest, model.manifest.length))
    assert {one.cases for one in found.values()} == {10_000}
    assert all(one.equal for one in found.values())
    assert list(fuse_failures(found, is_int8=True)) == []


@pytest.mark.parametrize("name", ["frost", "digits", "dewpoint"])
def test_a_shipped_model_answers_its_goldens_through_the_fused_one(name: str) -> None:
    model, graph, goldens = _shipped(name)
    _, fused = _both(model, graph)
    found = passage(fused, goldens, 1).outputs
    for output, values in goldens.outputs.items():
        assert np.abs(found[output] - values).max() <= (0.0 if model.variant.precision == "int8" else 1e-6)


def _adding(manifest: Manifest, steps: tuple[Step, ...], axes: tuple[str, ...], shape: tuple, dtype: str) -> Model:
    """A model that gives its own input back as float32, so that each number of the tensor is compared."""
    kind = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "float64": TensorProto.DOUBLE}[dtype]
    size = int(np.prod(shape[1:]))
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["window"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Reshape", ["wide", "flat"], ["low"]),
        ],
        "copy",
        [helper.make_tensor_value_info("window", kind, list(shape))],
        [helper.make_tensor_value_info("low", TensorProto.FLOAT, ["batch", size])],
        [numpy_helper.from_array(np.array([0, size], np.int64), "flat")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    one = Input(tensor="window", dtype=dtype, shape=shape, axes=axes, channels=manifest.inputs[0].channels, steps=steps)
    whole = manifest.model_copy(update={"inputs": (one,)})
    data = clean_graph(made.SerializeToString(), subject="copy").data
    return Model(whole, whole.variants[0], "", open_session(data)), clean_graph(data, subject="copy")


STANDARD = Standardize(step="standardize", mean=(12.3, 987.1), std=(10.27, 6.38))


@pytest.mark.parametrize(
    ("steps", "axes", "shape", "dtype"),
    [
        ((STANDARD,), ("batch", "channel", "time"), ("batch", 2, 3), "float32"),
        ((MinMax(step="min_max", min=(-3.0, 1.5), max=(7.0, 9.1)),), ("batch", "time", "channel"), ("batch", 3, 2), "float32"),
        ((Clip(step="clip", min=(0.0, 20.0), max=(5.0, 80.0)),), ("batch", "time", "channel"), ("batch", 3, 2), "float32"),
        ((Scale(step="scale", a=0.3, b=-0.7), STANDARD), ("batch", "time", "channel"), ("batch", 3, 2), "float64"),
        ((Lag(step="lag", lags=(0, 2)),), ("batch", "channel"), ("batch", 4), "float32"),
        ((Lag(step="lag", lags=(1, 0)), STANDARD.model_copy(update={"mean": (1.0,) * 4, "std": (3.0,) * 4})),
         ("batch", "channel", "time"), ("batch", 4, 2), "float32"),
        ((Difference(step="difference", order=2),), ("batch", "one", "channel", "time"), ("batch", 1, 2, 1), "float32"),
        ((Scale(step="scale", a=2.0, b=0.5),), ("batch", "time", "channel"), ("batch", 3, 2), "uint8"),
        ((), ("batch", "channel", "time"), ("batch", 2, 3), "float32"),
    ],
    ids=["standardize", "min_max", "clip", "scale", "lag", "lag twice", "difference", "whole numbers", "no steps"],
)  # fmt: skip
@pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
def test_each_step_is_equal_to_the_runtime_s_bit_for_bit(
    pack: Pack, steps: tuple, axes: tuple, shape: tuple, dtype: str, order: str
) -> None:
    manifest = bench(pack).model.manifest
    window = Window(length=3, period_s=60, order=order)
    model, graph = _adding(manifest.model_copy(update={"window": window}), steps, axes, shape, dtype)
    two_steps, fused = _both(model, graph)
    found = prove(two_steps, fused, random_cases(model.manifest, 3, count=500))
    assert found["low"] == Equality(500, equal=True, largest=0.0)


def test_the_fused_model_takes_raw_float64_and_its_manifest_has_no_steps(pack: Pack) -> None:
    made = bench(pack)
    fused = fuse(made.graph, made.model.manifest, subject="m")
    (port,) = fused.graph.inputs
    assert (port.name, port.dtype, port.shape) == ("window_raw", "float64", ("batch", 3, 2))
    (one,) = _manifest(made.model.manifest, fused).inputs
    assert (one.tensor, one.dtype, one.steps, one.axes) == ("window_raw", "float64", (), ("batch", "time", "channel"))


def test_a_quantized_model_is_fused_as_well(pack: Pack) -> None:
    made = bench(pack)
    tensors = made.model.preprocess()(made.material.calibration)
    graph = quantize(made.graph, tensors, subject="m").graph
    two_steps, fused = _both(made.model._replace(infer=open_session(graph.data)), graph)
    assert prove(two_steps, fused, random_cases(made.model.manifest, 3, count=2000))["low"].equal


def test_what_has_no_standard_operators_is_refused_by_name(pack: Pack) -> None:
    made = bench(pack)
    manifest = made.model.manifest
    for step, name in ((Log(step="log", base="e", floor=0.1), "log"),):
        inputs = (manifest.inputs[0].model_copy(update={"steps": (step,)}),)
        with pytest.raises(ConfigurationError, match=f"m, input window: found step '{name}'; expected steps among"):
            fuse(made.graph, manifest.model_copy(update={"inputs": inputs}), subject="m")
    half = (manifest.inputs[0].model_copy(update={"dtype": "float16"}),)
    with pytest.raises(ConfigurationError, match="found a tensor of float16"):
        fuse(made.graph, manifest.model_copy(update={"inputs": half}), subject="m")


def test_an_old_opset_is_refused(pack: Pack) -> None:
    made = bench(pack)
    old = Graph(
        made.graph.data,
        made.graph.ir_version,
        {"ai.onnx": 12},
        made.graph.operators,
        made.graph.inputs,
        made.graph.outputs,
    )
    with pytest.raises(BundleError, match="m: found opset 12; expected 13 or later"):
        fuse(old, made.model.manifest, subject="m")


def test_a_wrong_constant_inside_the_graph_is_found(pack: Pack) -> None:
    made = bench(pack)
    wrong = made.model.manifest.inputs[0].steps[0].model_copy(update={"std": (10.0, 25.001)})
    inputs = (made.model.manifest.inputs[0].model_copy(update={"steps": (wrong,)}),)
    manifest = made.model.manifest.model_copy(update={"inputs": inputs})
    fused = fuse(made.graph, manifest, subject="m")
    other = made.model._replace(manifest=_manifest(manifest, fused), infer=open_session(fused.graph.data))
    found = prove(made.model, other, random_cases(manifest, 3, count=100))
    (line,) = fuse_failures(found, is_int8=False)
    assert line.startswith("preprocessing in the graph: found output low off by up to ")


def test_rounding_is_allowed_to_a_float_model_alone() -> None:
    near = {"y": Equality(10, equal=False, largest=1e-7)}
    assert list(fuse_failures(near, is_int8=False)) == []
    assert len(list(fuse_failures(near, is_int8=True))) == 1


def test_random_cases_repeat_and_stay_within_the_tolerated_band(pack: Pack) -> None:
    manifest = bench(pack).model.manifest
    one, two = (random_cases(manifest, 3, count=200) for _ in range(2))
    assert np.array_equal(one, two)
    for at, channel in enumerate(manifest.channels):
        band = channel.bands[1]
        assert band.min <= one[:, :, at].min() <= one[:, :, at].max() <= band.max


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_build_with_preprocessing_in_the_graph_boots_and_gives_the_same_answers(pack: Pack, precision: str) -> None:
    pack.edit('precision = "int8"', f'precision = "{precision}"')
    plain = build(pack.contract, None, lambda _: None, strengthens=False)
    pack.edit('description = "', 'preprocessing = "graph"\ndescription = "')
    made = build(pack.contract, None, lambda _: None, strengthens=False)
    assert made.failures == ()
    manifest = parse(made.files["manifest.json"])
    assert (manifest.inputs[0].steps, manifest.inputs[0].dtype) == ((), "float64")
    ours, theirs = (decode(one.files["golden.npz"], subject="g") for one in (made, plain))
    assert np.allclose(ours.answers["low"], theirs.answers["low"], rtol=0, atol=0 if precision == "int8" else 1e-5)


def test_a_build_whose_step_has_no_operators_is_refused(pack: Pack) -> None:
    pack.edit('description = "', 'preprocessing = "graph"\ndescription = "')
    pack.edit("[[input.preprocess]]", '[[input.preprocess]]\nstep = "snv"\nddof = 0\n\n[[input.preprocess]]')
    with pytest.raises(ConfigurationError, match="found step 'snv'"):
        build(pack.contract, None, lambda _: None, strengthens=False)
