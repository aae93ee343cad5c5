"""The program with a provider that fails after so many calls: `python failing_provider.py WHAT CALLS WHEN run ...`.

WHAT is garbage, constant, nan, raise, hang, crash or leak; CALLS counts those after the boot. WHEN is ``once``, where the session
made next is whole, or ``always``, where every session of this process does the same. It stands in the place of onnxruntime,
below the one door to it, and changes nothing else. Where a session has a process of its own, it stands there: that process
is this file too, and begins to count once a file is there, which this one makes when the boot is over.
"""

import ctypes
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.__main__ import main
from edge_runtime.engine import isolate
from edge_runtime.engine import session as engine
from edge_runtime.run import boot as trust_line
from edge_runtime.run import serve

MODULE = "tests.rig.failing_provider"
LEAK_BYTES = 16 << 20
"""Of each call; a limit of 256 MiB is passed by the twelfth."""


class Failing:
    """onnxruntime's ``run``, until ``left`` is used up, or that many calls were made once the file ``armed`` is there."""

    def __init__(self, run: Any, what: str, calls: int = 0, armed: Path | None = None) -> None:
        self._run, self._what, self._calls, self._armed = run, what, calls, armed
        self.left: int | None = None
        self._lost: list[bytes] = []
        self._last: list[Any] | None = None

    def __call__(self, names: list[str], feeds: Any, options: Any) -> list[Any]:
        if self.left is None and self._armed is not None and self._armed.exists():
            self.left = self._calls
        outputs = self._run(names, feeds, options)
        if self.left is None or self.left > 0:
            self.left = None if self.left is None else self.left - 1
            return list(outputs)
        if self._what == "raise":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self._what == "hang":
            time.sleep(1e6)
        if self._what == "crash":
            ctypes.string_at(0)
        if self._what == "leak":
            self._lost.append(b"\xff" * LEAK_BYTES)
            return list(outputs)
        if self._what == "constant":
            self._last = self._last or outputs
            return [np.resize(last, one.shape) for last, one in zip(self._last, outputs, strict=True)]
        return [np.full_like(one, np.nan) if self._what == "nan" else one + one.dtype.type(3) for one in outputs]


def failing(what: str, made: list[Failing], calls: int = 0, armed: Path | None = None) -> None:
    """Put one into every session that this process opens."""
    real = engine.Session.__init__

    def init(self: engine.Session, session: Any, run_options: Any, *, takes_nan: bool) -> None:
        real(self, session, run_options, takes_nan=takes_nan)
        self._run = Failing(self._run, what, calls, armed)
        made.append(self._run)

    engine.Session.__init__ = init  # type: ignore[method-assign]


def install(what: str, calls: int, when: str) -> None:
    made: list[Failing] = []
    boots: list[Path] = []
    boot = trust_line.boot
    folder = Path(tempfile.mkdtemp())
    failing(what, made)

    def booted(*args: Any, **more: Any) -> Any:
        boots.append(folder / str(len(boots)))
        found = boot(*args, **more)
        if len(boots) == 1 or when == "always":
            boots[-1].touch()
            for one in made:
                one.left = calls
        return found

    def program() -> list[str]:
        return [sys.executable, "-P", "-m", MODULE, what, str(calls), str(boots[-1]), isolate.ISOLATED_WORD]

    setattr(serve, "boot", booted)  # noqa: B010 -- the name that serve has imported
    isolate.program = program


if __name__ == "__main__":
    what, calls, when, *words = sys.argv[1:]
    if words[0] == isolate.ISOLATED_WORD:
        failing(what, [], int(calls), Path(when))
    else:
        install(what, int(calls), when)
    sys.argv[1:] = words
    sys.exit(main())
