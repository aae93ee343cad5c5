"""Opens a model's bytes on one provider and runs it; the one door to onnxruntime, and it falls back to nothing."""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy import vdot
from numpy.typing import NDArray

from edge_runtime.errors import BundleError, DeviceError

CPU = "CPUExecutionProvider"
# What this release can prove; the names are onnxruntime's.
PROVIDERS = (CPU,)
MIN_OPSET = 7
# From which onnxruntime on, which IR version and which opset of ai.onnx are taken: measured on the wheels, newest first.
_TAKEN = (((1, 32), 14, 28), ((1, 25), 13, 26), ((1, 24), 13, 25))
MAX_MODEL_BYTES = 512 * 1024 * 1024
DISTRIBUTIONS = ("onnxruntime", "onnxruntime_gpu", "onnxruntime_openvino", "onnxruntime_directml", "onnxruntime_qnn")


class Session:
    """One model on one provider. ``placement`` counts the model's nodes by the provider that was given them.

    ``inputs`` and ``outputs`` are (name, shape, dtype) as the model itself states them.
    """

    __slots__ = ("_finite", "_has_one", "_names", "_options", "_run", "inputs", "outputs", "placement")

    def __init__(self, session: Any, run_options: Any, *, takes_nan: bool) -> None:
        self._run = session.run
        self._options = run_options
        self.inputs = tuple((one.name, tuple(one.shape), _dtype(one.type)) for one in session.get_inputs())
        self.outputs = tuple((one.name, tuple(one.shape), _dtype(one.type)) for one in session.get_outputs())
        self._names = [name for name, _, _ in self.outputs]
        self._has_one = len(self._names) == 1
        floats = {name for name, _, dtype in self.inputs if "float" in dtype}
        self._finite = frozenset() if takes_nan else frozenset(floats)
        self.placement = Counter[str]()
        for part in session.get_provider_graph_assignment_info():
            self.placement[part.ep_name] += len(part.get_nodes())

    def __call__(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run once. Each feed holds something, and only finite numbers: an int8 model swallows NaN without a word.

        Raises:
            DeviceError: the provider failed.
            ValueError: a feed was empty or not finite; the contract lets neither through, so this is a fault of ours.

        """
        for name, tensor in feeds.items():
            if not tensor.size:
                raise ValueError(f"input {name}: an empty batch")
            # A sum of squares is finite only where every term is; where it is not, large numbers can have been the cause.
            if name in self._finite and not isfinite(vdot(tensor, tensor)) and not np.isfinite(tensor).all():
                raise ValueError(f"input {name}: a number that is not finite")
        try:
            values = self._run(self._names, feeds, self._options)
        except Exception as error:
            raise DeviceError(
                subject="the model's run", found=_first_line(error), expected="an answer",
                todo="run edge-runtime selftest and send its report",
            ) from error  # fmt: skip
        return {self._names[0]: values[0]} if self._has_one else dict(zip(self._names, values, strict=True))


def open_session(
    model: bytes, *, provider: str = CPU, threads: int = 1, quant_precision: bool = False, takes_nan: bool = False
) -> Session:
    """Load a model from bytes that were verified, with settings that are the same at build, self-test and service.

    One optimization level (all): below 'extended' an int8 model gives other numbers. No spinning: an idle thread pool
    burns a core. ``quant_precision`` is for x86-64 without VNNI and weights beyond 7 bits, and only there.
    ``takes_nan``: the author lets missing numbers through as NaN, as trees know them.

    Raises:
        DeviceError: the provider is not one this release can prove, or onnxruntime is missing or of another kind.
        BundleError: onnxruntime refuses the model.

    """
    if provider not in PROVIDERS:
        raise DeviceError(
            subject="provider", found=repr(provider), expected=" or ".join(PROVIDERS),
            todo="correct the device profile; this release proves no other provider",
        )  # fmt: skip
    if len(model) > MAX_MODEL_BYTES:
        raise BundleError(
            subject="model", found=f"{len(model)} bytes", expected=f"at most {MAX_MODEL_BYTES}",
            todo="this runtime is for small models",
        )  # fmt: skip
    ort = _onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if quant_precision:
        options.add_session_config_entry("session.x64quantprecision", "1")
    with _EmptyFolder():
        try:
            session = ort.InferenceSession(model, options, providers=[provider])
        except Exception as error:
            raise BundleError(
                subject="model", found=f"onnxruntime {ort.__version__} refuses it: {_first_line(error)}",
                expected="a model this onnxruntime can load",
                todo="update onnxruntime, or have the author build for this one",
            ) from error  # fmt: skip
    for one in (*session.get_inputs(), *session.get_outputs()):
        if not one.type.startswith("tensor("):
            raise BundleError(
                subject=f"model, {one.name}", found=one.type, expected="a tensor",
                todo="have the author export tensors alone, no sequences, maps or optionals",
            )  # fmt: skip
    return Session(session, ort.RunOptions(), takes_nan=takes_nan)


def version() -> str:
    """The version of the onnxruntime that is installed."""
    return str(_onnxruntime().__version__)


def newest_taken(runtime: str) -> tuple[int, int]:
    """The newest IR version and the newest opset that this release of onnxruntime takes.

    A later one than was measured may take more; it is held to what was.
    """
    number = tuple(int(part) for part in runtime.split(".")[:2])
    return next(((ir_version, opset) for since, ir_version, opset in _TAKEN if number >= since), _TAKEN[-1][1:])


def telemetry_is_off() -> bool:
    """Whether onnxruntime was, or will be, imported with its telemetry switched off."""
    return os.environ.get("ORT_DISABLE_TELEMETRY") == "1" and not _imported_by_another


def distributions() -> list[str]:
    """Which distributions that bring an ``onnxruntime`` are installed; two of them overwrite each other's files."""
    found = set()
    for folder in sys.path:
        try:
            entries = [entry.name for entry in Path(folder).iterdir()]
        except OSError:
            continue
        found |= {entry.split("-")[0] for entry in entries if entry.endswith(".dist-info")} & set(DISTRIBUTIONS)
    return sorted(name.replace("_", "-") for name in found)


_imported_by_another = "onnxruntime" in sys.modules and os.environ.get("ORT_DISABLE_TELEMETRY") != "1"


def _onnxruntime() -> Any:
    """Import onnxruntime with its telemetry off: the variable counts only before the import."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # A model must not be able to bring its own session options.
    os.environ.pop("ORT_LOAD_CONFIG_FROM_MODEL", None)
    try:
        import onnxruntime  # noqa: PLC0415 - 25 ms, and `--help` needs none of it
    except ImportError as error:
        raise DeviceError(
            subject="onnxruntime", found="not installed", expected="one distribution of it",
            todo="install edge-runtime[cpu], or the vendor's wheel on a Jetson",
        ) from error  # fmt: skip
    if not hasattr(onnxruntime, "InferenceSession"):
        raise DeviceError(
            subject="onnxruntime", found="a folder without InferenceSession", expected="one whole distribution",
            todo="remove every onnxruntime* package and install one again",
        )  # fmt: skip
    return onnxruntime


class _EmptyFolder:
    """Work in an empty folder: onnxruntime opens external data of a model given as bytes from the current one.

    It has lost its name before any work begins, so that no end of the process leaves it behind: what is left is the
    instant between two system calls, where SIGKILL, or SIGTERM without a handler, cannot be helped.
    """

    def __enter__(self) -> None:
        # The folder of before may be gone, or belong to somebody who lets nobody in: no name leads back, no relative
        # path ever worked from there, and the root does as well.
        try:
            self._before = Path.cwd()
            os.chdir(self._before)
        except OSError:
            self._before = Path("/")
        try:
            self._folder = tempfile.mkdtemp(prefix="edge-runtime-")
            try:
                os.chdir(self._folder)
            finally:
                with suppress(OSError):  # Windows keeps the name of a folder that is somebody's current one
                    os.rmdir(self._folder)  # noqa: PTH106 -- one system call, no more between the two
        except OSError as error:
            raise DeviceError(
                subject="temporary folder", found=error.strerror or str(error),
                expected="one that an empty folder can be made in", todo="free the disk, or set TMPDIR to a folder with room",
            ) from error  # fmt: skip

    def __exit__(self, *_: object) -> None:
        os.chdir(self._before)
        if os.name == "nt":
            Path(self._folder).rmdir()


def _dtype(text: str) -> str:
    """Translate ``tensor(float)`` to ``float32``."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(name, name)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
