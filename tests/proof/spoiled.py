"""Valid bytes spoiled by chance, the same for one seed: what a fuzzer feeds to a parser; it knows no format."""

import random
from collections.abc import Iterator, Sequence

# Numbers at the ends of their types, lengths that promise much, and what texts break at.
_PIECES = (
    b"\0", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0" * 8, b"9" * 40, b"-", b"1e999",
    b"\xc3(", b"\xed\xa0\x80", b"\n", b"\r\n", b'"', b"\\", b"[" * 70, b"{", b"}", b",", b":", b"../", b"\x1b[2J",
)  # fmt: skip
_MOST_BYTES = 1 << 16


def spoiled(seed: int, count: int, samples: Sequence[bytes]) -> Iterator[bytes]:
    """``count`` byte strings, each one of ``samples`` changed in one to six places."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randint(1, 6)):
            _spoil(chance, data, samples)
        yield bytes(data[:_MOST_BYTES])


def _spoil(chance: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice((1, 2, 4, 30, 1000)))
    match chance.randrange(7):
        case 0 if data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        case 1 if data:
            data[at % len(data)] = chance.randrange(256)
        case 2:
            data[at:at] = chance.choice(_PIECES)
        case 3:
            data[at : at + chance.choice((0, 1, 4))] = chance.choice(_PIECES)
        case 4:
            del data[at:end]
        case 5:
            data[at:at] = data[at:end]
        case _:
            other = chance.choice(samples)
            data[at:] = other[chance.randrange(len(other) + 1) :]
