"""`edge-runtime selftest`: boots every bundle asked for, reports every check, and never serves."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from edge_runtime.device.data import data_folder
from edge_runtime.errors import EdgeRuntimeError, UsageError
from edge_runtime.run.boot import Setting, boot
from edge_runtime.run.config import LoadedConfig, load_config, state_folder
from edge_runtime.run.memory import remember_pass
from edge_runtime.run.reports import as_json, as_junit, as_text, as_textfile
from edge_runtime.run.setting import lines_of, make_line_setting, make_setting
from edge_runtime.run.whole_file import write_whole
from edge_runtime.spec.report import BOTH_TIERS, Check, Report, Tier

if TYPE_CHECKING:
    from edge_runtime.spec.device_config import LineConfig

_FAILED: Final = 1
_MAX_CODE: Final = 255
_DEVICE_FILE: Final = Path("device.toml")
_DEMO: Final = "frost"
PORTS: Final = "ports"


class Trial(NamedTuple):
    """One bundle to boot, and the lines of the device file that name it."""

    bundle: Path
    setting: Setting
    lines: "Sequence[LineConfig]"


def main(args: Namespace) -> int:
    """Boot and report: 0 where every check of the tiers passed, 1 (or ``--retry-code``) where one failed.

    Raises:
        UsageError: a tier, check or exit code that does not exist.
        ConfigurationError: the device file or the profile.
        DeviceError: a report could not be written.

    """
    tiers, retry_code = _tiers(args.tier), _code(args.retry_code)
    loaded, trials = plan(args)
    reports = []
    for trial in trials:
        report = tried(trial, args.inject)
        reports.append(report)
        _tell(as_text(report, tiers))
        if loaded is not None and args.inject is None:
            _remember(loaded, report)
    _write(args, reports, tiers)
    if all(report.passed(tiers) for report in reports):
        return 0
    return retry_code if _only_ports_are_missing(reports, tiers) else _FAILED


def tried(trial: Trial, inject: str | None) -> Report:
    """The report of one boot, the ports of its lines among the checks."""
    report = boot(trial.bundle, trial.setting, inject=inject).report
    return replace(report, checks=(*report.checks, *_port_checks(trial.lines)))


def plan(args: Namespace) -> tuple[LoadedConfig | None, list[Trial]]:
    """What ``args.bundle``, ``args.config`` and ``args.profile`` ask for; without any, device.toml here or the demo's bundle.

    Raises:
        ConfigurationError: the device file or the profile.

    """
    config = Path(args.config) if args.config else None
    if config is None and args.bundle is None and _DEVICE_FILE.is_file():
        config = _DEVICE_FILE
    if config is None:
        bundle = Path(args.bundle) if args.bundle else data_folder("bundles") / _DEMO
        if not args.bundle:
            _tell(f"no --bundle, no --config and no {_DEVICE_FILE} here: testing the demonstration bundle {bundle}\n\n")
        return None, [Trial(bundle, make_setting(args.profile), ())]
    loaded = load_config(config)
    if args.bundle:
        bundles = [Path(args.bundle)]
    else:
        bundles = list({path.resolve(): path for path in map(loaded.bundle, loaded.config.line)}.values())
    if args.bundle and not lines_of(loaded, bundles[0]):
        _tell(f"no line of {config} names {args.bundle}: its units are checked, no line's binding to it is\n\n")
    trials = [
        Trial(bundle, make_line_setting(loaded, bundle, args.profile), lines_of(loaded, bundle)) for bundle in bundles
    ]
    return loaded, trials


def _port_checks(lines: "Sequence[LineConfig]") -> Iterator[Check]:
    """Whether the serial ports of the lines are there now; none is opened: that alone would restart many a board."""
    named = [(line.name, line.source) for line in lines if line.source.kind == "serial"]
    if not named:
        return
    from edge_runtime.links.serial_port import LinkAbsent, find_port  # noqa: PLC0415 -- pyserial, for lines that have a port

    found, absent = [], []
    for name, source in named:
        try:
            found.append(f"{name}: {find_port(source)}")
        except LinkAbsent as error:
            absent.append(f"{name}: {error}")
    limit = "every serial port of device.toml is there"
    if absent:
        hint = "plug it in or wait for it; correct [line.source] in device.toml where it is named wrongly"
        yield Check(PORTS, "wanted", "fail", "; ".join(absent), limit, hint)
    else:
        yield Check(PORTS, "wanted", "pass", "; ".join(found), limit)


def _only_ports_are_missing(reports: Sequence[Report], tiers: frozenset[Tier]) -> bool:
    """Whether waiting may help: every bundle is proven, only a device node has not come up yet."""
    failures = [check for report in reports for check in report.failures(tiers)]
    return bool(failures) and all(check.id == PORTS for check in failures)


def _remember(loaded: LoadedConfig, report: Report) -> None:
    """Keep the pass where that is possible: a technician without the service's rights still gets the verdict."""
    try:
        remember_pass(state_folder(loaded), report)
    except EdgeRuntimeError as error:
        _tell(f"this pass is not recorded: {error}\n")


def _write(args: Namespace, reports: Sequence[Report], tiers: frozenset[Tier]) -> None:
    if args.json == "-":
        sys.stdout.write(as_json(reports, tiers))
    elif args.json:
        write_whole(Path(args.json), as_json(reports, tiers))
    if args.junit:
        write_whole(Path(args.junit), as_junit(reports))
    if args.textfile:
        write_whole(Path(args.textfile), as_textfile(reports, tiers))


def _tiers(text: str) -> frozenset[Tier]:
    tiers = frozenset(word.strip() for word in text.split(","))
    if not tiers <= BOTH_TIERS:
        raise UsageError(
            subject="--tier", found=repr(text), expected="required, wanted or required,wanted",
            todo="see `edge-runtime selftest --help`",
        )  # fmt: skip
    return cast("frozenset[Tier]", tiers)


def _code(code: int | str) -> int:
    number = int(code)
    if not 0 < number <= _MAX_CODE:
        raise UsageError(
            subject="--retry-code", found=str(code), expected=f"1 to {_MAX_CODE}; 0 would say that it passed",
            todo="give the code your updater takes for `ask again later`, 21 for Mender",
        )  # fmt: skip
    return number


def _tell(text: str) -> None:
    sys.stderr.write(text)
