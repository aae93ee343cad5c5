"""Who signed a bundle decides whether it boots: each refusal has a line of its own, in real processes with their codes."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.bundle import ecdsa
from edge_runtime.bundle.signature import check
from edge_runtime.bundle.trusted_keys import load_keys
from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import Booted, Setting, boot
from edge_runtime.run.config import load_config
from edge_runtime.run.drill import INJECTABLE, QUANT_PRECISION
from edge_runtime.run.setting import make_line_setting, make_setting
from edge_runtime.run.trust import Trust
from edge_runtime.spec.report import LEFT_OUT, Check
from tests.rig.bundles import DEWPOINT, files_of, manifest_of, write_with, write_with_manifest
from tests.rig.device_file import line, write_device_file
from tests.rig.program import run_program
from tests.rig.signing import make_key, sign_with, trust

FORGED = "which it names, did not make over what it says"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A copy of the dewpoint bundle in ``tmp_path``, signed by ours.key, whose public half lies in ``trusted``."""
    copy = write_with(DEWPOINT, tmp_path / "dewpoint", {})
    sign_with(make_key(tmp_path / "ours"), copy)
    trust(tmp_path / "trusted", tmp_path / "ours.key")
    return copy


@pytest.fixture
def setting(bundle: Path) -> Setting:
    return replace(make_setting(), trust=Trust("if_present", load_keys(bundle.parent / "trusted")))


def _signature(booted: Booted) -> Check:
    return next(check for check in booted.report.checks if check.id == "signature")


def _failed(booted: Booted) -> list[str]:
    return [check.id for check in booted.report.failures()]


def _unsigned(bundle: Path) -> Path:
    (bundle / "model.sig").unlink()
    return bundle


def test_a_signature_that_holds_is_a_check_passed(bundle: Path, setting: Setting) -> None:
    booted = boot(bundle, setting)
    assert booted.ready is not None
    hint = ecdsa.hint(ecdsa.public_key((bundle.parent / "ours.pub").read_bytes(), "ours"))
    found = _signature(booted)
    assert (found.status, found.measured) == ("pass", f"signed by 'ours.pub', key {hint[:12]}")


@pytest.mark.parametrize("policy", ["if_present", "required"])
def test_what_is_loaded_is_what_was_signed(bundle: Path, setting: Setting, policy: str) -> None:
    """Whatever is changed, with SHA256SUMS right again: the hashes agree, and only the signature can tell."""
    trusting = replace(setting, trust=replace(setting.trust, policy=policy))
    signature = (bundle / "model.sig").read_bytes()
    for name, data in files_of(DEWPOINT).items():
        if name != "SHA256SUMS":
            changed = write_with(DEWPOINT, bundle, {name: data[:-1] + bytes([data[-1] ^ 1])})
            (changed / "model.sig").write_bytes(signature)
            booted = boot(changed, trusting)
            assert booted.ready is None
            assert _failed(booted) == ["signature"]
            assert f"'{name}' with other content" in _signature(booted).measured


def test_what_a_stranger_signed_is_not_read_any_further(bundle: Path, setting: Setting) -> None:
    sign_with(make_key(bundle.parent / "theirs"), bundle)
    booted = boot(bundle, setting)
    assert _failed(booted) == ["signature"]
    ran = [check.id for check in booted.report.checks if check.hint != LEFT_OUT]
    assert ran == ["hash_known_answer", "files", "signature", "onnxruntime", "memory_limit"]
    assert booted.report.bundle.keys() == {"path", "digest"}


@pytest.mark.parametrize(
    ("prepare", "given", "reason"),
    [
        (_unsigned, lambda keys: Trust("if_present", keys), "no model.sig"),
        (_unsigned, lambda _: Trust(), "no model.sig"),
        (lambda bundle: bundle, lambda _: Trust(), "no trusted key on this device"),
        (lambda bundle: bundle, lambda keys: Trust("off", keys), "signatures switched off on this device"),
    ],
    ids=["unsigned", "neither", "no keys", "off"],
)
def test_not_checked_says_why_and_can_be_injected(
    bundle: Path, setting: Setting, prepare: Callable[[Path], Path], given: Callable[[object], Trust], reason: str
) -> None:
    trusting = replace(setting, trust=given(setting.trust.keys))
    booted = boot(prepare(bundle), trusting)
    assert booted.ready is not None
    found = _signature(booted)
    words = f"policy {trusting.trust.policy} lets it serve all the same, see docs/signing.md"
    assert (found.status, found.measured, found.hint) == ("skip", reason, words)
    injected = boot(bundle, trusting, inject="signature")
    assert _failed(injected) == ["signature"]
    assert FORGED in _signature(injected).measured


@pytest.mark.parametrize("name", [one for one in INJECTABLE if one != QUANT_PRECISION])
def test_injection_into_a_signed_bundle_fails_that_check_and_no_other(
    bundle: Path, setting: Setting, name: str
) -> None:
    booted = boot(bundle, setting, inject=name)
    assert _failed(booted) == [name]
    if name == "signature":
        assert FORGED in _signature(booted).measured


@pytest.mark.parametrize("prepare", [_unsigned, lambda bundle: bundle], ids=["unsigned", "signed"])
def test_only_ecdsa_itself_can_tell_an_injected_signature(
    bundle: Path, setting: Setting, prepare: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a comparison that says yes to all, nothing notices the injection, and that is what is told."""
    monkeypatch.setattr(ecdsa, "known_answer", lambda: True)
    monkeypatch.setattr(ecdsa, "verify", lambda *_: True)
    (failed,) = boot(prepare(bundle), setting, inject="signature").report.failures()
    assert failed.measured.startswith("planted, and not noticed: signed by ")


def test_a_machine_that_computes_ecdsa_wrongly_is_unfit(
    bundle: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ecdsa, "verify", lambda *_: True)
    booted = boot(bundle, setting)
    assert _failed(booted) == ["signature"]
    assert _signature(booted).code == 69
    assert "a wrong verdict on a known signature" in _signature(booted).measured


def test_a_private_key_among_the_trusted_is_a_fault_of_the_device(bundle: Path) -> None:
    shutil.copy(bundle.parent / "ours.key", bundle.parent / "trusted" / "oops.pem")
    found = _signature(boot(bundle, make_line_setting(load_config(_device(bundle)), bundle)))
    assert (found.status, found.code) == ("fail", 78)
    assert "oops.pem': found a PRIVATE key" in found.measured


def test_whoever_took_the_last_key_away_trusts_nobody(bundle: Path) -> None:
    (bundle.parent / "trusted" / "ours.pub").unlink()
    found = _signature(boot(bundle, make_line_setting(load_config(_device(bundle)), bundle)))
    assert (found.status, found.code) == ("fail", 65)
    assert "one of a trusted key (there is none)" in found.limit


# --- device.toml


def _device(bundle: Path, policy: str = "if_present", keys: str | None = "trusted") -> Path:
    named = "" if keys is None else f'keys = "{keys}"\n'
    return write_device_file(bundle.parent, line("roof", bundle), f'\n[signature]\npolicy = "{policy}"\n{named}')


def test_the_keys_are_those_of_the_device_files_folder(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _device(bundle)
    monkeypatch.chdir("/")
    setting = make_line_setting(load_config(config), bundle)
    assert setting.trust == Trust("if_present", load_keys(bundle.parent / "trusted"))
    off = make_line_setting(load_config(_device(bundle, "off", "none")), bundle)
    assert off.trust == Trust("off", None), "a folder that nobody needs is not asked for"


def test_a_bundle_does_not_bring_its_own_keys(bundle: Path) -> None:
    loaded = load_config(_device(bundle, keys="dewpoint/"))
    with pytest.raises(ConfigurationError, match=r"signature\.keys: found .*, inside the bundle of line roof"):
        make_line_setting(loaded, bundle)


def test_a_policy_that_nothing_could_meet(bundle: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'device\.toml, signature: .*policy = "required" and no keys'):
        load_config(_device(bundle, "required", None))
    with pytest.raises(
        ConfigurationError, match=r"signature\.policy: found 'always'; expected 'required', 'if_present'"
    ):
        load_config(_device(bundle, "always"))


# --- processes


def _refuses(config: Path, *words: str) -> None:
    """`selftest` fails and `run` leaves with 65, each with the line that has these words."""
    for command, code in ((("selftest", "--config"), 1), (("run", "--exit-on-refusal", "--config"), 65)):
        done = run_program(*command, str(config), home=config.parent)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert "Traceback" not in done.stderr
        assert any(all(word in one for word in words) for one in done.stderr.splitlines()), done.stderr


def _again(bundle: Path, **changed: bytes) -> None:
    """Other files under the old signature, SHA256SUMS right, as somebody who edits a bundle would leave it."""
    signature = (bundle / "model.sig").read_bytes()
    write_with(DEWPOINT, bundle, {name.replace("__", "."): data for name, data in changed.items()})
    (bundle / "model.sig").write_bytes(signature)


def test_a_planted_file(bundle: Path) -> None:
    (bundle / "extra.txt").write_bytes(b"x")
    _refuses(_device(bundle), "files", "extra.txt not listed")
    _again(bundle, extra__txt=b"x")
    _refuses(_device(bundle), "signature", "'extra.txt' not signed")


def test_a_changed_byte(bundle: Path) -> None:
    model = (bundle / "model_float32.onnx").read_bytes()
    _again(bundle, model_float32__onnx=model[:-1] + bytes([model[-1] ^ 1]))
    _refuses(_device(bundle), "signature", "'model_float32.onnx' with other content")


def test_a_changed_byte_of_the_signature(bundle: Path) -> None:
    made = json.loads((bundle / "model.sig").read_bytes())
    text = made["dsseEnvelope"]["signatures"][0]["sig"]
    middle = len(text) // 2
    other = "A" if text[middle] != "A" else "B"
    made["dsseEnvelope"]["signatures"][0]["sig"] = text[:middle] + other + text[middle + 1 :]
    (bundle / "model.sig").write_text(json.dumps(made))
    _refuses(_device(bundle), "signature", FORGED)


def test_an_older_security_version(bundle: Path) -> None:
    write_with_manifest(DEWPOINT, bundle, lambda raw: raw.update(security_version=3))
    sign_with(bundle.parent / "ours.key", bundle)
    config = _device(bundle, "required")
    memory = {"schema": "edge-runtime/boot/1", "floors": {"dewpoint": 4}}
    (bundle.parent / "state" / "boot.json").write_text(json.dumps(memory))
    _refuses(config, "rollback_floor", "security_version: found 3", "4 or more, the floor of this device")


def test_an_unknown_key(bundle: Path) -> None:
    sign_with(make_key(bundle.parent / "theirs"), bundle)
    _refuses(_device(bundle), "signature", "which this device does not trust", "one of a trusted key ('ours.pub')")


def test_required_and_not_signed(bundle: Path) -> None:
    _refuses(_device(_unsigned(bundle), "required"), "signature", "no model.sig", "a model.sig by a trusted key")


def test_a_signature_taken_away_is_seen_only_where_it_is_required(bundle: Path) -> None:
    done = run_program("selftest", "--config", str(_device(_unsigned(bundle))), home=bundle.parent)
    assert done.returncode == 0
    assert "not checked: signature" in done.stderr
    assert "not checked (no model.sig)" in done.stderr


def test_signed_and_required(bundle: Path) -> None:
    done = run_program("selftest", "--config", str(_device(bundle, "required")), home=bundle.parent)
    assert (done.returncode, done.stdout) == (0, "")
    assert "signed by 'ours.pub'" in done.stderr
    assert done.stderr.splitlines()[0] == "PASSED: dewpoint 1.0.0; it may serve"


@pytest.mark.parametrize("prepare", [_unsigned, lambda bundle: bundle], ids=["unsigned", "signed"])
def test_a_folder_of_keys_that_is_not_there(bundle: Path, prepare: Callable[[Path], Path]) -> None:
    config = _device(prepare(bundle), keys="none")
    for command in (("selftest",), ("run",)):
        done = run_program(*command, "--config", str(config), home=bundle.parent)
        assert (done.returncode, done.stdout) == (78, "")
        assert done.stderr.count("\n") == 1
        assert f"trusted keys {bundle.parent / 'none'}: found nothing readable: No such file" in done.stderr


# --- the extra


def _program(*words: str, prelude: str, home: Path) -> subprocess.CompletedProcess[str]:
    code = f"import sys; {prelude}; from edge_runtime.cli import main; code = main({list(words)!r}); "
    code += "loaded = sorted(name for name in sys.modules if name.startswith('cryptography') and sys.modules[name]); "
    code += "print(loaded); sys.exit(code)"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(home), "ORT_DISABLE_TELEMETRY": "1", "RUNTIME_DIRECTORY": str(home / "run")},
    )


def test_cryptography_is_imported_only_to_check(bundle: Path) -> None:
    """Also with keys: a fleet that has the folder but not yet the signatures pays nothing for it."""
    config = _device(bundle)
    signed = _program("selftest", "--config", str(config), prelude="pass", home=bundle.parent)
    assert signed.returncode == 0, signed.stderr
    assert "'cryptography.hazmat.primitives.asymmetric.ec'" in signed.stdout
    _unsigned(bundle)
    unsigned = _program("selftest", "--config", str(config), prelude="pass", home=bundle.parent)
    assert (unsigned.returncode, unsigned.stdout) == (0, "[]\n")


@pytest.fixture
def without(bundle: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return _program(*words, prelude="sys.modules['cryptography'] = None", home=bundle.parent)

    return run


def test_without_the_extra_one_line_names_it(
    bundle: Path, without: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    config = str(_device(bundle))
    said = "signatures: found no working `cryptography`"
    report = without("selftest", "--config", config)
    assert report.returncode == 1
    failures = [one for one in report.stderr.splitlines() if "FAIL  " in one]
    assert len(failures) == 1
    assert said in failures[0]
    assert "what to do: install edge-runtime[signing]" in report.stderr
    served = without("run", "--exit-on-refusal", "--config", config)
    assert served.returncode == 78
    assert served.stderr.count("\n") == 1
    assert said in served.stderr
    for words in (
        ("verify", str(bundle), "--keys", str(bundle.parent / "trusted")),
        ("sign", str(bundle), "--key", str(bundle.parent / "ours.key")),
        ("keygen", "--out", str(bundle.parent / "next")),
    ):
        done = without(*words)
        assert (done.returncode, done.stdout) == (78, "[]\n")
        assert done.stderr.startswith(f"edge-runtime: {said}")
        assert done.stderr.endswith("install edge-runtime[signing]\n")
        assert done.stderr.count("\n") == 1
    assert without("selftest", "--config", str(_device(_unsigned(bundle)))).returncode == 0


# --- the commands


def test_keygen_sign_verify_and_boot(tmp_path: Path) -> None:
    """The way of a bundle from its author to a device, each step a process."""
    shutil.copytree(DEWPOINT, tmp_path / "dewpoint")
    (tmp_path / "trusted").mkdir()
    digest = json.loads(run_program("verify", str(DEWPOINT), "--json", home=tmp_path).stdout)["digest"]
    for words in (
        ("keygen", "--out", "line3"),
        ("sign", "dewpoint", "--key", "line3.key"),
    ):
        done = run_program(*words, home=tmp_path, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    shutil.copy(tmp_path / "line3.pub", tmp_path / "trusted")
    done = run_program("verify", "dewpoint", "--keys", "trusted", home=tmp_path, cwd=tmp_path)
    assert done.returncode == 0
    assert "signature  by 'line3.pub', key " in done.stdout
    assert digest in done.stdout, "a signature changes no digest"
    config = _device(tmp_path / "dewpoint", "required")
    assert run_program("selftest", "--config", str(config), home=tmp_path).returncode == 0
    assert manifest_of(tmp_path / "dewpoint") == manifest_of(DEWPOINT)
    files = files_of(tmp_path / "dewpoint")
    assert check(files["model.sig"], files, load_keys(tmp_path / "trusted")).key == "line3.pub"
