"""The first file the frozen program runs: puts the environment back as the caller left it, then is `edge_runtime`."""

import os
import sys


def _put_back_library_path() -> None:
    """Undo what PyInstaller's bootloader did for this process alone.

    The loader has read the variable by now; programs that we start would look into our folder for their libraries.
    """
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before
    elif os.environ.get("LD_LIBRARY_PATH") == getattr(sys, "_MEIPASS", None):
        del os.environ["LD_LIBRARY_PATH"]


if __name__ == "__main__":
    _put_back_library_path()
    from edge_runtime.__main__ import main  # as a module: a session's own process is started only by who has it

    sys.exit(main())
