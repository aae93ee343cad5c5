"""Reading from disk: what is not a plain file in a flat folder is refused, by name and without waiting."""

import os
import socket
import tracemalloc

import pytest

from edge_runtime.bundle import read
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import write_directory, write_tar
from edge_runtime.errors import BundleError

CONTENT = {"manifest.json": b"{}\n", "model.onnx": bytes(3000), "empty.txt": b""}


@pytest.fixture
def folder(tmp_path):
    write_directory(CONTENT, tmp_path / "b")
    return tmp_path / "b"


def refused(path, **limits):
    with pytest.raises(BundleError) as caught:
        read_files(path, **limits)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_and_its_tar_are_the_same_bundle(folder, tmp_path):
    write_tar(CONTENT, tmp_path / "b.tar")
    from_folder = verify(read_files(folder), "b")
    assert from_folder == verify(read_files(tmp_path / "b.tar"), "b")
    assert dict(from_folder.files) == CONTENT


def test_a_link_to_the_bundle_is_followed(folder, tmp_path):
    (tmp_path / "current").symlink_to("b")
    assert read_files(tmp_path / "current") == read_files(folder)


def test_hard_links_in_a_folder_are_fine(folder, tmp_path):
    os.link(folder / "model.onnx", tmp_path / "elsewhere")
    os.link(folder / "model.onnx", folder / "twin.onnx")
    assert read_files(folder)["twin.onnx"] == CONTENT["model.onnx"]


def add_link(folder):
    (folder / "x").symlink_to("manifest.json")


def add_broken_link(folder):
    (folder / "x").symlink_to("nowhere")


def add_loop(folder):
    (folder / "x").symlink_to("x")


def add_folder(folder):
    (folder / "x").mkdir()


def add_fifo(folder):
    os.mkfifo(folder / "x")


def add_socket(folder):
    here = os.getcwd()  # noqa: PTH109 - a socket's path is short
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("x")
    os.chdir(here)


@pytest.mark.parametrize(
    ("add", "kind"),
    [
        (add_link, "symbolic link"),
        (add_broken_link, "symbolic link"),
        (add_loop, "symbolic link"),
        (add_folder, "subdirectory"),
        (add_fifo, "fifo"),
        (add_socket, "socket"),
    ],
)
def test_what_is_no_plain_file_is_refused(folder, add, kind):
    add(folder)
    message = refused(folder)
    assert "x, a " in message
    assert kind in message


def test_a_listed_file_replaced_by_a_link_to_its_equal_is_refused(folder, tmp_path):
    (folder / "model.onnx").rename(tmp_path / "model.onnx")
    (folder / "model.onnx").symlink_to(tmp_path / "model.onnx")
    assert "model.onnx, a symbolic link" in refused(folder)


@pytest.mark.parametrize("add", [add_link, add_fifo, add_socket, add_folder])
def test_a_file_replaced_after_the_listing_is_refused_at_its_descriptor(folder, add, monkeypatch):
    add(folder)
    status = (folder / "manifest.json").lstat()
    monkeypatch.setattr("pathlib.Path.lstat", lambda _: status)
    refused(folder)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_a_device_is_refused(path, tmp_path):
    (tmp_path / "zero").symlink_to(path)
    assert "character device" in refused(tmp_path / "zero")


def test_a_fifo_as_the_bundle_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "b.tar")
    assert "fifo" in refused(tmp_path / "b.tar")


def test_a_hidden_folder_is_refused(folder):
    (folder / ".git").mkdir()
    (folder / ".git" / "x").write_bytes(b"")
    assert "'.git' whose name is hidden" in refused(folder)


@pytest.mark.parametrize("name", [".DS_Store", "a b", "é", "a\nb", "Manifest.json", b"\xff", "nul", "-x", "x" * 120])
def test_an_odd_name_is_refused(folder, name):
    with open(os.path.join(os.fsencode(folder), os.fsencode(name)), "wb"):  # noqa: PTH118, PTH123 - bytes, not text
        pass
    refused(folder)


def test_limits_hold_exactly(folder):
    files = read_files(folder)
    total = sum(map(len, files.values()))
    assert read_files(folder, max_total_bytes=total, max_files=len(files)) == files
    assert "limit" in refused(folder, max_total_bytes=total - 1)
    assert f"more than {len(files) - 1} entries" in refused(folder, max_files=len(files) - 1)


def test_a_huge_file_is_refused_before_it_takes_memory(folder):
    with (folder / "model.onnx").open("wb") as stream:
        stream.truncate(1 << 40)
    assert "model.onnx of 1099511627776 bytes" in refused(folder)


@pytest.mark.parametrize("stated", [0, 2999, 3001])
def test_a_file_that_changes_while_read_is_refused(folder, monkeypatch, stated):
    real = os.fstat

    def other_size(descriptor):
        status = list(real(descriptor))
        status[6] = stated if status[6] == 3000 else status[6]
        return os.stat_result(status)

    monkeypatch.setattr(read.os, "fstat", other_size)
    assert "model.onnx changing" in refused(folder)


def test_a_tar_that_grows_while_read_is_refused(tmp_path, monkeypatch):
    write_tar(CONTENT, tmp_path / "b.tar")
    real = os.fstat
    calls = []

    def growing(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            os.truncate(tmp_path / "b.tar", 1 << 20)
        return real(descriptor)

    monkeypatch.setattr(read.os, "fstat", growing)
    assert "b.tar changing" in refused(tmp_path / "b.tar")


@pytest.mark.parametrize("function", ["open", "scandir"])
def test_a_lack_of_permission_says_what_to_do(folder, monkeypatch, function):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(read.os, function, denied)
    message = refused(folder)
    assert "Permission denied" in message
    assert "chmod" in message


def test_a_tar_without_permission_says_what_to_do(tmp_path, monkeypatch):
    write_tar(CONTENT, tmp_path / "b.tar")

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(read.os, "open", denied)
    assert "chmod" in refused(tmp_path / "b.tar")


def test_a_path_to_nothing_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert "No such file" in refused(tmp_path / "none")
    refused(tmp_path / "loop")
    refused(tmp_path / "a\0b")
    (tmp_path / "file").write_bytes(b"")
    assert "Not a directory" in refused(tmp_path / "file" / "b")


def test_an_empty_folder_has_no_files(tmp_path):
    assert read_files(tmp_path) == {}


def test_a_file_is_held_once_in_memory(tmp_path):
    size = 8 * 1024 * 1024
    (tmp_path / "model.onnx").write_bytes(bytes(size))
    tracemalloc.start()
    try:
        assert len(read_files(tmp_path)["model.onnx"]) == size
        assert tracemalloc.get_traced_memory()[1] < 1.2 * size
    finally:
        tracemalloc.stop()


def test_what_was_meant_is_named_where_something_else_is_given(folder, tmp_path):
    assert "or make the bundle with edge-runtime build" in refused(tmp_path / "none")
    (tmp_path / "model.onnx").write_bytes(b"any")
    assert "found a bare model; expected a bundle" in refused(tmp_path / "model.onnx")
    assert f"found a file of a bundle; expected the bundle itself; name its folder, {folder}" in refused(
        folder / "model.onnx"
    )
    write_tar(CONTENT, folder / "b.tar")
    assert dict(read_files(folder / "b.tar")).keys() >= CONTENT.keys()
