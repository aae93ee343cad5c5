"""One bundle with int8 for the CPU and float16 for a GPU: it builds, and each provider gets the one that is for it."""

import shutil

import pytest

from edge_runtime.author.build import build
from edge_runtime.author.graph import clean_graph
from edge_runtime.author.half import to_float16
from edge_runtime.engine.session import version
from edge_runtime.errors import BundleError
from edge_runtime.run.checks import compatibility
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.provider_options import provider_options
from edge_runtime.spec.providers import CPU, CUDA, TENSORRT
from tests.rig.bundles import ROOT

HALF = """
[[variant]]
name = "gpu_float16"
precision = "float16"
model = "model_fp16.onnx"
tolerance = { kind = "float", rtol = 0.01, atol = 0.02, evidence = "a test: float16 has 11 bits" }
[variant.tolerances]
"""
ONE = '{} = {{ kind = "float", rtol = 0.01, atol = 0.05, evidence = "a test; not run on a GPU" }}\n'


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("pack") / "frost"
    shutil.copytree(ROOT / "examples/frost", folder)
    graph = clean_graph((folder / "model_fp32.onnx").read_bytes(), subject="frost")
    (folder / "model_fp16.onnx").write_bytes(to_float16(graph, subject="frost").data)
    contract = folder / "contract.toml"
    contract.write_text(contract.read_text() + HALF + ONE.format(CUDA) + ONE.format(TENSORRT))
    made = build(contract, None, lambda _: None, strengthens=False)
    assert made.failures == ()
    return parse(made.files["manifest.json"])


@pytest.mark.parametrize(("provider", "variant"), [(CPU, "cpu_int8"), (CUDA, "gpu_float16"), (TENSORRT, "gpu_float16")])
def test_each_provider_gets_the_variant_for_it(manifest: Manifest, provider: str, variant: str) -> None:
    setting = make_setting()
    chosen, _, _ = compatibility(manifest, provider, setting.profile, setting.machine, version(), inject=False)
    assert chosen.name == variant
    if provider == TENSORRT:
        options = provider_options(ProviderChoice(name=provider), manifest, chosen)
        assert options["trt_fp16_enable"] == "1"
        assert "trt_int8_enable" not in options


def test_a_profile_that_names_the_int8_one_on_a_gpu_is_refused(manifest: Manifest) -> None:
    setting = make_setting()
    profile = setting.profile.model_copy(update={"variant": "cpu_int8"})
    with pytest.raises(
        BundleError, match="variant cpu_int8, provider: found TensorrtExecutionProvider; expected one its"
    ):
        compatibility(manifest, TENSORRT, profile, setting.machine, version(), inject=False)


def test_a_profile_that_names_a_variant_that_is_not_there_is_refused(manifest: Manifest) -> None:
    setting = make_setting()
    profile = setting.profile.model_copy(update={"variant": "gpu_fp16"})
    with pytest.raises(BundleError, match="found no variant 'gpu_fp16'; expected one of cpu_int8, gpu_float16"):
        compatibility(manifest, CUDA, profile, setting.machine, version(), inject=False)
