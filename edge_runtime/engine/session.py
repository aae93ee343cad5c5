"""Opens a model's bytes on one provider and runs it; the one door to onnxruntime, and it falls back to nothing."""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy import vdot
from numpy.typing import NDArray

from edge_runtime.errors import BundleError, DeviceError
from edge_runtime.spec.providers import CPU, PROVIDERS

# y = Identity(x), float32, one dimension; IR version 8, opset 13. The smallest model a provider can be asked to run.
IDENTITY_MODEL = (
    b'\x08\x08\x12\x00:9\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x10\n\x01x\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01n'
    b"b\x10\n\x01y\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01nB\x04\n\x00\x10\r"
)
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
    model: bytes,
    *,
    provider: str = CPU,
    provider_options: Mapping[str, str] | None = None,
    library: str | None = None,
    library_digest: str | None = None,
    device: str | None = None,
    elsewhere: bool = False,
    threads: int = 1,
    quant_precision: bool = False,
    takes_nan: bool = False,
) -> Session:
    """Load a model from bytes that were verified, with settings that are the same at build, self-test and service.

    One optimization level (all): below 'extended' an int8 model gives other numbers. No spinning: an idle thread pool
    burns a core. ``quant_precision`` is for x86-64 without VNNI and weights beyond 7 bits, and only there.
    ``takes_nan``: the author lets missing numbers through as NaN, as trees know them. ``elsewhere``: the CPU may run
    what the provider does not take; without it a session that would fall back is no session. ``library`` is the file
    of a provider that is no part of this onnxruntime, ``device`` the kind of device to take of those it offers;
    ``library_digest`` is that file's, of who has just taken it: one of 158 MB takes some tenths of a second to hash.

    Raises:
        DeviceError: the provider is unknown, not in this onnxruntime, without its library or device, or does not take
            the whole model; or onnxruntime is missing or of another kind.
        BundleError: onnxruntime refuses the model.

    """
    if len(model) > MAX_MODEL_BYTES:
        raise BundleError(
            subject="model", found=f"{len(model)} bytes", expected=f"at most {MAX_MODEL_BYTES}",
            todo="this runtime is for small models",
        )  # fmt: skip
    ort = _onnxruntime()
    place = _placer(ort, provider, dict(provider_options or {}), library, library_digest, device)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if quant_precision:
        options.add_session_config_entry("session.x64quantprecision", "1")
    providers = place(options)
    if elsewhere and providers:
        providers.append(CPU)
    elif provider != CPU and not elsewhere:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with _EmptyFolder():
        try:
            # Without its own fallback, which would print to standard output and try the CPU.
            session = ort.InferenceSession(model, options, providers=providers or None, enable_fallback=0)
        except Exception as error:
            if provider != CPU:
                alone = model != IDENTITY_MODEL and _runs_alone(ort, place)
                raise _refused_by(provider, error, runs_alone=alone) from error
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


def _placer(
    ort: Any,
    provider: str,
    provider_options: dict[str, str],
    library: str | None,
    digest: str | None,
    device: str | None,
) -> Callable[[Any], list[Any]]:
    """What puts a provider into session options and gives those that are to be named to the session besides."""
    if library is None:
        _require(provider, ort)
        return lambda _options: [(provider, provider_options)]
    if provider not in PROVIDERS:
        _unknown(provider)
    from edge_runtime.engine import provider_library  # noqa: PLC0415 -- for the few profiles that name a library

    devices = provider_library.devices_of(ort, provider, library, device, digest)

    def place(options: Any) -> list[Any]:
        options.add_provider_for_devices(devices, provider_options)
        return []

    return place


def _unknown(provider: str) -> NoReturn:
    raise DeviceError(
        subject="provider", found=repr(provider), expected=f"one of {', '.join(PROVIDERS)}",
        todo="correct the device profile",
    )  # fmt: skip


def _require(provider: str, ort: Any) -> None:
    """Hold a provider's name against what this onnxruntime was built with: for any other it takes the CPU, silently."""
    known = PROVIDERS.get(provider)
    if known is None:
        _unknown(provider)
    built_in = ort.get_available_providers()
    if provider not in built_in:
        raise DeviceError(
            subject=f"provider {provider}", found=f"not in this onnxruntime {ort.__version__} ({', '.join(built_in)})",
            expected=f"it, from {known.distribution}", todo="install that in place of this one, or name another profile",
        )  # fmt: skip


def _runs_alone(ort: Any, place: Callable[[Any], list[Any]]) -> bool:
    """Whether the provider takes the smallest model there is, so that a refusal is about the model and not the device."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        ort.InferenceSession(IDENTITY_MODEL, options, providers=place(options) or None, enable_fallback=0)
    except Exception:  # noqa: BLE001 -- whatever its reason, it does not run
        return False
    return True


def _refused_by(provider: str, error: Exception, *, runs_alone: bool) -> DeviceError:
    """ONNX Runtime says of a missing library, a missing device and an operator not taken alike that it would fall back."""
    subject, reason = f"provider {provider}", _first_line(error)
    if runs_alone:
        return DeviceError(
            subject=subject, found=f"it does not take the whole model ({reason})", expected="every node on it",
            todo="allow a share elsewhere in the profile, or have the author build a variant for it",
        )  # fmt: skip
    return DeviceError(
        subject=subject, found=f"it runs nothing here ({reason})",
        expected="its library, and a device of the kind its options ask for",
        todo="correct its options in the profile, install its driver, or name another provider",
    )  # fmt: skip


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
