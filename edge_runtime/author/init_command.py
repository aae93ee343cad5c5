"""The command `init`: a model and data in, a draft contract out; it overwrites nothing and decides nothing."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from edge_runtime.author import graph  # first: it says in one line where onnx is missing
from edge_runtime.author.arrays import read_npz
from edge_runtime.author.draft import draft
from edge_runtime.author.draft_data import read_table
from edge_runtime.author.draft_reference import Recorded
from edge_runtime.author.lint_files import recognise
from edge_runtime.author.lint_nodes import parse_model
from edge_runtime.author.unsaid import todos_in
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError, UsageError

_MAX_DATA_BYTES = 2 * 1024 * 1024 * 1024
_DEFAULT_OUT = "contract.toml"
_REFERENCE = "reference.npz"


def main(args: Namespace) -> int:
    """Write the draft for ``args.model`` and ``args.data`` to ``args.out`` (default contract.toml); 0.

    ``args.target`` is the column that is what was true, where its name does not say so.

    Raises:
        ConfigurationError: a file cannot be read, or the draft's place is taken.
        BundleError: the model is no ONNX file, or does not fit the data.
        DeviceError: Parquet without pyarrow, or the disk refuses.
        UsageError: no data.

    """
    if not args.data:
        raise UsageError(
            subject="command line of `edge-runtime init`", found="no --data", expected="--data FILE",
            todo="give the raw values the model was trained on: .npz, .csv or .parquet",
        )  # fmt: skip
    model, data, out = Path(args.model), Path(args.data), Path(args.out or _DEFAULT_OUT)
    if out.exists():
        raise _taken(out)
    model_bytes = _read(model, graph.MAX_MODEL_BYTES)
    told = recognise(model_bytes)
    if told is not None:
        raise BundleError(
            subject=str(model), found=told.partition("; ")[0], expected="ONNX", todo=told.partition("; ")[2]
        )
    table = read_table(_read(data, _MAX_DATA_BYTES), data, file=_from(out, data))
    parsed = parse_model(model_bytes, subject=str(model))
    reference = _recorded(data.parent / _REFERENCE, out)
    text = draft(
        parsed, table, model_file=_from(out, model), subject=str(model), reference=reference, target=args.target
    )
    _write(out, text)
    sys.stderr.write(f"{out}: {todos_in(text)} TODOs to fill in; then edge-runtime build {out}\n")
    return 0


def _recorded(path: Path, out: Path) -> Recorded | None:
    """The reference beside the data, where one lies there."""
    if not path.is_file():
        return None
    arrays = read_npz(_read(path, _MAX_DATA_BYTES), path)
    return Recorded(_from(out, path), {name: values.shape for name, values in arrays.items()})


def _from(out: Path, path: Path) -> str:
    """A path as the contract at ``out`` writes it: from its own folder on."""
    return os.path.relpath(path.absolute(), out.absolute().parent).replace(os.sep, "/")


def _read(path: Path, limit: int) -> bytes:
    try:
        size = path.stat().st_size
        if size <= limit:
            return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            subject=str(path), found=error.strerror or str(error), expected="a file that can be read",
            todo="give the path of the model, and of the data with --data",
        ) from error  # fmt: skip
    raise ConfigurationError(
        subject=str(path), found=f"{size} bytes", expected=f"at most {limit}", todo="give a smaller file"
    )


def _write(out: Path, text: str) -> None:
    try:
        with out.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise _taken(out) from error
    except OSError as error:
        raise DeviceError(
            subject=str(out), found=error.strerror or str(error), expected="a place to write the draft to",
            todo="give another --out",
        ) from error  # fmt: skip


def _taken(out: Path) -> ConfigurationError:
    return ConfigurationError(
        subject=str(out), found="a file already there", expected="a name that is free", todo="give another --out"
    )
