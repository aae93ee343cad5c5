"""Where the files that come with the package lie, installed or in a checkout; it reads none of them."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def shipped(name: str) -> Path:
    """Return the place of a shipped file or folder: ``bundles/frost``, ``device_profiles``, ``examples/frost/...``.

    A wheel carries them under ``edge_runtime/_data``; a checkout keeps them at its root. Nothing says it exists.
    """
    installed = _PACKAGE / "_data"
    return (installed if installed.is_dir() else _PACKAGE.parent) / name
