"""The first step before the model, and after it, that is another contract's; the words that say what of it is another."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from edge_runtime.author.bisect_answers import first_after
from edge_runtime.author.bisect_steps import FoundStep, first_before
from edge_runtime.bundle.golden import decode
from edge_runtime.spec.manifest import parse
from tests.rig.bundles import FROST, ROOT, manifest_of

GRAIN, MILL, PUMP, GRU = (ROOT / "bundles" / f"tiny_{name}" for name in ("grain", "mill", "pump", "gru"))
Change = Callable[[dict[str, Any]], object]


def _set(value: Any, *path: str | int) -> Change:
    def change(raw: dict[str, Any]) -> None:
        table: Any = raw
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value

    return change


def _compared(bundle: Any, change: Change, first: Callable[..., FoundStep | None]) -> FoundStep | None:
    raw = manifest_of(bundle)
    reference = parse(json.dumps(raw).encode())
    change(raw)
    name = reference.variants[0].goldens
    return first(parse(json.dumps(raw).encode()), reference, decode((bundle / name).read_bytes(), subject=name))


@pytest.mark.parametrize("bundle", [FROST, GRAIN, MILL, PUMP, GRU], ids=lambda path: path.name)
def test_equal_contracts(bundle: Any) -> None:
    assert _compared(bundle, lambda _: None, first_before) is None
    assert _compared(bundle, lambda _: None, first_after) is None


@pytest.mark.parametrize(
    ("bundle", "change", "name", "kind", "word"),
    [
        (FROST, _set(9.9, "inputs", 0, "steps", 0, "std", 1), "input window, step 1", "standardize", "std at 1"),
        (FROST, _set(9.9, "inputs", 0, "steps", 0, "std", 1), "input window, step 1", "standardize",
         "channel relative_humidity"),
        (FROST, _set("newest_first", "window", "order"), "input window", "window", "order newest_first, not oldest_first"),
        (FROST, _set("[degF]", "inputs", 0, "channels", 0, "unit"), "the contract", "channel air_temperature",
         "channel air_temperature: unit [degF], not Cel"),
        (GRAIN, _set([], "inputs", 0, "steps"), "input spectrum, step 1", "snv", "no step in place of snv"),
        (GRU, _set(0.25, "state", 0, "initial"), "state h", "state", "initial 0.25, not 0.0"),
    ],
)  # fmt: skip
def test_before_the_model(bundle: Any, change: Change, name: str, kind: str, word: str) -> None:
    found = _compared(bundle, change, first_before)
    assert found is not None
    assert (found.name, found.kind) == (name, kind)
    assert word in found.differs


def test_two_channels_exchanged() -> None:
    def change(raw: dict[str, Any]) -> None:
        channels = raw["inputs"][0]["channels"]
        channels[0], channels[1] = channels[1], channels[0]

    found = _compared(FROST, change, first_before)
    assert found is not None
    assert (found.name, found.kind) == ("the contract", "order of channels")
    assert "relative_humidity stands where air_temperature belongs" in found.differs


def test_another_window() -> None:
    found = _compared(PUMP, _set(3, "window", "length"), first_before)
    assert found is not None
    assert (found.name, found.kind) == ("the contract", "window")


def test_other_channels() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["inputs"][0]["channels"][0]["name"] = "other"
        del raw["negative_goldens"]

    found = _compared(PUMP, change, first_before)
    assert found is not None
    assert (found.kind, found.differs) == ("channels", ("other channels",))


@pytest.mark.parametrize(
    ("bundle", "change", "name", "kind", "word"),
    [
        (FROST, _set(1.5, "outputs", 0, "postprocess", 0, "std"), "output low, step 1", "destandardize", "std 1.5, not "),
        (FROST, _set([], "outputs", 0, "postprocess"), "output low, step 1", "destandardize", "no step in place of"),
        (FROST, _set("K", "outputs", 0, "unit"), "output low", "unit", "unit K, not Cel"),
        (FROST, _set(-1.0, "outputs", 0, "flags", 0, "on"), "output low", "flags", "flag frost: on -1.0, not "),
        (FROST, _set([], "outputs", 0, "flags"), "output low", "flags", "0 flags, not 1"),
        (GRAIN, _set("kind", "outputs", 2, "tensor"), "output parts", "tensor", "tensor kind, not parts"),
        (GRAIN, _set("other", "outputs", 2, "name"), "output parts", "output", "it is not there"),
    ],
)  # fmt: skip
def test_after_the_model(bundle: Any, change: Change, name: str, kind: str, word: str) -> None:
    found = _compared(bundle, change, first_after)
    assert found is not None
    assert (found.name, found.kind) == (name, kind)
    assert any(one.startswith(word) for one in found.differs)


def test_labels_in_another_order() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["outputs"][1]["labels"].reverse()

    found = _compared(GRAIN, change, first_after)
    assert found is not None
    assert (found.name, found.kind) == ("output kind", "labels")
