import numpy as np
import pytest

from edge_runtime.author import gate
from edge_runtime.author.demands import Accept, Demands
from edge_runtime.author.emulation import PROGRAM, is_available, run_emulated
from edge_runtime.author.exact import open_exact
from edge_runtime.author.graph import Graph
from edge_runtime.author.metrics import find_metric
from edge_runtime.author.quantize import read_grid
from edge_runtime.author.recipes import CALIBRATORS, RECIPES, measure_ranges, prepare, quantized
from edge_runtime.author.saturation import Simulation, nodes_at_risk
from edge_runtime.engine.session import open_session
from edge_runtime.errors import ConfigurationError, DeviceError
from edge_runtime.spec.device_profile import DeviceProfile
from tests.author.searching import large_weights, small_conv

BY_NAME = {one.name: one for one in RECIPES}
needs_qemu = pytest.mark.skipif(
    not is_available(), reason=f"NOT CHECKED: {PROGRAM} is not installed, nothing was emulated"
)


def _made(graph: Graph, recipe: str, rows: dict[str, np.ndarray]) -> Graph:
    prepared = prepare(graph, subject="m")
    return quantized(prepared, measure_ranges(prepared, rows, CALIBRATORS[0]), BY_NAME[recipe])


def _rows(graph: Graph, cases: int = 20) -> dict[str, np.ndarray]:
    port = graph.inputs[0]
    shape = (cases, *port.shape[1:])
    random = np.random.default_rng(4)
    return {port.name: random.uniform(0, 1, shape).astype(np.float32)}


def test_metrics_against_numbers_worked_out_by_hand() -> None:
    said, true = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 2.0, 5.0, 4.0])
    assert find_metric("mae", "")(said, true) == 1.0
    assert find_metric("rmse", "")(said, true) == pytest.approx(2**0.5)
    assert find_metric("max_error", "")(said, true) == 2.0
    assert find_metric("r2", "")(said, true) == pytest.approx(1 - 8 / 10)
    words, truth = np.array(["a", "a", "b", "b"]), np.array(["a", "b", "b", "b"])
    assert find_metric("accuracy", "")(words, truth) == 0.75
    assert find_metric("macro_f1", "")(words, truth) == pytest.approx((2 / 3 + 4 / 5) / 2)
    # Of the four pairs (up, down) three are in order and one is a tie: 3.5 of 4.
    assert find_metric("auroc", "")(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1, 1, 0, 0])) == 0.875
    several = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.1, 0.6, 0.3]])
    assert find_metric("auroc", "")(several, np.array([0, 1, 2, 2])) == pytest.approx((1 + 1 + 1) / 3)


def worst_of_all(answers: np.ndarray, targets: np.ndarray) -> float:
    return float((answers - targets).max())


def raises(_answers: np.ndarray, _targets: np.ndarray) -> float:
    raise KeyError("no such thing")


def no_number(_answers: np.ndarray, _targets: np.ndarray) -> float:
    return float("nan")


def test_an_author_s_own_metric_is_called_and_its_faults_are_one_line() -> None:
    own = find_metric("tests.author.test_gate:worst_of_all", "x")
    assert own(np.array([1.0, 3.0]), np.array([1.0, 1.0])) == 2.0
    with pytest.raises(ConfigurationError, match=r"x: found no tests.author.test_gate:absent"):
        find_metric("tests.author.test_gate:absent", "x")
    for name, found in (("raises", "KeyError"), ("no_number", "nan")):
        with pytest.raises(ConfigurationError, match=f"x, tests.author.test_gate:{name}: found {found}"):
            find_metric(f"tests.author.test_gate:{name}", "x")(np.zeros(1), np.zeros(1))


def test_an_own_function_says_which_way_is_better() -> None:
    with pytest.raises(ValueError, match="higher or lower"):
        Accept(output="low", metric="m:f", allowed_loss=0)
    assert not Accept(output="low", metric="m:f", better="lower", allowed_loss=0).higher_is_better
    assert Accept(output="low", metric="accuracy", allowed_loss=0).higher_is_better


def test_each_limit_of_the_metric_gate_refuses_by_itself() -> None:
    accept = Accept(
        output="low", metric="mae", allowed_loss=0.05, mean_difference=0.1, max_difference=1.0, flags_agree=0.99
    )
    good = gate.Measured(
        metric=1.05, metric_float32=1.0, loss=0.05, flags_agree=0.99, mean_difference=0.1, max_difference=1.0
    )
    assert list(gate.metric_refusals(accept, good, "Cel")) == []
    for key, value, said in (
        ("loss", 0.051, "mae of low: found 1.05, 0.051 worse than float32's 1; expected at most 0.05 worse"),
        ("mean_difference", 0.11, "low: found a mean difference to float32 of 0.11 Cel; expected at most 0.1"),
        ("max_difference", 5.5, "low: found a largest difference to float32 of 5.5 Cel; expected at most 1"),
        ("flags_agree", 0.98, "low: found flags or labels of float32 in 98.00% of the cases; expected 99.00%"),
    ):
        assert list(gate.metric_refusals(accept, good.model_copy(update={key: value}), "Cel")) == [said]


def test_seven_bit_and_unsigned_weights_cannot_overflow_and_eight_bit_ones_do() -> None:
    graph = large_weights()
    rows = _rows(graph)
    for recipe in ("u8s8_channel_7bit", "u8u8_channel", "u8s8_tensor_7bit", "u8u8_tensor"):
        assert nodes_at_risk(_made(graph, recipe, rows)) == ()
    made = _made(graph, "u8s8_channel", rows)
    assert len(nodes_at_risk(made)) == 1
    full = {"x": np.ones((3, 16), np.float32)}
    cutting = Simulation(made)
    cut, exact = cutting(full)["y"], Simulation(made, cuts=False)(full)["y"]
    assert sum(cutting.saturated.values()) == 3 * 8 * 4
    step = read_grid(made).output_scale["y"].step
    assert np.abs(cut - exact).max() > 3 * step
    assert np.abs(exact - open_exact(made.data)(full)["y"]).max() <= step


@pytest.mark.parametrize("recipe", ["u8s8_channel", "u8s8_tensor", "s8s8_symmetric"])
@pytest.mark.parametrize(
    "graph", [large_weights(), large_weights(15), small_conv(), small_conv(groups=2), small_conv(auto_pad="SAME_UPPER")],
    ids=["gemm", "odd", "conv", "groups", "same"],
)  # fmt: skip
def test_without_cuts_the_simulation_is_the_model(graph: Graph, recipe: str) -> None:
    rows = _rows(graph)
    made = _made(graph, recipe, rows)
    exact, host = Simulation(made, cuts=False)(rows), open_exact(made.data)(rows)
    for name, scale in read_grid(made).output_scale.items():
        assert np.abs(exact[name] - host[name]).max() <= scale.step * 1.001
        assert (exact[name] != host[name]).mean() < 0.02


@needs_qemu
def test_the_simulation_is_what_an_emulated_haswell_computes() -> None:
    for graph in (large_weights(), small_conv()):
        rows = _rows(graph)
        full = {name: np.concatenate([values, np.ones_like(values[:4])]) for name, values in rows.items()}
        made = {name: _made(graph, name, rows) for name in ("u8s8_channel", "s8s8_symmetric", "u8s8_channel_7bit")}
        found = run_emulated({name: one.data for name, one in made.items()}, full)
        output = graph.outputs[0].name
        for name, one in made.items():
            simulated = Simulation(one)(full)[output]
            step = read_grid(one).output_scale[output].step
            off = np.abs(simulated - found[name][output])
            assert off.max() <= step * 1.001, name
            assert (off > step / 2).mean() < 0.02, name
        host = open_session(made["u8s8_channel_7bit"].data)(full)[output]
        assert np.array_equal(found["u8s8_channel_7bit"][output], host)


def test_no_emulator_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DeviceError, match="qemu-x86_64-static: found not installed"):
        run_emulated({}, {})


@needs_qemu
def test_what_fails_in_the_emulator_is_said_in_one_line() -> None:
    with pytest.raises(DeviceError, match="qemu-x86_64-static -cpu Haswell-noTSX: found exit 1: ") as caught:
        run_emulated({"m": b"no model"}, {})
    assert "\n" not in str(caught.value)


def _profile(**changed: object) -> DeviceProfile:
    plain = {
        "schema": "edge-runtime/profile/1", "name": "one", "description": "d", "architectures": ["x86_64"],
        "providers": [{"name": "CPUExecutionProvider"}], "onnxruntime": "pip",
    }  # fmt: skip
    return DeviceProfile.model_validate(plain | changed)


def test_which_profiles_have_machines_without_vnni() -> None:
    assert gate.has_machines_without_vnni([])
    assert gate.has_machines_without_vnni([_profile()])
    assert not gate.has_machines_without_vnni([_profile(isa=["avx_vnni"])])
    assert not gate.has_machines_without_vnni([_profile(architectures=["aarch64"])])
    assert not gate.has_machines_without_vnni([_profile(providers=[{"name": "CUDAExecutionProvider"}])])
    assert gate.has_machines_without_vnni([_profile(isa=["avx_vnni"]), _profile(isa=["avx2"])])


def test_portability_refuses_an_overflow_and_an_emulated_difference() -> None:
    fine = gate.Portability(nodes_at_risk=0, sums_cut=0, cases=9, cases_changed=0, largest=0, words="none")
    assert list(gate.portability_refusals(fine)) == []
    assert list(gate.portability_refusals(fine.model_copy(update={"emulated": 1.0}))) == []
    (line,) = gate.portability_refusals(fine.model_copy(update={"emulated": 2.0}))
    assert "found 2 output steps of difference in emulation" in line
    cut = fine.model_copy(update={"sums_cut": 3, "words": "3 sums overflow; low is off by up to 2.4 Cel"})
    (line,) = gate.portability_refusals(cut)
    assert "low is off by up to 2.4 Cel; expected no overflow" in line


def test_differences_are_told_in_steps() -> None:
    host, other = {"y": np.array([0.0, 1.0], np.float32)}, {"y": np.array([0.5, 1.0], np.float32)}
    assert gate.in_steps(host, other, {"y": 0.25}) == 2.0
    assert gate.in_steps(host, host, {}) == 0.0
    assert gate.in_steps(host, other, {}) == pytest.approx(0.5 / (1e-5 * 0.5))


def test_faster_or_smaller_is_enough() -> None:
    wanted = Demands(accept=(Accept(output="y", metric="mae", allowed_loss=0),), faster=1.5, smaller=2.0)
    slow, quick = {1: 10.0, 64: 2.0}, {1: 10.0, 64: 1.0}
    assert gate.lacks_benefit(wanted, 100, 100, quick, slow) is None
    assert gate.lacks_benefit(wanted, 50, 100, slow, slow) is None
    said = gate.lacks_benefit(wanted, 60, 100, slow, slow)
    assert said == (
        "found 1.00 times as fast as float32 and 1.67 times smaller; expected 1.5 times as fast or 2 times smaller; "
        "keep float32, or lower gates.faster or gates.smaller if less is worth it"
    )
    said = gate.lacks_benefit(wanted, 135, 100, slow, slow)
    assert said is not None
    assert "and 1.35 times as large; expected" in said
