"""One byte changed anywhere in a bundle, or a file too many, too few or of another kind: no check passes, no answer."""

import io
import random
import tarfile
import tempfile
from pathlib import Path

import pytest

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import BundleError
from edge_runtime.run.boot import boot
from edge_runtime.run.setting import make_setting
from tests.proof.station import DEWPOINT, FROST, call, device_file

SHORT = ("manifest.json", "SHA256SUMS")
PLACES, BOOTED, PROCESSES = 2000, 12, 20
BUNDLES = pytest.mark.parametrize("bundle", [FROST, DEWPOINT], ids=lambda path: path.name)


def _content(bundle: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bundle.iterdir()}


def _changed(data: bytes, place: int, chance: random.Random) -> bytes:
    return data[:place] + bytes([data[place] ^ chance.randint(1, 255)]) + data[place + 1 :]


@BUNDLES
def test_any_byte_of_any_file_is_noticed(bundle):
    """Every byte of the short files, 2,000 places of each other one."""
    chance = random.Random(3)
    content = _content(bundle)
    verify(content, "whole")
    tried = 0
    for name, data in content.items():
        places = range(len(data)) if name in SHORT else chance.sample(range(len(data)), min(PLACES, len(data)))
        for place in places:
            with pytest.raises(BundleError):
                verify({**content, name: _changed(data, place, chance)}, "changed")
            tried += 1
    assert tried == sum(len(data) if name in SHORT else min(PLACES, len(data)) for name, data in content.items())


@BUNDLES
def test_a_whole_boot_refuses_it_too(bundle, tmp_path):
    chance = random.Random(4)
    setting = make_setting()
    content = _content(bundle)
    for number, name in enumerate(sorted(content) * (BOOTED // len(content))):
        folder = _written(content, tmp_path / str(number))
        (folder / name).write_bytes(_changed(content[name], chance.randrange(len(content[name])), chance))
        booted = boot(folder, setting)
        assert booted.ready is None
        assert booted.report.state == "ERROR"
        assert [check.id for check in booted.report.checks if check.status == "fail"] == ["files"]


def _written(content: dict[str, bytes], folder: Path) -> Path:
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def _refuse_as_processes(tmp_path: Path, bundle: Path) -> str:
    """`selftest` gives 1, `run --exit-on-refusal` 65, and neither an answer; gives what `run` said."""
    tested = call(tmp_path, "selftest", "--bundle", bundle)
    assert (tested.returncode, tested.stdout) == (1, b""), tested.stderr
    served = call(tmp_path, "run", "--exit-on-refusal", "--config", device_file(tmp_path, bundle=bundle))
    assert (served.returncode, served.stdout) == (65, b""), served.stderr
    assert b"Traceback" not in tested.stderr + served.stderr
    return served.stderr.decode()


def _flip_as_processes(tmp_path, source, per_file, seed, names=()):
    chance = random.Random(seed)
    content = _content(source)
    for name in names or sorted(content):
        for number in range(per_file):
            folder = _written(content, tmp_path / f"{name}.{number}")
            (folder / name).write_bytes(_changed(content[name], chance.randrange(len(content[name])), chance))
            _refuse_as_processes(tmp_path, folder)


def test_real_processes_refuse_it(tmp_path):
    _flip_as_processes(tmp_path, FROST, 1, 5, SHORT)


@pytest.mark.long
@BUNDLES
def test_real_processes_refuse_it_at_twenty_places_of_each_file(bundle, tmp_path):
    _flip_as_processes(tmp_path, bundle, PROCESSES, 6)


def _missing(folder):
    (folder / "golden.npz").unlink()


def _added(folder):
    (folder / "notes.txt").write_text("hello")


def _linked(folder):
    target = folder.parent / "elsewhere"
    (folder / "golden.npz").rename(target)
    (folder / "golden.npz").symlink_to(target)


def _hard_named(folder):
    (folder / "manifest.json").rename(folder / "Manifest.json")


def _truncated(folder):
    path = folder / "model_int8.onnx"
    path.write_bytes(path.read_bytes()[:-1])


def _emptied(folder):
    (folder / "model_int8.onnx").write_bytes(b"")


def _without_sums(folder):
    (folder / "SHA256SUMS").unlink()


def _folder_inside(folder):
    (folder / "extra").mkdir()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_missing, "golden.npz missing"), (_added, "notes.txt not listed"), (_linked, "golden.npz"),
        (_hard_named, "Manifest.json"), (_truncated, "model_int8.onnx with other content"),
        (_emptied, "model_int8.onnx with other content"), (_without_sums, "no SHA256SUMS"), (_folder_inside, "extra"),
    ],
)  # fmt: skip
def test_a_file_too_many_too_few_or_of_another_kind(damage, says, tmp_path):
    folder = _written(_content(FROST), tmp_path / "bundle")
    damage(folder)
    booted = boot(folder, make_setting())
    assert booted.ready is None
    (failed,) = [check for check in booted.report.checks if check.status == "fail"]
    assert (failed.id, failed.code) == ("files", 65)
    assert says in failed.measured
    if damage in {_linked, _missing}:
        assert says in _refuse_as_processes(tmp_path, folder)


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in sorted(_content(FROST).items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member, data in members:
            archive.addfile(member, io.BytesIO(data))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, size
    return member


ABSOLUTE = str(Path(tempfile.gettempdir()) / "edge-runtime-evil")
HOSTILE = {
    "climbs out": (_member("../evil", size=4), b"evil"),
    "is absolute": (_member(ABSOLUTE, size=4), b"evil"),
    "is a link": (_member("golden2.npz", tarfile.SYMTYPE, "/etc/passwd"), b""),
    "is a hard link": (_member("golden2.npz", tarfile.LNKTYPE, "golden.npz"), b""),
    "is a device": (_member("null", tarfile.CHRTYPE), b""),
    "is a pipe": (_member("pipe", tarfile.FIFOTYPE), b""),
    "comes twice": (_member("golden.npz", size=4), b"evil"),
    "has a folder": (_member("a/b", size=4), b"evil"),
    "has an odd name": (_member("evil\nname", size=4), b"evil"),
}


@pytest.mark.parametrize("member", HOSTILE)
def test_a_hostile_tar_is_refused_and_leaves_nothing(member, tmp_path):
    path = _tar(tmp_path / "bundle.tar", HOSTILE[member])
    with pytest.raises(BundleError):
        verify(read_files(path), str(path))
    booted = boot(path, make_setting())
    assert booted.ready is None
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path.parent / "evil").exists()
    assert not Path(ABSOLUTE).exists()


def test_the_same_tar_without_the_hostile_member_is_served(tmp_path):
    """Else the test above would prove nothing."""
    assert boot(_tar(tmp_path / "bundle.tar"), make_setting()).ready is not None


def test_real_processes_refuse_a_hostile_and_a_cut_tar(tmp_path):
    _refuse_as_processes(tmp_path, _tar(tmp_path / "hostile.tar", HOSTILE["is a link"]))
    whole = _tar(tmp_path / "whole.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2])
    _refuse_as_processes(tmp_path, tmp_path / "cut.tar")
