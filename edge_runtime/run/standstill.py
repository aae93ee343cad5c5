"""Notices that a model gives one and the same output to inputs that change; whether it is broken, a golden probe says."""

from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

SUSPECT_CALLS: Final = 16
"""So many equal outputs in a row to changed inputs are worth a probe of some milliseconds. It is the raw output that is
compared, the scores behind a label: a float one never repeats, an int8 one has some hundred values and may now and then."""


class Standstill:
    """Watches the calls of one session, the first case of each: a provider that froze repeats that too.

    Where a probe finds the session whole, its outputs may stand on (a tree in one leaf, a rectifier at zero): so long as
    they do, it takes twice as many calls each time until it is suspect again.
    """

    def __init__(self) -> None:
        self._outputs: list[bytes] = []
        self._feeds: list[bytes] | None = None
        self._calls = 0
        self._limit = SUSPECT_CALLS

    @property
    def is_suspect(self) -> bool:
        """Whether a golden probe should tell now what stands behind it."""
        return self._calls >= self._limit

    def take(self, feeds: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]) -> None:
        """Take a call's inputs and outputs."""
        first = _first_case(outputs)
        if first != self._outputs:
            self._outputs, self._feeds, self._calls, self._limit = first, None, 0, SUSPECT_CALLS
            return
        # Only now are the inputs looked at: most outputs differ, and inputs are larger.
        given = _first_case(feeds)
        if given != self._feeds:
            self._calls += 1
            self._feeds = given

    def proven(self) -> None:
        """The session has passed a golden probe."""
        if self.is_suspect:
            self._limit = 2 * self._calls


def _first_case(tensors: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """The bytes of the first case, batch first; an output that lost its shape is refused behind here, and may not stop it."""
    return [(tensor[0] if tensor.ndim else tensor).tobytes() for tensor in tensors.values()]
