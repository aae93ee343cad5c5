"""A contract beside its data and model: bands that training leaves, a window without pace, a softmax done twice."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

from edge_runtime.author.build import Build, build
from edge_runtime.author.lint_contract import bands, pace, twice
from edge_runtime.spec.inputs import Channel, Window
from edge_runtime.spec.outputs import Output
from tests.author.conftest import Pack

REASON = "the station stood elsewhere for a year, and its data were kept on purpose"


def _build(pack: Pack) -> Build:
    return build(pack.contract, None, lambda _: None, strengthens=False)


def _channel(low: float, high: float) -> Channel:
    return Channel.model_validate(
        {"name": "ph", "unit": "[pH]", "trained": {"min": 0.1, "max": 13.7}, "tolerated": {"min": low, "max": high},
         "physical": {"min": 0, "max": 20}}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.1, 14, None), (4, 18, "trained-beyond-tolerated"), (8, 18, "trained-mostly-beyond"),
        (0.1, 13, "trained-beyond-tolerated"),
    ],
)  # fmt: skip
def test_training_outside_what_is_tolerated(low: float, high: float, found: str | None) -> None:
    train = np.linspace(0.1, 13.7, 100).reshape(100, 1, 1)
    told = [*bands([_channel(low, high)], train)]
    assert [one.id for one in told] == ([found] if found else [])


def test_the_channel_both_bands_and_the_share_are_said() -> None:
    train = np.array([[[5.0], [0.1]], [[5.0], [6.0]], [[13.7], [7.0]], [[5.0], [5.0]]])  # one sample of case 0
    (one,) = bands([_channel(4, 18)], train)
    assert str(one).startswith(
        "channel ph: trained 0.1 to 13.7 [pH], tolerated 4 to 18: 25.0% of the training cases are outside ["
    )


def test_bands_of_two_swapped_channels_fail_the_build_unless_waived(pack: Pack) -> None:
    """A temperature of -10 to 35 in the place of a humidity of 45 to 100."""
    pack.edit("tolerated = [-30, 50]", "tolerated = [45, 50]")
    (line,) = _build(pack).failures
    assert line.startswith("channel air_temperature: trained -")
    assert "100.0% of the training cases are outside [trained-mostly-beyond]" in line
    pack.edit("[goldens]", f'[waive]\ntrained-mostly-beyond = "{REASON}"\n\n[goldens]')
    assert _build(pack).failures == ()


def test_a_window_without_pace_is_warned_of() -> None:
    assert [one.id for one in pace(Window(length=3))] == ["no-pace"]
    assert [*pace(Window(length=3, period_s=60)), *pace(Window(length=1)), *pace(None)] == []


def test_the_build_warns_of_a_window_without_pace(pack: Pack) -> None:
    assert not any("[no-pace]" in line for line in _build(pack).record.warnings)
    pack.edit("period_s = 60\n", "")
    (line,) = (line for line in _build(pack).record.warnings if "[no-pace]" in line)
    assert line.startswith("window: 3 samples, and no period_s")


def _model(*operators: str) -> onnx.ModelProto:
    nodes = [helper.make_node(name, [f"t{at}"], [f"t{at + 1}"]) for at, name in enumerate(operators)]
    value = [helper.make_tensor_value_info(f"t{at}", onnx.TensorProto.FLOAT, ["batch", 3]) for at in (0, len(nodes))]
    return helper.make_model(helper.make_graph(nodes, "m", value[:1], value[1:]))


def _output(tensor: str, *steps: str) -> Output:
    return Output.model_validate(
        {
            "tensor": tensor,
            "name": "y",
            "meaning": "m",
            "form": "vector",
            "postprocess": [{"step": one} for one in steps],
        }
    )


LOGITS = np.array([[1.0, -2.0, 2.0], [0.2, 0.3, 0.5]])
SHARES = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0005]])


@pytest.mark.parametrize(
    ("operators", "steps", "answered", "is_found"),
    [
        (["Relu", "Softmax"], ["softmax"], LOGITS, True),
        (["Softmax", "Identity"], ["softmax"], LOGITS, True),
        (["Softmax", "Relu"], ["softmax"], LOGITS, False),
        (["Softmax"], [], SHARES, False),
        (["Softmax"], ["exponential"], SHARES, False),
        (["Relu"], ["softmax"], SHARES, True),
        (["Relu"], ["softmax"], SHARES * 1.01, False),
        (["Relu"], ["softmax"], SHARES[:, :1], False),
        (["Sigmoid"], ["sigmoid"], LOGITS, True),
        (["Sigmoid"], ["softmax"], LOGITS, False),
        (["Relu"], ["sigmoid"], SHARES, False),
    ],
)  # fmt: skip
def test_a_step_that_the_model_has_done(
    operators: list[str], steps: list[str], answered: np.ndarray, is_found: bool
) -> None:
    tensor = f"t{len(operators)}"
    found = [*twice(_model(*operators), [_output(tensor, *steps)], {tensor: answered.astype(np.float32)})]
    assert [one.id for one in found] == ["postprocess-twice"] * is_found


def test_a_second_sigmoid_fails_the_build_unless_waived(pack: Pack) -> None:
    model = onnx.load(pack.folder / "model.onnx")
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("Sigmoid", ["before"], ["low"]))
    onnx.save(model, pack.folder / "model.onnx")
    pack.arrays("reference.npz", lambda found: found.update(answered=1 / (1 + np.exp(-found["answered"]))))
    pack.edit('"int8"', '"float32"')
    pack.edit(', target = "test_y"', "")
    pack.edit(', target = "train_y"', "")
    text = pack.contract.read_text()
    pack.contract.write_text(re.sub("postprocess = .*", 'postprocess = [{ step = "sigmoid" }]', text))
    pack.edit('unit = "Cel"\npostprocess', 'unit = "1"\npostprocess')
    (line,) = _build(pack).failures
    assert line.startswith("output low, postprocess: sigmoid over low, which the model's own last Sigmoid gives [")
    pack.edit("[goldens]", f'[waive]\npostprocess-twice = "{REASON}"\n\n[goldens]')
    assert _build(pack).failures == ()
