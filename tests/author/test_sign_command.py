"""`keygen` and `sign`: nothing overwritten, nothing half written, no secret where others read it; docs/signing.md runs."""

import json
import os
import re
import shlex
import shutil
import stat
from argparse import Namespace
from pathlib import Path

import pytest

from edge_runtime import cli
from edge_runtime.author import sign_command
from edge_runtime.author.sign_command import PASSWORD_VARIABLE, main
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.signature import check
from edge_runtime.bundle.trusted_keys import load_keys
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import write_directory, write_tar
from edge_runtime.errors import BundleError, DeviceError, UsageError

ROOT = Path(__file__).parents[2]
CONTENT = {"manifest.json": b"{}", "model.onnx": bytes(1000)}
POSIX = pytest.mark.skipif(os.name != "posix", reason="rights as POSIX has them")


@pytest.fixture(autouse=True)
def no_password(monkeypatch):
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


def keygen(out, password_file=None):
    return main(Namespace(command="keygen", out=str(out), password_file=password_file and str(password_file)))


def sign(bundle, key, password_file=None):
    files = {"bundle": str(bundle), "key": str(key), "password_file": password_file and str(password_file)}
    return main(Namespace(command="sign", **files))


@pytest.fixture
def pair(tmp_path):
    (tmp_path / "trusted").mkdir()
    keygen(tmp_path / "ours")
    shutil.copy(tmp_path / "ours.pub", tmp_path / "trusted")
    return tmp_path / "ours.key", tmp_path / "trusted"


def signer(bundle, trusted):
    files = read_files(bundle)
    verify(files, str(bundle))
    return check(files["model.sig"], files, load_keys(trusted)).key


# --- keygen


@POSIX
def test_a_pair_in_two_files_the_private_one_for_its_owner(tmp_path, capsys):
    old = os.umask(0)
    try:
        assert keygen(tmp_path / "k") == 0
    finally:
        os.umask(old)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.key", "k.pub"]
    assert stat.S_IMODE((tmp_path / "k.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "k.pub").stat().st_mode) == 0o644
    told = capsys.readouterr()
    assert told.out == ""
    assert f"NOT encrypted: {PASSWORD_VARIABLE} was not set" in told.err
    assert "PRIVATE" not in told.err


@POSIX
def test_the_private_key_is_never_wider_than_its_owner_not_even_on_the_way(tmp_path, monkeypatch):
    seen = []
    real = os.open

    def watched(path, flags, mode=0o777):
        if flags & os.O_CREAT:
            seen.append((".pub" in str(path), flags & os.O_EXCL, mode))
        return real(path, flags, mode)

    monkeypatch.setattr(sign_command.os, "open", watched)
    keygen(tmp_path / "k")
    assert [mode for public, _, mode in seen if not public] == [0o600, 0o600]
    assert all(exclusive for _, exclusive, _ in seen)


@pytest.mark.parametrize("there", ["k.key", "k.pub"])
def test_nothing_is_overwritten_and_nothing_left(tmp_path, there):
    (tmp_path / there).write_bytes(b"precious")
    with pytest.raises(UsageError, match="something there already"):
        keygen(tmp_path / "k")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {there: b"precious"}


def test_a_link_that_leads_nowhere_is_something_there(tmp_path):
    (tmp_path / "k.key").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="something there already"):
        keygen(tmp_path / "k")
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_refuses_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(DeviceError, match="No such file or directory"):
        keygen(tmp_path / "none" / "k")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sign_command.os, "fsync", full)
    with pytest.raises(DeviceError, match="No space left on device"):
        keygen(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sign_command.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        keygen(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


# --- sign


@pytest.mark.parametrize("write", [write_directory, write_tar])
def test_a_bundle_is_signed_where_it_stands(tmp_path, pair, write, capsys):
    key, trusted = pair
    bundle = tmp_path / "bundle"
    write(CONTENT, bundle)
    before = read_files(bundle)
    assert sign(bundle, key) == 0
    assert signer(bundle, trusted) == "ours.pub"
    after = read_files(bundle)
    assert {name: data for name, data in after.items() if name != "model.sig"} == before
    assert f"sha256 {verify(before, 'b').digest}" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "ours.key", "ours.pub", "trusted"]


def test_signed_again_by_another_key_the_last_one_counts(tmp_path, pair, capsys):
    key, trusted = pair
    bundle = tmp_path / "bundle"
    write_directory(CONTENT, bundle)
    keygen(tmp_path / "next")
    sign(bundle, tmp_path / "next.key")
    with pytest.raises(BundleError, match="does not trust"):
        signer(bundle, trusted)
    sign(bundle, key)
    assert "in place of the one that was there" in capsys.readouterr().err
    assert signer(bundle, trusted) == "ours.pub"
    first = (bundle / "model.sig").read_bytes()
    sign(bundle, key)
    assert (bundle / "model.sig").read_bytes() == first


def test_a_link_to_a_bundle_stays_a_link(tmp_path, pair):
    key, trusted = pair
    write_directory(CONTENT, tmp_path / "v1")
    (tmp_path / "current").symlink_to("v1")
    sign(tmp_path / "current", key)
    assert (tmp_path / "current").is_symlink()
    assert signer(tmp_path / "v1", trusted) == "ours.pub"


def test_the_working_folder_is_a_bundle_too(tmp_path, pair, monkeypatch):
    key, trusted = pair
    write_directory(CONTENT, tmp_path / "bundle")
    monkeypatch.chdir(tmp_path / "bundle")
    sign(".", key)
    assert signer(tmp_path / "bundle", trusted) == "ours.pub"


def test_a_bundle_that_is_not_whole_gets_no_signature(tmp_path, pair):
    bundle = tmp_path / "bundle"
    write_directory(CONTENT, bundle)
    (bundle / "planted").write_bytes(b"")
    with pytest.raises(BundleError, match="planted not listed"):
        sign(bundle, pair[0])
    assert not (bundle / "model.sig").exists()


def test_a_disk_that_refuses_leaves_the_old_signature(tmp_path, pair, monkeypatch):
    bundle = tmp_path / "bundle"
    write_directory(CONTENT, bundle)
    sign(bundle, pair[0])
    before = read_files(bundle)
    keygen(tmp_path / "next")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sign_command.os, "fsync", full)
    with pytest.raises(DeviceError, match="No space left on device"):
        sign(bundle, tmp_path / "next.key")
    assert read_files(bundle) == before


@POSIX
def test_a_key_that_others_can_reach_is_told_of(tmp_path, pair, capsys):
    key, _ = pair
    write_directory(CONTENT, tmp_path / "bundle")
    sign(tmp_path / "bundle", key)
    assert "warning" not in capsys.readouterr().err
    key.chmod(0o640)
    sign(tmp_path / "bundle", key)
    assert f"warning: {key} can be reached by other users: chmod 600 {key}" in capsys.readouterr().err


def test_keys_that_cannot_be_read(tmp_path, pair):
    write_directory(CONTENT, tmp_path / "bundle")
    for key, said in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "ours.pub", "no private key in PEM"),
        (tmp_path / "bundle" / "model.onnx", "no private key in PEM"),
    ):
        with pytest.raises(UsageError, match=said):
            sign(tmp_path / "bundle", key)
    (tmp_path / "large").write_bytes(bytes(100_000))
    with pytest.raises(UsageError, match="more than 8192 bytes"):
        sign(tmp_path / "bundle", tmp_path / "large")
    assert pair[0].exists()


# --- passwords


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_a_password_from_a_file_or_the_environment(tmp_path, monkeypatch, capsys, ending):
    (tmp_path / "password").write_bytes("schl\u00fcssel ".encode() + ending)
    keygen(tmp_path / "k", tmp_path / "password")
    assert "k.key: private key, encrypted;" in capsys.readouterr().err
    assert b"ENCRYPTED" in (tmp_path / "k.key").read_bytes()
    bundle = tmp_path / "bundle"
    write_directory(CONTENT, bundle)
    with pytest.raises(UsageError, match="encrypted, and no password"):
        sign(bundle, tmp_path / "k.key")
    sign(bundle, tmp_path / "k.key", tmp_path / "password")
    monkeypatch.setenv(PASSWORD_VARIABLE, "schl\u00fcssel ")
    sign(bundle, tmp_path / "k.key")
    monkeypatch.setenv(PASSWORD_VARIABLE, "another")
    with pytest.raises(UsageError, match="of another password"):
        sign(bundle, tmp_path / "k.key")
    sign(bundle, tmp_path / "k.key", tmp_path / "password")  # the file goes before the environment


def test_an_empty_password_is_none_that_was_meant(tmp_path, monkeypatch):
    (tmp_path / "password").write_bytes(b"\n")
    with pytest.raises(UsageError, match="found nothing; expected a password"):
        keygen(tmp_path / "k", tmp_path / "password")
    monkeypatch.setenv(PASSWORD_VARIABLE, "")
    with pytest.raises(UsageError, match=f"environment variable {PASSWORD_VARIABLE}: found nothing"):
        keygen(tmp_path / "k")
    with pytest.raises(UsageError, match="No such file"):
        keygen(tmp_path / "k", tmp_path / "none")
    assert not (tmp_path / "k.key").exists()


# --- the page


def test_the_commands_of_the_page_do_what_it_says(tmp_path, monkeypatch):
    """In their order, in one folder: keys, a signature, trust, a change of keys, a floor; `# exits N` is meant."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "bundles" / "frost", tmp_path / "bundles" / "frost")
    (tmp_path / "bundles" / "frost" / "model.sig").unlink(missing_ok=True)
    (tmp_path / "trusted").mkdir()
    (tmp_path / "state").mkdir()
    page = (ROOT / "docs" / "signing.md").read_text(encoding="utf-8")
    device = (ROOT / "examples" / "frost" / "device.toml").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (trust,) = [text for kind, text in blocks if kind == "toml"]
    (tmp_path / "device.toml").write_text(device.replace("../../bundles", "bundles") + trust, encoding="utf-8")
    lines = [line for kind, text in blocks if not kind for line in text.splitlines()]
    ran = []
    for line in lines:
        command, _, stated = line.partition("#")
        words = shlex.split(command)
        if words[0] == "cp":
            shutil.copy(*words[1:])
            code = 0
        elif words[0] == "rm":
            Path(words[1]).unlink()
            code = 0
        else:
            assert words[0] == "edge-runtime"
            ran.append(words[1])
            code = cli.main(words[1:])
        assert code == int(stated.removeprefix(" exits ") or 0), line
    assert set(ran) == {"keygen", "sign", "verify", "bundle"}
    assert json.loads((tmp_path / "state" / "boot.json").read_text())["floors"] == {"frost": 1}
    assert signer(tmp_path / "bundles" / "frost", tmp_path / "trusted") == "line3-2027.pub"
    assert list(load_keys(tmp_path / "trusted")) == ["line3-2027.pub"]
