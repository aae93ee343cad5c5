"""The command `build` for somebody's own Python program: the same files, byte for byte; it has no way of its own to make them."""

from pathlib import Path

from edge_runtime.author.build import build
from edge_runtime.author.build_command import write
from edge_runtime.author.record import read_record
from edge_runtime.bundle.names import SUMS_NAME
from edge_runtime.bundle.write import sums
from edge_runtime.errors import BundleError

_NAMED = 3


def build_bundle(
    contract: Path | str, *, out: Path | str | None = None, record: Path | str | None = None
) -> dict[str, bytes]:
    """Build from contract.toml and return the bundle's files by name, SHA256SUMS among them, as the command writes them.

    ``out`` is the folder to write them to, with ``OUT.build.json`` and ``OUT.report.html`` beside it, as ``build --out``;
    without it nothing is written. ``record`` is a build.json whose bytes have to come out again, as ``build --record``.

    Raises:
        BundleError: a model, or a gate failed: its text names the first of the failures.
        ConfigurationError: the contract, the data or the record.
        DeviceError: no onnxruntime, or the disk refuses.
        UsageError: ``out`` is something else than a bundle's folder.

    """
    made = build(Path(contract), read_record(Path(record)) if record is not None else None, _be_silent)
    if made.failures:
        more = len(made.failures) - _NAMED
        raise BundleError(
            subject=f"build of {contract}",
            found="; ".join(made.failures[:_NAMED]) + (f"; and {more} more" if more > 0 else ""),
            expected="every gate to pass",
            todo="correct them: nothing was written",
        )
    if out is not None:
        write(made, Path(out))
    return {**made.files, SUMS_NAME: sums(made.files)}


def _be_silent(_: str) -> None:
    pass
