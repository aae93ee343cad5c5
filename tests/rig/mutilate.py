"""Damages bundles one byte at a time, the same way for the same seed; it knows nothing of what the bytes mean."""

import random
from collections.abc import Iterator, Mapping


def flips(files: Mapping[str, bytes], per_file: int, seed: int) -> Iterator[dict[str, bytes]]:
    """Yield copies of `files` with one byte changed, at `per_file` different places of each file in turn.

    A file of at most `per_file` bytes is changed at each of its bytes; an empty file is passed over. The change is an
    exclusive or with a random pattern, never zero.
    """
    chance = random.Random(seed)
    for name in sorted(files):
        data = files[name]
        for place in sorted(chance.sample(range(len(data)), min(per_file, len(data)))):
            changed = bytes([data[place] ^ chance.randint(1, 255)])
            yield {**files, name: data[:place] + changed + data[place + 1 :]}
