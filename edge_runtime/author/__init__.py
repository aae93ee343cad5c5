"""Floor 7, what a workstation does; only here is onnx imported, and nothing of it is frozen."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_runtime.author.api import build_bundle
    from edge_runtime.author.parity import assert_parity, record_reference

__all__ = ["assert_parity", "build_bundle", "record_reference"]

_PLACES = {"assert_parity": "parity", "build_bundle": "api", "record_reference": "parity"}


def __getattr__(name: str) -> object:
    """Load the author's three functions at their first use: a command that needs none of them pays for none."""
    if name in _PLACES:
        return getattr(import_module(f"edge_runtime.author.{_PLACES[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
