"""What doctor says of made-up machines and device files; "not checked" never reads as passed."""

import datetime as dt
import json
import os
import re
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import Machine, probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.device.telemetry import Telemetry, read_telemetry
from edge_runtime.engine import isolate
from edge_runtime.engine import session as engine
from edge_runtime.flow.recording import MAGIC, encode_chunk
from edge_runtime.links.serial_port import LinkAbsent, PortState
from edge_runtime.run import doctor, provider_findings, source_findings
from edge_runtime.run import findings as look
from edge_runtime.run import line_findings as at_line
from edge_runtime.run.config import load_config
from edge_runtime.run.doctor import examine, main
from edge_runtime.run.findings import Finding
from edge_runtime.run.setting import make_setting
from edge_runtime.sources import child_process
from edge_runtime.spec.device_profile import Isolation, ProviderChoice
from edge_runtime.spec.manifest import parse
from tests.device import sensors, trees
from tests.rig.program import PATIENCE_S

BUNDLES = data_folder("bundles")
CONFIG = """\
schema = "edge-runtime/device/1"
state_dir = "state"
[[line]]
name = "frost"
bundle = "frost"
source = { kind = "stdin" }
decode = { format = "csv", columns = "header" }
sink = [{ kind = "stdout" }]
[line.channels]
air_temperature = { field = "t", unit = "[degF]" }
relative_humidity = { field = "rh", unit = "%" }
station_pressure = { field = "p", unit = "hPa" }
wind_speed = { field = "w", unit = "km/h" }
solar_irradiance = { field = "s", unit = "W/m2" }
"""
PORT = PortState("/dev/ttyUSB0", "/dev/ttyUSB0 vid=0x0403 pid=0x6001", permitted=True, group="dialout", holders="")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return probe(trees.vnni(tmp_path / "machine"))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "frost").symlink_to(BUNDLES / "frost")
    path = tmp_path / "device.toml"
    path.write_text(CONFIG)
    monkeypatch.setattr(look, "port_states", lambda: [PORT])
    return path


def named(found: list[Finding], subject: str) -> Finding:
    return next(one for one in found if one.subject == subject)


def test_a_good_machine_and_file(machine: Machine, config: Path) -> None:
    told = read_telemetry(sensors.orin(config.parent / "sensors"), lambda: 0)
    found = examine(replace(machine, glibc="2.36"), config, told)
    assert {one.subject for one in found if one.status != "ok"} == {"source of line frost"}, (
        "standard input tells nothing"
    )
    assert named(found, "configuration").text == f"{config}, lines: frost"
    assert named(found, "profile").text.startswith("generic_x86 ")
    assert (
        named(found, "provider CPUExecutionProvider").text
        == "works: ran a model of one node now, with the right answer"
    )
    assert named(found, "bundle of line frost").text.startswith("frost ")
    assert not (config.parent / "state").exists()


def test_without_a_file_what_needs_it_is_not_checked(machine: Machine) -> None:
    found = examine(machine, None)
    for subject in ("configuration", "state folder", "sources", "bundles", "channels", "disk"):
        assert named(found, subject).status == "skipped"
        assert named(found, subject).text.startswith("not checked")
    assert named(found, "profile").status == "ok"


def test_every_skipped_finding_says_that_it_was_not_checked(config: Path) -> None:
    config.write_text("nonsense")
    found = examine(Machine(), config)
    skipped = [one for one in found if one.status == "skipped"]
    assert len(skipped) >= 6
    assert all("not checked" in one.text for one in skipped)


def test_a_wrong_file_fails_and_the_rest_is_still_looked_at(machine: Machine, config: Path) -> None:
    config.write_text(CONFIG.replace("bundle =", "bundel ="))
    found = examine(machine, config)
    assert named(found, "configuration") == Finding(
        "configuration",
        "fail",
        f"{config}, line[0].bundel: found an unknown key; expected bundle",
        "see docs/device_toml.md",
    )
    assert named(found, "provider").text == "not checked: needs a profile"
    assert named(found, "onnxruntime").status == "ok"


def test_each_mistake_of_a_file_is_a_finding(machine: Machine, config: Path) -> None:
    config.write_text(CONFIG.replace("bundle =", "bundel =").replace("km/h", "kph"))
    told = [one.text for one in examine(machine, config) if one.subject == "configuration"]
    assert len(told) == 2
    assert told[1].startswith(f"{config}, line[0].channels.wind_speed.unit: found 'kph'; expected a unit of ")


def test_an_unknown_profile_fails(machine: Machine, config: Path) -> None:
    config.write_text(CONFIG.replace("state_dir", 'profile = "generic_x68"\nstate_dir'))
    assert named(examine(machine, config), "profile").status == "fail"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({}, "ok", "VNNI: int8 sums do not saturate"),
        ({"isa": frozenset({"sse4_1", "avx2"})}, "ok", "no VNNI: int8 sums saturate unless the weights fit 7 bits"),
        ({"isa": None}, "warn", "features unknown, so the careful int8 kernel is used"),
        ({"architecture": "aarch64", "isa": frozenset()}, "ok", "none of the features we watch; int8 sums do not"),
        ({"architecture": "armv7l"}, "fail", "armv7l"),
        ({"architecture": None}, "fail", "unknown architecture"),
    ],
)
def test_the_processor(machine: Machine, change: dict[str, object], status: str, words: str) -> None:
    found = look.processor(replace(machine, **change))
    assert found.status == status
    assert words in found.text


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({}, "ok", "4096 of 8192 MiB available; 170 MiB wanted"),
        ({"memory_limit_mb": 64}, "warn", "4096 of 8192 MiB available, limited to 64 MiB; 170 MiB wanted"),
        (
            {"memory_limit_mb": 256, "memory_left_mb": 90}, "warn",
            "4096 of 8192 MiB available, limited to 256 MiB, of which 90 are left; 170 MiB wanted",
        ),
        ({"memory_available_mb": 100}, "warn", "100 of 8192 MiB available; 170 MiB wanted"),
        ({"memory_available_mb": None}, "skipped", "not checked: the kernel does not tell"),
    ],
)  # fmt: skip
def test_the_memory(machine: Machine, change: dict[str, object], status: str, text: str) -> None:
    found = look.memory(replace(machine, **change), None)
    assert (found.status, found.text) == (status, text)


@pytest.mark.parametrize(
    ("version", "status"), [("2.36", "ok"), ("2.28", "ok"), ("2.27", "warn"), (None, "skipped"), ("odd", "skipped")]
)
def test_the_c_library(version: str | None, status: str) -> None:
    assert look.glibc(Machine(glibc=version)).status == status


@pytest.mark.parametrize(("synchronised", "status"), [(True, "ok"), (False, "warn"), (None, "skipped")])
def test_the_clock(synchronised: bool | None, status: str) -> None:
    assert look.clock(Machine(clock_synchronised=synchronised)).status == status


def test_no_onnxruntime_names_what_to_install() -> None:
    assert look.onnxruntime([], "pip install it", frozen=False) == Finding(
        "onnxruntime", "fail", "none installed", "pip install it"
    )


def test_a_frozen_program_brings_its_own() -> None:
    assert look.onnxruntime([], "", frozen=True).text.startswith("part of this program ")


def test_two_onnxruntimes_name_what_to_remove() -> None:
    assert look.onnxruntime(["onnxruntime", "onnxruntime-gpu"], "pip install it", frozen=False) == Finding(
        "onnxruntime",
        "fail",
        "2 installed over each other: onnxruntime, onnxruntime-gpu",
        "pip uninstall onnxruntime onnxruntime-gpu; then pip install it",
    )


def test_an_onnxruntime_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = look.onnxruntime(["onnxruntime"], "", frozen=False)
    assert (found.status, found.text) == ("fail", "not installed")


def test_telemetry_that_is_on_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "telemetry_is_off", lambda: False)
    found = look.onnxruntime(["onnxruntime"], "", frozen=False)
    assert found.status == "fail"
    assert found.todo == "set ORT_DISABLE_TELEMETRY=1 before Python starts"


def test_a_provider_that_is_not_there_fails() -> None:
    found = provider_findings.provider(ProviderChoice(name="CUDAExecutionProvider"), make_setting().profile)
    assert found.status == "fail"
    assert "not in this onnxruntime" in found.text


def test_a_provider_that_answers_wrongly_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.Session, "__call__", lambda _, feeds: {"y": feeds["x"] + 1})
    found = provider_findings.provider(ProviderChoice(name="CPUExecutionProvider"), make_setting().profile)
    assert (found.status, found.text[:37]) == ("fail", "does not work: ran elsewhere or wrong")


def test_a_provider_that_is_kept_apart_cannot_end_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "program", lambda: [sys.executable, "-c", "import os; os.abort()"])
    limits = Isolation(memory_mb=256, timeout_s=PATIENCE_S)
    profile = make_setting().profile.model_copy(update={"isolation": limits})
    found = provider_findings.provider(ProviderChoice(name="CPUExecutionProvider"), profile)
    assert (found.status, found.text) == (
        "fail", "refused when tried: the session's own process: found an end by SIGABRT",
    )  # fmt: skip


def test_a_provider_that_is_kept_apart_is_tried_there() -> None:
    limits = Isolation(memory_mb=256, timeout_s=PATIENCE_S)
    profile = make_setting().profile.model_copy(update={"isolation": limits})
    assert provider_findings.provider(ProviderChoice(name="CPUExecutionProvider"), profile).status == "ok"


def test_a_provider_whose_library_is_not_there_was_tried_and_refused(tmp_path: Path) -> None:
    choice = ProviderChoice(name="OpenVINOExecutionProvider", library=str(tmp_path / "none.so"))
    found = provider_findings.provider(choice, make_setting().profile)
    assert found.status == "fail"
    assert found.text == f"refused when tried: provider's library {choice.library}: found No such file or directory"


@pytest.mark.parametrize(
    ("firmware", "status", "words"),
    [
        (
            "R36 (release), REVISION: 4.3, GCID: 38968081",
            "fail",
            "JetPack 6 or earlier is not supported: its Python is 3.10",
        ),
        ("R35 (release), REVISION: 4.1", "fail", "Jetson Linux 35: JetPack 6 or earlier is not supported"),
        ("R38 (release), REVISION: 2.0", "ok", "Jetson Linux 38: JetPack 7 or later"),
        ("Example Inc. 1.4.2", None, ""),
        (None, None, ""),
    ],
)
def test_the_release_of_a_jetson(firmware: str | None, status: str | None, words: str) -> None:
    found = provider_findings.jetpack(Machine(firmware=firmware))
    assert [one.status for one in found] == ([status] if status else [])
    assert all(words in one.text for one in found)


def test_jetpack_6_is_told_by_doctor_where_the_profile_wants_its_gpu(tmp_path: Path) -> None:
    machine = probe(trees.write(trees.orin(tmp_path), {"etc/nv_tegra_release": "# R36 (release), REVISION: 4.3\n"}))
    assert named(examine(machine, None), "jetpack").status == "fail"


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({}, "ok", "vid=0x0403 pid=0x6001; no other process seen on it"),
        ({"permitted": False}, "warn", "vid=0x0403 pid=0x6001; permission denied"),
        ({"holders": "process 7 (minicom)"}, "warn", "vid=0x0403 pid=0x6001; in use by process 7 (minicom)"),
        ({"description": "/dev/ttyUSB0"}, "ok", "no USB identity; no other process seen on it"),
    ],
)
def test_a_serial_port(monkeypatch: pytest.MonkeyPatch, change: dict[str, object], status: str, text: str) -> None:
    monkeypatch.setattr(look, "port_states", lambda: [PORT._replace(**change)])
    assert [(one.status, one.text) for one in look.serial_ports()] == [(status, text)]


def test_no_serial_port_is_not_a_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "port_states", list)
    assert look.serial_ports()[0].status == "skipped"


def test_ports_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[PortState]:
        raise LinkAbsent("pulled")

    monkeypatch.setattr(look, "port_states", fail)
    assert look.serial_ports()[0].text == "not checked: pulled"


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ('kind = "serial", port = "/dev/none-such"', "warn", "/dev/none-such: no such device; plug it in"),
        ('kind = "serial", port = "socket://host:1"', "skipped", "not checked: socket://host:1 is a serial server in the"),
        ('kind = "serial", match = { vid = 1, serial_number = "A7" }', "warn",
         "no device matches vid=0x0001 serial_number=A7; found"),
        ('kind = "serial", port = "/dev/null", baud = 4800, parity = "even"', "ok", "/dev/null, to be opened with 4800 baud, 8E1"),
        ('kind = "replay", path = "none.csv"', "fail", "none.csv is no file this user can read"),
        ('kind = "replay", path = "right.csv"', "ok", "right.csv, 22 bytes"),
        ('kind = "replay", path = "late.csv"', "ok", "late.csv, "),
        ('kind = "replay", path = "right.rec"', "ok", "right.rec, "),
        ('kind = "replay", path = "wrong.csv"', "fail", "wrong.csv, which begins with no header that suits: "),
        ('kind = "stdin"', "skipped", "not checked: standard input"),
        ('kind = "folder", path = "none"', "warn", "none: no such folder now"),
        ('kind = "folder", path = ".", pattern = "*.toml", after = "move"', "ok", ", 1 names that fit '*.toml'"),
        ('kind = "command", command = ["no-such-program"]', "fail", "found no program of that name"),
    ],
)  # fmt: skip
def test_the_source_of_a_line(config: Path, source: str, status: str, text: str) -> None:
    config.write_text(CONFIG.replace('kind = "stdin"', source))
    (config.parent / "right.csv").write_text("t,rh,p,w,s\n1,2,3,4,5\n\n")
    (config.parent / "late.csv").write_text("4,5\nt,rh,p,w,s\n1,2,3,4,5\n")
    (config.parent / "wrong.csv").write_text("temp,rh,p,w,s\n1,2,3,4,5\n")
    (config.parent / "right.rec").write_bytes(MAGIC + encode_chunk(1, b"4,5\n"))
    loaded = load_config(config)
    found = source_findings.source(loaded, loaded.config.line[0])
    assert found.status == status
    assert text in found.text


@pytest.mark.parametrize(
    ("after", "text"), [("keep", "cannot be read"), ("move", "cannot be read and written, which after = 'move' needs")]
)
def test_a_folder_that_this_user_may_not_use(
    config: Path, monkeypatch: pytest.MonkeyPatch, after: str, text: str
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    config.write_text(CONFIG.replace('kind = "stdin"', f'kind = "folder", path = ".", after = "{after}"'))
    loaded = load_config(config)
    found = source_findings.source(loaded, loaded.config.line[0])
    assert (found.status, found.text.endswith(text)) == ("fail", True)


def test_a_program_is_found_and_by_whom_it_would_be_run(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(CONFIG.replace('kind = "stdin"', 'kind = "command", command = ["sh", "-c", "exit 1"]'))
    loaded = load_config(config)

    def found() -> Finding:
        return source_findings.source(loaded, loaded.config.line[0])

    monkeypatch.setattr(child_process, "guard", lambda: ("setpriv",))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (found().status, found().text.endswith("/sh, as this user, without new privileges")) == ("ok", True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (found().status, found().text.endswith("/sh, as root, since this is")) == ("warn", True)
    monkeypatch.setattr(child_process, "guard", tuple)
    assert (found().status, "until it writes again" in found().text) == ("warn", True)


def test_a_port_found_by_match(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_findings, "find_port", lambda _: "/dev/null")
    config.write_text(CONFIG.replace('kind = "stdin"', 'kind = "serial", match = { vid = 1 }'))
    loaded = load_config(config)
    assert (
        source_findings.source(loaded, loaded.config.line[0]).text
        == "/dev/null, found by match, to be opened with 9600 baud, 8N1"
    )


def test_a_port_that_this_user_may_not_open(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    config.write_text(CONFIG.replace('kind = "stdin"', 'kind = "serial", port = "/dev/null"'))
    loaded = load_config(config)
    found = source_findings.source(loaded, loaded.config.line[0])
    assert (found.status, found.text) == ("fail", "/dev/null may not be opened by this user")


@pytest.mark.parametrize(
    ("old", "new", "status", "words", "todo"),
    [
        ("", "", "ok", "5 bound; air_temperature: [degF] -> Cel;", ""),
        ('wind_speed = { field = "w", unit = "km/h" }\n', "", "fail", "no channel wind_speed", "correct [line.channels]"),
        ("wind_speed", "gust", "fail", "no channel wind_speed", "correct [line.channels]"),
        ("wind_speed", "wnd_speed", "fail", "an unknown channel wnd_speed (wind_speed perhaps)", "correct [line.channels]"),
        ('"km/h"', '"hPa"', "fail", "'hPa'; expected a unit that converts to m/s", "pressure"),
        (', unit = "km/h"', "", "warn", "undeclared: refused at the first sample", 'channels.wind_speed.unit = "m/s"'),
        ('columns = "header"', 'columns = ["t", "rh", "p", "s"]', "fail", "'w'", ""),
    ],
    ids=["good", "missing", "unknown", "mistyped", "unit", "undeclared", "column"],
)  # fmt: skip
def test_the_channels_of_a_line(config: Path, old: str, new: str, status: str, words: str, todo: str) -> None:
    config.write_text(CONFIG.replace(old, new) if old else CONFIG)
    loaded = load_config(config)
    manifest = parse((BUNDLES / "frost" / "manifest.json").read_bytes())
    (found,) = at_line.bindings(loaded.config.line[0], manifest, dt.date(2026, 1, 1), Path())
    assert (found.status, words in found.text, todo in found.todo) == (status, True, True), found
    assert at_line.bindings(loaded.config.line[0], None, dt.date(2026, 1, 1), Path())[0].status == "skipped"


def test_the_streams_of_a_line_and_what_they_hold(config: Path) -> None:
    manifest = parse((BUNDLES / "frost" / "manifest.json").read_bytes())
    assert at_line.streams(load_config(config).config.line[0], manifest).text == "one, in 1 MiB"
    config.write_text(CONFIG.replace('columns = "header"', 'columns = "header", stream = "station"'))
    line = load_config(config).config.line[0]
    found = at_line.streams(line, manifest)
    assert (found.status, found.text) == ("ok", "at most 1024, in 7 MiB; a further one is refused (too_many_streams)")
    assert at_line.streams(line, None).status == "skipped"


@pytest.mark.parametrize(("today", "warned"), [("2026-06-30", False), ("2026-07-01", True)])
def test_a_correction_that_has_expired(config: Path, today: str, warned: bool) -> None:
    correction = "correction = { a = 1.01, date = 2025-06-30, expires = 2026-06-30 }"
    config.write_text(CONFIG.replace('unit = "km/h"', f'unit = "km/h", {correction}'))
    manifest = parse((BUNDLES / "frost" / "manifest.json").read_bytes())
    line = load_config(config).config.line[0]
    found = at_line.bindings(line, manifest, dt.date.fromisoformat(today), Path())[1:]
    assert [one.status for one in found] == (["warn"] if warned else [])
    assert all("expired 2026-06-30; it is still applied" in one.text for one in found)


def test_the_fit_of_a_bundle(machine: Machine, config: Path) -> None:
    line = load_config(config).config.line[0]
    manifest = parse((BUNDLES / "frost" / "manifest.json").read_bytes())
    profile = load_profile("generic_x86", machine, [data_folder("device_profiles")])
    assert at_line.fit(line, manifest, profile, machine, "1.32.0").status == "ok"
    other = replace(machine, architecture="riscv64")
    assert "riscv64" in at_line.fit(line, manifest, profile, other, "1.32.0").text
    new = manifest.model_copy(update={"variants": (manifest.variants[0].model_copy(update={"ir_version": 14}),)})
    found = at_line.fit(line, new, profile, machine, "1.24.1")
    assert (found.status, found.text[-46:]) == ("fail", "expected at most 13, what onnxruntime 1.24.1 takes"[-46:])
    assert at_line.fit(line, None, profile, machine, "1.32.0").status == "skipped"


def test_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = re.findall(r'"(\w+)>=([\d.]+)"', (Path(__file__).parents[2] / "pyproject.toml").read_text())
    for name, least in at_line.PACKAGES.items():
        assert (name, ".".join(map(str, least))) in stated
    found = at_line.packages("9.9.9")
    assert found.status == "ok"
    assert found.text.startswith("edge-runtime 9.9.9, numpy 2.")
    monkeypatch.setattr(at_line.metadata, "version", lambda _: "1.26.4rc1")
    assert (at_line.packages("9").status, at_line.packages("9").todo) == (
        "fail", "pip install 'numpy>=2.0' 'pydantic>=2.10' 'pyserial>=3.5'"
    )  # fmt: skip

    def frozen(name: str) -> str:
        raise at_line.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(at_line.metadata, "version", frozen)
    words = ", ".join(f"{name} part of this program" for name in at_line.PACKAGES)
    assert at_line.packages("9").text == f"edge-runtime 9, {words}"


def test_a_state_folder_that_cannot_be_written(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = look.storage(load_config(config))
    assert (found.status, found.text) == ("fail", f"{config.parent / 'state'} cannot be written")


def test_a_file_in_the_state_folders_place(config: Path) -> None:
    (config.parent / "state").touch(0o755)
    assert look.storage(load_config(config)).status == "fail"


def test_a_state_folder_inside_a_bundle(config: Path) -> None:
    config.write_text(CONFIG.replace('"state"', '"frost/state"'))
    assert look.storage(load_config(config)).status == "fail"


def test_a_full_disk_is_told(config: Path) -> None:
    config.write_text(CONFIG + "[line.journal]\nmax_bytes = 1_000_000_000_000_000\n")
    found = look.storage(load_config(config))
    assert (found.status, found.todo) == ("warn", "free the disk")


def test_a_changed_bundle_fails(config: Path) -> None:
    (config.parent / "frost").unlink()
    (config.parent / "frost").mkdir()
    for path in (BUNDLES / "frost").iterdir():
        data = path.read_bytes()
        (config.parent / "frost" / path.name).write_bytes(data[:-1] + b"?" if path.suffix == ".onnx" else data)
    loaded = load_config(config)
    found, manifest = look.bundle(loaded, loaded.config.line[0])
    assert (found.status, manifest) == ("fail", None)
    assert "with other content" in found.text
    assert look.bytes_a_day(loaded.config.line[0], manifest).status == "skipped"


@pytest.mark.parametrize(
    ("bundle", "extra", "status", "words"),
    [
        ("frost", "", "ok", "about 217 kB a day by the journal at one sample each 3600 s"),
        ("frost", '[line.journal]\nenabled = "off"\n', "ok", "no journal, so 0 B a day by it"),
        ("dewpoint", "", "skipped", "unknown rate (the contract has no period)"),
    ],
)
def test_bytes_a_day(config: Path, bundle: str, extra: str, status: str, words: str) -> None:
    config.write_text(CONFIG + extra)
    manifest = parse((BUNDLES / bundle / "manifest.json").read_bytes())
    found = look.bytes_a_day(load_config(config).config.line[0], manifest)
    assert found.status == status
    assert words in found.text


def test_a_replayed_file_has_no_journal(config: Path) -> None:
    config.write_text(CONFIG.replace('kind = "stdin"', 'kind = "replay", path = "x"'))
    assert look.bytes_a_day(load_config(config).config.line[0], None).text.startswith("no journal")


def test_syncs_are_never_more_than_samples() -> None:
    seldom, often = (look.journal_bytes_a_day(period, 1.0, 0) for period in (3600, 0.1))
    assert seldom == 24 * look.BYTES_PER_SYNC
    assert often == look.DAY_S * look.BYTES_PER_SYNC
    assert look.journal_bytes_a_day(0.1, 0, 0) == 10 * often


def test_text_and_exit_code(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(Namespace(config=str(config), json=False))
    text = capsys.readouterr().out
    assert code == 0
    assert re.search(r"^Ok      python: ", text, flags=re.MULTILINE)
    assert text.rstrip().endswith("(Skipped is not checked)")
    config.write_text("nonsense")
    assert main(Namespace(config=str(config), json=False)) == 1
    assert re.search(r"^Fail    configuration: .*\n {10}-> ", capsys.readouterr().out, flags=re.MULTILINE)


def test_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(Namespace(config=str(config), json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["status"]) == ("edge-runtime/doctor/1", "pass")
    assert {one["status"] for one in report["findings"]} <= {"ok", "warn", "skipped"}
    assert report["machine"]["architecture"]
    assert report["telemetry"].keys() == set(Telemetry._fields)


def test_what_the_sensors_tell_stands_behind_the_clock_and_in_the_json(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = read_telemetry(sensors.pi5(config.parent / "sensors", bits="50000"), lambda: 0)
    monkeypatch.setattr(doctor, "read_telemetry", lambda **_: told)
    assert main(Namespace(config=str(config), json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["telemetry"]["temperatures"] == [
        {"sensor": "cpu-thermal", "celsius": 61.2, "hot": None, "critical": 110.0}
    ]
    subjects = [one["subject"] for one in report["findings"]]
    at = subjects.index("clock") + 1
    assert subjects[at : at + 5] == ["temperature", "throttling", "clock rates", "power", "GPU"]
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    printed = "\n".join(doctor._text([Finding(**one) for one in report["findings"][at : at + 5]]))
    assert printed.partition("\n\n")[0] in page, "the example of the documentation"


def test_the_example_of_the_documentation_is_how_it_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    example = page.split("```")[1].strip().splitlines()
    counts = [sum(line.startswith(f"{word:8}") for line in example) for word in ("Ok", "Warn", "Fail", "Skipped")]
    assert example[-1] == "{} Ok, {} Warn, {} Fail, {} Skipped (Skipped is not checked)".format(*counts)


@pytest.mark.parametrize(("send", "status"), [(r"S", "warn"), (r"S\r\n", "ok"), (r"\u0005", "ok")])
def test_a_question_without_a_line_end_is_warned_of(
    config: Path, monkeypatch: pytest.MonkeyPatch, send: str, status: str
) -> None:
    monkeypatch.setattr(source_findings, "find_port", lambda _: "/dev/null")
    source = f'kind = "serial", port = "/dev/null", poll = {{ send = "{send}", every_s = 1 }}'
    config.write_text(CONFIG.replace('kind = "stdin"', source))
    loaded = load_config(config)
    found = source_findings.source(loaded, loaded.config.line[0])
    assert (found.status, "source.poll.send 'S' has no line end" in found.text) == (status, status == "warn")
