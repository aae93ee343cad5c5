"""What a boot runs against: lines by their bundle, floors and last passes by bundle id, profile by file or device."""

import json
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import boot
from edge_runtime.run.config import load_config
from edge_runtime.run.memory import MEMORY_NAME, remember_pass
from edge_runtime.run.setting import lines_of, make_line_setting, make_setting
from tests.rig.bundles import DEWPOINT, FROST, ROOT
from tests.rig.device_file import line, write_device_file


def test_without_a_device_file() -> None:
    setting = make_setting()
    assert (setting.bindings, setting.config_digest, setting.floors, setting.last_passes) == ({}, "", {}, {})
    assert setting.profile.name in ("generic_x86", "generic_arm64")


def test_lines_are_those_that_name_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(DEWPOINT)
    path = write_device_file(tmp_path, line("roof", DEWPOINT), line("yard", Path("link")), line("other", FROST))
    loaded = load_config(path)
    assert [one.name for one in lines_of(loaded, DEWPOINT)] == ["roof", "yard"]
    setting = make_line_setting(loaded, DEWPOINT)
    assert list(setting.bindings) == ["roof", "yard"]
    assert setting.config_digest == loaded.digest


def test_floors_are_read(tmp_path: Path) -> None:
    loaded = load_config(write_device_file(tmp_path, line("roof", DEWPOINT)))
    memory = tmp_path / "state" / MEMORY_NAME
    memory.write_text(json.dumps({"schema": "edge-runtime/boot/1", "floors": {"dewpoint": 9}}))
    report = boot(DEWPOINT, make_line_setting(loaded, DEWPOINT)).report
    assert [check.id for check in report.failures()] == ["rollback_floor"]


def test_a_pass_is_remembered_and_floors_stay(tmp_path: Path) -> None:
    loaded = load_config(write_device_file(tmp_path, line("roof", DEWPOINT)))
    memory = tmp_path / "state" / MEMORY_NAME
    memory.write_text(json.dumps({"schema": "edge-runtime/boot/1", "floors": {"dewpoint": 1, "frost": 7}}))
    report = boot(DEWPOINT, make_line_setting(loaded, DEWPOINT)).report
    assert report.changed_since_last_pass is None
    remember_pass(memory.parent, report)
    assert json.loads(memory.read_text())["floors"] == {"dewpoint": 1, "frost": 7}
    assert boot(DEWPOINT, make_line_setting(loaded, DEWPOINT)).report.changed_since_last_pass == ()
    write_device_file(tmp_path, line("roof", DEWPOINT, temperature="K"))
    changed = boot(DEWPOINT, make_line_setting(load_config(loaded.path), DEWPOINT)).report.changed_since_last_pass
    assert changed is not None
    assert [words.split()[0] for words in changed] == ["configuration"]


@pytest.mark.parametrize("content", ["", "{}x", '{"schema": "other"}', '{"floors": {"dewpoint": "high"}}'])
def test_a_damaged_memory_is_refused(tmp_path: Path, content: str) -> None:
    loaded = load_config(write_device_file(tmp_path, line("roof", DEWPOINT)))
    (tmp_path / "state" / MEMORY_NAME).write_text(content)
    with pytest.raises(ConfigurationError, match=r"boot\.json: found content that this release did not write"):
        make_line_setting(loaded, DEWPOINT)


def test_profile(tmp_path: Path) -> None:
    text = (ROOT / "device_profiles/generic_x86.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('name = "generic_x86"', 'name = "mine"'))
    path = write_device_file(tmp_path, line("roof", DEWPOINT))
    path.write_text(path.read_text().replace("state_dir", 'profile = "mine.toml"\nstate_dir'))
    loaded = load_config(path)
    assert make_line_setting(loaded, DEWPOINT).profile.name == "mine"
    assert make_line_setting(loaded, DEWPOINT, "generic_arm64").profile.name == "generic_arm64"
    with pytest.raises(ConfigurationError, match="'generic_x86' perhaps"):
        make_setting("generic_x68")
