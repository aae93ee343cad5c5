"""Which labels stand in one another's place, by what was answered and what was true; it knows no model and refuses none."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The commonest words that are looked at: a table of a million counts is searched in a second or two.
_MOST_WORDS = 1000
# By how many standard deviations of a fair coin an exchange must explain the truth better than the order as it is.
_BEYOND_CHANCE = 3.0


class Exchange(NamedTuple):
    """Words in a ring: each is answered where the next one is true, the last where the first is.

    ``right`` of the answers with these words are right as they stand, ``would_be`` if each were the next.
    """

    words: tuple[str, ...]
    right: int
    would_be: int


def exchanged(said: NDArray[Any], true: NDArray[Any]) -> tuple[Exchange, ...]:
    """The words that explain what was true much better when they change places; both arrays are texts ``(cases,)``.

    From the order as it is, the two words are exchanged that make the most answers right, again and again while that
    helps. A ring of exchanged words counts where chance would hardly make it: a word that is seldom seen proves nothing.
    """
    words, counts = _confusion(said, true)
    taken_for = np.arange(len(words))
    now = counts.copy()  # its columns in the order of ``taken_for``
    right = now.diagonal()
    gain = now + now.T - right[:, np.newaxis] - right  # of exchanging a pair
    while gain.any() and gain.max() > 0:
        pair = list(np.unravel_index(int(gain.argmax()), gain.shape))
        taken_for[pair] = taken_for[pair[::-1]]
        now[:, pair] = now[:, pair[::-1]]
        for at in pair:
            gain[at] = gain[:, at] = now[at] + now[:, at] - right[at] - right
    return tuple(
        found
        for ring in _rings(taken_for)
        if (found := _exchange(words, counts, taken_for, ring)).would_be - found.right
        >= _BEYOND_CHANCE * math.sqrt(found.would_be + found.right)
    )


def _confusion(said: NDArray[Any], true: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """The words, and how often each (a row) was answered where each (a column) was true."""
    words, places = np.unique(np.concatenate([said, true]).astype(str), return_inverse=True)
    common = np.sort(np.argsort(-np.bincount(places, minlength=len(words)), kind="stable")[:_MOST_WORDS])
    place = np.full(len(words), -1)
    place[common] = np.arange(len(common))
    row, column = place[places[: len(said)]], place[places[len(said) :]]
    known = (row >= 0) & (column >= 0)
    counts = np.zeros((len(common), len(common)), np.int64)
    np.add.at(counts, (row[known], column[known]), 1)
    return [str(word) for word in words[common]], counts


def _rings(taken_for: NDArray[np.int64]) -> Iterator[list[int]]:
    seen: set[int] = set()
    for first in range(len(taken_for)):
        ring: list[int] = []
        at = first
        while at not in seen:
            seen.add(at)
            ring.append(at)
            at = int(taken_for[at])
        if len(ring) > 1:
            yield ring


def _exchange(words: list[str], counts: NDArray[np.int64], taken_for: NDArray[np.int64], ring: list[int]) -> Exchange:
    return Exchange(
        tuple(words[at] for at in ring),
        sum(int(counts[at, at]) for at in ring),
        sum(int(counts[at, taken_for[at]]) for at in ring),
    )
