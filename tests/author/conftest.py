import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.engine.session import open_session

MEAN, STD = (20.0, 50.0), (10.0, 25.0)

CONTRACT = """
id = "tiny"
version = "1.2.3"
security_version = 1
description = "two readings of two channels -> a temperature"
model = "model.onnx"
precision = "{precision}"
batch_sizes = [1, 2, 4]

[provenance]
checkpoint = "tiny.pt"
checkpoint_sha256 = "{sha}"
framework = "by hand"
exporter = "onnx.helper"
training_data = "drawn at random"
licence = "CC0-1.0"
limits = "a test"

[data]
file = "data.npz"
axes = ["case", "channel", "time"]
train = {{ values = "train", target = "train_y" }}
test = {{ values = "test", target = "test_y" }}

[reference]
file = "reference.npz"
raw = "raw"
tensor = "tensor"
output = "answered"

[[input]]
axes = ["batch", "channel", "time"]

[[input.channel]]
name = "air_temperature"
unit = "Cel"
tolerated = [-30, 50]
physical = [-60, 60]

[[input.channel]]
name = "relative_humidity"
unit = "%"
tolerated = [0, 100]
physical = [0, 105]

[window]
length = 3
period_s = 60

[[input.preprocess]]
step = "standardize"
mean = [20.0, 50.0]
std = [10.0, 25.0]

[[output]]
tensor = "low"
name = "low"
meaning = "a temperature"
unit = "Cel"
postprocess = [{{ step = "destandardize", mean = 10.0, std = 5.0 }}]
flags = [{{ name = "frost", side = "below", on = 2.0, off = 2.5 }}]

[needs]
latency_p99_ms = 1000
memory_mb = 2000

[goldens]
count = 24
"""


def tiny_model(*, batch: str | int = "batch", length: int = 3) -> onnx.ModelProto:
    """Flatten (batch, 2, 3) -> Gemm 6x4 -> Relu -> Gemm 4x1, with weights of a fixed seed."""
    random = np.random.default_rng(7)
    weights = {
        "w1": random.normal(size=(2 * length, 4)).astype(np.float32),
        "b1": random.normal(size=4).astype(np.float32),
        "w2": random.normal(size=(4, 1)).astype(np.float32),
        "b2": random.normal(size=1).astype(np.float32),
    }
    nodes = [
        helper.make_node("Flatten", ["window"], ["flat"], name="flatten", axis=1),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["hidden"], name="first"),
        helper.make_node("Relu", ["hidden"], ["active"], name="relu"),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["low"], name="second"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("window", TensorProto.FLOAT, [batch, 2, length])],
        [helper.make_tensor_value_info("low", TensorProto.FLOAT, [batch, 1])],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


class Pack(NamedTuple):
    """A small author's folder that builds; a test breaks one thing in it."""

    folder: Path

    @property
    def contract(self) -> Path:
        return self.folder / "contract.toml"

    def edit(self, old: str, new: str) -> None:
        text = self.contract.read_text()
        assert text.count(old) >= 1, old
        self.contract.write_text(text.replace(old, new, 1))

    def arrays(self, file: str, change: Callable[[dict[str, Any]], None]) -> None:
        with np.load(self.folder / file) as archive:
            found = {name: archive[name] for name in archive.files}
        change(found)
        np.savez(self.folder / file, **found)


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = Pack(folder)
    model = tiny_model().SerializeToString()
    (folder / "model.onnx").write_bytes(model)
    made.contract.write_text(CONTRACT.format(precision="int8", sha=hashlib.sha256(b"").hexdigest()))
    random = np.random.default_rng(3)

    def raw(cases: int) -> np.ndarray:
        temperature = random.uniform(-10, 35, (cases, 1, 3))
        humidity = random.uniform(10, 95, (cases, 1, 3))
        return np.concatenate([temperature, humidity], axis=1).astype(np.float32)

    session = open_session(model)

    def tensor(values: np.ndarray) -> np.ndarray:
        mean, std = np.array(MEAN)[:, None], np.array(STD)[:, None]
        return ((values.astype(np.float64) - mean) / std).astype(np.float32)

    def target(values: np.ndarray) -> np.ndarray:
        return session({"window": tensor(values)})["low"][:, 0] * 5.0 + 10.0

    train, test, asked = raw(200), raw(50), raw(40)
    np.savez(folder / "data.npz", train=train, train_y=target(train), test=test, test_y=target(test))
    answered = session({"window": tensor(asked)})["low"]
    np.savez(folder / "reference.npz", raw=asked, tensor=tensor(asked), answered=answered)
    return made
