"""model.sig both ways with the reference program, as a process: what it signs is accepted here, and the other way."""

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from edge_runtime.author.sign_command import main
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.signature import check, sign
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import BundleError
from tests.rig.need import need

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300
CURVES = [ec.SECP256R1, ec.SECP384R1, ec.SECP521R1]


@pytest.fixture(scope="module")
def program():
    """The reference program, in an environment of its own that uv.lock's group `interop` fills; kept for the next time."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.prefix) / "bin"))
    need(uv, "uv, to install the reference program")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-runtime" / "interop"
    own = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    synced = subprocess.run(
        [uv, "sync", "--frozen", "--only-group", "interop"],
        cwd=ROOT,
        env=own | {"UV_PROJECT_ENVIRONMENT": str(home), "UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    need(synced.returncode == 0, f"the reference program, which uv could not install: {synced.stderr[-500:]}")
    return home / ("Scripts" if os.name == "nt" else "bin") / "model_signing"


@pytest.fixture
def bundle(tmp_path):
    shutil.copytree(ROOT / "bundles" / "frost", tmp_path / "frost")
    (tmp_path / "frost" / "model.sig").unlink(missing_ok=True)
    return tmp_path / "frost"


def key_pair(folder, curve=ec.SECP256R1):
    """Write private and public key as any program would; return both paths."""
    key = ec.generate_private_key(curve())
    private, public = folder / "signer.key", folder / "signer.pub"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def theirs_signs(program, bundle, private, *words):
    signature = bundle / "model.sig"
    command = [program, "sign", "key", bundle, "--private_key", private, "--signature", signature, *words]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)


def theirs_accepts(program, bundle, public, *words):
    """Both what it prints and its exit code, since one of them alone has been wrong before."""
    command = [program, "verify", "key", bundle, "--public_key", public, "--signature", bundle / "model.sig", *words]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    said = "Verification succeeded" in ran.stdout
    assert said == (ran.returncode == 0), ran
    return said


def ours_accepts(bundle, public):
    files = read_files(bundle)
    verify(files, str(bundle))
    return check(files["model.sig"], files, {"signer.pub": public.read_bytes()}).key == "signer.pub"


def damage(bundle, how):
    if how == "a byte":
        model = next(bundle.glob("*.onnx"))
        data = bytearray(model.read_bytes())
        data[len(data) // 2] ^= 1
        model.write_bytes(data)
    elif how == "planted":
        (bundle / "planted.bin").write_bytes(b"x")
    elif how == "missing":
        (bundle / "golden.npz").unlink()
    else:
        outer = json.loads((bundle / "model.sig").read_bytes())
        signature = outer["dsseEnvelope"]["signatures"][0]
        middle = len(signature["sig"]) // 2
        letter = "A" if signature["sig"][middle] != "A" else "B"
        signature["sig"] = signature["sig"][:middle] + letter + signature["sig"][middle + 1 :]
        (bundle / "model.sig").write_text(json.dumps(outer))


def ours_refuses_alone(bundle, public):
    """By the signature itself, without the hashes that would be noticed first."""
    files = {path.name: path.read_bytes() for path in bundle.iterdir() if path.is_file()}
    with pytest.raises(BundleError) as caught:
        check(files["model.sig"], files, {"signer.pub": public.read_bytes()})
    return str(caught.value)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_what_it_signs_is_accepted_here(program, bundle, tmp_path, curve):
    private, public = key_pair(tmp_path, curve)
    theirs_signs(program, bundle, private)
    assert theirs_accepts(program, bundle, public)
    assert ours_accepts(bundle, public)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_what_is_signed_here_it_accepts(program, bundle, tmp_path, curve):
    private, public = key_pair(tmp_path, curve)
    (bundle / "model.sig").write_bytes(sign(read_files(bundle), private.read_bytes()))
    assert ours_accepts(bundle, public)
    assert theirs_accepts(program, bundle, public)
    assert theirs_accepts(program, bundle, public, "--no-ignore-git-paths")


def test_the_commands_key_and_signature_are_its_too(program, bundle, tmp_path):
    assert main(Namespace(command="keygen", out=str(tmp_path / "own"), password_file=None)) == 0
    assert main(Namespace(command="sign", bundle=str(bundle), key=str(tmp_path / "own.key"), password_file=None)) == 0
    assert theirs_accepts(program, bundle, tmp_path / "own.pub")
    theirs_signs(program, bundle, tmp_path / "own.key")
    assert ours_accepts(bundle, tmp_path / "own.pub")


@pytest.mark.parametrize("how", ["a byte", "planted", "missing", "signature"])
@pytest.mark.parametrize("by", ["ours", "theirs"])
def test_both_refuse_the_same_damage(program, bundle, tmp_path, how, by):
    private, public = key_pair(tmp_path)
    if by == "theirs":
        theirs_signs(program, bundle, private)
    else:
        (bundle / "model.sig").write_bytes(sign(read_files(bundle), private.read_bytes()))
    damage(bundle, how)
    assert not theirs_accepts(program, bundle, public)
    assert ours_refuses_alone(bundle, public)


def test_both_refuse_another_key(program, bundle, tmp_path):
    private, _ = key_pair(tmp_path)
    (tmp_path / "other").mkdir()
    _, public = key_pair(tmp_path / "other")
    theirs_signs(program, bundle, private)
    assert not theirs_accepts(program, bundle, public)
    assert "does not trust" in ours_refuses_alone(bundle, public)


def test_what_it_lets_through_is_refused_here(program, bundle, tmp_path):
    """Files that its signature says to ignore: the reason to check by exactly the listed files."""
    private, public = key_pair(tmp_path)
    theirs_signs(program, bundle, private, "--ignore-paths", str(bundle / "planted.bin"))
    (bundle / "planted.bin").write_bytes(b"x")
    assert theirs_accepts(program, bundle, public)
    assert "'planted.bin' not signed" in ours_refuses_alone(bundle, public)

    theirs_signs(program, bundle, private)
    (bundle / "planted.bin").unlink()
    theirs_signs(program, bundle, private)
    (bundle / ".git").mkdir()
    (bundle / ".git" / "x").write_bytes(b"x")
    assert theirs_accepts(program, bundle, public)
    with pytest.raises(BundleError):
        ours_accepts(bundle, public)


def test_a_single_file_it_signs_is_no_bundle(program, tmp_path):
    private, public = key_pair(tmp_path)
    model = tmp_path / "model.onnx"
    model.write_bytes(b"model")
    signature = tmp_path / "model.sig"
    command = [program, "sign", "key", model, "--private_key", private, "--signature", signature]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    with pytest.raises(BundleError, match="whose name is hidden"):
        check(signature.read_bytes(), {".": b"model"}, {"signer.pub": public.read_bytes()})
