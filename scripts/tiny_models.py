"""Makes a small model of each kind, with the data an author would have; its answers are numpy's, not ONNX Runtime's.

Nothing is trained: weights are drawn from fixed seeds, so that each pack has the same bytes each time.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.bundle.arrays import write_arrays

Values = NDArray[Any]
F32 = np.float32


class Pack(NamedTuple):
    """What an author hands over beside the contract: the model, data and reference arrays."""

    model: onnx.ModelProto
    data: dict[str, Values]
    reference: dict[str, Values]


def gru() -> Pack:
    """A recurrent state with its batch in the middle: flow and pressure in, the share of water lost out."""
    random = np.random.default_rng(11)
    w, r = (random.normal(0, 0.5, (1, 12, size)).astype(F32) for size in (2, 4))
    b = random.normal(0, 0.2, (1, 24)).astype(F32)
    out, offset = random.normal(size=(4, 1)).astype(F32), np.array([0.3], F32)
    nodes = [
        helper.make_node("Unsqueeze", ["x", "first"], ["steps"], name="steps"),
        helper.make_node("GRU", ["steps", "w", "r", "b", "", "h"], ["", "h_next"], name="gru", hidden_size=4),
        helper.make_node("Squeeze", ["h_next", "first"], ["state"], name="state"),
        helper.make_node("Gemm", ["state", "out", "offset"], ["loss"], name="loss"),
    ]
    model = _model(
        nodes, {"x": ("batch", 2), "h": (1, "batch", 4)}, {"loss": ("batch", 1), "h_next": (1, "batch", 4)},
        {"w": w, "r": r, "b": b, "out": out, "offset": offset, "first": np.array([0])},
    )  # fmt: skip

    def answer(raw: Values) -> tuple[Values, Values]:
        tensor = ((raw - [12.0, 350.0]) / [5.0, 60.0]).astype(F32)
        h = np.zeros((len(raw), 4))
        for at in range(raw.shape[1]):
            h = _gru_step(tensor[:, at].astype(float), h, w[0], r[0], b[0])
        return tensor[:, -1], (h @ out + offset).astype(F32)

    def raw(cases: int) -> Values:
        walk = random.normal(0, 1, (cases, 6, 2)).cumsum(axis=1) * [1.0, 10.0]
        return np.asarray(np.clip(walk + np.array([12.0, 350.0]), [0.5, 200.0], [30.0, 550.0]).astype(F32))

    train, test, asked = raw(300), raw(60), raw(48)
    tensor, loss = answer(asked)
    data = {"train": train, "test": test, "test_loss": answer(test)[1][:, 0] * 4 + 10}
    return Pack(model, data, {"raw": asked, "tensor": tensor, "loss": loss})


def grain() -> Pack:
    """Two inputs, a spectrum with its grid and two numbers beside it; three outputs: a number, a label and a vector."""
    random = np.random.default_rng(12)
    ws, wa = random.normal(0, 0.3, (16, 6)).astype(F32), random.normal(0, 0.3, (2, 6)).astype(F32)
    heads = {name: random.normal(size=(6, size)).astype(F32) for name, size in (("m", 1), ("k", 3), ("p", 2))}
    nodes = [
        helper.make_node("MatMul", ["spectrum", "ws"], ["left"], name="left"),
        helper.make_node("MatMul", ["ambient", "wa"], ["right"], name="right"),
        helper.make_node("Add", ["left", "right"], ["sum"], name="sum"),
        helper.make_node("Tanh", ["sum"], ["hidden"], name="hidden"),
        helper.make_node("MatMul", ["hidden", "wm"], ["moisture"], name="moisture"),
        helper.make_node("MatMul", ["hidden", "wk"], ["kind"], name="kind"),
        helper.make_node("MatMul", ["hidden", "wp"], ["parts"], name="parts"),
    ]
    outputs: dict[str, tuple[str | int, ...]] = {"moisture": ("batch", 1), "kind": ("batch", 3), "parts": ("batch", 2)}
    model = _model(
        nodes, {"spectrum": ("batch", 16), "ambient": ("batch", 2)}, outputs,
        {"ws": ws, "wa": wa, **{f"w{name}": values for name, values in heads.items()}},
    )  # fmt: skip

    def raw(cases: int) -> tuple[Values, Values, Values]:
        points = np.linspace(0, 1, 16)
        peaks = random.uniform(0.2, 0.8, (cases, 1))
        spectrum = 0.4 + 0.5 * np.exp(-(((points - peaks) / 0.2) ** 2)) + random.normal(0, 0.01, (cases, 16))
        return (
            spectrum.astype(F32), random.uniform(5, 35, cases).astype(F32), random.uniform(20, 90, cases).astype(F32)
        )  # fmt: skip

    def tensors(spectrum: Values, temperature: Values, humidity: Values) -> tuple[Values, Values]:
        wide = spectrum.astype(float)
        variate = (wide - wide.mean(axis=1, keepdims=True)) / wide.std(axis=1, ddof=1, keepdims=True)
        ambient = (np.stack([temperature, humidity], 1).astype(float) - [20.0, 55.0]) / [8.0, 20.0]
        return variate.astype(F32), ambient.astype(F32)

    def answer(left: Values, right: Values) -> dict[str, Values]:
        hidden = np.tanh(left.astype(float) @ ws + right.astype(float) @ wa)
        return {name: (hidden @ heads[name]).astype(F32) for name in heads}

    train, test, asked = raw(200), raw(60), raw(40)
    keys = ("spectrum", "temperature", "humidity")
    made = answer(*tensors(*test))
    data = {f"{part}_{key}": values for part, arrays in (("train", train), ("test", test))
            for key, values in zip(keys, arrays, strict=True)}  # fmt: skip
    words = np.array(["wheat", "rye", "barley"])
    data |= {"test_moisture": made["m"][:, 0] * 3.0 + 14.0, "test_kind": words[made["k"].argmax(axis=1)]}
    left, right = tensors(*asked)
    reference = dict(zip(keys, asked, strict=True)) | {"left": left, "right": right} | answer(left, right)
    return Pack(model, data, reference)


def mill() -> Pack:
    """Two categories, one looked up and one as columns, and a number that is filled in where it is missing."""
    random = np.random.default_rng(13)
    w1, w2 = random.normal(0, 0.7, (5, 6)).astype(F32), random.normal(size=(6, 1)).astype(F32)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["sum"], name="sum"),
        helper.make_node("Relu", ["sum"], ["hidden"], name="hidden"),
        helper.make_node("MatMul", ["hidden", "w2"], ["wear"], name="wear"),
    ]
    model = _model(nodes, {"x": ("batch", 5)}, {"wear": ("batch", 1)}, {"w1": w1, "w2": w2})
    modes, tools = np.array(["idle", "rough", "finish"]), np.array(["steel", "carbide", "ceramic"])

    def raw(cases: int) -> tuple[Values, Values, Values]:
        speed = random.uniform(500, 6000, cases).astype(F32)
        speed[::7] = np.nan
        return modes[random.integers(0, 3, cases)], tools[random.integers(0, 3, cases)], speed

    def answer(mode: Values, tool: Values, speed: Values) -> tuple[Values, Values]:
        hot = (mode[:, None] == modes).astype(float)
        hardness = np.array([0.8, 1.6, 2.2])[[list(tools).index(one) for one in tool]]
        filled = np.where(np.isnan(speed), 3000.0, speed.astype(float))
        tensor = np.column_stack([hot, hardness, (filled - 3000.0) / 1500.0]).astype(F32)
        return tensor, (np.maximum(tensor.astype(float) @ w1, 0) @ w2).astype(F32)

    train, test, asked = raw(200), raw(60), raw(40)
    keys = ("mode", "tool", "speed")
    data = {f"{part}_{key}": values for part, arrays in (("train", train), ("test", test))
            for key, values in zip(keys, arrays, strict=True)}  # fmt: skip
    data["test_wear"] = answer(*test)[1][:, 0]
    tensor, wear = answer(*asked)
    reference = dict(zip(keys, asked, strict=True)) | {"tensor": tensor, "wear": wear}
    return Pack(model, data, reference)


def pump() -> Pack:
    """Two outputs, each with flags that hold on; differences in time; a second variant in int8 under the same contract."""
    random = np.random.default_rng(14)
    w1, b1 = random.normal(0, 0.5, (6, 8)).astype(F32), random.normal(0, 0.3, 8).astype(F32)
    heat, noise = (random.normal(0, 0.6, (8, 1)).astype(F32) for _ in range(2))
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], name="flat", axis=1),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["sum"], name="sum"),
        helper.make_node("Relu", ["sum"], ["hidden"], name="hidden"),
        helper.make_node("MatMul", ["hidden", "heat"], ["y_heat"], name="heat"),
        helper.make_node("MatMul", ["hidden", "noise"], ["y_noise"], name="noise"),
    ]
    model = _model(
        nodes, {"x": ("batch", 2, 3)}, {"y_heat": ("batch", 1), "y_noise": ("batch", 1)},
        {"w1": w1, "b1": b1, "heat": heat, "noise": noise},
    )  # fmt: skip

    def raw(cases: int) -> Values:
        walk = random.normal(0, 1, (cases, 2, 4)).cumsum(axis=2) * [[1.5], [0.2]] + [[60.0], [3.0]]
        return np.asarray(np.clip(walk, [[20.0], [0.1]], [[100.0], [7.0]]).astype(F32))

    def answer(values: Values) -> tuple[Values, Values, Values]:
        steps = np.diff(values.astype(float), axis=2)
        tensor = (steps / [[1.5], [0.2]]).astype(F32)
        hidden = np.maximum(tensor.reshape(len(values), -1).astype(float) @ w1 + b1, 0)
        return tensor, (hidden @ heat).astype(F32), (hidden @ noise).astype(F32)

    train, test, asked = raw(300), raw(80), raw(48)
    _, test_heat, test_noise = answer(test)
    data = {
        "train": train,
        "test": test,
        "test_heat": test_heat[:, 0] * 6 + 55,
        "test_noise": test_noise[:, 0] * 4 + 70,
    }
    tensor, y_heat, y_noise = answer(asked)
    reference = {"raw": asked, "tensor": tensor, "heat": y_heat, "noise": y_noise}
    return Pack(model, data, reference)


def bearing() -> Pack:
    """Half precision: a window of acceleration, filtered, to a spectrum in decibels, to one number."""
    random = np.random.default_rng(15)
    w = random.normal(0, 0.1, (27, 1)).astype(np.float16)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], name="flat", axis=1),
        helper.make_node("MatMul", ["flat", "w"], ["y"], name="y"),
    ]
    model = _model(nodes, {"x": ("batch", 9, 3)}, {"y": ("batch", 1)}, {"w": w}, TensorProto.FLOAT16)

    def raw(cases: int) -> Values:
        time = np.arange(16)[:, None]
        tone = np.sin(time * random.uniform(0.3, 2.5, (cases, 1, 3)) + random.uniform(0, 6, (cases, 1, 3)))
        return (tone * random.uniform(0.5, 4, (cases, 1, 3)) + random.normal(0, 0.1, (cases, 16, 3))).astype(F32)

    def answer(values: Values) -> tuple[Values, Values]:
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(16) / 16)
        lines = np.fft.rfft(values.astype(float) * hann[:, None], axis=1)
        level = 20 * np.log10(np.maximum(np.abs(lines), 1e-3))
        tensor = (level / 40.0).astype(np.float16)
        return tensor, (tensor.reshape(len(values), -1).astype(float) @ w.astype(float)).astype(np.float16)

    train, test, asked = raw(120), raw(40), raw(40)
    data = {"train": train, "test": test, "test_y": answer(test)[1][:, 0].astype(float)}
    tensor, y = answer(asked)
    return Pack(model, data, {"raw": asked, "tensor": tensor, "y": y})


def trees() -> Pack:
    """Two trees as scikit-learn's converters write a classifier: text labels, and its scores as a sequence of maps."""
    random = np.random.default_rng(16)
    classes = ["dry", "wet", "frozen"]
    # A tree is (feature, threshold, false branch's class, feature and threshold of the true branch, its two classes).
    forest = [(1, 70.0, 0, 0, 1.0, 2, 1), (0, 4.0, 0, 1, 85.0, 2, 1)]
    tree, ids, features, modes, values, yes, no, track = [], [], [], [], [], [], [], []
    for number, (f0, t0, _, f1, t1, _, _) in enumerate(forest):
        # Node 0: leaf 1 where x <= t0 does not hold, else node 2 with its leaves 3 and 4. A missing value goes left.
        for node, mode, feature, value, left, right in (
            (0, "BRANCH_GT", f0, t0, 2, 1), (1, "LEAF", 0, 0.0, 0, 0), (2, "BRANCH_LEQ", f1, t1, 3, 4),
            (3, "LEAF", 0, 0.0, 0, 0), (4, "LEAF", 0, 0.0, 0, 0),
        ):  # fmt: skip
            tree.append(number)
            ids.append(node)
            features.append(feature)
            modes.append(mode)
            values.append(value)
            yes.append(left)
            no.append(right)
            track.append(1)
    leaves = [(number, node, place) for number, one in enumerate(forest)
              for node, place in ((1, one[2]), (3, one[5]), (4, one[6]))]  # fmt: skip
    nodes = [
        helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["label", "scores"], name="trees", domain="ai.onnx.ml",
            nodes_treeids=tree, nodes_nodeids=ids, nodes_featureids=features, nodes_modes=modes, nodes_values=values,
            nodes_truenodeids=yes, nodes_falsenodeids=no, nodes_missing_value_tracks_true=track,
            class_treeids=[one[0] for one in leaves], class_nodeids=[one[1] for one in leaves],
            class_ids=[one[2] for one in leaves], class_weights=[0.5] * len(leaves),
            classlabels_strings=classes, post_transform="NONE",
        ),
        helper.make_node("ZipMap", ["scores"], ["probability"], name="map", domain="ai.onnx.ml",
                         classlabels_strings=classes),
    ]  # fmt: skip
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        nodes, "trees", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"]),
         helper.make_value_info("probability", maps)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def raw(cases: int) -> Values:
        values = np.stack([random.uniform(-15, 25, cases), random.uniform(20, 100, cases)], 1).astype(F32)
        values[::6, 0] = np.nan
        return values

    def answer(values: Values) -> tuple[Values, Values]:
        scores = np.zeros((len(values), 3), F32)
        for row, case in enumerate(values):
            for f0, t0, leaf, f1, t1, low, high in forest:
                first = np.isnan(case[f0]) or case[f0] > t0
                second = np.isnan(case[f1]) or case[f1] <= t1
                scores[row, (low if second else high) if first else leaf] += 0.5
        return np.array(classes)[scores.argmax(axis=1)], scores

    train, test, asked = raw(200), raw(60), raw(60)
    label, scores = answer(asked)
    data = {"train": train, "test": test, "test_label": answer(test)[0]}
    return Pack(
        model, data,
        {"raw": asked, "tensor": asked, "label": label, "probability": scores},
    )  # fmt: skip


def bits() -> Pack:
    """Bytes as they come, one picture at a time, to the number of a label; the author's own preprocessing is not needed."""
    random = np.random.default_rng(17)
    w = random.integers(-3, 4, (12, 4)).astype(F32)
    nodes = [
        helper.make_node("Cast", ["picture"], ["wide"], name="wide", to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["wide"], ["flat"], name="flat", axis=1),
        helper.make_node("MatMul", ["flat", "w"], ["scores"], name="scores"),
        helper.make_node("ArgMax", ["scores"], ["place"], name="place", axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "bits", [helper.make_tensor_value_info("picture", TensorProto.UINT8, [1, 4, 3])],
        [helper.make_tensor_value_info("place", TensorProto.INT64, [1])], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)

    def raw(cases: int) -> Values:
        return random.integers(0, 256, (cases, 4, 3)).astype(np.uint8)

    def answer(values: Values) -> Values:
        return np.asarray((values.reshape(len(values), -1).astype(float) @ w).argmax(axis=1))

    train, test, asked = raw(100), raw(40), raw(40)
    words = np.array(["north", "east", "south", "west"])
    data = {"train": train, "test": test, "test_side": words[answer(test)]}
    return Pack(model, data, {"raw": asked, "tensor": asked, "place": answer(asked)})


PACKS = {one.__name__: one for one in (gru, grain, mill, pump, bearing, trees, bits)}


def write(folder: Path) -> None:
    """Write model, data and reference of every pack into a folder of its own; the contracts stand there already."""
    for name, make in PACKS.items():
        pack = make()
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        onnx.checker.check_model(pack.model)
        (place / "model.onnx").write_bytes(pack.model.SerializeToString(deterministic=True))
        (place / "data.npz").write_bytes(write_arrays(pack.data))
        (place / "reference.npz").write_bytes(write_arrays(pack.reference))


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[str | int, ...]],
    outputs: dict[str, tuple[str | int, ...]],
    stored: dict[str, Values],
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(values, name) for name, values in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _gru_step(x: Values, h: Values, w: Values, r: Values, b: Values) -> Values:
    """ONNX's GRU with linear_before_reset = 0: gates in the order z, r, h; ``b`` is the input's bias, then the state's."""
    wz, wr, wh = w[:4], w[4:8], w[8:]
    rz, rr, rh = r[:4], r[4:8], r[8:]
    bwz, bwr, bwh, brz, brr, brh = (b[at : at + 4] for at in range(0, 24, 4))
    z = _sigmoid(x @ wz.T + h @ rz.T + bwz + brz)
    reset = _sigmoid(x @ wr.T + h @ rr.T + bwr + brr)
    fresh = np.tanh(x @ wh.T + (reset * h) @ rh.T + brh + bwh)
    return np.asarray((1 - z) * fresh + z * h)


def _sigmoid(x: Values) -> Values:
    return 1 / (1 + np.exp(-x))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
