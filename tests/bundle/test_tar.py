"""Hostile archives, built by hand: each trick a tar can play is refused, each plain tool's archive is read."""

import bz2
import contextlib
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.tar import format_tar, read_tar
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import sums, write_directory, write_tar
from edge_runtime.errors import BundleError
from tests.rig.mutilate import flips

CONTENT = {"manifest.json": b"{}\n", "model.onnx": bytes(range(256)) * 5, "empty.txt": b"", "block": b"b" * 512}
END = bytes(1024)


def header(name=b"a", size=b"%011o\0" % 0, kind=b"0", **fields):
    """One header block with a right checksum; any field may be replaced by raw bytes."""
    parts = {
        "name": (name, 100),
        "mode": (b"0000644\0", 8),
        "uid": (b"0000000\0", 8),
        "gid": (b"0000000\0", 8),
        "size": (size, 12),
        "mtime": (b"00000000000\0", 12),
        "checksum": (b" " * 8, 8),
        "kind": (kind, 1),
        "link": (b"", 100),
        "magic": (b"ustar\x0000", 8),
        "names": (b"", 64),
        "devices": (b"0000000\0" * 2, 16),
        "prefix": (b"", 155),
        "tail": (b"", 12),
    }
    for field, value in fields.items():
        parts[field] = (value, parts[field][1])
    block = b"".join(value.ljust(width, b"\0") for value, width in parts.values())
    assert len(block) == 512
    if "checksum" in fields:
        return block
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def member(name=b"a", data=b"x", **fields):
    return header(name, b"%011o\0" % len(data), **fields) + data + bytes(-len(data) % 512)


def parse(archive, **limits):
    limits = {"max_total_bytes": 1 << 20, "max_files": 64, **limits}
    return read_tar(io.BytesIO(archive), len(archive), "b", **limits)


def refused(archive, **limits):
    with pytest.raises(BundleError) as caught:
        parse(archive, **limits)
    assert str(caught.value).isascii()
    assert "\n" not in str(caught.value)
    return str(caught.value)


FOLDER = header(b"top/", kind=b"5")


def test_hand_made_archives_are_read():
    assert parse(member() + END) == {"a": b"x"}
    assert parse(member(b"./a") + member(b"./b") + END) == {"a": b"x", "b": b"x"}
    assert parse(FOLDER + member(b"top/a") + END) == {"a": b"x"}
    assert parse(member(b"a", prefix=b"top") + END) == {"a": b"x"}
    assert parse(member(magic=b"ustar  \0") + END) == {"a": b"x"}
    assert parse(member(data=b"") + END + bytes(18 * 512)) == {"a": b""}
    assert parse(END) == {}


HOSTILE = {
    "hard link": member(kind=b"1", data=b"", link=b"b"),
    "symbolic link": member(kind=b"2", data=b"", link=b"/etc/passwd"),
    "character device": header(kind=b"3", devices=b"0000001\x000000003\0"),
    "block device": header(kind=b"4"),
    "fifo": header(kind=b"6"),
    "contiguous file": header(kind=b"7"),
    "old regular file": header(kind=b"\0"),
    "GNU long name": member(b"././@LongLink", b"x" * 200, kind=b"L", magic=b"ustar  \0"),
    "GNU long link": member(b"././@LongLink", b"x" * 200, kind=b"K", magic=b"ustar  \0"),
    "GNU sparse": member(kind=b"S", magic=b"ustar  \0"),
    "GNU dump folder": member(kind=b"D", magic=b"ustar  \0"),
    "GNU volume label": header(kind=b"V", magic=b"ustar  \0"),
    "GNU times in the prefix": header(prefix=b"1" * 12, magic=b"ustar  \0"),
    "pax size override": member(b"PaxHeaders/a", b"12 size=1000\n", kind=b"x") + member(),
    "pax path override": member(b"PaxHeaders/a", b"18 path=../../etc\n", kind=b"x") + member(),
    "pax global header": member(b"PaxHeaders/a", b"19 comment=anything\n", kind=b"g") + member(),
    "Solaris header": member(kind=b"X"),
    "duplicate": member() + member(),
    "duplicate in another spelling": member(b"a") + member(b"./a"),
    "absolute": member(b"/a"),
    "absolute by prefix": member(b"a", prefix=b"/"),
    "parent": member(b"../a"),
    "parent by prefix": member(b"a", prefix=b".."),
    "parent within": member(b"top/../a"),
    "parent as a name": member(b".."),
    "parent as a folder": header(b"../", kind=b"5") + member(b"../a"),
    "deeper": member(b"top/sub/a"),
    "deeper by dot": member(b"./top/a"),
    "deeper folder": FOLDER + header(b"top/sub/", kind=b"5") + member(b"top/a"),
    "double slash": member(b"top//a"),
    "two folders": member(b"top/a") + member(b"other/a"),
    "folder and bare": member(b"top/a") + member(b"b"),
    "folder entry beside bare files": FOLDER + member(b"a"),
    "folder entry later": member(b"top/a") + FOLDER,
    "folder entry twice": FOLDER + FOLDER + member(b"top/a"),
    "folder with content": header(b"top/", b"%011o\0" % 1, kind=b"5") + member(b"top/a"),
    "file named as a folder": header(b"top/"),
    "no name": header(b""),
    "root folder": header(b"/", kind=b"5"),
    "text behind the name": header(b"a\0evil"),
    "text behind the prefix": header(b"a", prefix=b"top\0evil"),
    "link target of a file": header(link=b"b"),
    "device number of a file": header(devices=b"0000001\x000000000\0"),
    "bytes in the tail": header(tail=b"x"),
    "bytes in the padding": header(size=b"%011o\0" % 1) + b"x" + b"y" * 511,
    "base-256 size": header(size=b"\x80" + bytes(10) + b"\x01") + b"x" + bytes(511),
    "negative size": header(size=b"\xff" * 12),
    "signed size": header(size=b"-0000000001\0"),
    "decimal size": header(size=b"00000000009\0") + bytes(512),
    "no size": header(size=b""),
    "space before size": header(size=b"          0\0"),
    "text behind size": header(size=b"0\x0000000000 1"),
    "base-256 owner": header(uid=b"\x80" + bytes(7)),
    "text as mode": header(mode=b"rw-r--r-"),
    "text as time": header(mtime=b"yesterday"),
    "wrong checksum": header(checksum=b"000001\0 "),
    "no checksum": header(checksum=b""),
    "no magic": header(magic=b""),
    "other version": header(magic=b"ustar\x0001"),
    "odd name": member(b".git"),
    "odd bytes": member(b"\xff\x1b[2J"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused(name, tmp_path):
    (tmp_path / "b.tar").write_bytes(HOSTILE[name] + END)
    with pytest.raises(BundleError) as caught:
        read_files(tmp_path / "b.tar")
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", ["hard link", "symbolic link", "character device", "fifo", "GNU sparse"])
def test_the_refusal_says_what_the_member_is(kind):
    assert kind in refused(HOSTILE[kind] + END)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, lambda data: b"PK\3\4" + data])
def test_a_compressed_archive_is_refused_with_a_hint(pack):
    assert "unpack" in refused(pack(member() + END).ljust(512, b"\0"))
    assert "no ustar header" in refused(bytes(257) + b"x" * 767)


def test_a_name_that_looks_compressed_is_read():
    assert parse(member(b"BZh") + END) == {"BZh": b"x"}


def test_an_archive_that_shrinks_while_read_is_refused():
    whole = member(data=b"x" * 700) + END
    with pytest.raises(BundleError, match="too early"):
        read_tar(io.BytesIO(whole[:600]), len(whole), "b", max_total_bytes=1 << 20, max_files=64)


def test_anything_behind_the_end_is_refused():
    for tail in (b"x", bytes(511) + b"x", member(), bytes(20 * 512)):
        refused(member() + END + tail)
    refused(member() + bytes(512) + member() + END)


def test_an_archive_cut_anywhere_is_refused():
    whole = member(data=b"x" * 700) + member(b"b") + END
    for end in range(len(whole)):
        refused(whole[:end])


def test_limits_hold_exactly():
    archive = member(data=b"x" * 100) + member(b"b", b"y" * 50) + END
    assert parse(archive, max_total_bytes=150, max_files=2)
    assert "149 bytes" in refused(archive, max_total_bytes=149)
    assert "more than 1 files" in refused(archive, max_files=1)


class NoReading(io.BytesIO):
    """A stream that holds nobody to more than a block: a larger read is a read too many."""

    def read(self, size=-1):
        assert 0 <= size <= 512
        return super().read(size)


@pytest.mark.parametrize("limit", [1 << 20, 1 << 40])
def test_a_stated_size_takes_no_memory(limit):
    archive = header(size=b"77777777777\0") + END
    with pytest.raises(BundleError):
        read_tar(NoReading(archive), len(archive), "b", max_total_bytes=limit, max_files=64)


def test_every_changed_byte_is_refused_or_harmless():
    files = {**CONTENT, "SHA256SUMS": sums(CONTENT)}
    archive = b"".join(format_tar(files))
    digest = verify(parse(archive), "b").digest
    harmless = 0
    for changed in flips({"b.tar": archive}, per_file=len(archive), seed=3):
        try:
            harmless += verify(parse(changed["b.tar"]), "b").digest == digest
        except BundleError:
            continue
        else:
            raise AssertionError(changed)
    assert harmless == 0


@settings(deadline=None)
@given(st.binary(max_size=3000))
def test_random_bytes_are_refused(data):
    refused(data.ljust(1024, b"x") if not data.strip(b"\0") else data)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(HOSTILE)),
    st.dictionaries(st.sampled_from(["name", "size", "kind", "mode", "prefix", "magic"]), st.binary(max_size=1)),
    st.binary(max_size=600),
)
def test_likely_bytes_raise_nothing_else(name, fields, rest):
    with contextlib.suppress(BundleError):
        parse(HOSTILE[name] + header(**fields) + rest + END)


@settings(deadline=None)
@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9.]{0,98}[a-z]", fullmatch=True), st.binary(max_size=1500), max_size=5)
)
def test_what_is_written_is_read(files):
    archive = b"".join(format_tar(files))
    assert parse(archive) == files
    assert len(archive) % 10240 == 0
    with tarfile.open(fileobj=io.BytesIO(archive)) as other:
        assert {item.name: other.extractfile(item).read() for item in other} == files
        assert all((item.mtime, item.uid, item.mode, item.isreg()) == (0, 0, 0o644, True) for item in other)


def test_equal_files_give_equal_archives(tmp_path):
    write_tar(CONTENT, tmp_path / "one.tar")
    write_tar(dict(reversed(CONTENT.items())), tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


@pytest.mark.parametrize("form", ["ustar", "gnu"])
@pytest.mark.parametrize(
    "what", [["-C", "b", "."], ["b"], ["-C", "b", "--no-recursion", *sorted([*CONTENT, "SHA256SUMS"])]]
)
def test_archives_of_gnu_tar_are_read(tmp_path, form, what):
    program = shutil.which("tar")
    assert program is not None, "install tar"
    write_directory(CONTENT, tmp_path / "b")
    subprocess.run([program, f"--format={form}", "-cf", "b.tar", *what], cwd=tmp_path, check=True)
    assert read_files(tmp_path / "b.tar") == read_files(tmp_path / "b")


def test_hard_links_packed_by_gnu_tar_are_refused(tmp_path):
    program = shutil.which("tar")
    assert program is not None, "install tar"
    write_directory(CONTENT, tmp_path / "b")
    (tmp_path / "b" / "twin").hardlink_to(tmp_path / "b" / "block")
    subprocess.run([program, "-cf", "b.tar", "b"], cwd=tmp_path, check=True)
    with pytest.raises(BundleError, match="hard link"):
        read_files(tmp_path / "b.tar")


def test_archives_of_python_are_read(tmp_path):
    write_directory(CONTENT, tmp_path / "b")
    with tarfile.open(tmp_path / "b.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(tmp_path / "b", arcname="b")
    assert read_files(tmp_path / "b.tar") == read_files(tmp_path / "b")
