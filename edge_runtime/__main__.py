"""The process entry: sets what must stand before a native library loads, then hands over; it decides nothing."""

import gc
import io
import os
import sys
from importlib import import_module
from types import ModuleType

_BEFORE_NATIVE_LIBRARIES = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime reads it once, at its import
    "OPENBLAS_NUM_THREADS": "1",  # numpy's BLAS would start one thread per core and keep their stacks
    "OMP_NUM_THREADS": "1",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",  # else it reads every installed package's metadata, and runs whose code asks
}
_PLUGINS = "pydantic.plugin._loader"
# Python then takes its own: SHA-256 at 300 MB/s where OpenSSL's has 1300, and 3.5 MB less for as long as we serve.
_OPENSSL_HASHES = "_hashlib"
_INTERRUPTED = 130
_OTHERS_WRITE = 0o002
# As engine.isolate starts one; no command, so that the help does not name it.
_ISOLATED = "isolated-session"


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        # A supervisor may start us with a umask of 0: what we write, everybody could then write to.
        os.umask(os.umask(0o077) | _OTHERS_WRITE)
        for name, value in _BEFORE_NATIVE_LIBRARIES.items():
            os.environ.setdefault(name, value)
        if sys.argv[1:2] == [_ISOLATED]:
            from edge_runtime.engine.isolated import main as serve_one_session  # noqa: PLC0415 -- it is all that this is

            return serve_one_session(sys.argv[2:])
        if os.environ["PYDANTIC_DISABLE_PLUGINS"] == "__all__":
            sys.modules.setdefault(_PLUGINS, _NoPlugins(_PLUGINS))
        sys.modules.setdefault(_OPENSSL_HASHES, None)  # type: ignore[arg-type] # as the import system spells "not there"
        _open_standard_streams()
        from edge_runtime import cli  # noqa: PLC0415 -- the environment above comes first

        return cli.main()
    except KeyboardInterrupt:  # while modules were still loading
        return _INTERRUPTED
    finally:
        # The interpreter would look for cycles once more before it leaves: 8 ms and up, for memory that goes anyway.
        gc.freeze()


class _NoPlugins(ModuleType):
    """What pydantic's loader of plugins says once all are off; its own loads email and zipfile first: 12 ms, 1.9 MB."""

    @staticmethod
    def get_plugins() -> tuple[()]:
        """Return that there are none."""
        return ()

    def __getattr__(self, name: str) -> object:
        """Step aside for pydantic's own where a release of it asks for more."""
        if name.startswith("__"):
            raise AttributeError(name)
        del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class _ForAPerson(io.FileIO):
    """Standard error that takes everything: a log that is full or gone must not stop the work it tells of."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type] # whatever the buffer above hands down
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type] # the same


class _Output(io.FileIO):
    """Standard output whose disk is full, or which takes no bytes, said in one line; a reader that left stays what it is."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type] # whatever the buffer above hands down
        except (BrokenPipeError, BlockingIOError):
            raise
        except OSError as error:
            # What the buffers still hold has nowhere to go: the flush at the end must not fail once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            from edge_runtime.errors import DeviceError  # noqa: PLC0415 -- only a failure needs it

            raise DeviceError(
                subject="standard output", found=error.strerror or type(error).__name__,
                expected="a file, a terminal or a pipe that takes it", todo="make room, or send it elsewhere",
            ) from error  # fmt: skip


def _open_standard_streams() -> None:
    """Put something behind descriptors 0 to 2 where the caller closed them, before a port or a file takes their number.

    Else answers for standard output would go down whatever was opened in its place, be it the sensor's own port. A
    closed standard output becomes a pipe whose reader has left, a closed standard error takes and forgets.
    """
    if sys.stdin is None:
        _put(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- the process's own, for its life
    if sys.stdout is None:
        reader, writer = os.pipe()
        _put(writer, 1)  # which may be the reader's number, and closes it then
        if reader != 1:
            os.close(reader)
    if sys.stderr is None:
        _put(os.open(os.devnull, os.O_WRONLY), 2)
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        kept = sys.stdout
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(1, "wb", closefd=False)), encoding=kept.encoding if kept else "utf-8",
            errors="backslashreplace", line_buffering=kept is not None and kept.isatty(),
        )  # fmt: skip
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        kept = sys.stderr
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(_ForAPerson(2, "wb", closefd=False)), encoding=kept.encoding if kept else "utf-8",
            errors="backslashreplace", line_buffering=True,
        )  # fmt: skip


def _put(descriptor: int, number: int) -> None:
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
