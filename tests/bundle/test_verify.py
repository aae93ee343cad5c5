"""SHA256SUMS: one spelling, every file, both ways."""

import copy
import dataclasses
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_runtime.bundle.verify import VerifiedBundle, hash_known_answer, verify
from edge_runtime.bundle.write import sums, write_directory
from edge_runtime.errors import BundleError
from tests.rig.mutilate import flips

CONTENT = {
    "manifest.json": b'{"schema": 1}\n',
    "model.onnx": bytes(range(256)) * 40,
    "golden.npz": b"",
    "labels.txt": b"a",
}


def bundle(**more):
    files = {**CONTENT, **more}
    return {**files, "SHA256SUMS": sums(files)}


def with_sums(text):
    return {**CONTENT, "SHA256SUMS": text}


def refused(files):
    with pytest.raises(BundleError) as caught:
        verify(files, "b")
    return str(caught.value)


def test_a_whole_bundle_is_verified():
    verified = verify(bundle(), "here")
    assert dict(verified.files) == CONTENT
    assert verified.digest == hashlib.sha256(sums(CONTENT)).hexdigest()
    assert verified.origin == "here"
    assert verified.signature is None
    assert verified.signed_files == bundle()
    assert "x01" not in repr(verified)


def test_the_files_cannot_be_changed_afterwards():
    mutable = {name: bytearray(data) for name, data in bundle().items()}
    verified = verify(mutable, "b")
    mutable["model.onnx"][0] ^= 1
    mutable["labels.txt"] = b"other"
    assert dict(verified.files) == CONTENT
    with pytest.raises(TypeError):
        verified.files["labels.txt"] = b"other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        verified.digest = "0"


def test_the_signature_is_kept_apart_and_not_called_checked():
    verified = verify({**bundle(), "model.sig": b"{}"}, "b")
    assert verified.signature == b"{}"
    assert verified.signed_files == bundle()
    assert dict(verified.files) == CONTENT
    assert verified.digest == verify(bundle(), "b").digest


def test_nobody_else_makes_a_verified_bundle():
    values = {"origin": "b", "digest": "0" * 64, "files": {}, "sums": b"", "signature": None}
    with pytest.raises(TypeError):
        VerifiedBundle(**values)
    with pytest.raises(TypeError, match="verify alone"):
        VerifiedBundle(**values, proof=None)
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(verify(bundle(), "b"), digest="0" * 64)


def test_a_copy_is_the_same_bundle():
    verified = verify(bundle(), "b")
    assert copy.copy(verified) == verified
    assert verified != verify(bundle(more=b""), "b")


@pytest.mark.parametrize("pattern", [1, 0x80, 0x20, 0xFF])
def test_every_byte_of_the_list_counts(pattern):
    good = bundle()
    text = good["SHA256SUMS"]
    for place in range(len(text)):
        changed = text[:place] + bytes([text[place] ^ pattern]) + text[place + 1 :]
        refused({**good, "SHA256SUMS": changed})


def test_two_thousand_changed_bytes_elsewhere_are_refused():
    good = bundle()
    others = {name: data for name, data in good.items() if name != "SHA256SUMS"}
    count = 0
    for changed in flips(others, per_file=2000, seed=7):
        refused({**changed, "SHA256SUMS": good["SHA256SUMS"]})
        count += 1
    assert count == 2000 + len(CONTENT["manifest.json"]) + 1


def test_the_list_cut_or_grown_anywhere_is_refused():
    text = sums(CONTENT)
    for end in range(len(text)):
        refused(with_sums(text[:end]))
    for tail in (b"\n", b" ", b"\0", b"#", text):
        refused(with_sums(text + tail))


@pytest.mark.parametrize("name", sorted(CONTENT))
def test_a_missing_truncated_or_emptied_file_is_named(name):
    files = bundle()
    data = files.pop(name)
    assert f"{name} missing" in refused(files)
    for other in (data[:-1] or b"x", data + b"\0"):
        assert f"{name} with other content" in refused({**files, name: other})


@pytest.mark.parametrize(
    "name", [".git", ".git/x", ".gitattributes", ".DS_Store", "Thumbs.db", "model2.onnx", "a b", "é"]
)
def test_an_added_file_is_refused(name):
    refused({**bundle(), name: b""})


def test_two_files_swapped_are_both_named():
    files = bundle()
    files["labels.txt"], files["manifest.json"] = files["manifest.json"], files["labels.txt"]
    message = refused(files)
    assert "labels.txt with other content, manifest.json with other content" in message


def test_many_faults_are_one_line_with_five_names():
    files = bundle(**{f"f{number}": b"x" for number in range(9)})
    files |= {f"f{number}": b"y" for number in range(7)} | {"new": b""}
    del files["f8"]
    message = refused(files)
    assert "and 4 more" in message
    assert message.count("with other content") == 5
    assert "\n" not in message


def test_nothing_is_refused():
    assert "no SHA256SUMS" in refused({})
    assert "no SHA256SUMS" in refused(CONTENT)
    assert "line 1 of SHA256SUMS" in refused(with_sums(b""))


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda lines: lines[::-1], 2),
        (lambda lines: [lines[0], *lines], 2),
        (lambda lines: [*lines[:2], lines[1].replace(b"  ", b" *"), lines[3]], 3),
        (lambda lines: [lines[0].replace(b"  ", b" "), *lines[1:]], 1),
        (lambda lines: [lines[0].replace(b"  ", b"   "), *lines[1:]], 1),
        (lambda lines: [*lines[:3], lines[3][:-1] + b"\r\n"], 4),
        (lambda lines: [*lines[:3], lines[3][:-1]], 4),
        (lambda lines: [lines[0], b"\n", *lines[1:]], 2),
        (lambda lines: [lines[0], b"# note\n", *lines[1:]], 2),
        (lambda lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]], 1),
        (lambda lines: [b"\\" + lines[0], *lines[1:]], 1),
        (lambda lines: [lines[0][:64].upper() + lines[0][64:], *lines[1:]], 1),
        (lambda lines: [lines[0].replace(b"  ", b"  ./"), *lines[1:]], 1),
        (lambda lines: [lines[0].replace(b"  ", b"  ../"), *lines[1:]], 1),
        (lambda lines: [b"0" * 64 + b"  SHA256SUMS\n", *lines], 1),
        (lambda lines: [*lines, b"0" * 64 + b"  model.sig\n"], 5),
        (lambda lines: [*lines, b"0" * 64 + b"  nul.txt\n"], 5),
    ],
)
def test_another_spelling_is_refused_by_line(change, number):
    lines = sums(CONTENT).splitlines(keepends=True)
    assert f"line {number} of SHA256SUMS" in refused(with_sums(b"".join(change(lines))))


def test_listed_names_apart_only_by_case_are_refused():
    assert "LABELS.txt" in refused(with_sums(b"0" * 64 + b"  LABELS.txt\n" + sums(CONTENT)))


def test_a_huge_list_is_refused_before_it_is_split():
    assert "1048577 bytes" in refused(with_sums(b"\n" * (1024 * 1024 + 1)))


@settings(deadline=None)
@given(st.binary(max_size=400))
@example(b"\n")
@example(b"0" * 64 + b"  a\n")
@example("\uff10".encode() * 64 + b"  a\n")
def test_random_lists_are_refused(text):
    refused(with_sums(text))


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("0af", min_size=63, max_size=65), st.text("ab.", max_size=3)), max_size=4))
def test_likely_lists_are_refused(entries):
    refused(with_sums("".join(f"{digest}  {name}\n" for digest, name in entries).encode()))


def test_sha256sum_agrees(tmp_path):
    program = shutil.which("sha256sum")
    assert program is not None, "install coreutils: the list must be one that sha256sum reads"
    write_directory(CONTENT, tmp_path / "b")
    subprocess.run([program, "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=tmp_path / "b", check=True)
    names = sorted(CONTENT)
    made = subprocess.run([program, *names], cwd=tmp_path / "b", check=True, capture_output=True).stdout
    assert made == (tmp_path / "b" / "SHA256SUMS").read_bytes()


def test_the_known_answer_holds_and_can_fail():
    assert hash_known_answer()
    assert not hash_known_answer(b"abd")


def test_the_documented_command_writes_the_same_list(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "bundle_format.md").read_text()
    command = next(part for part in page.split("`") if part.startswith("ls | "))
    write_directory({**CONTENT, "B": b"", "model.sig": b"{}"}, tmp_path / "b")
    before = (tmp_path / "b" / "SHA256SUMS").read_bytes()
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path / "b", check=True)
    assert (tmp_path / "b" / "SHA256SUMS").read_bytes() == before
