"""How what is waiting is split onto the closed list of batch sizes; it never waits for more to come."""


def split(count: int, sizes: tuple[int, ...]) -> list[int]:
    """The batch sizes that make up ``count``, largest first; ``sizes`` ascends and begins with 1.

    >>> split(13, (1, 2, 4, 8))
    [8, 4, 1]
    """
    parts: list[int] = []
    for size in reversed(sizes):
        while count >= size:
            parts.append(size)
            count -= size
    return parts
