"""What each stage of the line costs by itself, on what the stage before it gave; it leaves out the line's bookkeeping."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_line import Case, Keeper, Times, WrongAnswer, cut, make_encode, make_line, timed, warm_up_chunks
from numpy.typing import NDArray

from edge_runtime.flow.contract import Contract, Judged
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.postprocess import Postprocess
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.flow.window import Stream, WindowRule
from edge_runtime.run.outbox import Entry
from edge_runtime.sinks.standard_output import StandardOutputSink
from edge_runtime.spec.reading import Reading
from edge_runtime.spec.result import Answer

STAGES = ("framing", "decode", "contract", "window", "preprocess", "session, checked", "postprocess", "encode",
          "journal commit", "sink (null device)")  # fmt: skip

_START_NS = 1_700_000_000_000_000_000


def measure_stages(case: Case, chunk: int, folder: Path) -> Times:
    """Take the stream through the stages one by one, ``chunk`` lines at a time; the journal lies in ``folder``."""
    stages = _Stages(case, chunk)
    line, encode = make_line(case, case.ready.model), make_encode(case)

    def encode_all(answers: list[Answer]) -> list[bytes]:
        return [encode(answer) for answer in answers]

    keeper = Keeper(line, folder)
    sink = StandardOutputSink("null", os.open(os.devnull, os.O_WRONLY))
    warm, chunks = cut(case, chunk)
    line.feed(warm, 0)
    times: Times = {stage: [] for stage in STAGES}
    stages.turn(warm, {stage: [] for stage in STAGES})
    for number, part in enumerate(chunks):
        stages.turn(part, times)
        line.feed(part, _START_NS + number)
        line.run()
        answers = line.take_answers()
        lines = timed(times["encode"], chunk, encode_all, answers)
        entries = [Entry(answer.id, (text,)) for answer, text in zip(answers, lines, strict=True)]
        timed(times["journal commit"], chunk, partial(keeper.keep, part), entries)
        timed(times["sink (null device)"], chunk, sink.deliver, [(entry.id, entry.lines[0]) for entry in entries])
    keeper.close()
    return {stage: values[warm_up_chunks(chunk) :] for stage, values in times.items()}


class _Stages:
    """The pure stages of one case, from bytes to values, each a method on what the one before gave."""

    def __init__(self, case: Case, chunk: int) -> None:
        self._chunk = chunk
        self._model = case.ready.model
        manifest = self._model.manifest
        channels = manifest.channels
        bound = {channel.name: case.config.channels[channel.name] for channel in channels}
        self._framing = make_framing(case.config.framing, case.config.decode.encoding)
        self._decoder = make_decoder(case.config.decode, bound)
        self._contract, self._post = Contract(channels, bound), Postprocess(manifest)
        rule = WindowRule(manifest)
        self._stream = Stream(rule, self._post.fresh)
        self._preprocess = make_preprocess(manifest)
        self._windows = np.empty((chunk, rule.length, len(channels)))

    def turn(self, part: bytes, times: Times) -> None:
        """Take one chunk through all of them; one that only fills the window ends there."""
        chunk = self._chunk
        frames = timed(times["framing"], chunk, self._framing.feed, part)
        decoded = timed(times["decode"], chunk, self._decode, frames)
        readings = [one for one in decoded if isinstance(one, Reading)]
        judged = timed(times["contract"], chunk, self._judge, readings)
        if not all(isinstance(one, Judged) for one in judged):
            raise WrongAnswer("a row of the stream was refused")
        if not timed(times["window"], chunk, self._push, list(zip(readings, judged, strict=True))):
            return
        tensors = timed(times["preprocess"], chunk, self._preprocess, self._windows)
        outputs = timed(times["session, checked"], chunk, self._model.infer, tensors)
        timed(times["postprocess"], chunk, self._answer, outputs)

    def _decode(self, frames: list[bytes]) -> list[object]:
        decode = self._decoder.decode
        return [decode(frame) for frame in frames]

    def _judge(self, readings: list[Reading]) -> list[object]:
        judge = self._contract.judge
        return [judge(reading) for reading in readings]

    def _push(self, samples: list[tuple[Reading, Judged]]) -> int:
        stream, full = self._stream, 0
        for reading, (values, flags, held) in samples:
            stream.push(reading.time_ns or stream.last_ns + 1, values, flags, held)
            if stream.is_due and stream.is_unbroken:
                self._windows[full] = stream.window()
                stream.stuck()
                stream.flags()
                full += 1
        return full

    def _answer(self, outputs: dict[str, NDArray[Any]]) -> None:
        made = self._post.make(outputs)
        for row in range(self._chunk):
            self._post.answer(made, row, self._post.fresh)
