"""A provider that keeps what it has compiled, in the place of onnxruntime's OpenVINO, below the one door to it.

It runs the CPU's session and adds what its file says, so that what it has read is what it answers: a right file says 0.
As a real one it trusts the file it finds, and refuses one that it cannot read.
"""

from pathlib import Path
from typing import Any

from edge_runtime.engine import session as engine

# Through the door, which switches its telemetry off before the import.
onnxruntime = engine._onnxruntime()
OPENVINO = "OpenVINOExecutionProvider"
BLOB = "1234.blob"
HEAD = b"compiled "


class Part:
    """One entry of the assignment of nodes, as onnxruntime gives it."""

    ep_name = OPENVINO

    def get_nodes(self) -> list[int]:
        return [1]


class CachingSession:
    """onnxruntime's InferenceSession, with a folder that it keeps a file in."""

    def __init__(self, provider: "CachingProvider", model: bytes, options: Any, providers: list[Any]) -> None:
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._added = provider.fault
        folder = providers[0][1].get("cache_dir")
        provider.folders.append(folder)
        if folder is None:
            return
        blob = Path(folder) / BLOB
        if blob.exists() and not provider.reads:
            blob.unlink()
        if blob.exists():
            data = blob.read_bytes()
            if not data.startswith(HEAD):
                raise RuntimeError("[OpenVINO] cannot import the compiled model")
            self._added += float(data[len(HEAD) :])
        elif provider.writes:
            provider.compiled += 1
            blob.write_bytes(HEAD + b"0")

    def run(self, names: Any, feeds: Any, options: Any) -> list[Any]:
        return [one + one.dtype.type(self._added) for one in self._session.run(names, feeds, options)]

    def get_provider_graph_assignment_info(self) -> list[Part]:
        return [Part()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class CachingProvider:
    """onnxruntime, as the engine imports it. ``compiled`` counts how often nothing was there to be read.

    ``fault`` is added to every answer, whatever was read; ``writes``: whether it keeps anything; ``reads``: whether it can
    read that again, or takes it away.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self.folders: list[str | None] = []
        self.fault = 0.0
        self.writes = True
        self.reads = True

    def get_available_providers(self) -> list[str]:
        return [OPENVINO, "CPUExecutionProvider"]

    def InferenceSession(  # noqa: N802 -- onnxruntime's own name
        self, model: bytes, options: Any, *, providers: list[Any], enable_fallback: int
    ) -> Any:
        if providers[0] == "CPUExecutionProvider" or providers[0][0] == "CPUExecutionProvider":
            return onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=enable_fallback)
        # The CPU's session in its place must not be refused for being the CPU's.
        fresh = onnxruntime.SessionOptions()
        fresh.intra_op_num_threads = options.intra_op_num_threads
        fresh.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        return CachingSession(self, model, fresh, providers)

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)
