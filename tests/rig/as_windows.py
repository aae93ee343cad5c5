"""The program with what Windows' Python lacks taken away: `python -m tests.rig.as_windows WORDS`; it is no Windows.

Taken away are the modules and names that Python's own documentation calls POSIX only, folders that can be opened, and
files that may be renamed or removed while somebody has them open. Libraries keep the system they were made for: they
are loaded before. Paths stay as they are here, and so do consoles, drivers and services.
"""

import builtins
import ctypes
import importlib
import io
import os
import pathlib
import select
import selectors
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULES = ("fcntl", "termios", "pwd", "grp", "resource", "tty", "pty", "syslog", "readline", "crypt", "spwd", "posix")
# Of os, what the documentation of Python 3.11 marks as "Availability: Unix" or not on Windows.
OS_NAMES = (
    "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_NOCTTY", "O_SYNC", "O_DSYNC", "O_ASYNC", "O_TMPFILE",
    "WEXITED", "WNOHANG", "WNOWAIT", "P_PID", "RTLD_NOLOAD", "RTLD_LAZY", "RTLD_NOW", "RTLD_GLOBAL", "RTLD_LOCAL",
    "chown", "chroot", "confstr", "ctermid", "eventfd", "fchdir", "fchmod", "fchown",
    "fdatasync", "fork", "forkpty", "fpathconf", "fstatvfs", "getegid", "geteuid", "getgid", "getgroups", "getloadavg",
    "getpgid", "getpgrp", "getpriority", "getresuid", "getuid", "initgroups", "killpg", "lchown", "lockf", "memfd_create",
    "mkfifo", "mknod", "nice", "openpty", "pathconf", "pidfd_open", "posix_fadvise", "posix_fallocate", "posix_spawn",
    "pread", "preadv", "pwrite", "pwritev", "readv", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "sched_yield",
    "sendfile", "set_blocking", "setegid", "seteuid", "setgid", "setgroups", "setpgid", "setpriority", "setsid", "setuid",
    "splice", "statvfs", "sync", "sysconf", "tcgetpgrp", "ttyname", "uname", "wait3", "wait4", "waitid", "writev", "environb",
    "getenvb", "fsencode_posix",
)  # fmt: skip
SIGNALS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN", "Signals", "Handlers"}
# What is loaded before, since it asks for its system as it is imported.
LIBRARIES = (
    "asyncio", "subprocess", "tempfile", "ssl", "multiprocessing.util", "numpy", "onnxruntime", "pydantic",
    "serial.urlhandler.protocol_socket", "serial.tools.list_ports", "mqtt5", "paho.mqtt.client",
)  # fmt: skip


def become() -> None:
    """Take it all away from this process, for good."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as the program itself does before it is loaded
    for name in LIBRARIES:
        importlib.import_module(name)
    importlib.import_module("cryptography.hazmat.primitives.asymmetric.ec")
    usage = shutil.disk_usage("/")
    shutil.disk_usage = lambda path: usage  # noqa: ARG005 -- its name is the function's
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment] # as the import system spells "not there"
    _hold_open_files()
    _close_folders()
    _hide_the_kernel()
    for name in OS_NAMES:
        if hasattr(os, name):
            delattr(os, name)
    os.supports_dir_fd.clear()
    for name in [one for one in vars(signal) if one.startswith("SIG") and one not in SIGNALS]:
        delattr(signal, name)
    signal.SIGBREAK = signal.Signals.SIGUSR1  # type: ignore[attr-defined]
    for name in ("poll", "epoll"):
        delattr(select, name)
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[misc, assignment]
    for name in ("AF_UNIX", "TCP_QUICKACK", "TCP_USER_TIMEOUT"):
        delattr(socket, name)
    socket.socketpair = _pair_over_tcp  # type: ignore[assignment]
    ctypes.CDLL = _no_library  # type: ignore[misc, assignment]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    # The same class under both names: else no path could be made here.
    pathlib.WindowsPath = pathlib.PosixPath  # type: ignore[misc, assignment]
    os.name, sys.platform = "nt", "win32"


def _pair_over_tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def _no_library(name: str | None, *_more: Any, **_named: Any) -> Any:
    if name is None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")
    raise FileNotFoundError(f"Could not find module '{name}'")


def _close_folders() -> None:
    opened = os.open

    def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            raise NotImplementedError("dir_fd unavailable on this platform")
        if os.path.isdir(path):  # noqa: PTH112 -- a path of any kind
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, mode)

    os.open = open_


def _hold_open_files() -> None:
    """Renaming or removing what is open, or the current folder, is a sharing violation there."""
    os.rmdir = _unless_current(os.rmdir)
    for name, both in (("rename", True), ("replace", True), ("unlink", False), ("remove", False)):
        setattr(os, name, _unless_open(getattr(os, name), both=both))


def _unless_current(call: Callable[..., Any]) -> Callable[..., Any]:
    def checked(path: Any, **named: Any) -> Any:
        if os.path.realpath(path) == os.getcwd():  # noqa: PTH109 -- no path is made where paths are changed
            raise PermissionError(13, "The process cannot access the file because it is being used", str(path))
        return call(path, **named)

    return checked


def _unless_open(call: Callable[..., Any], *, both: bool) -> Callable[..., Any]:
    def checked(path: Any, *more: Any, **named: Any) -> Any:
        for one in (path, *(more[:1] if both else ())):
            if _is_open(Path(one)):
                raise PermissionError(13, "The process cannot access the file because it is being used", str(one))
        return call(path, *more, **named)

    return checked


def _hide_the_kernel() -> None:
    """No file of the kernel, and none of the folders that only such systems have."""
    for module, name in (
        (os, "stat"), (os, "lstat"), (os, "open"), (os, "scandir"), (os, "listdir"), (os, "mkdir"), (io, "open"),
        (builtins, "open"),
    ):  # fmt: skip
        setattr(module, name, _unless_kernels(getattr(module, name)))


def _unless_kernels(call: Callable[..., Any]) -> Callable[..., Any]:
    def checked(path: Any = ".", *more: Any, **named: Any) -> Any:
        if not isinstance(path, int) and os.fsdecode(path).startswith(("/proc/", "/sys/", "/run/", "/var/lib/")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *more, **named)

    return checked


_stat, _listdir = os.stat, os.listdir


def _is_open(path: Path) -> bool:
    try:
        found = _stat(path)
    except OSError:
        return False
    for name in _listdir("/proc/self/fd"):
        try:
            about = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISREG(about.st_mode) and (about.st_ino, about.st_dev) == (found.st_ino, found.st_dev):
            return True
    return False


if __name__ == "__main__":
    become()
    from edge_runtime.__main__ import main

    sys.exit(main())
