import datetime as dt
import json
import struct
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.flow import line as module
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import MAX_STREAM_NAME, MAX_STREAM_NUMBERS, MAX_STREAMS, max_streams
from edge_runtime.flow.window import State, Stream, WindowRule
from edge_runtime.spec.crc import Crc, crc_function
from edge_runtime.spec.framing import PacketFraming
from edge_runtime.spec.payload import JsonDecode, StructDecode, TimeField
from edge_runtime.spec.reading import LATEST_NS, Reading
from edge_runtime.spec.result import CLIPPED, CLOCK_UNSYNCED, RATE_OFF, RESTARTED, STUCK
from tests.rig import tiny

NS = 10**9


def rows(values, start=1000, step=10):
    return b"".join(b"%d,%f,5\n" % (start + i * step, value) for i, value in enumerate(values))


def answers(line, data, split=None):
    pieces = [data] if split is None else [data[i : i + split] for i in range(0, len(data), split)]
    for piece in pieces:
        line.feed(piece, 0)
        line.run()
    return line.take_answers()


def ledger(line):
    return line.ledger.as_dict()


def test_bytes_become_answers_with_time_id_value_unit_and_flag():
    found = answers(tiny.line(), rows([1.0, 2.0, 3.0, 8.0, 9.0]))
    assert [one.outputs[0].value for one in found] == pytest.approx([1.5, 2.5, 5.5, 8.5], abs=1e-6)
    assert [one.outputs[0].flags for one in found] == [
        (("cold", True),),
        (("cold", True),),
        (("cold", False),),
        (("cold", False),),
    ]
    assert [one.time_ns for one in found] == [t * 10**9 for t in (1010, 1020, 1030, 1040)]
    assert [one.seq for one in found] == [0, 1, 2, 3]
    assert len({one.id for one in found}) == 4
    assert {one.stream for one in found} == {"tiny"}
    assert found[0].outputs[0].unit == "Cel"


def test_the_ids_come_from_bundle_line_stream_time_and_window_alone():
    data = rows([1.0, 2.0, 3.0])
    first = [one.id for one in answers(tiny.line(), data)]
    assert [one.id for one in answers(tiny.line(), data, split=1)] == first
    assert [one.id for one in answers(tiny.line(), rows([1.0, 2.0, 3.5]))][1] != first[1]
    assert answers(tiny.line(), rows([1.0, 2.0, 3.0], start=2000))[0].id != first[0]


@settings(deadline=None, max_examples=60)
@given(
    values=st.lists(st.floats(-40, 40), min_size=1, max_size=40),
    splits=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    sizes=st.sampled_from([(1,), (1, 2), (1, 2, 4, 8), (1, 3, 7)]),
)
def test_answers_do_not_depend_on_how_bytes_arrive_or_batches_form(values, splits, sizes):
    data = rows(values)
    line, at, found = tiny.line(sizes=sizes), 0, []
    for split in splits:
        line.feed(data[at : at + split], 0)
        at += split
        if split % 2:
            line.run()
            found += line.take_answers()
    found += answers(line, data[at:])
    assert found == answers(tiny.line(), data)
    assert line.ledger.adds_up(pending_samples=0, pending_answers=len(found))


def test_more_windows_than_the_largest_batch_are_all_answered():
    line = tiny.line()
    assert len(answers(line, rows(np.linspace(-20, 20, 500)))) == 499


def test_every_refusal_is_counted_by_its_reason_and_the_ledgers_add_up():
    line = tiny.line()
    data = (
        rows([1.0, 2.0])
        + b"1020,abc,5\n1020,nan,5\n1020,,5\n1020,900,5\n1020,1\nx,1,5\n1000,1.000000,5\n500,1,5\n1020,3,5\n"
    )
    data += b"\xff\xfe\n" + b"y" * 1000 + b"\n1040,3,5\n1050,3,5\n"
    found = answers(line, data, split=7)
    assert len(found) == 3
    assert ledger(line)["samples"] == {
        "received": 15, "accepted": 5, "duplicate": 1, "dropped": {},
        "rejected": {"bad_encoding": 1, "bad_time": 1, "beyond_physical": 1, "missing": 1, "not_a_number": 1,
                     "not_finite": 1, "time_back": 1, "too_long": 1, "wrong_columns": 1},
    }  # fmt: skip
    assert ledger(line)["answers"] == {"due": 4, "published": 0, "refused": {"gap": 1}, "suppressed": {}, "dropped": {}}
    assert line.ledger.adds_up(pending_samples=0, pending_answers=3)
    refused = line.take_refused()
    assert [one.rejection.todo for one in refused if one.rejection.reason == "gap"] == [
        "answers come again once the window is whole"
    ]
    assert len(refused) == 10
    assert all(str(one.rejection).count("\n") == 0 for one in refused)


def test_binary_frames_that_came_damaged_are_counted_by_their_reason():
    crc = Crc(name="crc-16/modbus", byte_order="little")
    spec = PacketFraming(
        kind="packet", sync="aa55", payload_bytes=6, crc=crc, crc_covers="payload"
    )  # fmt: skip
    decode = StructDecode.model_validate(
        {"format": "struct", "byte_order": "little", "time": {"field": "t", "format": "unix_s"},
         "fields": [{"name": "t", "type": "uint32"}, {"name": "a", "type": "int8"}, {"name": "b", "type": "uint8"}]}
    )  # fmt: skip
    line = tiny.line(decode=decode)
    line.framing = make_framing(spec, decode.encoding)
    check = crc_function(crc.parameters)

    def packet(time, value):
        body = struct.pack("<IbB", time, value, 5)
        return b"\xaa\x55" + body + check(body).to_bytes(2, "little")

    damaged = bytearray(packet(1020, 3))
    damaged[5] ^= 1
    found = answers(
        line, packet(1000, 1) + packet(1010, 2) + damaged + packet(1030, 4) + b"\0" + packet(1040, 5), split=3
    )
    assert [one.outputs[0].value for one in found] == pytest.approx([1.5, 4.5], abs=1e-6)
    assert ledger(line)["samples"]["rejected"] == {"bad_checksum": 1, "bad_frame": 1}
    refused = line.take_refused()
    assert refused[0].raw == bytes(damaged)
    line.published(len(found))
    assert line.ledger.adds_up(pending_samples=0, pending_answers=0)


def test_streams_have_windows_and_hysteresis_of_their_own():
    line = tiny.line(decode=tiny.JSON)
    for i, value in enumerate([1.0, 1.0, 3.0, 3.0]):
        for who, plus in (("x", 0.0), ("y", 10.0)):
            row = {"t": 1000 + 10 * i, "a": value + plus, "b": 1, "who": who, "note": f"n{i}"}
            line.feed(json.dumps(row).encode() + b"\n", 0)
    line.run()
    found = line.take_answers()
    by = {who: [(one.seq, one.outputs[0].flags[0][1]) for one in found if one.stream == who] for who in "xy"}
    assert by == {"x": [(0, True), (1, True), (2, True)], "y": [(0, False), (1, False), (2, False)]}
    assert found[0].carry == (("note", "n1"),)


def test_a_payload_cannot_invent_streams_without_end():
    line = tiny.line(decode=tiny.JSON)
    for number in range(MAX_STREAMS + 5):
        line.offer(Reading((1.0, 1.0), 10**9, f"s{number}"), 0)
    line.offer(Reading((1.0, 1.0), 10**9, "x" * (MAX_STREAM_NAME + 1)), 0)
    assert ledger(line)["samples"]["rejected"] == {"too_many_streams": 5, "bad_stream": 1}


@pytest.mark.parametrize(
    ("length", "states"), [(1, 0), (64, 0), (10_000, 0), (10_000, 2_000_000), (1, 200_000), (1_000_000, 0)]
)
def test_all_streams_together_hold_a_bounded_number_of_numbers(length, states):
    contract = tiny.manifest(window={"length": length})
    rule = WindowRule(contract)
    if states:
        tensor = {"input": "h", "output": "g", "shape": (states,), "dtype": "float64"}
        rule.states = (State(SimpleNamespace(batch_axis=0, initial=0.0, reset="gap", **tensor)),)
    most = max_streams(rule)
    stream = Stream(rule, ())
    held = sum(one.nbytes for one in (stream._ring, stream._times, *stream.state.values())) // 8
    assert rule.stream_numbers >= held
    assert 1 <= most <= MAX_STREAMS
    assert most * held <= MAX_STREAM_NUMBERS or most == 1
    assert (most + 1) * rule.stream_numbers > MAX_STREAM_NUMBERS or most == MAX_STREAMS


def test_wide_streams_are_fewer(monkeypatch):
    contract = tiny.manifest()
    monkeypatch.setattr(module, "MAX_STREAM_NUMBERS", 3 * WindowRule(contract).stream_numbers)
    line = tiny.line(contract=contract, decode=tiny.JSON)
    for number in range(5):
        line.offer(Reading((1.0, 1.0), 10**9, f"s{number}"), 0)
    assert ledger(line)["samples"]["rejected"] == {"too_many_streams": 2}


def test_without_a_time_the_arrival_counts_and_never_stands_still():
    line = tiny.line(contract=tiny.manifest(window={"length": 2}))
    for _ in range(3):
        line.offer(Reading((1.0, 1.0)), 5_000)
    line.run()
    assert [one.time_ns for one in line.take_answers()] == [5_001, 5_002]


def test_behind_the_last_time_there_is_no_other():
    line = tiny.line()
    line.offer(Reading((1.0, 5.0), LATEST_NS), 5 * NS)
    for value in (1.0, 2.0):
        line.offer(Reading((value, 5.0)), 6 * NS)
    samples = ledger(line)["samples"]
    assert (samples["accepted"], samples["duplicate"], samples["rejected"]) == (1, 1, {"time_back": 1})


def test_the_age_counts_from_arrival_and_event_time_has_none():
    line = tiny.line(contract=tiny.manifest(window={"length": 2}))
    line.feed(rows([1.0, 2.0]), 0, mono_ns=1_000)
    line.run()
    assert [one.age_ns for one in line.take_answers(now_ns=1_500)] == [500]
    line.feed(rows([3.0], start=1020), 0)
    line.run()
    assert [one.age_ns for one in line.take_answers(now_ns=9_999)] == [None]


def test_a_tensor_beyond_the_int8_scale_is_flagged_clipped_for_its_row_only():
    found = answers(tiny.line(), rows([1.0, 2.0, 45.0, 1.0, 1.0]))
    assert [bool(one.flags & CLIPPED) for one in found] == [False, True, True, False]


@settings(deadline=None, max_examples=80)
@given(
    trained=st.sampled_from([20.0, 30.0, 30.000001, 45.0]),
    step=st.sampled_from(["standardize", "scale", "difference"]),
    values=st.lists(st.floats(-60, 60) | st.sampled_from([30.0, -30.0]), min_size=2, max_size=20),
)
def test_clipped_is_flagged_the_same_whether_the_trained_band_fits_the_scale_or_not(trained, step, values):
    steps = {
        "standardize": {"step": "standardize", "mean": [0.0, 0.0], "std": [10.0, 10.0]},
        "scale": {"step": "scale", "a": -0.1},
        "difference": {"step": "difference"},
    }
    raw = tiny.manifest(steps=[steps[step]]).model_dump(mode="json", by_alias=True)
    raw["inputs"][0]["channels"][0]["trained"] = {"min": -trained, "max": trained}
    raw["variants"][0]["input_clip"] = {"x": {"min": -3.0, "max": 3.0}}
    if step == "difference":
        raw["inputs"][0]["shape"] = ["batch", 2, 1]
    contract = tiny.manifest(inputs=raw["inputs"], variants=raw["variants"])
    found = answers(tiny.line(contract=contract), rows(values))
    sent = [float(f"{value:f}") for value in values]
    beyond = {
        "standardize": lambda a, b: max(abs(np.float32(a / 10)), abs(np.float32(b / 10))) > 3,
        "scale": lambda a, b: max(abs(np.float32(a * -0.1)), abs(np.float32(b * -0.1))) > 3,
        "difference": lambda a, b: abs(np.float32(b - a)) > 3,
    }
    assert [bool(one.flags & CLIPPED) for one in found] == [bool(beyond[step](a, b)) for a, b in pairwise(sent)]


def test_an_answer_at_an_end_of_its_int8_scale_is_flagged_clipped():
    raw = tiny.manifest().model_dump(mode="json", by_alias=True)
    raw["variants"][0]["output_scale"] = {"y": {"step": 0.1, "min": 0.0, "max": 2.0}}
    contract = tiny.manifest(variants=raw["variants"])
    found = answers(tiny.line(contract=contract), rows([0.0, 0.0, 2.0, 2.0, 20.0, 20.0, 18.0, 19.0]))
    assert [round(one.outputs[0].value) for one in found] == [0, 1, 2, 11, 20, 19, 18]
    assert [bool(one.flags & CLIPPED) for one in found] == [True, False, False, False, True, False, False]


def test_a_stuck_channel_is_named():
    found = answers(tiny.line(), rows([1.0, 7.0, 7.0, 7.0, 7.0, 8.0]))
    assert [one.stuck for one in found] == [(), (), (), ("a",), ()]
    assert [bool(one.flags & STUCK) for one in found] == [False, False, False, True, False]


def test_an_answer_that_is_not_finite_is_refused_and_only_that_one():
    def broken(feeds):
        out = tiny.infer(feeds)
        out["y"][out["y"] > 2.0] = np.nan  # only the window of two thirties
        return out

    line = tiny.line(run=broken)
    found = answers(line, rows([1.0, 1.0, 30.0, 30.0, 1.0, 1.0]))
    assert len(found) == 4
    assert ledger(line)["answers"]["refused"] == {"not_finite_output": 1}
    assert line.ledger.adds_up(pending_samples=0, pending_answers=4)


def test_a_model_that_fails_leaves_the_ledger_whole():
    def failing(feeds):
        raise RuntimeError(len(feeds))

    line = tiny.line(run=failing)
    line.feed(rows([1.0, 2.0, 3.0, 4.0]), 0)
    with pytest.raises(RuntimeError):
        line.run()
    assert ledger(line)["answers"]["refused"] == {"inference_failed": 3}
    assert line.ledger.adds_up(pending_samples=0, pending_answers=0)


@settings(deadline=None, max_examples=40)
@given(values=st.lists(st.floats(-40, 40), min_size=2, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_a_line_restored_from_its_changes_goes_on_as_if_nothing_had_been(values, cuts):
    """Snapshot at the first cut, changes after it, all through JSON; then a new line takes over."""
    data = [rows([value], start=1000 + 10 * i) for i, value in enumerate(values)]
    whole = answers(tiny.line(), b"".join(data))
    line, found, saved, changes = tiny.line(), [], None, []
    for i, row in enumerate(data):
        found += answers(line, row)
        line.published(1 if i else 0)
        changes.append(json.loads(json.dumps(line.take_changes())))
        if i in cuts:
            if saved is None:
                saved, changes = json.loads(json.dumps(line.saved())), []
            other = tiny.line()
            other.restore(saved, changes)
            assert other.ledger.as_dict() == line.ledger.as_dict()
            line = other
    assert [one._replace(flags=one.flags & ~RESTARTED) for one in found] == whole


def test_the_first_answer_of_each_stream_after_a_restart_is_flagged():
    line = tiny.line()
    answers(line, rows([1.0, 2.0]))
    other = tiny.line()
    other.restore(line.saved(), [])
    found = answers(other, rows([3.0, 4.0], start=1020))
    assert [bool(one.flags & RESTARTED) for one in found] == [True, False]


def test_the_last_line_of_a_file_needs_no_line_end():
    line = tiny.line()
    line.feed(rows([1.0, 2.0])[:-1], 0)
    line.run()
    assert line.take_answers() == []
    line.finish(0)
    line.run()
    assert len(line.take_answers()) == 1


def test_a_line_without_a_decoder_takes_no_bytes():
    line = tiny.line()
    line._decoder = None
    with pytest.raises(TypeError):
        line.feed(b"x\n", 0)


def test_one_sample_from_the_future_does_not_make_all_others_late():
    line = tiny.line()
    line.judge_by_clock(synchronised=True)
    arrival = 1020 * 10**9
    line.feed(
        rows([1.0, 2.0]) + rows([9.0], start=1020 + 86_401) + rows([3.0], start=1020) + rows([4.0], start=1030), arrival
    )
    line.run()
    assert len(line.take_answers()) == 3
    assert ledger(line)["samples"]["rejected"] == {"time_ahead": 1}
    assert "check the logger's clock" in str(line.take_refused()[0].rejection)


def test_a_sample_that_waited_too_long_is_stale_by_a_synchronised_clock_alone():
    data = rows([1.0, 2.0, 3.0])  # of 1000, 1010 and 1020 s
    found = {}
    for synchronised in (True, False, None):
        line = tiny.line(max_age_ns=10 * NS)
        line.judge_by_clock(synchronised=synchronised)
        line.feed(data, 1021 * NS)
        line.run()
        flags = [bool(one.flags & CLOCK_UNSYNCED) for one in line.take_answers()]
        found[synchronised] = ledger(line)["samples"]["rejected"], flags
        if synchronised:
            assert str(line.take_refused()[0].rejection).startswith(
                "time of the sample: found 21 s before it arrived here; expected 10 s at most; it waited"
            )
    assert found == {True: ({"stale": 2}, []), False: ({}, [True, True]), None: ({}, [False, False])}


def test_in_event_time_nothing_is_stale_and_no_clock_is_flagged():
    line = tiny.line(max_age_ns=1)
    found = answers(line, rows([1.0, 2.0]))
    assert [bool(one.flags & CLOCK_UNSYNCED) for one in found] == [False]
    assert ledger(line)["samples"]["rejected"] == {}


def test_what_is_odd_about_times_is_counted_by_stream():
    line = tiny.line(max_age_ns=1000 * NS)
    line.judge_by_clock(synchronised=True)
    data = rows([1.0, 2.0]) + rows([2.0], start=1010) + rows([4.0], start=1005) + rows([5.0], start=1100)
    line.feed(data + rows([6.0], start=1101) + rows([7.0], start=90_000) + rows([8.0], start=101), 1102 * NS)
    assert line.oddities == {"": {"duplicate": 1, "time_back": 1, "gap": 1, "too_soon": 1, "time_ahead": 1, "stale": 1}}
    assert line.ledger.adds_up(pending_samples=0, pending_answers=line.pending)


def test_a_pace_within_the_contract_s_tolerance_is_none_of_them() -> None:
    window = {"length": 2, "period_s": 10.0, "rate_tolerance": 0.2}
    data = b"".join(b"%d,1,1\n" % at for at in (1000, 1012, 1020, 1033, 1040))
    for contract, count in ((tiny.manifest(), 4), (tiny.manifest(window=window), 2)):
        line = tiny.line(contract)
        line.feed(data, 0)
        line.run()
        assert line.oddities == {"": {"rate_off": count}}
        assert sum(bool(one.flags & RATE_OFF) for one in line.take_answers()) == count


@pytest.mark.parametrize(("when_bad", "counted"), [("arrival", {"": {"time_of_arrival": 2}}), ("refuse", {})])
def test_times_of_arrival_that_stand_for_bad_ones_are_counted(
    when_bad: str, counted: dict[str, dict[str, int]]
) -> None:
    """arendst/Tasmota#2571: valid data stamped 1970 is taken by declared policy, and never without a word."""
    time = TimeField(field="t", format="unix_s", not_before=dt.date(2020, 1, 1), when_bad=when_bad)
    made = tiny.line(decode=JsonDecode(format="json", time=time))
    for number, at in enumerate((1_800_000_000, 3, "soon")):
        made.feed_frame(json.dumps({"t": at, "a": 1, "b": 2}).encode(), (1_800_000_000 + 10 * number) * NS)
    assert made.oddities == counted
    assert made.ledger.rejected == ({"bad_time": 2} if when_bad == "refuse" else {})
    assert made.ledger.accepted == (1 if when_bad == "refuse" else 3)


def test_a_gap_of_samples_without_a_time_of_their_own_says_so():
    line = tiny.line()
    for arrival_s in (0, 60):
        line.offer(Reading((1.0, 5.0)), arrival_s * NS)
    [refused] = line.take_refused()
    assert refused.rejection.reason == "gap"
    assert refused.rejection.todo.endswith("if the samples carry their own, name its field in decode.time")
