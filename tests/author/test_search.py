from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.author import choice
from edge_runtime.author import search as search_module
from edge_runtime.author.build import build
from edge_runtime.author.choice import sensitive_nodes
from edge_runtime.author.demands import Demands
from edge_runtime.author.latency import latencies
from edge_runtime.author.quantize import quantize
from edge_runtime.author.recipes import RECIPES
from edge_runtime.author.record import encode_record, read_record
from edge_runtime.author.search import repeat, search
from edge_runtime.author.trials import SearchRecord, table
from edge_runtime.device.probe import probe
from edge_runtime.engine.session import open_session
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.device_profile import DeviceProfile
from tests.author.conftest import Pack
from tests.author.searching import bench, demands

_VNNI = DeviceProfile.model_validate({
    "schema": "edge-runtime/profile/1", "name": "one", "description": "d", "architectures": ["x86_64"],
    "isa": ["avx_vnni"], "providers": [{"name": "CPUExecutionProvider"}], "onnxruntime": "pip",
})  # fmt: skip
GATES = """
[gates]
smaller = 0.1
calibrators = ["minmax"]

[[gates.accept]]
output = "low"
metric = "mae"
allowed_loss = {loss}
"""


@pytest.fixture(autouse=True)
def no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulation takes seconds; that it agrees is tested where the gate is."""
    monkeypatch.setattr(search_module, "is_available", lambda: False)


def _found(pack: Pack, wanted: Demands, precision: str = "int8", profiles: tuple = ()):
    made = bench(pack)
    return search(
        made.model, made.graph, made.material, wanted, precision=precision, profiles=profiles, subject="m",
        tell=lambda _: None,
    )  # fmt: skip


def test_the_winner_passes_every_gate_and_is_made_again_from_the_record(pack: Pack) -> None:
    outcome = _found(pack, demands())
    trials = {one.name: one for one in outcome.record.trials}
    assert outcome.graph is not None
    assert trials[outcome.record.winner].verdict == "winner"
    assert [one.verdict for one in outcome.record.trials].count("winner") == 1
    assert trials[outcome.record.winner].portability.nodes_at_risk == 0
    assert trials["float32"].measured["low"].loss == 0.0
    assert outcome.failures == ()
    kept = SearchRecord.model_validate_json(outcome.record.model_dump_json())
    assert kept == outcome.record
    again = repeat(bench(pack).graph, kept, subject="m")
    assert again.graph.data == outcome.graph.data
    lines = table(kept, demands().accept[0])
    assert len(lines) == 1 + len(kept.trials)
    assert sum("winner" in line for line in lines) == 1


def test_nothing_that_passes_is_nothing_chosen_with_a_line_for_each(pack: Pack) -> None:
    outcome = _found(pack, demands(allowed_loss=0.0, max_difference=1e-9))
    assert outcome.graph is None
    assert outcome.record.winner is None
    refused = {line.split(":")[0] for line in outcome.failures}
    assert "u8s8_channel_7bit/minmax" in refused
    assert all("\n" not in line for line in outcome.failures)


def test_eight_bit_weights_per_channel_are_refused_unless_every_machine_has_vnni(pack: Pack) -> None:
    wanted = demands().model_copy(update={"recipes": ("u8s8_channel",), "calibrators": ("minmax",)})
    outcome = _found(pack, wanted)
    assert outcome.graph is None
    (line,) = outcome.failures
    assert line.startswith("u8s8_channel/minmax: x86-64 without VNNI: found ")
    assert "low is off by up to" in line
    assert _found(pack, wanted, profiles=(_VNNI,)).record.winner == "u8s8_channel/minmax"


def test_auto_takes_float32_where_nothing_is_gained_and_int8_warns(pack: Pack) -> None:
    dear = demands().model_copy(update={"smaller": 1000.0, "faster": 1000.0})
    outcome = _found(pack, dear, "auto")
    assert outcome.record.winner == "float32"
    assert any("benefit: found" in line for one in outcome.record.trials for line in one.refusals)
    demanded = _found(pack, dear)
    assert demanded.record.winner is not None
    (warning,) = demanded.warnings
    assert "expected 1000 times as fast or 1000 times smaller; keep float32" in warning
    assert _found(pack, demands(), "auto").recipe.precision == "int8"


def test_a_model_that_is_quantized_already_is_gated_and_never_quantized_again(pack: Pack) -> None:
    made = bench(pack)
    tensors = {"window": np.random.default_rng(2).normal(size=(130, 2, 3)).astype(np.float32)}
    graph = quantize(made.graph, tensors, subject="m").graph
    model = made.model._replace(infer=open_session(graph.data))

    def run(precision: str, wanted: Demands):
        return search(
            model, graph, made.material, wanted, precision=precision, profiles=(), subject="m", tell=lambda _: None
        )

    for precision in ("as_is", "auto"):
        outcome = run(precision, demands())
        assert [one.recipe for one in outcome.record.trials] == ["as_is"]
        assert outcome.graph.data == graph.data
        assert outcome.record.trials[0].portability is not None
        assert outcome.record.trials[0].measured["low"].max_difference > 0
    assert run("as_is", demands(max_difference=1e-6)).graph is None
    with pytest.raises(ConfigurationError, match="found int8 of a model that is quantized already"):
        run("int8", demands())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"output": "high"}, "m, gate: found output 'high'; expected one of low"),
        ({"metric": "no.such:thing", "better": "lower"}, "gate of output low: found no no.such:thing"),
    ],
)
def test_gates_that_do_not_fit_are_one_line(pack: Pack, changed: dict, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        _found(pack, demands(**changed))


def test_a_recipe_that_is_none_is_named(pack: Pack) -> None:
    with pytest.raises(ConfigurationError, match="m, recipes: found u4s4; expected one of "):
        _found(pack, demands().model_copy(update={"recipes": ("u4s4",)}))


def test_a_record_without_its_recipe_is_refused(pack: Pack) -> None:
    with pytest.raises(ConfigurationError, match="found winner 'gone/minmax'"):
        repeat(bench(pack).graph, SearchRecord(trials=(), winner="gone/minmax", ranges="{}"), subject="m")
    assert repeat(bench(pack).graph, SearchRecord(trials=(), winner=None), subject="m").graph is None


def test_sensitive_nodes_are_those_that_cost_most() -> None:
    assert sensitive_nodes({"a": 0.5, "b": 0.01, "c": 0.02, "d": 0.1}) == ("a",)
    assert sensitive_nodes({"a": 0.5, "b": 0.4, "c": 0.01, "d": 0.1}) == ("a", "b")
    assert sensitive_nodes({"a": 0.1, "b": 0.1, "c": 0.1}) == ()
    assert sensitive_nodes({"a": 0.1}) == ()


def test_latencies_take_turns_and_are_medians_a_row() -> None:
    ticks = iter(range(0, 10**9, 1000))
    order: list[str] = []
    models = {name: lambda _, name=name: order.append(name) for name in ("one", "two")}
    found = latencies(models, {"x": np.zeros((3, 2))}, {}, (1, 4), clock=lambda: next(ticks))
    assert set(found) == {"one", "two"}
    assert found["one"][1] == found["two"][1] == pytest.approx(1.0 / 50, abs=1e-3)
    assert found["one"][4] == pytest.approx(1.0 / 50 / 4, abs=1e-3)
    rounds = order[order.index("two") + 2 :]
    assert rounds[:50] == ["one"] * 50
    assert rounds[50:100] == ["two"] * 50


def _with_gates(pack: Pack, loss: float, precision: str = "int8") -> None:
    pack.edit('test = { values = "test", target = "test_y" }', 'validation = { values = "test", target = "test_y" }')
    pack.edit('precision = "int8"', f'precision = "{precision}"')
    pack.contract.write_text(pack.contract.read_text() + GATES.format(loss=loss))


@pytest.mark.skipif(probe().architecture not in ("x86_64", "aarch64"), reason="no shipped profile")
@pytest.mark.parametrize("precision", ["int8", "auto", "float16"])
def test_a_build_with_gates_searches_and_its_record_repeats_it(pack: Pack, precision: str) -> None:
    _with_gates(pack, 1.0, precision)
    first = build(pack.contract, None, lambda _: None, strengthens=False)
    assert first.failures == ()
    assert first.record.search.winner.startswith("float16" if precision == "float16" else "u8")
    path = pack.folder / "build.json"
    path.write_bytes(encode_record(first.record))
    again = build(pack.contract, read_record(path), lambda _: None, strengthens=False)
    assert (again.files, again.failures) == (first.files, ())
    assert encode_record(again.record) == encode_record(first.record)


def test_a_build_where_nothing_passes_fails_with_each_refusal(pack: Pack) -> None:
    _with_gates(pack, 0.0)
    pack.contract.write_text(pack.contract.read_text() + "max_difference = 1e-9\n")
    made = build(pack.contract, None, lambda _: None, strengthens=False)
    assert len([line for line in made.failures if line.startswith("u8")]) >= 6


def test_auto_needs_gates_and_gates_need_validation_data(pack: Pack) -> None:
    pack.edit('precision = "int8"', 'precision = "auto"')
    with pytest.raises(ConfigurationError, match=r"precision: found 'auto' without \[gates\]"):
        build(pack.contract, None, lambda _: None, strengthens=False)
    pack.contract.write_text(pack.contract.read_text() + GATES.format(loss=1.0))
    with pytest.raises(ConfigurationError, match=r"gates: found no data.validation"):
        build(pack.contract, None, lambda _: None, strengthens=False)


def _candidate(name: str, *, at_risk: int, us: float, distance: float) -> SimpleNamespace:
    recipe = next(one for one in RECIPES if one.name == name)
    portability = SimpleNamespace(nodes_at_risk=at_risk)
    return SimpleNamespace(recipe=recipe, name=name, portability=portability, latency={1: us}, distance=distance)


def test_what_cannot_overflow_goes_first_then_the_fastest_then_the_nearest() -> None:
    def best(*candidates: SimpleNamespace) -> str:
        return choice.best(candidates, {1: 10.0}).name

    safe = _candidate("u8s8_channel_7bit", at_risk=0, us=10.0, distance=0.2)
    near = _candidate("u8s8_tensor", at_risk=3, us=5.0, distance=0.1)
    slow = _candidate("u8u8_channel", at_risk=0, us=12.0, distance=0.01)
    alike = _candidate("u8u8_tensor", at_risk=0, us=11.0, distance=0.1)
    assert best(safe, near) == "u8s8_channel_7bit"
    assert best(safe, slow) == "u8s8_channel_7bit"
    assert best(safe, slow, alike) == "u8u8_tensor"
    assert choice.best([], {1: 10.0}) is None
