"""`inspect` and `verify` as real processes: what a person reads, what a program reads, and no onnxruntime."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.bundle.write import write_tar
from tests.rig.bundles import DEWPOINT, FROST, ROOT, files_of, manifest_of, write_with_manifest
from tests.rig.signing import make_key, sign_with, trust


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime", *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_inspect_text() -> None:
    done = _run("inspect", str(FROST))
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    for words in (
        "frost 1.0.0: 24 hourly readings",
        "LIMITS     one station, one composite year: a demonstration, not a forecast service",
        "signature  not checked: there is none",
        "air_temperature    Cel   -16.7 to 35.6  -30 to 45    -60 to 60    refuse",
        "window: 24 samples, moved by 1, oldest first",
        "pace: one each 3600 s",
        "air_temperature    13.989935874938965  10.27021312713623",
        "output low [Cel]: lowest air temperature of the next 6 hours",
        "flag frost: on below 2 Cel, off again at or above 2.5",
        "tolerance on CPUExecutionProvider: equal",
        "evidence: ",
        "goldens: 33 cases in golden.npz, 24 of them with the framework's own answer",
        "gap: gap",
        "licence: ",
    ):
        assert words in text
    digest = next(line.split()[1] for line in text.splitlines() if line.startswith("  digest"))
    assert len(digest) == 64


def test_inspect_without_window() -> None:
    text = _run("inspect", str(DEWPOINT)).stdout
    assert "window: none, each sample is one input" in text
    assert "off" in text
    assert "flag" not in text


def test_inspect_counts_the_answers_that_are_words() -> None:
    done = _run("inspect", str(ROOT / "bundles" / "tiny_trees"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "goldens: 32 cases in golden.npz, 27 of them with the framework's own answer" in done.stdout


def test_inspect_json_is_the_manifest_and_its_digest() -> None:
    found = json.loads(_run("inspect", str(FROST), "--json").stdout)
    assert set(found) == {"digest", "manifest"}
    assert found["manifest"] == manifest_of(FROST)


def test_verify(tmp_path: Path) -> None:
    files = files_of(FROST)
    del files["SHA256SUMS"]
    write_tar(files, tmp_path / "frost.tar")
    for path in (FROST, tmp_path / "frost.tar"):
        done = _run("verify", str(path))
        assert done.returncode == 0
        assert "signature  not checked: there is none" in done.stdout
        assert "21064 bytes  model_int8.onnx" in done.stdout
    found = json.loads(_run("verify", str(FROST), "--json").stdout)
    assert (found["signature"], found["signature_file"]) == ("not checked", False)
    assert found["files"].keys() == files.keys()
    assert found["digest"] == json.loads(_run("inspect", str(FROST), "--json").stdout)["digest"]


def test_a_signature_is_not_checked_without_keys(tmp_path: Path) -> None:
    path = write_with_manifest(FROST, tmp_path / "bundle", lambda _: None)
    (path / "model.sig").write_bytes(b"{}")
    for command in ("inspect", "verify"):
        words = "signature  not checked: there is one; `edge-runtime verify` checks it with --keys"
        assert words in _run(command, str(path)).stdout
    found = json.loads(_run("verify", str(path), "--json").stdout)
    assert (found["signature"], found["signature_file"], found["signed_by"]) == ("not checked", True, None)


def test_with_keys_a_signature_by_one_of_them_is_asked_for(tmp_path: Path) -> None:
    path = write_with_manifest(FROST, tmp_path / "bundle", lambda _: None)
    one, other = make_key(tmp_path / "one"), make_key(tmp_path / "other")
    keys = trust(tmp_path / "trusted", one)
    unsigned = _run("verify", str(path), "--keys", str(keys))
    assert (unsigned.returncode, unsigned.stdout) == (65, "")
    assert "found no model.sig; expected a model.sig by a trusted key; have it signed" in unsigned.stderr
    sign_with(one, path)
    done = _run("verify", str(path), "--keys", str(keys))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(_run("verify", str(path), "--keys", str(keys), "--json").stdout)
    assert (found["signature"], found["signed_by"]["key"]) == ("valid", "one.pub")
    assert f"  signature  by 'one.pub', key {found['signed_by']['hint']}" in done.stdout
    sign_with(other, path)
    stranger = _run("verify", str(path), "--keys", str(keys))
    assert (stranger.returncode, stranger.stdout) == (65, "")
    assert "which this device does not trust" in stranger.stderr
    missing = _run("verify", str(path), "--keys", str(tmp_path / "none"))
    assert missing.returncode == 78
    assert missing.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_refusals_are_one_line_and_65(command: str, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    for name, data in files_of(FROST).items():
        (changed / name).write_bytes(data[:-1] if name == "golden.npz" else data)
    newer = write_with_manifest(FROST, tmp_path / "newer", lambda raw: raw.update(must_understand=["time_travel"]))
    unnamed = write_with_manifest(
        FROST, tmp_path / "unnamed", lambda raw: raw["variants"][0].update(goldens="other.npz")
    )
    for path, words in (
        (tmp_path / "none", "unreadable: No such file"),
        (changed, "golden.npz with other content"),
        (newer, "must_understand: found time_travel"),
        (unnamed, "other.npz not in the bundle"),
    ):
        done = _run(command, str(path))
        assert (done.returncode, done.stdout) == (65, "")
        assert done.stderr.count("\n") == 1
        assert words in done.stderr


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_neither_imports_onnxruntime(command: str) -> None:
    code = (
        "import sys; from edge_runtime.cli import main; "
        f"code = main([{command!r}, {str(FROST)!r}]); "
        "sys.exit(code or any(name in sys.modules for name in ('onnxruntime', 'onnx', 'serial', 'paho')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_inspect_tells_what_is_watched(tmp_path: Path) -> None:
    def watch(raw: dict[str, Any]) -> None:
        raw["must_understand"] = ["plausibility"]
        raw["plausibility"] = {
            "step": {"limits": {"wind_speed": 0.002}},
            "shifted": {"samples": 24, "means": {"wind_speed": {"mean": 3.0, "std": 1.0}}},
            "drifted": {"samples": 500, "bins": {"wind_speed": {"edges": [2.0], "shares": [0.4, 0.6]}}},
            "constant": {"after": 9},
        }

    assert "against training" not in _run("inspect", str(FROST)).stdout
    done = _run("inspect", str(write_with_manifest(FROST, tmp_path / "b", watch)))
    assert (
        "flagged against training, never refused\n"
        "  step      a change in a second of more than: wind_speed 0.002 m/s\n"
        "  shifted   CUSUM of means of 24 samples, k 0.5, h 8: wind_speed\n"
        "  drifted   PSI of 500 samples above 0.25: wind_speed\n"
        "  constant  one answer to 9 different inputs in a row\n"
    ) in done.stdout
