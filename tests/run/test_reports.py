"""The four forms of a report say the same, and none lets a skipped check pass for a passed one."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from edge_runtime.run.boot import boot
from edge_runtime.run.reports import as_json, as_junit, as_text, as_textfile, verdict
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.machine_state import MachineState
from edge_runtime.spec.report import BOTH_TIERS, LEFT_OUT, Check, Report, Tier
from edge_runtime.spec.report_file import ReportFile
from tests.rig.bundles import DEWPOINT, FROST

REQUIRED: frozenset[Tier] = frozenset({"required"})
WANTED: frozenset[Tier] = frozenset({"wanted"})

PASSED = Report(
    state="OPERATIONAL",
    checks=(
        Check("files", "required", "pass", "3 files", "SHA256SUMS", ms=2.0),
        Check("signature", "required", "skip", "absent", "", "this release checks none"),
        Check("golden_tensor", "required", "pass", "0 off", "1e-6", ms=1.5),
        Check("latency", "wanted", "pass", "0.1 ms", "50 ms", ms=0.25),
    ),
    bundle={"path": "b/frost", "id": "frost", "version": "1.0.0", "security_version": 1, "digest": "d" * 64,
            "limits": "one station"},
    environment={"kernel": "6.1"},
    started="2026-11-30T18:30:54.355+00:00",
    ms=12.5,
    facts={"onnxruntime": "1.32.0", "provider": "CPUExecutionProvider", "profile": "generic_x86",
           "edge-runtime": "0.1.0", "boot_id": None, "conversions": {"roof": ("t: K -> Cel (x * 1.0 + -273.15)",)}},
)  # fmt: skip
WRONG = replace(
    PASSED,
    state="ERROR",
    checks=(
        *PASSED.checks[:2],
        Check("golden_tensor", "required", "fail", "0.3 off", "1e-6", "run it on another machine"),
        Check("latency", "wanted", "skip", "not checked", "", LEFT_OUT),
    ),
)
SLOW = replace(
    PASSED, checks=(*PASSED.checks[:3], Check("latency", "wanted", "fail", "90 ms", "50 ms", "look for load"))
)
UNREAD = replace(WRONG, bundle={"path": 'b/"odd"\\x'}, changed_since_last_pass=())


def test_how_the_machine_stood_is_told_where_it_tells() -> None:
    state = MachineState(("under voltage",), True, {"cpu": 61.25, "gpu": 40.0}, {"policy0": 1500.0}, {"VDD_IN": 4.8})
    told = replace(PASSED, facts=PASSED.facts | {"machine": state})
    assert "  machine  61.2 C at most (cpu), 1500 MHz, 4.8 W VDD_IN; under voltage" in as_text(told).splitlines()
    (boot,) = json.loads(as_json([told]))["boots"]
    assert boot["machine"] == {
        "strains": ["under voltage"], "is_slowed": True, "temperatures": {"cpu": 61.25, "gpu": 40.0},
        "cpu_mhz": {"policy0": 1500.0}, "watts": {"VDD_IN": 4.8}, "gpus": {},
    }  # fmt: skip
    assert "  machine" not in as_text(PASSED)
    assert json.loads(as_json([PASSED]))["boots"][0]["machine"] is None


def test_verdict_stands_first_and_last() -> None:
    for report in (PASSED, WRONG, SLOW):
        lines = as_text(report).splitlines()
        assert lines[0] == lines[-1] == verdict(report)


@pytest.mark.parametrize(
    ("report", "tiers", "words"),
    [
        (PASSED, BOTH_TIERS, "PASSED: frost 1.0.0; not checked: signature; it may serve"),
        (
            WRONG,
            BOTH_TIERS,
            "FAILED: frost 1.0.0: golden_tensor; it must not serve",
        ),
        (
            WRONG,
            WANTED,
            "FAILED: frost 1.0.0: the checks asked for could not run, for others failed; it must not serve",
        ),
        (SLOW, BOTH_TIERS, "FAILED: frost 1.0.0: latency; it may serve"),
        (SLOW, REQUIRED, "PASSED: frost 1.0.0 (not counted: latency failed); not checked: signature; it may serve"),
        (
            UNREAD,
            REQUIRED,
            'FAILED: b/"odd"\\x: golden_tensor; it must not serve',
        ),
    ],
)
def test_verdict(report: Report, tiers: frozenset[Tier], words: str) -> None:
    assert verdict(report, tiers) == words
    assert report.passed(tiers) == words.startswith("PASSED")


def test_text_has_one_line_a_check() -> None:
    lines = as_text(WRONG).splitlines()
    assert "  ok    files          3 files (limit: SHA256SUMS)" in lines
    assert "  --    signature      not checked (absent): this release checks none" in lines
    assert f"  --    latency        not checked: {LEFT_OUT}" in lines
    at = lines.index("  FAIL  golden_tensor  0.3 off (limit: 1e-6)")
    assert lines[at + 1].strip() == "what to do: run it on another machine"
    assert "  Limits, as the model's author states them: one station" in lines
    assert "    roof: t: K -> Cel (x * 1.0 + -273.15)" in lines
    assert "  ok    latency        0.1 ms (limit: 50 ms) [wanted]" in as_text(PASSED)


def test_skips_never_read_as_passed() -> None:
    for line in as_text(UNREAD).splitlines():
        if "signature" in line or "latency" in line:
            assert "not checked" in line
            assert " ok " not in line


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (None, "not known: no earlier pass of this bundle is recorded"),
        ((), "since the last pass: nothing"),
        (("kernel 1 -> 2", "features lost avx2"), "since the last pass: kernel 1 -> 2; features lost avx2"),
    ],
)
def test_changes_in_words(changed: tuple[str, ...] | None, words: str) -> None:
    assert f"  changed  {words}\n" in as_text(replace(PASSED, changed_since_last_pass=changed))


def test_json_follows_its_model() -> None:
    text = as_json([PASSED, WRONG])
    assert text.endswith("}\n")
    found = ReportFile.model_validate_json(text)
    assert (found.status, [boot.status for boot in found.boots]) == ("fail", ["pass", "fail"])
    assert json.loads(text)["schema"] == "edge-runtime/report/1"
    assert found.boots[0].changed_since_last_pass is None
    assert found.boots[0].conversions == {"roof": ("t: K -> Cel (x * 1.0 + -273.15)",)}
    only_wanted = ReportFile.model_validate_json(as_json([SLOW], REQUIRED))
    assert (only_wanted.status, only_wanted.tiers) == ("pass", ("required",))
    assert ReportFile.model_validate_json(as_json([UNREAD])).boots[0].bundle.id is None


def test_junit() -> None:
    root = ET.fromstring(as_junit([PASSED, WRONG]))  # noqa: S314 -- our own text
    assert [suite.get("name") for suite in root] == [
        "frost 1.0.0 required", "frost 1.0.0 wanted", "frost 1.0.0 required", "frost 1.0.0 wanted",
    ]  # fmt: skip
    suite = root[2]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failure = suite.find("testcase[@name='golden_tensor']/failure")
    assert failure is not None
    assert failure.get("message") == "0.3 off, limit 1e-6"
    assert failure.text == "measured: 0.3 off\nlimit: 1e-6\nwhat to do: run it on another machine"
    skipped = suite.find("testcase[@name='signature']/skipped")
    assert skipped is not None
    assert skipped.get("message") == "absent: this release checks none"


def test_junit_holds_what_xml_cannot() -> None:
    report = replace(WRONG, bundle={"path": "b\0<&\x1b"})
    assert ET.fromstring(as_junit([report]))[0].get("name") == "b\ufffd<&\ufffd required"  # noqa: S314 -- our own text


SAMPLE = re.compile(r'[a-z_]+\{([a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+\} -?[0-9.]+')


def test_textfile() -> None:
    text = as_textfile([PASSED, UNREAD])
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    lines = text.splitlines()
    assert 'edge_selftest_success{bundle="frost",path="b/frost"} 1' in lines
    assert 'edge_selftest_success{bundle="",path="b/\\"odd\\"\\\\x"} 0' in lines
    assert 'edge_selftest_timestamp_seconds{bundle="frost",path="b/frost"} 1796063454.355000' in lines
    assert 'edge_selftest_duration_seconds{bundle="frost",path="b/frost"} 0.012500' in lines
    check = 'bundle="frost",path="b/frost",check="latency",tier="wanted"'
    assert f"edge_selftest_check_success{{{check}}} 1" in lines
    assert f"edge_selftest_check_duration_seconds{{{check}}} 0.000250" in lines
    assert 'check="signature"' not in text, "what was not checked neither passed nor failed"
    samples = [line for line in lines if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    order = list(dict.fromkeys(line.partition("{")[0] for line in samples))
    assert order == families, "a family's samples stand together"


def test_a_drill_says_so_in_every_form() -> None:
    drill = replace(WRONG, injected="golden_tensor")
    text = as_text(drill).splitlines()
    assert text[0] == text[-1] == f"{verdict(WRONG)}; a drill: golden_tensor was injected"
    assert any(line.startswith("  drill    --inject corrupted the input of golden_tensor:") for line in text)
    assert [one.injected for one in ReportFile.model_validate_json(as_json([drill, WRONG])).boots] == [
        "golden_tensor", None,
    ]  # fmt: skip
    suites = list(ET.fromstring(as_junit([drill, WRONG])))  # noqa: S314 -- our own text
    told = [[(one.get("name"), one.get("value")) for one in suite.iter("property")] for suite in suites]
    assert told == [[("injected", "golden_tensor")]] * 2 + [[]] * 2
    assert [suite[0].tag for suite in suites[:2]] == ["properties"] * 2, "JUnit's schema has them first"
    samples = [line for line in as_textfile([drill]).splitlines() if not line.startswith("#")]
    assert all('injected="golden_tensor"' in line and SAMPLE.fullmatch(line) for line in samples)
    for form in (as_text(WRONG), as_junit([WRONG]), as_textfile([WRONG])):
        assert "inject" not in form


def test_forms_of_a_real_boot() -> None:
    reports = [boot(FROST, make_setting()).report, boot(DEWPOINT, make_setting(), inject="units").report]
    found = ReportFile.model_validate_json(as_json(reports))
    assert [one.status for one in found.boots] == ["pass", "fail"]
    assert [one.injected for one in found.boots] == [None, "units"]
    assert ET.fromstring(as_junit(reports)).findall(".//failure")  # noqa: S314 -- our own text
    assert as_textfile(reports).count("\nedge_selftest_success{") == 2
    assert "PASSED" not in as_text(reports[1])
