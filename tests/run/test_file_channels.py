"""Pictures by file name through a real lane of the shipped digits: the same answers as base64, and no way out."""

import base64
import datetime as dt
import io
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_runtime.bundle.arrays import read_arrays
from edge_runtime.errors import ConfigurationError
from edge_runtime.run.boot import ReadyModel, boot
from edge_runtime.run.config import load_config
from edge_runtime.run.lane import Lane
from edge_runtime.run.line_findings import bindings
from edge_runtime.run.setting import make_line_setting
from edge_runtime.spec.source import ReplaySource
from tests.rig.program import ROOT, run_program

Pictures = NDArray[Any]
EXAMPLE = next(
    block
    for block in re.findall(r"```toml\n(.*?)```", (ROOT / "docs/device_toml.md").read_text(encoding="utf-8"), re.DOTALL)
    if 'read = "file"' in block
)


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    """Twelve of the bundle's own pictures, 8 x 8 numbers from 0 to 16."""
    raw = read_arrays((ROOT / "bundles/digits/golden.npz").read_bytes(), subject="golden", max_bytes=1 << 24)["raw"]
    whole = [one.reshape(8, 8) for one in raw if np.isin(one, np.arange(17)).all()]
    return np.array(whole[:12], dtype=np.uint8)


def pgm(picture: Pictures) -> bytes:
    largest, kind = (255, "u1") if picture.dtype == np.uint8 else (65535, ">u2")
    return b"P5\n# made by a test\n8 8\n%d\n" % largest + picture.astype(kind).tobytes()


def npy(picture: Pictures) -> bytes:
    stream = io.BytesIO()
    np.save(stream, picture)
    return stream.getvalue()


def raw_numbers(picture: Pictures) -> bytes:
    return picture.tobytes()


def site(folder: Path, channel: str) -> Path:
    """The page's example with ``channel``, its source a file of lines, in a folder of its own."""
    (folder / "camera").mkdir(exist_ok=True)
    text = EXAMPLE.replace("bundles/digits", str(ROOT / "bundles/digits"))
    text = re.sub(r"^image = .*$", f"image = {channel}", text, flags=re.MULTILINE)
    (folder / "device.toml").write_text(text)
    return folder / "device.toml"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> ReadyModel:
    loaded = load_config(site(tmp_path_factory.mktemp("boot"), FILE.format("uint8")))
    bundle = loaded.resolve(loaded.config.line[0].bundle)
    model = boot(bundle, make_line_setting(loaded, bundle)).ready
    assert model is not None
    return model


FILE = '{{ field = "picture", unit = "1", read = "file", folder = "camera", dtype = "{}" }}'
BASE64 = '{{ field = "picture", unit = "1", read = "base64", dtype = "{}" }}'


def play(config: Path, ready: ReadyModel, texts: list[str]) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Each text through a lane: its answers' outputs, what was rejected by reason, and the dead letters."""
    folder = config.parent
    (folder / "lines.jsonl").write_text("".join(json.dumps({"picture": text}) + "\n" for text in texts))
    loaded = load_config(config)
    sink = loaded.config.line[0].sink[0]
    line = loaded.config.line[0].model_copy(update={"source": ReplaySource(path="lines.jsonl", speed="max")})
    assert sink.kind == "stdout"
    lane = Lane(line, ready, folder=folder, state=folder, run_id="r", wall_ns=time.time_ns, mono_ns=lambda: 0)
    given: list[Any] = []
    answers = lane.line.take_answers

    def keep(now_ns: int | None) -> list[Any]:
        taken = answers(now_ns)
        given.extend(taken)
        return list(taken)

    lane.line.take_answers = keep  # type: ignore[method-assign]
    lane.start(SimpleNamespace(set=lambda: None))  # type: ignore[arg-type] # nobody waits
    while lane.turn():
        pass
    rejected = dict(lane.line.ledger.rejected)
    lane.stop()
    dead = folder / "digits.refused.jsonl"
    letters = [json.loads(text) for text in dead.read_text().splitlines()] if dead.exists() else []
    return [one.outputs for one in given], rejected, letters


@pytest.mark.parametrize("write", [pgm, npy, raw_numbers])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.usefixtures("capfd")
def test_each_format_answers_as_base64_does(
    tmp_path: Path, ready: ReadyModel, pictures: Pictures, write: Callable[[Pictures], bytes], dtype: str
) -> None:
    cast = pictures.astype(f"<{np.dtype(dtype).str[1:]}")
    packed = [base64.b64encode(one.tobytes()).decode() for one in cast]
    expected, rejected, _ = play(site(tmp_path, BASE64.format(dtype)), ready, packed)
    assert (len(expected), rejected) == (len(pictures), {})
    config = site(tmp_path, FILE.format(dtype))
    for place, one in enumerate(cast):
        (tmp_path / "camera" / f"{place}.bin").write_bytes(write(one))
    found, rejected, _ = play(config, ready, [f"{place}.bin" for place in range(len(cast))])
    assert (found, rejected) == (expected, {})


@pytest.mark.usefixtures("capfd")
def test_every_hostile_name_is_one_letter_that_names_it_and_the_line_goes_on(
    tmp_path: Path, ready: ReadyModel, pictures: Pictures
) -> None:
    config, camera = site(tmp_path, FILE.format("uint8")), tmp_path / "camera"
    good = pgm(pictures[0])
    for path in (camera / "good.pgm", tmp_path / "outside.pgm"):
        path.write_bytes(good)
    os.mkfifo(camera / "fifo")
    (camera / "link").symlink_to("../outside.pgm")
    (camera / "up").symlink_to("..")
    (camera / "half.pgm").write_bytes(good[:-9])
    (camera / "large.pgm").write_bytes(good + bytes(5000))
    (camera / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (camera / "a.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(60))
    absolute = str(camera / "good.pgm")
    hostile = [
        "../outside.pgm",
        absolute,
        "link",
        "up/outside.pgm",
        "fifo",
        "half.pgm",
        "large.pgm",
        "a.png",
        "a.jpg",
        ".",
        "",
    ]
    found, rejected, letters = play(config, ready, [*hostile, "none.pgm", "good.pgm"])
    assert len(found) == 1
    assert rejected == {"not_a_number": len(hostile), "missing_field": 1}
    assert len(letters) == len(hostile) + 1
    for name, letter in zip([*hostile, "none.pgm"], letters, strict=True):
        assert f"file {name[:60]!r}" in json.dumps(letter, ensure_ascii=False), letter
    assert sum("convert it to a binary PGM or PPM" in json.dumps(letter) for letter in letters) == 2


def test_replay_finds_the_folder_beside_the_device_file(tmp_path: Path, pictures: Pictures) -> None:
    config = site(tmp_path, FILE.format("uint8"))
    (tmp_path / "camera" / "0.pgm").write_bytes(pgm(pictures[0]))
    (tmp_path / "lines.jsonl").write_text('{"picture":"0.pgm"}\n{"picture":"1.pgm"}\n')
    ran = run_program("replay", str(tmp_path / "lines.jsonl"), "--config", str(config), home=tmp_path)
    assert len(ran.stdout.splitlines()) == 1, ran.stderr
    assert ran.stderr.splitlines()[-1].startswith(
        "first missing_field: field 'picture': found file '1.pgm': no such file;"
    )


def test_a_folder_that_is_none_is_refused_before_the_line_serves_and_by_doctor(
    tmp_path: Path, ready: ReadyModel
) -> None:
    config = site(tmp_path, FILE.format("uint8"))
    (tmp_path / "camera").rmdir()
    with pytest.raises(ConfigurationError, match=r"channel image, folder: found .*camera, which is no folder"):
        play(config, ready, [])
    line = load_config(config).config.line[0]
    (finding,) = bindings(line, ready.model.manifest, dt.date(2026, 1, 1), tmp_path)
    assert (finding.status, "which is no folder" in str(finding)) == ("fail", True)


def test_a_binding_without_its_folder_is_refused_with_the_device_file(tmp_path: Path) -> None:
    config = site(tmp_path, '{ field = "picture", read = "file", dtype = "uint8" }')
    with pytest.raises(ConfigurationError, match="folder says where files may come from"):
        load_config(config)
