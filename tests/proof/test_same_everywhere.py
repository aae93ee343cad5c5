"""One raw stream through every way in gives one set of answers, to the last byte.

The ways are `run` as a process, `replay`, the Python API in many and one by one, and, where every window stands for
itself, the way stored cases take at boot. The line is called ``python`` in the device files, as the API calls its own,
so that the ids must be equal too. What may differ is the run id alone: in event time no answer has an age. The cases of
the boot go through a line and streams of their own, so there ids, times and the memory of a flag are not compared.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import edge_runtime
from edge_runtime.bundle.golden import Goldens, decode
from edge_runtime.errors import SampleRefused
from edge_runtime.flow.encode import make_encoder
from edge_runtime.run.api import OpenModel, Sample
from edge_runtime.run.goldens import begin, passage
from edge_runtime.spec.result import RESTARTED, Answer
from edge_runtime.spec.sink import StandardOutput
from tests.proof import kinds_streams as kinds
from tests.proof.lines import model
from tests.proof.station import COLUMNS, FROST, US_UNITS, answers, as_csv, call, device_file, ledger, lines

NAME = "python"
SOURCE = '{ kind = "replay", path = "stream" }'
RUN = re.compile(rb',"run":"[^"]*"')


class Kind(NamedTuple):
    """A stream, the device file that takes it, and the same samples as the API takes them."""

    data: bytes
    device: Callable[..., Path]
    bundle: Path
    units: Mapping[str, str]
    samples: Sequence[Sample]
    answers: int


def _station_device(folder, *, source, name):
    path = device_file(folder, source=source)
    path.write_text(path.read_text().replace('name = "frost"', f'name = "{name}"'))
    return path


def _station() -> Kind:
    """The recorded day, with one reading that no weather has."""
    header, *rows = lines()
    rows.insert(70, [rows[70][0], "451", *rows[70][2:]])
    samples = [
        Sample({name: float(row[header.index(column)]) for name, column in COLUMNS.items()}, _time(row[0]))
        for row in rows
    ]
    return Kind(as_csv([header, *rows]), _station_device, FROST, dict(US_UNITS), samples, 169)


def _pipes() -> Kind:
    rows = kinds.pipes(150)
    samples = [Sample({name: row[name] for name in kinds.GRU_UNITS}, _time(row["time"]), row["pipe"]) for row in rows]
    return Kind(kinds.json_lines(rows), kinds.gru_device, kinds.GRU, kinds.GRU_UNITS, samples, 298)


def _pictures() -> Kind:
    rows = kinds.pictures(100)
    samples = [Sample({"image": _pixels(row["image"])}, _time(row["time"])) for row in rows]
    return Kind(kinds.json_lines(rows), kinds.digits_device, kinds.DIGITS, {"image": "1"}, samples, 100)


def _pixels(text):
    return np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(8, 8)


def _time(text):
    return datetime.fromisoformat(text)


OF_THE_LINE = {"id", "time", "stream", "seq", "run"}
KINDS = {"station": _station, "pipes": _pipes, "pictures": _pictures}


def _bare(data: bytes) -> bytes:
    return RUN.sub(b"", data)


def _encoded(opened: OpenModel, answers: Sequence[Answer]) -> bytes:
    encode = make_encoder(StandardOutput(), "", opened.manifest.outputs)
    return _bare(b"".join(map(encode, answers)))


def _served(kind: Kind, folder: Path) -> tuple[bytes, bytes, dict]:
    """Standard output of `run` and of `replay`, and the ledger of `run`."""
    (folder / "stream").write_bytes(kind.data)
    config = kind.device(folder, source=SOURCE, name=NAME)
    ran = call(folder, "run", "--exit-on-refusal", "--config", config)
    assert ran.returncode == 0, ran.stderr
    book = ledger(folder)
    replayed = call(folder, "replay", "stream", "--config", config)
    assert replayed.returncode == 0, replayed.stderr
    return ran.stdout, replayed.stdout, book


def _one_by_one(opened: OpenModel, samples: Sequence[Sample]) -> list[Answer]:
    answers = []
    for sample in samples:
        with suppress(SampleRefused):  # which the ledgers compare
            answers += opened.feed(sample.values, time=sample.time, stream=sample.stream)
    return answers


@pytest.mark.parametrize("name", KINDS)
def test_run_replay_and_the_api_give_the_same_bytes(name, tmp_path):
    kind = KINDS[name]()
    ran, replayed, book = _served(kind, tmp_path)
    expected = _bare(ran)
    assert expected.count(b"\n") == len(set(expected.splitlines())) == kind.answers
    assert _bare(replayed) == expected
    opened = edge_runtime.open(kind.bundle, units=kind.units)
    assert _encoded(opened, [one for _, one in opened.feed_many(kind.samples).answers]) == expected
    assert opened.ledger.as_dict() == book["counts"]
    singly = edge_runtime.open(kind.bundle, units=kind.units)
    assert _encoded(singly, _one_by_one(singly, kind.samples)) == expected
    assert singly.ledger.as_dict() == opened.ledger.as_dict()


def _cases(raw: NDArray[np.float64], channels: Sequence[str], units: Sequence[str]) -> Goldens:
    """Raw windows ``(cases, samples, numbers)`` as the boot's way takes them; it compares nothing, so no more is known."""
    return Goldens(tuple(channels), raw, (tuple(units),) * len(raw), {}, {}, {}, {}, {}, {})


def _station_cases() -> Goldens:
    header, *rows = lines()
    table = np.array([[float(row[header.index(column)]) for column in COLUMNS.values()] for row in rows])
    windows = np.lib.stride_tricks.sliding_window_view(table, 24, axis=0).transpose(0, 2, 1)
    return _cases(windows, tuple(COLUMNS), [US_UNITS[name] or "" for name in COLUMNS])


def _picture_cases() -> Goldens:
    raw = np.stack([_pixels(row["image"]).reshape(1, 64) for row in kinds.pictures(100)]).astype(np.float64)
    return _cases(raw, ("image",), ("1",))


def _told(bundle: Path, answers: Sequence[Answer]) -> list[dict]:
    encode = make_encoder(StandardOutput(), "", model(bundle).manifest.outputs)
    return [json.loads(encode(one)) for one in answers]


def _of_window(rows: Sequence[dict]) -> list[dict]:
    """What an answer says of its window alone, whichever line and stream it stands in."""
    kept = [{key: value for key, value in one.items() if key not in OF_THE_LINE} for one in rows]
    for one in kept:
        if 2.0 <= one.get("low", {"value": 0.0})["value"] <= 2.5:
            del one["low"]["frost"]  # between on and off a flag is what it was before, and a case has no before
    return kept


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize(("name", "cases"), [("station", _station_cases), ("pictures", _picture_cases)])
def test_the_boots_way_gives_the_same_values(name, cases, size):
    kind, stored = KINDS[name](), cases()
    served = _of_window(
        _told(
            kind.bundle,
            [one for _, one in edge_runtime.open(kind.bundle, units=kind.units).feed_many(kind.samples).answers],
        )
    )
    given = _of_window(_told(kind.bundle, passage(model(kind.bundle), stored, size).answers[: len(stored)]))
    assert len(served) == kind.answers
    assert given == served


def test_stored_cases_of_a_state_served_as_streams_give_the_answers_of_the_boot(tmp_path):
    """Every case a stream of its own, its readings in turns with all others', each with the units it was stored with."""
    variant = model(kinds.GRU).variant
    stored = decode((kinds.GRU / variant.goldens).read_bytes(), subject=variant.goldens)
    cases, samples, _ = stored.raw.shape
    rows = [
        {"time": (kinds.START + timedelta(seconds=10 * at)).isoformat(), "pipe": f"golden {case}"}
        | dict(zip(stored.channels, stored.raw[case, at].tolist(), strict=True))
        | {f"{name} unit": unit for name, unit in zip(stored.channels, stored.units[case], strict=True)}
        for at in range(samples)
        for case in range(cases)
    ]
    (tmp_path / "stream").write_bytes(kinds.json_lines(rows))
    config = kinds.gru_device(tmp_path, source=SOURCE, own_units=True)
    ran = call(tmp_path, "run", "--exit-on-refusal", "--config", config)
    assert ran.returncode == 0, ran.stderr
    served = answers(ran.stdout)
    assert len(served) == cases * samples
    last = _of_window(served[-cases:])
    given = _told(kinds.GRU, passage(model(kinds.GRU), stored, 1).answers)
    assert [one["stream"] for one in given] == [one["stream"] for one in served[-cases:]]
    assert last == _of_window(given)
    assert [one["loss"]["value"] for one in last] == stored.answers["loss"].tolist()


@pytest.mark.parametrize("bundle", [FROST, kinds.DIGITS, kinds.GRU], ids=lambda bundle: bundle.name)
def test_cases_begun_once_for_all_batch_sizes_end_as_those_taken_whole(bundle):
    subject = model(bundle)
    stored = decode((bundle / subject.variant.goldens).read_bytes(), subject=subject.variant.goldens)
    sizes = subject.manifest.batch_sizes
    begun = begin(subject, stored, sizes)
    assert begun.samples == (0 if subject.manifest.state else subject.manifest.length - 1)
    for size in sizes:
        whole, ended = passage(subject, stored, size), passage(subject, stored, size, begun)
        for there, given in ((whole.tensors, ended.tensors), (whole.outputs, ended.outputs)):
            assert {name: one.tobytes() for name, one in there.items()} == {
                name: one.tobytes() for name, one in given.items()
            }
        assert [one._replace(flags=one.flags & ~RESTARTED) for one in ended.answers] == list(whole.answers)
