"""Writing: whole or not at all, and never over what is no bundle."""

import os

import pytest

from edge_runtime.bundle import write
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import sums, write_directory, write_tar
from edge_runtime.errors import BundleError, DeviceError, UsageError

OLD = {"manifest.json": b"old", "gone.txt": b"x"}
NEW = {"manifest.json": b"new"}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_list_is_sorted_by_bytes_and_leaves_itself_out():
    text = sums({"b": b"", "C": b"", "SHA256SUMS": b"stale", "model.sig": b"{}", "a": b"abc"})
    assert [line[66:] for line in text.decode().splitlines()] == ["C", "a", "b"]
    assert text.endswith(b"\n")


def test_an_odd_name_is_not_written(tmp_path):
    for files in ({".x": b""}, {"a": b"", "A": b""}, {"sha256sums": b""}, {"Model.sig": b""}):
        for function in (write_directory, write_tar):
            with pytest.raises(BundleError):
                function(files, tmp_path / "b")
    assert names(tmp_path) == []


def test_a_bundle_replaces_an_older_one_and_nothing_stays_behind(tmp_path):
    write_directory(OLD, tmp_path / "b")
    write_directory({**NEW, "SHA256SUMS": b"stale", "model.sig": b"{}"}, tmp_path / "b")
    verified = verify(read_files(tmp_path / "b"), "b")
    assert dict(verified.files) == NEW
    assert verified.signature == b"{}"
    assert names(tmp_path) == ["b"]


def test_folders_above_are_made(tmp_path):
    write_directory(NEW, tmp_path / "x" / "y" / "b")
    write_tar(NEW, tmp_path / "x" / "z" / "b.tar")
    assert read_files(tmp_path / "x" / "y" / "b") == read_files(tmp_path / "x" / "z" / "b.tar")


def test_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "b").mkdir()
    write_directory(NEW, tmp_path / "b")
    assert "manifest.json" in read_files(tmp_path / "b")


def test_what_is_no_bundle_is_left_alone(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years")
    mixed = tmp_path / "mixed"
    write_directory(OLD, mixed)
    (mixed / "work").mkdir()
    (tmp_path / "file").write_text("x")
    write_directory(OLD, tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    for path in (home, mixed, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(UsageError):
            write_directory(NEW, path)
    assert (home / "thesis.tex").read_text() == "years"
    assert names(tmp_path) == ["file", "home", "link", "mixed", "real"]


@pytest.mark.parametrize("step", range(12))
def test_a_disk_that_fails_at_any_step_leaves_the_old_bundle(tmp_path, monkeypatch, step):
    write_directory(OLD, tmp_path / "b")
    before = read_files(tmp_path / "b")
    left = [step]

    def failing(real):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] == -1:
                raise OSError(28, "No space left on device")
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(write.os, "fsync", failing(os.fsync))
        patch.setattr("pathlib.Path.rename", failing(write.Path.rename))
        patch.setattr("pathlib.Path.mkdir", failing(write.Path.mkdir))
        try:
            write_directory(NEW, tmp_path / "b")
        except DeviceError as error:
            assert "No space left" in str(error)  # noqa: PT017
    now = read_files(tmp_path / "b")
    # The last step only makes the new name durable: from there on the new bundle stands.
    assert now == before if step < 6 else now["manifest.json"] == b"new"
    assert [name for name in names(tmp_path) if name.endswith(".new")] == []


def test_a_tar_is_replaced_whole_or_kept(tmp_path, monkeypatch):
    write_tar(OLD, tmp_path / "b.tar")
    before = (tmp_path / "b.tar").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(write.os, "fsync", full)
        with pytest.raises(DeviceError, match="No space left"):
            write_tar(NEW, tmp_path / "b.tar")
    assert (tmp_path / "b.tar").read_bytes() == before
    assert names(tmp_path) == ["b.tar"]
    write_tar(NEW, tmp_path / "b.tar")
    assert read_files(tmp_path / "b.tar")["manifest.json"] == b"new"


def test_a_path_that_cannot_be_written_is_the_devices_fault(tmp_path):
    (tmp_path / "file").write_text("x")
    for function in (write_directory, write_tar):
        with pytest.raises(DeviceError):
            function(NEW, tmp_path / "file" / "b")
