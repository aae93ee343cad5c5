"""From a torch network to a proven bundle: `python examples/export_from_torch.py FOLDER` walks every step once, and says so.

It needs torch (2.13 is what it is tested with, on the CPU), onnxscript and edge-runtime[cpu,author]. The task is small on
purpose: 16 readings of temperature and humidity, a minute apart -> the dew point at the last of them. Everything is drawn
from a fixed seed; the model is a demonstration and worth nothing at a real station.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edge_runtime.author import assert_parity, build_bundle, record_reference
from edge_runtime.errors import EdgeRuntimeError

LENGTH = 16
MEAN, STD = (12.0, 60.0), (9.0, 20.0)  # of the two channels, in Cel and %
LOW, SPREAD = 5.0, 9.0  # the target's own mean and standard deviation, Cel

CONTRACT = """\
id = "dewpoint-torch"
version = "1.0.0"
security_version = 1
description = "16 readings of temperature and humidity, a minute apart -> dew point at the last of them"
model = "model.onnx"
precision = "float32"

[provenance]
checkpoint = "checkpoint.pt"
checkpoint_sha256 = "{checkpoint_sha256}"
framework = "torch {torch_version}"
exporter = "torch.export, torch.onnx.export(dynamo=True), opset 18, batch axis dynamic"
training_data = "drawn at random, the Magnus formula as the truth"
licence = "CC0-1.0"
limits = "drawn at random: a demonstration of the export, not a hygrometer"

[data]
file = "data.npz"
axes = ["case", "channel", "time"]
train = {{ values = "train", target = "train_dew_point" }}
test = {{ values = "test", target = "test_dew_point" }}

{reference}
[[input]]
axes = ["batch", "channel", "time"]

[[input.channel]]
name = "air_temperature"
unit = "Cel"
tolerated = [-20, 45]
physical = [-60, 60]

[[input.channel]]
name = "relative_humidity"
unit = "%"
tolerated = [5, 100]
physical = [0, 105]

[window]
length = 16
period_s = 60

[[input.preprocess]]
step = "standardize"
mean = [12.0, 60.0]
std = [9.0, 20.0]

[[output]]
tensor = "dew_point"
name = "dew_point"
meaning = "dew point at the last reading"
unit = "Cel"
postprocess = [{{ step = "destandardize", mean = 5.0, std = 9.0 }}]

[needs]
latency_p99_ms = 100
memory_mb = 500
"""


class Network(nn.Module):
    """Two convolutions and a line; BatchNorm and Dropout are in it because they are what an export gets wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(2, 16, 3, padding=1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(16 * LENGTH, 1))

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """``(batch, 2, 16)`` standardized -> ``(batch, 1)`` standardized."""
        return self.head(self.features(window).flatten(1))


def main(folder: Path) -> None:
    """Train, export, record, build and compare; every file ends up in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    train, test = draw(2000, seed=1), draw(400, seed=2)
    np.savez(
        folder / "data.npz", train=train, train_dew_point=dew_point(train), test=test, test_dew_point=dew_point(test)
    )
    network = Network()
    fit(network, train)
    torch.save(network.state_dict(), folder / "checkpoint.pt")

    # The trap: after training, a network answers as in training until somebody says eval(). It exports without a
    # complaint and loads without one. Here it is caught twice: as it is recorded, and as it is built.
    network.train()
    print(
        f"in training mode, recorded: {refusal(lambda: record_reference(asking(network), test[:64], folder / 'x.npz'))}"
    )
    export(network, folder / "model.onnx")
    network.eval()
    table = record_reference(asking(network), test[:64], folder / "reference.npz")
    write_contract(folder, table)
    print(f"in training mode, built: {refusal(lambda: build_bundle(folder / 'contract.toml'))}")

    # The same in evaluation mode, which is what record_reference was asked for above.
    export(network, folder / "model.onnx")
    files = build_bundle(folder / "contract.toml", out=folder / "bundle")
    print(f"in evaluation mode, built: {', '.join(files)}")

    # This line belongs into the author's own tests. It holds for every batch size, since the batch axis is dynamic.
    for cases in (1, 7, 64):
        assert_parity(asking(network), folder / "bundle", test[:cases], rtol=1e-5, atol=1e-5)
    print("parity: the bundle answers what the network answers, from raw values on, in batches of 1, 7 and 64")


def export(network: Network, path: Path) -> None:
    """Write the network as ONNX with a dynamic batch axis.

    The example has two cases: of one, torch.export would take the 1 for a constant. The names are the ones that the
    contract uses.
    """
    example = torch.zeros(2, 2, LENGTH)
    program = torch.export.export(network, (example,), dynamic_shapes={"window": {0: torch.export.Dim("batch")}})
    torch.onnx.export(
        program, (), path, dynamo=True, opset_version=18, external_data=False, input_names=["window"],
        output_names=["dew_point"], verbose=False,
    )  # fmt: skip


def asking(network: Network):  # noqa: ANN201 - raw values in, (outputs, tensors) out
    """The network as a callable from raw values in contract units; its own preprocessing belongs to it."""

    def answer(raw: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        mean, std = (torch.tensor(one, dtype=torch.float64).view(1, 2, 1) for one in (MEAN, STD))
        tensor = ((torch.from_numpy(raw).double() - mean) / std).float()
        with torch.no_grad():
            return network(tensor), tensor

    return answer


def fit(network: Network, raw: NDArray[np.float32]) -> None:
    """A few steps; enough to be better than the mean."""
    _, tensor = asking(network)(raw)
    target = torch.from_numpy(((dew_point(raw) - LOW) / SPREAD).astype(np.float32))[:, None]
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    network.train()
    for step in range(60):
        rows = torch.arange(step * 128, step * 128 + 128) % len(tensor)
        loss = nn.functional.mse_loss(network(tensor[rows]), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"trained: mean square error {loss.item():.3f} of a standardized target")


def draw(cases: int, seed: int) -> NDArray[np.float32]:
    """``(cases, 2, 16)``: slow walks of temperature (Cel) and humidity (%)."""
    random = np.random.default_rng(seed)
    start = np.stack([random.uniform(-10, 35, cases), random.uniform(20, 95, cases)], axis=1)[:, :, None]
    walk = random.normal(0, 0.2, (cases, 2, LENGTH)).cumsum(axis=2)
    return np.clip(start + walk, [[-20.0], [5.0]], [[45.0], [100.0]]).astype(np.float32)


def dew_point(raw: NDArray[np.float32]) -> NDArray[np.float64]:
    """Magnus formula over water, Cel, at the last reading."""
    temperature, humidity = raw[:, 0, -1].astype(np.float64), raw[:, 1, -1].astype(np.float64)
    gamma = np.log(humidity / 100) + 17.62 * temperature / (243.12 + temperature)
    return 243.12 * gamma / (17.62 - gamma)


def write_contract(folder: Path, reference: str) -> None:
    """contract.toml, with the ``[reference]`` table as ``record_reference`` gave it."""
    digest = hashlib.sha256((folder / "checkpoint.pt").read_bytes()).hexdigest()
    text = CONTRACT.format(checkpoint_sha256=digest, torch_version=torch.__version__, reference=reference)
    (folder / "contract.toml").write_text(text)


def refusal(work) -> str:  # noqa: ANN001 - anything that can be called
    """The one line with which ``work`` is refused, which it must be."""
    try:
        work()
    except EdgeRuntimeError as error:
        return f"refused. {error}"
    raise SystemExit("a network in training mode went through: that must not happen")


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the one word
        raise SystemExit("usage: python examples/export_from_torch.py FOLDER")
    main(Path(sys.argv[1]))
