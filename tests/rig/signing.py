"""Keys, signed bundles and folders of trusted keys, made as the program makes them; it checks no signature."""

import shutil
from pathlib import Path

from edge_runtime.bundle import ecdsa
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.signature import sign


def make_key(prefix: Path) -> Path:
    """Write a new pair as ``prefix``.key and .pub; gives the private one's path."""
    private, public = ecdsa.new_key()
    path = prefix.with_name(f"{prefix.name}.key")
    path.write_bytes(private)
    path.with_suffix(".pub").write_bytes(public)
    return path


def sign_with(key: Path, bundle: Path) -> None:
    """Sign the bundle in this folder as it stands, whole or not."""
    (bundle / "model.sig").write_bytes(sign(read_files(bundle), key.read_bytes()))


def trust(folder: Path, *keys: Path) -> Path:
    """Make ``folder`` one of trusted keys that holds the public halves of ``keys``."""
    folder.mkdir(exist_ok=True)
    for key in keys:
        shutil.copy(key.with_suffix(".pub"), folder)
    return folder
