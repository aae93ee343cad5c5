"""The program with a provider that fails after so many calls: `python failing_provider.py WHAT CALLS WHEN run ...`.

WHAT is garbage, constant, nan, raise or hang; CALLS counts those after the boot. WHEN is ``once``, where the session made next is
whole, or ``always``, where every session of this process does the same. It stands in the place of onnxruntime, below the
one door to it, and changes nothing else.
"""

import sys
import time
from typing import Any

import numpy as np

from edge_runtime.__main__ import main
from edge_runtime.engine import session as engine
from edge_runtime.run import boot as trust_line
from edge_runtime.run import serve


class Failing:
    """onnxruntime's ``run``, until ``left`` is used up."""

    def __init__(self, run: Any, what: str) -> None:
        self._run, self._what = run, what
        self.left: int | None = None
        self._last: list[Any] | None = None

    def __call__(self, names: list[str], feeds: Any, options: Any) -> list[Any]:
        outputs = self._run(names, feeds, options)
        if self.left is None or self.left > 0:
            self.left = None if self.left is None else self.left - 1
            return list(outputs)
        if self._what == "raise":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self._what == "hang":
            time.sleep(1e6)
        if self._what == "constant":
            self._last = self._last or outputs
            return [np.resize(last, one.shape) for last, one in zip(self._last, outputs, strict=True)]
        return [np.full_like(one, np.nan) if self._what == "nan" else one + one.dtype.type(3) for one in outputs]


def install(what: str, calls: int, when: str) -> None:
    made: list[Failing] = []
    real, boot = engine.Session.__init__, trust_line.boot

    def init(self: engine.Session, session: Any, run_options: Any, *, takes_nan: bool) -> None:
        real(self, session, run_options, takes_nan=takes_nan)
        self._run = Failing(self._run, what)
        made.append(self._run)

    def booted(*args: Any, **more: Any) -> Any:
        first = not made
        found = boot(*args, **more)
        if first or when == "always":
            for one in made:
                one.left = calls
        return found

    engine.Session.__init__ = init  # type: ignore[method-assign]
    setattr(serve, "boot", booted)  # noqa: B010 -- the name that serve has imported


if __name__ == "__main__":
    what, calls, when, *words = sys.argv[1:]
    install(what, int(calls), when)
    sys.argv[1:] = words
    sys.exit(main())
