"""The public face: the version and ``open``; importing it loads nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_runtime.run.api import open_bundle as open  # noqa: A004 -- read as edge_runtime.open

__all__ = ["__version__", "open"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Load ``open`` at its first use, so that the command line's ``--help`` never pays for numpy."""
    if name == "open":
        return import_module("edge_runtime.run.api").open_bundle
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
