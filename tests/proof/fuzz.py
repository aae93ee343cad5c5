"""Hostile lines with valid ones between, and what each must come to; one seed gives one stream, whatever runs it."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

ANSWER, NOTHING, DUPLICATE, SOME_REASON = "answer", "nothing", "duplicate", "some reason"
LINE_ENDS = (b"\n", b"\r\n", b"\r", b"\n\r", b"\n\n", b"\r\n\r\n")
HUGE_BYTES, _PIECE_BYTES = 10_000_000, 50_000
_BEGIN = datetime(2001, 1, 1, tzinfo=UTC)


class Fuzzed(NamedTuple):
    """One line with its end, or a piece of a very long one.

    ``outcome`` is one of the words above or the reason it must be rejected for.
    """

    data: bytes
    outcome: str


def text_time(at: int, step_s: int) -> str:
    return (_BEGIN + timedelta(seconds=at * step_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def frost_lines(seed: int, count: int) -> Iterator[Fuzzed]:
    """``count`` lines for the station's CSV; about one in four is valid, an hour after the valid one before."""
    chance = random.Random(seed)
    header = (
        "time,air_temperature_degF,relative_humidity_pct,station_pressure_inHg,wind_speed_mph,solar_irradiance_W_m2"
    )
    yield Fuzzed(header.encode() + b"\n", NOTHING)
    valid = 0
    last = ""
    for at in range(count):
        cells = _station_cells(chance, valid)
        if at and at % (count // 2) == 0:
            yield from _huge(b"7" * _PIECE_BYTES)
            continue
        if valid == 0 or chance.random() < 0.25:
            valid += 1
            last = ",".join(cells)
            yield Fuzzed(last.encode() + chance.choice(LINE_ENDS), ANSWER)
            continue
        data, outcome = chance.choice(_STATION)(chance, cells, last, valid)
        if isinstance(data, str):
            data = data.encode()
        yield Fuzzed(data + chance.choice(LINE_ENDS), outcome)
    yield Fuzzed(",".join(_station_cells(chance, valid)).encode(), ANSWER)


def _huge(begin: bytes) -> Iterator[Fuzzed]:
    """A line of 10 MB in pieces: refused at its beginning, whatever follows."""
    yield Fuzzed(begin, "too_long")
    for _ in range(HUGE_BYTES // _PIECE_BYTES - 1):
        yield Fuzzed(begin[:1] * _PIECE_BYTES, NOTHING)
    yield Fuzzed(b"\n", NOTHING)


def _station_cells(chance: random.Random, at: int) -> list[str]:
    return [
        text_time(at, 3600), f"{chance.uniform(-10, 95):.2f}", str(chance.randint(15, 100)), f"{chance.uniform(28.5, 29.7):.4f}",
        f"{chance.uniform(0, 26):.2f}", str(chance.randint(0, 1000)),
    ]  # fmt: skip


def _with(cells: list[str], place: int, text: str) -> str:
    return ",".join([*cells[:place], text, *cells[place + 1 :]])


def _cell(*texts: str, outcome: str):
    def fuzz(chance, cells, _last, _valid):
        return _with(cells, chance.randint(1, 5), chance.choice(texts)), outcome

    return fuzz


def _time(*texts: str, outcome: str):
    def fuzz(chance, cells, _last, _valid):
        return _with(cells, 0, chance.choice(texts)), outcome

    return fuzz


def _bad_utf8(chance, cells, _last, _valid):
    line = ",".join(cells).encode()
    at = chance.randrange(len(line))
    return line[:at] + chance.choice([b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x80"]) + line[
        at:
    ], "bad_encoding"


def _fewer(chance, cells, _last, _valid):
    return ",".join(cells[: chance.randint(1, 5)]), "wrong_columns"


def _more(chance, cells, _last, _valid):
    return ",".join([*cells, *["1"] * chance.choice([1, 2, 300])]), "wrong_columns"


def _quote(chance, cells, _last, _valid):
    return _with(cells, chance.randint(0, 5), '"' + "x" * chance.choice([0, 3])), "wrong_columns"


def _back(chance, cells, _last, valid):
    """Another value at a time that is not newer: further back than any duplicate is looked for, or by a second."""
    behind = text_time(valid - chance.randint(1, 3000), 3600)
    return _with(_with(cells, 1, "47.113").split(","), 0, behind), "time_back"


def _again(_chance, _cells, last, _valid):
    return last, DUPLICATE


def _long(chance, cells, _last, _valid):
    return ",".join(cells) + " " * chance.choice([5000, 70_000]), "too_long"


def _garbage(chance, _cells, _last, _valid):
    raw = bytes(chance.randrange(256) for _ in range(chance.randint(1, 80)))
    return b"~" + raw.replace(b"\n", b"").replace(b"\r", b""), SOME_REASON


def _commas(chance, _cells, _last, _valid):
    return "".join(chance.choice(',",.0eE-+ \t;\0') for _ in range(40)) + "!", SOME_REASON


def _blank(chance, _cells, _last, _valid):
    return chance.choice(["", " ", "\t\t", "\ufeff", " " * 500]), NOTHING


_STATION = (
    _bad_utf8, _fewer, _more, _quote, _back, _again, _long, _garbage, _commas, _blank,
    _cell("nan", "NaN", "-nan", "inf", "Infinity", "-Infinity", "1e999", "-1E400", outcome="not_finite"),
    _cell("", " ", "\t", outcome="missing"),
    _cell("twelve", "1_0", "0x10", "1,5".replace(",", ";"), "--1", "1e", "٣", "\uff11", "12 3", "\0", "1.2.3",
          outcome="not_a_number"),
    _cell("1e9", "-4e3", "123456789012345678901234567890", outcome="beyond_physical"),
    _time("", "yesterday", "2025-13-01T00:00:00Z", "2025-01-01", "2025-01-28T00:00:00", "9999-12-31T23:59:59Z",
          "1738022400", "0001-01-01T00:00:00+23:59", outcome="bad_time"),
)  # fmt: skip


def dewpoint_lines(seed: int, count: int, names: int, most_streams: int) -> Iterator[Fuzzed]:
    """``count`` JSON lines of ``names`` streams, of which ``most_streams`` may live."""
    chance = random.Random(seed)
    known: dict[str, int] = {}
    for at in range(count):
        if at and at % (count // 2) == 0:
            yield from _huge(b'{"site":"' + b"x" * _PIECE_BYTES)
            continue
        name = f"site {chance.randrange(names)}"
        row = {
            "site": name, "time": text_time(known.get(name, 0) + 5, 60), "t": chance.uniform(-5, 30),
            "rh": chance.uniform(20, 95), "p": chance.uniform(970, 1005),
        }  # fmt: skip
        if chance.random() < 0.3:
            if name not in known and len(known) == most_streams:
                yield Fuzzed(_json(row) + chance.choice(LINE_ENDS), "too_many_streams")
                continue
            known[name] = known.get(name, 0) + 1
            yield Fuzzed(_json(row) + chance.choice(LINE_ENDS), ANSWER)
            continue
        data, outcome = chance.choice(_OBJECTS)(chance, row)
        yield Fuzzed(data + chance.choice(LINE_ENDS), outcome)


def _json(row: object) -> bytes:
    return json.dumps(row).encode()


def _value(*texts: str, outcome: str):
    def fuzz(chance, row):
        key = chance.choice(["t", "rh", "p"])
        return _json({**row, key: "@"}).replace(b'"@"', chance.choice(texts).encode()), outcome

    return fuzz


def _key(key: str, *texts: str, outcome: str):
    def fuzz(chance, row):
        return _json({**row, key: "@"}).replace(b'"@"', chance.choice(texts).encode()), outcome

    return fuzz


def _without(key: str, outcome: str):
    return lambda _chance, row: (_json({name: value for name, value in row.items() if name != key}), outcome)


def _cut(chance, row):
    line = _json(row)
    return line[: chance.randrange(1, len(line))], "bad_json"


def _no_object(chance, _row):
    nested = "[" * 2000
    return chance.choice(
        [b"[]", b"1", b'"x"', b"null", nested.encode(), b'{"a":' * 600, b"{]", b"NaN", b"{}}"]
    ), "bad_json"


def _foreign_bytes(chance, row):
    line = _json(row)
    at = line.index(b"site ") + chance.randint(0, 3)
    return line[:at] + chance.choice([b"\xff", b"\xc3(", b"\x80"]) + line[at:], "bad_encoding"


_OBJECTS = (
    _cut, _no_object, _foreign_bytes,
    _value("NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1" + "0" * 400, outcome="not_finite"),
    _value('"12"', '"-1.5e3"', outcome="type_changed"),
    _value('"twelve"', "true", "[]", "{}", '""', outcome="not_a_number"),
    _value("null", outcome="missing"),
    _value("1e9", "-12345678", outcome="beyond_physical"),
    _without("t", "missing"),
    _without("site", "missing_field"),
    _without("time", "bad_time"),
    _key("time", "null", "true", "{}", '"soon"', "1e300", '"2025-01-28T00:00:00"', outcome="bad_time"),
    _key("site", "null", '""', "[]", '" "', outcome="missing_field"),
    _key("site", '"\\ud800"', outcome="bad_json"),
    lambda chance, _row: (chance.choice([b"", b" ", b"\t"]), NOTHING),
    lambda chance, _row: (bytes(chance.choice(b'{}[]":,0eE.-+ntfu\\') for _ in range(30)) + b"!", SOME_REASON),
)  # fmt: skip
