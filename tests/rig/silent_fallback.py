"""The program with an onnxruntime that falls back in silence: `python silent_fallback.py NODES selftest ...`.

OpenVINOExecutionProvider seems to be built in; its session runs on the CPU, as onnxruntime does it where a device is
missing, with the first NODES of the model's nodes said to be on OpenVINO. It stands below the one door to onnxruntime.
"""

import sys
from types import SimpleNamespace
from typing import Any

import onnxruntime

from edge_runtime.__main__ import main

OPENVINO = "OpenVINOExecutionProvider"


class Fallback:
    """onnxruntime's session, on the CPU whatever was asked for."""

    def __init__(self, model: bytes, options: Any, **more: Any) -> None:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
        self._session = _REAL(model, options, **more | {"providers": ["CPUExecutionProvider"]})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get_provider_graph_assignment_info(self) -> list[Any]:
        nodes = [node for part in self._session.get_provider_graph_assignment_info() for node in part.get_nodes()]
        placed = {OPENVINO: nodes[:_NODES], "CPUExecutionProvider": nodes[_NODES:]}
        return [SimpleNamespace(ep_name=name, get_nodes=lambda part=part: part) for name, part in placed.items()]


if __name__ == "__main__":
    _REAL, _NODES = onnxruntime.InferenceSession, int(sys.argv[1])
    onnxruntime.InferenceSession = Fallback
    onnxruntime.get_available_providers = lambda: [OPENVINO, "CPUExecutionProvider"]
    sys.argv[1:] = sys.argv[2:]
    sys.exit(main())
