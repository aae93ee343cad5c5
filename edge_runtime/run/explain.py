"""`edge-runtime explain`: what a self-test says, in the order a person asks it; it judges nothing that the boot has not."""

import math
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, ValidationError

from edge_runtime.errors import UsageError
from edge_runtime.run.causes import FOLLOWS, STAGES, causes
from edge_runtime.run.selftest import plan, tried
from edge_runtime.spec.report import BOTH_TIERS, LEFT_OUT
from edge_runtime.spec.report_file import SCHEMA, BootFile, CheckFile, ReportFile, report_file

_MAX_REPORT_BYTES: Final = 16 * 1024 * 1024
_SHARE: Final = re.compile(r", (\d{1,6})% of what is allowed")
_GOLDEN: Final = ("golden_tensor", "golden_output", "golden_answer")
_SCHEMA: Final = re.compile(r"edge-runtime/report/[1-9]\d{0,8}", re.ASCII)
_NUMBER: Final = re.compile(r"^(\d+(?:\.\d+)?(?:e[+-]?\d+)?) (ms|MB)")


Further = Callable[[BootFile, Namespace], Iterable[str]]


def main(args: Namespace, further: Further | None = None) -> int:
    """Explain ``args.report``, or a boot made now of ``args.bundle`` and ``args.config``; 0 once it is told.

    ``further`` says what a workstation can tell of one boot beyond its report; a device says what it would take.

    Raises:
        UsageError: a report and what a boot takes are given, --against has nothing beside it, or the report is none.
        ConfigurationError: the device file or the profile.

    """
    if args.report and (args.config or args.inject):
        raise UsageError(
            subject="explain", found="a report and --config or --inject", expected="one of the two",
            todo="leave the report out to boot now",
        )  # fmt: skip
    if args.against and not args.bundle:
        raise UsageError(
            subject="explain", found="--against without --bundle", expected="both: two bundles are compared",
            todo="give the bundle that was tested as --bundle",
        )  # fmt: skip
    boots = _read(Path(args.report)).boots if args.report else _boot_now(args)
    told = ("\n".join(map(_fit, explain(boot, (further or elsewhere)(boot, args)))) for boot in boots)
    sys.stdout.write("\n\n".join(told) + "\n")
    return 0


def _fit(line: str) -> str:
    """A line fit for a terminal: a report is a stranger's text, which must neither move a cursor nor begin a line."""
    return line if line.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def elsewhere(boot: BootFile, _args: Namespace) -> Iterator[str]:
    """How to have the node or step named, which takes a workstation; nothing where there is none to name."""
    if breaks_a_golden(boot):
        yield "  first wrong  not looked for here: it takes a workstation with onnx (pip install 'edge-runtime[author]'),"
        yield "               edge-runtime explain REPORT --bundle TESTED --against DELIVERED"


def breaks_a_golden(boot: BootFile) -> bool:
    """Whether a golden broke first, and in earnest: then some node or step is the first that is wrong."""
    first = next(iter(_failed(boot)), None)
    return first is not None and first.id in (*_GOLDEN, "golden_batches") and not boot.injected


def explain(boot: BootFile, further: Iterable[str] = ()) -> Iterator[str]:
    """The explanation of one boot, line by line; ``further`` lines stand before the causes."""
    failed = _failed(boot)
    yield f"{_title(boot)}: {_verdict(boot, failed)}"
    if boot.injected:
        yield f"  drill        --inject corrupted the input of {boot.injected}: that failure is planted"
    if failed:
        yield from _broken(boot, failed)
    else:
        goldens = [check for check in boot.checks if check.id.startswith("golden_")]
        yield f"  closest call {_closest(goldens, 'every golden exactly equal')}"
        others = [check for check in boot.checks if check not in goldens]
        yield f"  and besides  {_closest(others, 'no other check measures a distance here')}"
    if boot.machine is not None:
        yield f"  machine      {boot.machine.as_text()}"
    yield f"  changed      {_changes(boot)}"
    skipped = [
        f"{check.id} ({check.hint})" for check in boot.checks if check.status == "skip" and check.hint != LEFT_OUT
    ]
    if skipped:
        yield f"  not checked  {'; '.join(skipped)}"
    yield from further
    if failed:
        yield ""
        yield "  Likely causes, the likeliest first:"
        strains = boot.machine.strains if boot.machine is not None else ()
        listed = causes(failed[0].id, [one.id for one in failed], boot.changed_since_last_pass, strains)
        for number, cause in enumerate(listed, 1):
            yield f"    {number}. {cause.text}"
            yield f"       -> {cause.todo}"


def _failed(boot: BootFile) -> list[CheckFile]:
    """Required before wanted; within a tier in the order they ran, in which a cause stands before its effects.

    But a state is the model's own work at an earlier sample: where the model is off too, it is the cause.
    """
    failed = [check for check in boot.checks if check.status == "fail"]
    in_model = any(check.id == "golden_output" for check in failed)

    def order(check: CheckFile) -> tuple[bool, bool]:
        return check.tier != "required", check.id == "golden_tensor" and in_model and ": found state " in check.measured

    return sorted(failed, key=order)


def _verdict(boot: BootFile, failed: Sequence[CheckFile]) -> str:
    if not failed:
        return "nothing is broken; it may serve"
    serves = "it must not serve" if boot.state == "ERROR" else "it may serve, worse than promised"
    return f"{failed[0].id} broke first; {serves}"


def _broken(boot: BootFile, failed: Sequence[CheckFile]) -> Iterator[str]:
    first, *others = failed
    yield f"  stage        {STAGES.get(first.id, 'a check outside the bundle')}"
    yield f"  found        {first.measured}"
    yield f"  allowed      {first.limit}"
    yield f"  its own hint {first.hint}"
    passed = [check.id for check in boot.checks if check.status in ("pass", "warn")]
    yield f"  held         {', '.join(passed) or 'nothing'}"
    for check in others:
        after = " (follows from the first)" if first.id in FOLLOWS.get(check.id, ()) else ""
        yield f"  failed too   {check.id}{after}: {check.measured}; allowed {check.limit}"
    left_out = [check.id for check in boot.checks if check.status == "skip" and check.hint == LEFT_OUT]
    if left_out:
        yield f"  not reached  {', '.join(left_out)}"


def _closest(checks: Sequence[CheckFile], otherwise: str) -> str:
    shares = [(share, check) for check in checks if check.status == "pass" and (share := used(check))]
    if not shares:
        return otherwise
    share, check = max(shares, key=lambda one: one[0])
    return f"{check.id}, {share:.0%} of its limit: {check.measured} (limit {check.limit})"


def used(check: CheckFile) -> float | None:
    """How much of its limit a check used, 1 being all; None for one that is only right or wrong."""
    told = _SHARE.search(check.measured)
    if told:
        return int(told[1]) / 100
    measured, limit = _NUMBER.match(check.measured), _NUMBER.match(check.limit)
    if measured and limit and measured[2] == limit[2] and float(limit[1]) > 0:
        share = float(measured[1]) / float(limit[1])
        return share if math.isfinite(share) else None
    return None


def _changes(boot: BootFile) -> str:
    changes = boot.changed_since_last_pass
    if changes is None:
        return "not known: no earlier pass of this bundle is recorded here (give --config, whose state folder keeps it)"
    return "; ".join(changes) or "nothing that is recorded, since the last pass"


def _title(boot: BootFile) -> str:
    bundle = boot.bundle
    return f"{bundle.id} {bundle.version}" if bundle.id else bundle.path


def _boot_now(args: Namespace) -> Sequence[BootFile]:
    _, trials = plan(args)
    return report_file([tried(trial, args.inject) for trial in trials], BOTH_TIERS).boots


class _AnyReport(BaseModel):
    """The one key that a report of any release has; what else stands in it is not this release's to judge."""

    schema_: str = Field(alias="schema")


def _refuse_newer(path: Path, written: bytes) -> None:
    try:
        schema = _AnyReport.model_validate_json(written).schema_
    except ValidationError:
        return
    if schema != SCHEMA and _SCHEMA.fullmatch(schema):
        raise UsageError(
            subject=f"report {path}, schema", found=schema, expected=SCHEMA,
            todo="update edge-runtime to the release that wrote it, or write one with this: edge-runtime selftest --json FILE",
        )  # fmt: skip


def _read(path: Path) -> ReportFile:
    written = b""
    try:
        with path.open("rb") as stream:
            written = stream.read(_MAX_REPORT_BYTES)
        found_there = ReportFile.model_validate_json(written)
    except (OSError, ValidationError) as error:
        _refuse_newer(path, written)
        found = error.strerror if isinstance(error, OSError) else "no report that this release knows"
        raise UsageError(
            subject=f"report {path}", found=found or "an error of the disk", expected="what `selftest --json FILE` wrote",
            todo="write one: edge-runtime selftest --json report.json",
        ) from error  # fmt: skip
    if not found_there.boots or not all(boot.checks for boot in found_there.boots):
        raise UsageError(
            subject=f"report {path}", found="a boot without a check, or no boot", expected="what `selftest --json FILE` wrote",
            todo="write one: edge-runtime selftest --json report.json",
        )  # fmt: skip
    return found_there
