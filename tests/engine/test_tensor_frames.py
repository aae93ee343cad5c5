"""Frames between two processes of ours: what goes in comes out, and what is no frame is refused."""

import os
import struct

import numpy as np
import pytest

from edge_runtime.engine.tensor_frames import (
    CALL,
    MAX_FRAME_BYTES,
    MAX_TENSORS,
    BadFrame,
    Inbox,
    Outbox,
    as_text,
    rest_of,
    text_of,
)

TENSORS = (
    np.arange(6, dtype=np.float32).reshape(1, 2, 3),
    np.array(True),
    np.arange(7, dtype=np.int8),
    np.empty((0, 4), dtype=np.float64),
    np.arange(12, dtype=np.int64).reshape(3, 4).T,
    np.array([1.5, np.nan], dtype=np.float16),
)


@pytest.fixture
def pipe():
    out, into = os.pipe()
    os.set_blocking(out, False)
    yield out, into
    os.close(out)
    os.close(into)


def bytes_of(outbox, tensors=TENSORS, number=7):
    total, buffers = outbox.pack(CALL, number, list(enumerate(tensors)))
    data = b"".join(bytes(one) if isinstance(one, bytes) else one.tobytes() for one in buffers)
    assert len(data) == total
    return data


def taken(inbox, pipe, data):
    os.write(pipe[1], data)
    return inbox.take(pipe[0])


def same(frame, tensors=TENSORS):
    assert [place for place, _ in frame.tensors] == list(range(len(tensors)))
    for (_, found), given in zip(frame.tensors, tensors, strict=True):
        assert (found.dtype, found.shape, found.tobytes()) == (given.dtype, given.shape, given.tobytes())


def test_tensors_come_out_as_they_went_in(pipe):
    inbox, outbox = Inbox(), Outbox()
    for number in (7, 8):  # the second of the same form, whose heads are known by then
        assert taken(inbox, pipe, bytes_of(outbox, number=number))
        frame = inbox.frame()
        assert (frame.kind, frame.number) == (CALL, number)
        same(frame)


def test_a_frame_may_come_byte_by_byte(pipe):
    inbox = Inbox()
    data = bytes_of(Outbox())
    whole = [taken(inbox, pipe, data[at : at + 1]) for at in range(len(data))]
    assert whole == [False] * (len(data) - 1) + [True]
    same(inbox.frame())


def test_a_large_frame_and_then_a_small_one(pipe):
    inbox, outbox = Inbox(), Outbox()
    large = np.arange(100_000, dtype=np.float64)
    data = bytes_of(outbox, [large])
    while data:
        taken(inbox, pipe, data[:50_000])
        data = data[50_000:]
    same(inbox.frame(), [large])
    inbox.empty()
    assert taken(inbox, pipe, bytes_of(outbox))
    same(inbox.frame())


def test_more_forms_than_are_remembered(pipe):
    inbox, outbox = Inbox(), Outbox()
    for size in (*range(1, 80), 1):
        assert taken(inbox, pipe, bytes_of(outbox, [np.ones(size)]))
        same(inbox.frame(), [np.ones(size)])
    assert len(inbox._layouts) < 80
    assert len(outbox._heads) < 80


def test_what_could_not_be_written_at_once_is_written_next():
    _, buffers = Outbox().pack(CALL, 1, list(enumerate(TENSORS)))
    data = bytes_of(Outbox(), number=1)
    for written in range(len(data) + 1):
        assert b"".join(rest_of(buffers, written)) == data[written:]


def test_a_text(pipe):
    inbox = Inbox()
    total, buffers = Outbox().pack(CALL, 1, as_text("a °C\ud800"))
    os.writev(pipe[1], buffers)
    assert inbox.take(pipe[0])
    assert text_of(inbox.frame()) == "a °C\\ud800"
    assert total % 16 == 0


@pytest.mark.parametrize(
    "tensor", [np.array(["a"], dtype=object), np.array(["a"]), np.array([1], dtype=">i4"), np.array([1j])]
)
def test_what_is_no_plain_number_is_not_handed_over(tensor):
    with pytest.raises(ValueError, match="only plain numbers"):
        Outbox().pack(CALL, 1, [(0, tensor)])


def test_too_many_tensors():
    with pytest.raises(ValueError, match=f"{MAX_TENSORS + 1} tensors; at most {MAX_TENSORS}"):
        Outbox().pack(CALL, 1, [(0, np.ones(1))] * (MAX_TENSORS + 1))


def test_the_other_side_has_gone():
    out, into = os.pipe()
    os.close(into)
    with pytest.raises(EOFError):
        Inbox().take(out)
    os.close(out)


@pytest.mark.parametrize("total", [0, 23, MAX_FRAME_BYTES + 1, (1 << 64) - 1])
def test_a_length_that_no_frame_has_takes_no_memory(pipe, total):
    with pytest.raises(BadFrame, match=f"a length of {total} bytes"):
        taken(Inbox(), pipe, struct.pack("=Q", total) + bytes(16))


def test_bytes_behind_the_end(pipe):
    with pytest.raises(BadFrame, match="1 bytes behind its end"):
        taken(Inbox(), pipe, bytes_of(Outbox()) + b"x")


def test_text_of_a_frame_without_any(pipe):
    inbox = Inbox()
    assert taken(inbox, pipe, bytes_of(Outbox(), []))
    with pytest.raises(BadFrame, match="no text"):
        text_of(inbox.frame())


@pytest.mark.parametrize(
    ("at", "form", "value", "said"),
    [
        (0, "=Q", 48, "heads of 32 bytes|where its tensors make"),
        (8, "=I", 1 << 31, "heads of"),
        (18, "=H", 200, "requires a buffer"),
        (24, "=Q", 1 << 60, "bytes for a tensor of"),
        (34, "=B", ord("O"), "a tensor of type 79"),
        (35, "=B", 200, "with 200 dimensions"),
        (40, "=q", -1, "bytes for a tensor of"),
        (40, "=q", 1 << 62, "bytes for a tensor of"),
    ],
)
def test_heads_that_do_not_add_up(pipe, at, form, value, said):
    """Whatever a process that has gone wrong may say, no tensor looks beyond what came."""
    data = bytearray(bytes_of(Outbox(), [np.arange(3, dtype=np.float32)]))
    struct.pack_into(form, data, at, value)
    inbox = Inbox()
    os.write(pipe[1], data[: value if at == 0 else None])
    assert inbox.take(pipe[0])
    with pytest.raises(BadFrame, match=said):
        inbox.frame()
