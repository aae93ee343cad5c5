"""The command `build`: contract in, bundle, build.json and report.html out; it decides nothing about the model."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.author.build import Build, build
from edge_runtime.author.build_report import report_of
from edge_runtime.author.held import Shown
from edge_runtime.author.mutate_subject import open_subject
from edge_runtime.author.record import encode_record, read_record
from edge_runtime.author.source import sha256
from edge_runtime.author.validate import read_captures, validate
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.write import sums, write_directory
from edge_runtime.errors import DeviceError, EdgeRuntimeError
from edge_runtime.spec.manifest import parse

_GATE_FAILED = 1


def main(args: Namespace) -> int:
    """Build ``args.contract`` into ``args.out``, its record and report beside it; 0, or 1 where a gate failed.

    ``args.out`` is by default a folder named after the contract's own, in the current one. Nothing is written where a
    gate fails. ``args.validate`` are captures of devices: how the new answers differ from theirs is told, and decides
    nothing. ``args.record`` is a build.json whose bytes have to come out again; ``args.evidence`` are reports that
    tolerances rest on; ``args.json`` prints the record.
    """
    contract = Path(args.contract)
    recorded = read_record(Path(args.record)) if args.record else None
    captures = read_captures([Path(one) for one in args.validate]) if args.validate else None
    evidence = [Path(one) for one in args.evidence] if args.evidence is not None else None
    made = build(contract, recorded, _tell if sys.stderr.isatty() else _be_silent, evidence)
    if made.failures:
        for line in made.failures:
            _say(f"edge-runtime build: {line}")
        return _GATE_FAILED
    compared = list(validate(open_subject(made.files).way.model, captures)) if captures else []
    out = Path(args.out) if args.out else Path(made.record.bundle.id)
    replaced = _replaced(made, out)
    write(made, out)
    if replaced is not None:
        _say(replaced)
    for line in made.record.warnings:
        _say(f"warning: {line}")
    _say(_result(made, out))
    for line in compared:
        _say(line)
    for line in _next(out):
        _say(line)
    if args.json:
        sys.stdout.write(encode_record(made.record).decode())
    return 0


def record_path(out: Path) -> Path:
    """Where a bundle's build.json stands: beside it, named after it."""
    return out.with_name(f"{out.name}.build.json")


def report_path(out: Path) -> Path:
    """Where a bundle's report.html stands."""
    return out.with_name(f"{out.name}.report.html")


def write(made: Build, out: Path) -> None:
    """Write the bundle's folder, its build.json and its report.html.

    Raises:
        DeviceError: the disk refuses.
        UsageError: ``out`` is something else than a bundle's folder.

    """
    beside = {record_path(out): encode_record(made.record), report_path(out): report_of(made)}
    write_directory(made.files, out)
    for path, data in beside.items():
        try:
            path.write_bytes(data)
        except OSError as error:
            raise DeviceError(
                subject=str(path), found=error.strerror or str(error), expected="a place to write to beside the bundle",
                todo="give another folder",
            ) from error  # fmt: skip


def _replaced(made: Build, out: Path) -> str | None:
    """What is to be said of another bundle in the place of the new one; None where there is none, or the same."""
    try:
        files = read_files(out)
        old = parse(files["manifest.json"])
    except (EdgeRuntimeError, KeyError):
        return None  # nothing there, or no bundle: what may be replaced is not decided here
    built = made.record.bundle
    if sha256(sums(files)) == built.digest:
        return None
    line = f"replaced: {out} was {old.id} {old.version}, with other content"
    if old.id != built.id or _number(old.version) < _number(built.version):
        return line
    return (
        f"{line}, and is {built.id} {built.version} now: two bundles of one version are not told apart on a device; "
        "raise `version` if the old one was ever handed out"
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _result(made: Build, out: Path) -> str:
    record = made.record
    words = [f"{out}: {record.bundle.id} {record.bundle.version}, sha256 {record.bundle.digest}"]
    for variant, by_output in made.shown.items():
        for output, one in by_output.items():
            of = (f" of {output}" if len(by_output) > 1 else "") + (f", {variant}" if len(made.shown) > 1 else "")
            words += _measured(one, of, is_quantized=variant in record.calibration)
    words.append(
        f"framework's {record.proof.cases} cases met within {max(record.proof.tensor, record.proof.float_output):.1g}"
    )
    words += _memory(made)
    return "; ".join(words)


def _memory(made: Build) -> Iterator[str]:
    taken, stated = made.record.memory, made.source.contract.needs.memory_mb
    for variant, mb in taken.items():
        of = f" for {variant}" if len(taken) > 1 else ""
        yield f"a process that serves it takes {mb} MB{of}, of the {stated:g} that are stated"
    if not taken:
        yield f"memory was not measured, {stated:g} MB are stated"


def _measured(shown: Shown, of: str, *, is_quantized: bool) -> Iterator[str]:
    metrics, cases = shown.metrics, f"{shown.metrics.cases} {shown.split} cases"
    knows = metrics.mae_bundle is not None or metrics.accuracy_bundle is not None
    if metrics.mae_bundle is not None and metrics.mae_float32 is not None:
        yield (
            f"mean absolute error{of} on {cases} {metrics.mae_bundle:.3f} {metrics.unit}"
            f" (float32 {metrics.mae_float32:.3f})"
        )
    if metrics.accuracy_bundle is not None and metrics.accuracy_float32 is not None:
        yield f"right{of} in {metrics.accuracy_bundle:.3%} of {cases} (float32 {metrics.accuracy_float32:.3%})"
    where = "" if knows else f" on {cases}, of which nobody said what was true"
    if is_quantized and metrics.max_difference is not None:
        yield f"largest distance{of} to float32{where} {metrics.max_difference:.3g} {metrics.unit}"
    if is_quantized and metrics.labels_changed is not None and not knows:
        yield f"another label{of} than float32's in {metrics.labels_changed} of {cases}, of which nobody said what was true"


def _next(out: Path) -> Iterator[str]:
    """What now stands where, and the command to go on with."""
    yield f"written: the bundle {out}, and beside it {record_path(out).name} and {report_path(out).name}"
    yield f"next: edge-runtime selftest --bundle {shlex.quote(str(out))}; then docs/device_toml.md binds it to a sensor"


def _tell(stage: str) -> None:
    _say(f"... {stage}")


def _be_silent(_: str) -> None:
    """Progress is for a terminal."""


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
