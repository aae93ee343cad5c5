"""A payload's file names against one folder: what is given, and every way out of it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.number_file import FileRefused
from edge_runtime.sources.named_file import open_folder

Read = Callable[[str], bytes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "camera"
    (made / "day").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (made / "a.raw").write_bytes(b"abc")
    (made / "day" / "b.raw").write_bytes(b"xyz!")
    return made


@pytest.fixture
def read(folder: Path) -> Read:
    return open_folder(folder, subject="channel image, folder", max_bytes=4)


def refused(read: Read, name: str) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        read(name)
    return caught.value


def test_a_file_and_one_of_a_subfolder_come_whole(read: Read) -> None:
    assert (read("a.raw"), read("day/b.raw")) == (b"abc", b"xyz!")


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../secret", "day/../a.raw", "day/../../secret", "./a.raw", "day//b.raw", "a.raw/", "a\0b"),
        *("x" * 1025, "/".join("d" * 17)),
    ],
)
def test_a_name_that_is_no_plain_relative_one(read: Read, name: str) -> None:
    one = refused(read, name)
    assert (one.reason, one.found) == ("not_a_number", "no plain relative name")


def test_an_absolute_name_even_of_a_file_in_the_folder(read: Read, folder: Path) -> None:
    assert refused(read, str(folder / "a.raw")).found == "no plain relative name"


def test_no_link_is_followed_wherever_it_leads(read: Read, folder: Path) -> None:
    (folder / "out").symlink_to("../secret")
    (folder / "in").symlink_to("a.raw")
    (folder / "up").symlink_to("..")
    (folder / "down").symlink_to("day")
    for name in ("out", "in", "up/secret", "down/b.raw", "a.raw/b"):
        assert refused(read, name).found == "a symbolic link, or a file for a folder"


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert open_folder(tmp_path / "link", subject="s", max_bytes=4)("a.raw") == b"abc"


def test_a_file_that_is_not_there(read: Read, folder: Path) -> None:
    for name in ("none.raw", "none/a.raw"):
        one = refused(read, name)
        assert (one.reason, one.found, one.expected) == ("missing_field", "no such file", f"one in {folder}")


def test_a_folder_that_went_away_is_a_refusal_too(folder: Path) -> None:
    read = open_folder(folder, subject="s", max_bytes=4)
    folder.rename(folder.with_name("gone"))
    assert refused(read, "a.raw").reason == "missing_field"


def test_one_byte_too_many_is_not_read(read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "large").write_bytes(bytes(5))
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    assert refused(read, "large").found == "5 bytes"


def test_a_pipe_a_folder_and_a_socket_do_not_hold_the_line_up(
    read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert refused(read, "pipe").found == "no regular file"
        assert refused(read, "day").found == "no regular file"
        assert refused(read, "socket").reason == "not_a_number"


def test_a_file_this_user_may_not_read(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object, **__: object) -> int:  # root may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbid)
    assert refused(read, "a.raw").found == "Permission denied"


def test_a_disk_that_fails_while_it_is_read(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    assert refused(read, "a.raw").found == "Input/output error"


def test_names_that_no_file_can_have(read: Read) -> None:
    assert refused(read, "\ud800").found == "a name that this system cannot open"
    assert refused(read, "x" * 300).found == "File name too long"


@pytest.mark.parametrize("change", [b"abcd", b"a", b"xyz"])
def test_a_file_that_changes_while_it_is_read(
    read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    path, genuine = folder / "a.raw", os.read
    os.utime(path, ns=(1, 1))

    def after_a_write(descriptor: int, size: int) -> bytes:
        path.write_bytes(change)
        return genuine(descriptor, size)

    monkeypatch.setattr(os, "read", after_a_write)
    assert refused(read, "a.raw").found == "a file that changed while it was read"


@pytest.mark.parametrize("change", [b"abcd", b"a"])
def test_a_file_whose_time_stands_still_while_its_size_changes(
    read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    path, genuine = folder / "a.raw", os.read
    os.utime(path, ns=(1, 1))  # a coarse clock gives two writes one time

    def after_a_write(descriptor: int, size: int) -> bytes:
        path.write_bytes(change)
        os.utime(path, ns=(1, 1))
        return genuine(descriptor, size)

    monkeypatch.setattr(os, "read", after_a_write)
    assert refused(read, "a.raw").found == "a file that changed while it was read"


def test_no_descriptor_stays_open(read: Read, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "out").symlink_to("../secret")
    before = len(list(Path("/dev/fd").iterdir()))
    for name in ("a.raw", "day/b.raw", "none", "none/x", "out", "pipe", "a.raw/b", "../x", "\ud800"):
        try:
            read(name)
        except FileRefused:
            continue
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_folder_that_is_none_is_refused_at_boot(folder: Path) -> None:
    for path in (folder / "a.raw", folder / "none"):
        with pytest.raises(ConfigurationError, match="which is no folder"):
            open_folder(path, subject="channel image, folder", max_bytes=4)


def test_a_system_without_openat_is_refused_at_boot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", frozenset())
    with pytest.raises(ConfigurationError, match="base64"):
        open_folder(folder, subject="s", max_bytes=4)
