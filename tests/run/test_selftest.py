"""`selftest` as a real process: exit codes, what goes where, which bundles it takes, and what it remembers."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from edge_runtime.bundle.write import write_tar
from edge_runtime.run.memory import MEMORY_NAME
from edge_runtime.spec.report_file import ReportFile
from tests.rig.bundles import DEWPOINT, FROST, files_of
from tests.rig.device_file import line, write_device_file
from tests.rig.mutilate import flips


def _run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime", "selftest", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=60, cwd=cwd,
    )  # fmt: skip


def _serial(port: str) -> str:
    return f'kind = "serial"\nport = "{port}"\nbaud = 9600'


def _paths(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [boot.bundle.path for boot in ReportFile.model_validate_json(done.stdout).boots]


def test_pass(tmp_path: Path) -> None:
    done = _run("--bundle", FROST)
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[0] == lines[-1] == "PASSED: frost 1.0.0; not checked: signature, bindings; it may serve"
    write_tar({name: data for name, data in files_of(FROST).items() if name != "SHA256SUMS"}, tmp_path / "frost.tar")
    assert _run("--bundle", tmp_path / "frost.tar").returncode == 0


def test_reports_go_where_they_are_sent(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("r.json", "r.xml", "r.prom")]
    done = _run("--bundle", DEWPOINT, "--json", names[0], "--junit", names[1], "--textfile", names[2])
    assert (done.returncode, done.stdout) == (0, "")
    assert ReportFile.model_validate_json(names[0].read_text()).status == "pass"
    assert ET.parse(names[1]).getroot().tag == "testsuites"  # noqa: S314 -- our own text
    assert names[2].read_text().endswith("\n")
    assert all(name.stat().st_mode & 0o777 == 0o644 for name in names)
    assert sorted(tmp_path.iterdir()) == sorted(names)
    done = _run("--bundle", DEWPOINT, "--json", "-")
    assert ReportFile.model_validate_json(done.stdout).status == "pass"
    assert "PASSED" in done.stderr


def test_report_that_cannot_be_written(tmp_path: Path) -> None:
    done = _run("--bundle", DEWPOINT, "--junit", tmp_path / "none" / "r.xml")
    assert done.returncode == 69
    assert "No such file or directory; expected a folder with room" in done.stderr.splitlines()[-1]


def test_injected_failure() -> None:
    done = _run("--bundle", DEWPOINT, "--inject", "golden_output", "--json", "-")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        "FAILED: dewpoint 1.0.0: golden_output; it must not serve; a drill: golden_output was injected"
    )
    checks = ReportFile.model_validate_json(done.stdout).boots[0].checks
    assert [check.id for check in checks if check.status == "fail"] == ["golden_output"]


@pytest.mark.parametrize(
    ("inject", "tier", "code"),
    [
        ("memory", "required", 0), ("memory", "wanted", 1), ("memory", "wanted,required", 1), ("latency", "required", 1),
        ("golden_answer", "required", 1), ("golden_answer", "wanted", 0), ("files", "wanted", 1),
    ],
)  # fmt: skip
def test_tier_says_which_failures_count(inject: str, tier: str, code: int) -> None:
    assert _run("--bundle", DEWPOINT, "--inject", inject, "--tier", tier).returncode == code


@pytest.mark.parametrize("per_file", [2, pytest.param(20, marks=pytest.mark.long)])
def test_one_byte_changed_anywhere(tmp_path: Path, per_file: int) -> None:
    for count, files in enumerate(flips(files_of(DEWPOINT), per_file=per_file, seed=11)):
        folder = tmp_path / str(count)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        done = _run("--bundle", folder)
        assert done.returncode == 1
        assert done.stderr.startswith("FAILED: ")
        config = write_device_file(tmp_path, line("roof", folder))
        done = subprocess.run(
            [sys.executable, "-m", "edge_runtime", "run", "--exit-on-refusal", "--config", str(config)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (65, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tier", "needed"), "--tier: found 'needed'; expected required, wanted or required,wanted"),
        (("--tier", ""), "--tier: found ''"),
        (("--inject", "golden"), "--inject: found 'golden'; expected one of hash_known_answer"),
        (("--retry-code", "0"), "--retry-code: found 0; expected 1 to 255; 0 would say that it passed"),
        (("--retry-code", "many"), "invalid int value: 'many'"),
        (("--bundel", "x"), "unknown word '--bundel'; expected '--bundle' perhaps"),
    ],
)
def test_usage(words: tuple[str, ...], said: str) -> None:
    done = _run("--bundle", DEWPOINT, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_bundle_that_is_not_there(tmp_path: Path) -> None:
    done = _run("--bundle", tmp_path / "none")
    assert done.returncode == 1
    assert "FAIL  files" in done.stderr


def test_profile() -> None:
    done = _run("--bundle", DEWPOINT, "--profile", "generic_x68")
    assert done.returncode == 78
    assert "'generic_x86' perhaps" in done.stderr


PROFILE = """
schema = "edge-runtime/profile/1"
name = "here"
description = "a test"
architectures = ["x86_64", "aarch64"]
onnxruntime = "pip install 'edge-runtime[cpu]'"
"""
_TODO = "what to do: "
ON_CPU = '[[providers]]\nname = "CPUExecutionProvider"\n'
ON_OPENVINO = '[[providers]]\nname = "OpenVINOExecutionProvider"\n'


def _refused(folder: Path, text: str, *program: str) -> tuple[int, list[str], list[str]]:
    """The exit code of a self-test under a profile of ``text``, the lines that name a fault, and what to do about each."""
    profile = folder / "here.toml"
    profile.write_text(PROFILE + text)
    done = subprocess.run(
        [sys.executable, *(program or ("-m", "edge_runtime")), "selftest", "--bundle", str(FROST), "--profile", profile],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    lines = [line.strip() for line in done.stderr.replace(str(folder), "DIR").splitlines()]
    faults = [line.split(maxsplit=1)[1] for line in lines if line.startswith("FAIL ")]
    return done.returncode, faults or lines, [one.removeprefix(_TODO) for one in lines if one.startswith(_TODO)]


@pytest.mark.parametrize(
    ("text", "found", "limit", "todo"),
    [
        (
            "memory_mb = 100\n" + ON_CPU,
            r"headroom +memory this bundle still needs: found \d+ MB \(of the 150 MB it states this process has \d+\)",
            r"at most \d+ MB, left of memory_mb = 100 of the profile",
            "raise memory_mb in the profile where the machine has more, or serve a smaller bundle",
        ),
        (
            "latency_p99_ms = 0.000001\n" + ON_CPU,
            r"latency +latency of one inference: found [\d.e-]+ ms at best, in 5 rounds of paced calls.*",
            "at most 1e-06 ms, by profile here",
            (
                "look for throttling by heat or a governor, stop other programs that load the machine, use a faster one, "
                "or have latency_p99_ms raised"
            ),
        ),
        (
            ON_OPENVINO,
            "provider +provider OpenVINOExecutionProvider: found not in this onnxruntime .*",
            r"it, from onnxruntime-openvino \(pip install 'edge-runtime\[openvino\]'\), or onnxruntime-ep-openvino and `library`",
            "install that in place of this one, or name another profile",
        ),
    ],
    ids=["too little memory", "latency over budget", "provider absent"],
)
def test_each_stops_the_boot_with_one_line_that_names_the_fix(
    tmp_path: Path, text: str, found: str, limit: str, todo: str
) -> None:
    code, faults, todos = _refused(tmp_path, text)
    assert code == 1
    assert len(faults) == 1, faults
    assert re.fullmatch(rf"{found} \(limit: {limit}\)", faults[0]), faults
    assert todos == [todo]


@pytest.mark.parametrize(
    ("text", "found", "nearest"),
    [
        (
            ON_CPU.replace("CPUExec", "CPUExce"),
            "providers[0].name: found 'CPUExceutionProvider'",
            "CPUExecutionProvider perhaps",
        ),
        (
            ON_OPENVINO + 'options = { device_typ = "CPU" }\n',
            "providers[0]: found a mistake (OpenVINOExecutionProvider has no option 'device_typ'",
            "device_type perhaps",
        ),
        ('choose = "quickest"\n' + ON_CPU, "choose: found 'quickest'", "'first' or 'fastest'"),
    ],
    ids=["provider", "option", "choose"],
)
def test_a_typo_in_a_profile_stops_the_boot_with_one_line(tmp_path: Path, text: str, found: str, nearest: str) -> None:
    code, lines, _ = _refused(tmp_path, text)
    assert code == 78
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"edge-runtime: DIR/here.toml, {found}")
    assert nearest in lines[0]
    assert lines[0].endswith("see docs/device_profiles.md")


@pytest.mark.parametrize(("nodes", "passes"), [(0, False), (26, False), (27, True)])
def test_a_fallback_beyond_the_share_stops_the_boot(tmp_path: Path, nodes: int, *, passes: bool) -> None:
    """frost has 30 nodes, and the profile allows a tenth of them elsewhere."""
    program = str(Path(__file__).parents[1] / "rig" / "silent_fallback.py")
    code, faults, todos = _refused(tmp_path, ON_OPENVINO + "allowed_elsewhere = 0.1\n", program, str(nodes))
    placed = [one for one in faults if one.startswith("placement ")]
    assert bool(placed) == (not passes)
    assert code in (0, 1)
    if not passes:
        assert code == 1
        assert f"{30 - nodes} on CPUExecutionProvider" in placed[0]
        assert "(limit: OpenVINOExecutionProvider, at most 10% elsewhere)" in placed[0]
        assert "install the provider the profile names, or name another profile" in todos


def test_neither_bundle_nor_config(tmp_path: Path) -> None:
    done = _run("--json", "-", cwd=tmp_path)
    assert done.returncode == 0
    assert _paths(done) == [str(FROST)]
    assert "no --bundle, no --config and no device.toml here: testing the demonstration bundle" in done.stderr
    write_device_file(tmp_path, line("roof", DEWPOINT))
    done = _run("--json", "-", cwd=tmp_path)
    assert _paths(done) == [str(DEWPOINT)]
    assert "demonstration" not in done.stderr


def test_all_lines_of_a_device_file(tmp_path: Path) -> None:
    config = write_device_file(tmp_path, line("roof", DEWPOINT), line("yard", DEWPOINT, temperature="K"))
    done = _run("--config", config, "--json", "-")
    assert done.returncode == 0
    (boot,) = ReportFile.model_validate_json(done.stdout).boots
    assert list(boot.conversions) == ["roof", "yard"]
    assert "roof: air_temperature: [degF] -> Cel" in done.stderr
    config = write_device_file(tmp_path, line("roof", DEWPOINT), line("yard", FROST))
    done = _run("--config", config, "--json", "-")
    assert done.returncode == 1, "the frost bundle has more channels than the line delivers"
    assert [boot.status for boot in ReportFile.model_validate_json(done.stdout).boots] == ["pass", "fail"]


def test_wrong_unit_in_the_device_file(tmp_path: Path) -> None:
    done = _run("--config", write_device_file(tmp_path, line("roof", DEWPOINT, temperature="m")))
    assert done.returncode == 1
    assert "FAIL  bindings" in done.stderr
    assert "m measures length and cannot become Cel" in done.stderr


def test_bundle_that_no_line_names(tmp_path: Path) -> None:
    config = write_device_file(tmp_path, line("roof", DEWPOINT))
    done = _run("--config", config, "--bundle", FROST, "--json", "-")
    assert done.returncode == 0
    assert f"no line of {config} names {FROST}" in done.stderr
    assert _paths(done) == [str(FROST)]


def test_broken_device_file(tmp_path: Path) -> None:
    (tmp_path / "device.toml").write_text("schema = 1")
    done = _run(cwd=tmp_path)
    assert done.returncode == 78
    assert [line.partition(": found")[0] for line in done.stderr.splitlines()] == [
        "edge-runtime: device.toml, line",
        "edge-runtime: device.toml, schema",
    ]


def test_retry_code_is_for_a_port_that_is_not_there_yet(tmp_path: Path) -> None:
    absent = write_device_file(tmp_path, line("roof", DEWPOINT, source=_serial("/dev/serial/by-id/none")))
    assert _run("--config", absent).returncode == 1
    done = _run("--config", absent, "--retry-code", "21")
    assert done.returncode == 21
    assert "roof: /dev/serial/by-id/none: no such device" in done.stderr
    assert done.stderr.splitlines()[-1] == "FAILED: dewpoint 1.0.0: ports; it may serve"
    assert _run("--config", absent, "--retry-code", "21", "--tier", "required").returncode == 0
    assert _run("--config", absent, "--retry-code", "21", "--inject", "golden_tensor").returncode == 1
    assert _run("--bundle", DEWPOINT, "--retry-code", "21", "--inject", "golden_tensor").returncode == 1


def test_port_that_is_there(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        name = os.ttyname(theirs)
        done = _run("--config", write_device_file(tmp_path, line("roof", DEWPOINT, source=_serial(name))))
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert f"ports              roof: {name} (limit: every serial port of device.toml is there) [wanted]" in done.stderr


def test_what_changed_since_the_last_pass(tmp_path: Path) -> None:
    config = write_device_file(tmp_path, line("roof", DEWPOINT))
    assert "not known: no earlier pass" in _run("--config", config).stderr
    memory = tmp_path / "state" / MEMORY_NAME
    kept = json.loads(memory.read_text())
    kept["last_passes"]["dewpoint"] |= {"kernel": "5.10", "firmware": "old"}
    memory.write_text(json.dumps(kept))
    failed = _run("--config", config, "--inject", "golden_tensor")
    assert "since the last pass: firmware old -> " in failed.stderr
    assert "; kernel 5.10 -> " in failed.stderr
    assert json.loads(memory.read_text()) == kept, "a failure changes nothing"
    assert "kernel 5.10 -> " in _run("--config", config).stderr
    assert "since the last pass: nothing" in _run("--config", config).stderr


def test_no_state_folder_is_made(tmp_path: Path) -> None:
    config = write_device_file(tmp_path, line("roof", DEWPOINT))
    (tmp_path / "state").rmdir()
    assert _run("--config", config).returncode == 0
    assert not (tmp_path / "state").exists()
