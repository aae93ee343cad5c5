"""An answer does not depend on the batch it was in, nor on how its bytes came."""

import random

import pytest

from edge_runtime.flow.line import Line
from tests.proof.lines import frost, model
from tests.proof.station import FROST, STATION

STREAM = STATION.read_bytes()


def _play(line: Line, chunks) -> list:
    answers = []
    for chunk in chunks:
        line.feed(chunk, 0)
        line.run()
        answers += line.take_answers()
        line.published(len(answers) - line.ledger.published)
    assert not line.take_refused()
    assert line.ledger.adds_up(pending_samples=0, pending_answers=0)
    return answers


def _cut(data: bytes, sizes) -> list[bytes]:
    chunks = []
    while data:
        size = next(sizes)
        chunks.append(data[:size])
        data = data[size:]
    return chunks


def _random_sizes(seed: int, longest: int):
    chance = random.Random(seed)
    while True:
        yield chance.randint(1, longest)


@pytest.fixture(scope="module")
def one_by_one():
    answers = _play(frost(batch_sizes=(1,)), STREAM.splitlines(keepends=True))
    assert len(answers) == 169
    return answers


SPLITS = {
    "bytes": [STREAM[at : at + 1] for at in range(len(STREAM))],
    "lines": STREAM.splitlines(keepends=True),
    "whole": [STREAM],
    **{f"random {seed}": _cut(STREAM, _random_sizes(seed, 40 * 4**seed)) for seed in range(5)},
}


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_gives_identical_answers(split, one_by_one):
    assert _play(frost(), SPLITS[split]) == one_by_one


@pytest.mark.parametrize(
    "sizes", [(1, 2), (1, 2, 4, 8), (1, 3, 7), (1, 64), (1, 2, 4, 8, 16, 32, 64), (1, 169), (1, 200)]
)
@pytest.mark.parametrize("split", ["whole", "random 3"])
def test_every_list_of_batch_sizes_gives_identical_answers(sizes, split, one_by_one):
    assert _play(frost(batch_sizes=sizes), SPLITS[split]) == one_by_one


def test_the_bundles_own_sizes_are_used_for_real():
    """Else the tests above would prove nothing about batches."""
    seen = []
    real = model(FROST)

    def recorded(feeds):
        (tensor,) = feeds.values()
        seen.append(len(tensor))
        return real.infer(feeds)

    _play(frost(model=real._replace(infer=recorded)), [STREAM])
    assert seen == [64, 64, 32, 8, 1]
