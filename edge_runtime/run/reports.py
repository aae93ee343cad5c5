"""A report in the words of whoever reads it: a technician, a program, a test runner, a metrics collector."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from edge_runtime.spec.report import BOTH_TIERS, REQUIRED, Check, Report, Tier

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MARKS: Final = {"pass": "ok", "fail": "FAIL", "warn": "warn", "skip": "--"}
_TIERS: Final[tuple[Tier, ...]] = ("required", "wanted")


def as_text(report: Report, tiers: frozenset[Tier] = BOTH_TIERS) -> str:
    """The report for a person: the verdict first and last, one line a check, under a failure what to do about it."""
    return "\n".join(_lines(report, tiers)) + "\n"


def as_json(reports: Sequence[Report], tiers: frozenset[Tier] = BOTH_TIERS) -> str:
    """All reports as one JSON object, as docs/report.schema.json says."""
    from edge_runtime.spec.report_file import report_file  # noqa: PLC0415 -- its models, and a boot needs none

    return report_file(reports, tiers).model_dump_json(by_alias=True, indent=2) + "\n"


def as_junit(reports: Sequence[Report]) -> str:
    """All reports as JUnit XML: a test suite a bundle and tier, a test case a check."""
    from xml.etree.ElementTree import Element, indent, tostring  # noqa: PLC0415 - 5 ms, and a boot needs none

    root = Element("testsuites")
    for report in reports:
        for tier in _TIERS:
            checks = [check for check in report.checks if check.tier == tier]
            if checks:
                _suite(root, f"{_title(report)} {tier}", report, checks)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def as_textfile(reports: Sequence[Report], tiers: frozenset[Tier] = BOTH_TIERS) -> str:
    """All reports in the Prometheus text format, for node_exporter's textfile collector.

    A check that was not checked has no ``edge_selftest_check_success``: it neither passed nor failed.
    """
    ran = [(report, check) for report in reports for check in report.checks if check.status != "skip"]
    families: tuple[tuple[str, str, list[tuple[str, float]]], ...] = (
        ("edge_selftest_success", "1 where no check that counts failed or was left out",
         [(_labels(one), float(one.passed(tiers))) for one in reports]),
        ("edge_selftest_timestamp_seconds", "when the self-test began, Unix time",
         [(_labels(one), datetime.fromisoformat(one.started).timestamp()) for one in reports]),
        ("edge_selftest_duration_seconds", "how long it took",
         [(_labels(one), one.ms / 1000) for one in reports]),
        ("edge_selftest_check_success", "1 where the check passed, 0 where it failed; absent where it was not checked",
         [(_labels(one, check), float(check.status != "fail")) for one, check in ran]),
        ("edge_selftest_check_duration_seconds", "how long the check took",
         [(_labels(one, check), check.ms / 1000) for one, check in ran]),
    )  # fmt: skip
    lines = []
    for name, words, samples in families:
        lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
        lines += [f"{name}{labels} {_number(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def verdict(report: Report, tiers: frozenset[Tier] = BOTH_TIERS) -> str:
    """The outcome in one line, with a word on a failure that was injected."""
    drill = f"; a drill: {report.injected} was injected" if report.injected else ""
    return _outcome(report, tiers) + drill


def _outcome(report: Report, tiers: frozenset[Tier]) -> str:
    title, failed = _title(report), report.failures(tiers)
    serves = "it may serve" if report.state == "OPERATIONAL" else "it must not serve"
    if failed:
        first = failed[0]
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"FAILED: {title}: {first.id}{more}; {serves}"
    if not report.passed(tiers):
        return f"FAILED: {title}: the checks asked for could not run, for others failed; {serves}"
    others = [check.id for check in report.failures() if check.tier not in tiers]
    aside = f" (not counted: {', '.join(others)} failed)" if others else ""
    skipped = [check.id for check in report.checks if check.status == "skip" and check.tier in tiers]
    aside += f"; not checked: {', '.join(skipped)}" if skipped else ""
    return f"PASSED: {title}{aside}; {serves}"


def line_of(report: Report) -> str:
    """The outcome of a boot that is to serve, in one line with the reason of a refusal: where no report is read."""
    failed = report.failures(REQUIRED)
    if not failed:
        return verdict(report, REQUIRED)
    first = failed[0]
    return f"{verdict(report, REQUIRED)}. {first.id}: {first.measured}; expected {first.limit}; {first.hint}"


def _lines(report: Report, tiers: frozenset[Tier]) -> Iterator[str]:
    facts = report.facts
    yield verdict(report, tiers)
    yield f"  bundle   {report.bundle['path']}, digest {report.bundle.get('digest', 'not known')}"
    yield (
        f"  ran on   profile {facts['profile']}, {facts['provider']}, onnxruntime {facts['onnxruntime']}, "
        f"edge-runtime {facts['edge-runtime']}"
    )
    if facts.get("machine") is not None:
        yield f"  machine  {facts['machine'].as_text()}"
    yield f"  changed  {_changes(report)}"
    if report.injected:
        yield f"  drill    --inject corrupted the input of {report.injected}: this is no verdict on the bundle or the device"
    yield ""
    width = max(len(check.id) for check in report.checks)
    for check in report.checks:
        yield from _check_lines(check, width)
    conversions = [(line, words) for line, all_words in facts["conversions"].items() for words in all_words]
    if conversions:
        yield ""
        yield "  What happens to each channel's number:"
        yield from (f"    {line}: {words}" for line, words in conversions)
    if report.bundle.get("limits"):
        yield ""
        yield f"  Limits, as the model's author states them: {report.bundle['limits']}"
    yield ""
    yield verdict(report, tiers)


def _check_lines(check: Check, width: int) -> Iterator[str]:
    head = f"  {_MARKS[check.status]:<4}  {check.id:<{width}}  "
    if check.status == "skip":
        words = check.measured if check.measured == "not checked" else f"not checked ({check.measured})"
        yield f"{head}{words}: {check.hint}"
        return
    tier = " [wanted]" if check.tier == "wanted" else ""
    yield f"{head}{check.measured} (limit: {check.limit}){tier}"
    if check.status in ("fail", "warn"):
        yield f"  {'':<4}  {'':<{width}}  what to do: {check.hint}"


def _changes(report: Report) -> str:
    changes = report.changed_since_last_pass
    if changes is None:
        return "not known: no earlier pass of this bundle is recorded"
    return "since the last pass: " + ("; ".join(changes) or "nothing")


def _title(report: Report) -> str:
    bundle = report.bundle
    return f"{bundle['id']} {bundle['version']}" if "id" in bundle else str(bundle["path"])


def _suite(root: "Element", name: str, report: Report, checks: Sequence[Check]) -> None:
    count = {status: sum(check.status == status for check in checks) for status in _MARKS}
    from xml.etree.ElementTree import SubElement  # noqa: PLC0415 - as above

    suite = SubElement(
        root, "testsuite", name=_printable(name), tests=str(len(checks)), failures=str(count["fail"]), errors="0",
        skipped=str(count["skip"]), time=_number(sum(check.ms for check in checks) / 1000),
        timestamp=datetime.fromisoformat(report.started).strftime("%Y-%m-%dT%H:%M:%S"),
    )  # fmt: skip
    if report.injected:
        SubElement(SubElement(suite, "properties"), "property", name="injected", value=report.injected)
    for check in checks:
        case = SubElement(
            suite, "testcase", classname=_printable(_title(report)), name=check.id, time=_number(check.ms / 1000)
        )
        if check.status == "fail":
            text = f"measured: {check.measured}\nlimit: {check.limit}\nwhat to do: {check.hint}"
            SubElement(case, "failure", message=_printable(f"{check.measured}, limit {check.limit}")).text = _printable(
                text
            )
        elif check.status == "skip":
            SubElement(case, "skipped", message=_printable(f"{check.measured}: {check.hint}"))


def _labels(report: Report, check: Check | None = None) -> str:
    labels = {"bundle": report.bundle.get("id", ""), "path": report.bundle["path"]}
    if report.injected:
        labels |= {"injected": report.injected}
    if check is not None:
        labels |= {"check": check.id, "tier": check.tier}
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _printable(text: str) -> str:
    """Drop what XML 1.0 cannot hold at all, such as a NUL in a path."""
    return "".join(one if one in "\n\t" or one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def _number(value: float) -> str:
    return f"{value:.15g}" if value == int(value) else f"{value:.6f}"
